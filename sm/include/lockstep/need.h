// need.h - what a transaction will use, told before it uses it.
//
// Concepts   The store walks to the records of many needs at once, so that their cache misses and
//            page reads overlap (Txn::will_need, Packet::announce). It locks nothing and reads
//            nothing for the caller. The operation that comes later finds its place without a
//            search.
//            Needs are hints. A wrong, missing or useless one costs time only: a key that does not
//            exist, an index that was dropped or is another store's, a key above 48 bytes.
//            A walk takes the first 64 needs of a transaction and ignores the rest.
#pragma once

#include <lockstep/index.h>

namespace lockstep {

// One record of an index. For a scan, its first key.
struct Need {
    Index index;
    Slice key;                     // the bytes must stay until the call returns
    Access access = Access::read;  // `write` also brings what a change of the record touches
    uint32_t bytes = 192;          // of the value that will be read, as far as known
};

namespace sm {
class NeedsTeam;
class NeedsWalk;
struct Places;
}  // namespace sm

// Takes the needs of a packet that is about to run.
class Announcement {
public:
    // Adds a need. The key's bytes are copied. Never waits.
    void add(const Need& need);
    void add(const Index& index, Slice key, Access access = Access::read, uint32_t bytes = 192) {
        add(Need{index, key, access, bytes});
    }

private:
    friend class sm::NeedsTeam;
    Announcement(sm::NeedsWalk& walk, sm::Places& places) : walk_(walk), places_(places) {}
    sm::NeedsWalk& walk_;
    sm::Places& places_;
};

}  // namespace lockstep
