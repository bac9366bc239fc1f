// need.h - what a transaction will use, told before it uses it.
//
// Concepts   The store walks to the records of many needs at once, so that their cache misses and
//            page reads overlap (Txn::will_need, Packet::announce). It locks nothing and reads
//            nothing for the caller. The operation that comes later finds its place without a
//            search.
//            Needs are hints. A wrong, missing or useless one costs time only: a key that does not
//            exist, an index that was dropped or is another store's, a key above 48 bytes.
//            A walk takes the first 64 needs of a transaction and ignores the rest. What follow-ups
//            add counts, too.
//            Some keys are known only after others are read: an index of names leads to customers.
//            A need with a FollowUp tells the walk how to go on.
#pragma once

#include <lockstep/index.h>

namespace lockstep {

class Announcement;

// What is needed next, behind what a need leads to.
class FollowUp {
public:
    static constexpr size_t kKeysMax = 16;
    // `keys`: the first keys of the index that begin with the need's key, in order, as far as one
    // leaf has them, and up to the first that has more than 48 bytes. They are valid during the
    // call. They are read without locks: they may be outdated, or another transaction's changes.
    // Adds further needs to `to`, which may have follow-ups in turn. Called on a user thread. It
    // must not wait, and may use the store only through `to`. A walk takes up to sixteen keys at a
    // time. It calls follow-ups only if several of these have one, so that cache misses overlap.
    virtual void follow(std::span<const Slice> keys, Announcement& to) const = 0;

protected:
    ~FollowUp() = default;
};

// One record of an index. For a scan, its first key.
struct Need {
    Index index;
    Slice key;                     // the bytes must stay until the call returns
    Access access = Access::read;  // `write` also brings what a change of the record touches
    uint32_t bytes = 192;          // of the value that will be read, as far as known
    // Null: none. Stays until will_need() returns, or the packet's run() begins.
    const FollowUp* follow_up = nullptr;
};

namespace sm {
class NeedsTeam;
class NeedsWalk;
struct Places;
}  // namespace sm

// Takes the needs of a packet that is about to run, or of a FollowUp.
class Announcement {
public:
    // Adds a need. The key's bytes are copied. Never waits.
    void add(const Need& need);
    void add(const Index& index, Slice key, Access access = Access::read, uint32_t bytes = 192,
             const FollowUp* follow_up = nullptr) {
        add(Need{index, key, access, bytes, follow_up});
    }

private:
    friend class sm::NeedsTeam;
    friend class sm::NeedsWalk;
    Announcement(sm::NeedsWalk& walk, sm::Places& places) : walk_(walk), places_(places) {}
    sm::NeedsWalk& walk_;
    sm::Places& places_;
};

}  // namespace lockstep
