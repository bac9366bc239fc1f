// version.h - what a record was before a transaction's change, and groups of such versions.
//
// Concepts   A version has the part of the record that the transaction changed, as it was before.
//            The rest is as in the next newer state. If the transaction changes more of the record,
//            a version of the whole record takes its place.
//            The versions that one change of pages leaves lie one behind the other in a *group*:
//            one block of memory and one place in a queue. Most groups have one version. A group
//            that would be longer than kGroupBytes is several groups.
// Invariants VG-1 `left` is the number of the group's versions that are in their chains, once all
//                 have got there. The thread that takes the last one out frees the group.
#pragma once

#include <atomic>

#include "sm/buffer/bytes.h"
#include "sm/version/record_state.h"
#include "threads/base/check.h"
#include "txn/outcome.h"

namespace lockstep::sm {

// Of a record's name: chooses the bucket with its low bits and the tag with its high ones.
using ShortHash = uint32_t;
inline ShortHash short_hash(uint64_t hash) { return static_cast<ShortHash>(hash >> 32); }

struct Version;

struct VersionGroup {
    static constexpr size_t kGroupBytes = 1024;

    // In its queue.
    VersionGroup* before = nullptr;
    VersionGroup* behind = nullptr;
    uint16_t bytes = 0;  // of all, with this head
    std::atomic<uint16_t> left{0};
    uint8_t queue = 0;
    bool of_heap = false;              // its memory
    std::atomic<bool> renewed{false};  // one of its versions, since a sweep last looked

    Version* first() { return reinterpret_cast<Version*>(this + 1); }
    inline Version* next(Version& version);  // behind that one; null: it is the last
    // One of its versions, now unlinked, was the last one in a chain.
    bool let_go() {
        const auto before_it = left.fetch_sub(1, std::memory_order_acq_rel);
        DCHECK(before_it != 0);
        return before_it == 1;
    }
};

// Then the record's key, then the bytes of the part.
struct Version {
    Version* next = nullptr;   // in its bucket: another record's newest version; of a newest only
    Version* older = nullptr;  // of its record
    txn::Outcome* writer = nullptr;
    ShortHash hash = 0;
    ObjectId object{};
    RecordPart part;
    uint16_t key_bytes = 0;
    uint16_t room = 0;  // for the part
    uint8_t place = 0;  // from its group's begin, in steps of eight bytes
    uint8_t bits = 0;
    bool live = false;
    bool linked = false;  // in its chain; under the bucket's lock

    char* text() { return reinterpret_cast<char*>(this + 1); }
    const char* text() const { return reinterpret_cast<const char*>(this + 1); }
    Slice key() const { return {text(), key_bytes}; }
    Slice bytes() const { return {text() + key_bytes, part.bytes}; }
    VersionGroup& group() {
        return *reinterpret_cast<VersionGroup*>(reinterpret_cast<char*>(this) - size_t{8} * place);
    }
    // The bytes that a version takes in its group.
    static size_t size_of(size_t key_bytes, size_t room) {
        return (sizeof(Version) + key_bytes + room + 7) & ~size_t{7};
    }
    // That part of the record as it is before the change.
    [[gnu::always_inline]] void set(const RecordState& record, const RecordPart& changed) {
        DCHECK(changed.bytes <= room);
        part = changed;
        bits = record.bits;
        live = record.live;
        bytes::copy_bytes(text() + key_bytes, changed.of(record.bytes));
    }
    // `state` is the record after the change; it becomes that before. A range does not fit if the
    // page is being changed, which the reader will see, or if the snapshot is too old.
    void apply(RecordCopy& state) const {
        if (part.whole) {
            state.live = live;
            state.bits = bits;
            state.bytes.assign(bytes());
        } else if (size_t{part.offset} + part.bytes <= state.bytes.size()) {
            state.bytes.replace(part.offset, part.bytes, bytes());
        }
    }
    // This version has the whole record, whose part in `earlier` its writer had changed already:
    // puts the bytes from before back. They do not fit if a change between the two had no memory
    // for its version. Then no snapshot is left that sees this one.
    void keep(const Version& earlier) {
        DCHECK(part.whole && !earlier.part.whole && writer == earlier.writer);
        if (size_t{earlier.part.offset} + earlier.part.bytes <= part.bytes) [[likely]]
            bytes::copy_bytes(text() + key_bytes + earlier.part.offset, earlier.bytes());
    }
    bool is_of(ObjectId of_object, Slice of_key, ShortHash of_hash) const {
        return hash == of_hash && object == of_object && key_bytes == of_key.size() &&
               bytes::same_bytes(text(), of_key.data(), key_bytes);
    }
};
static_assert(sizeof(VersionGroup) == 24 && sizeof(Version) == 48);
static_assert(VersionGroup::kGroupBytes / 8 <= UINT8_MAX);

inline Version* VersionGroup::next(Version& version) {
    const size_t end =
        size_t{8} * version.place + Version::size_of(version.key_bytes, version.room);
    DCHECK(end <= bytes);
    if (end == bytes) return nullptr;
    return reinterpret_cast<Version*>(reinterpret_cast<char*>(this) + end);
}

}  // namespace lockstep::sm
