// lock_owner.h - lock names, and what a transaction remembers about its locks.
#pragma once

#include <xxhash.h>

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <cstring>

#include <lockstep/types.h>
#include "threads/base/check.h"
#include "threads/thread/thread.h"
#include "txn/lock/lock_mode.h"
#include "txn/lock/lock_place.h"

namespace lockstep::txn {

// 64-bit hash. Zero is reserved for "no name".
using LockName = Id<struct LockNameTag, uint64_t>;

// The name of a key of at most 16 bytes, given as two words in memory order, padded with zeros. One
// multiplication (after wyhash's short form).
inline LockName short_key_lock_name(ObjectId object, uint64_t first, uint64_t second,
                                    size_t bytes) {
    const uint64_t seed = 0x9e3779b97f4a7c15ull * (object.value + 1ull);
    const auto product = static_cast<unsigned __int128>(first ^ seed ^ 0xa0761d6478bd642full) *
                         (second ^ bytes * 0x100000001b3ull ^ 0xe7037ed1a0b428dbull);
    return LockName{(static_cast<uint64_t>(product) ^ static_cast<uint64_t>(product >> 64)) | 1};
}
inline LockName key_lock_name(ObjectId object, Slice key) {
    if (key.size() > 16)
        return LockName{XXH3_64bits_withSeed(key.data(), key.size(),
                                             0x9e3779b97f4a7c15ull * (object.value + 1ull)) |
                        1};
    // Loads of fixed sizes: a memcpy of unknown length is a call.
    const char* const at = key.data();
    const size_t n = key.size();
    const auto load = [at]<class T>(T word, size_t from) {
        std::memcpy(&word, at + from, sizeof word);
        return uint64_t{word};
    };
    uint64_t first = 0, second = 0;
    if (n >= 8) {
        first = load(uint64_t{}, 0);
        if (n > 8) second = load(uint64_t{}, n - 8) >> (8 * (16 - n));
    } else if (n >= 4) {
        first = load(uint32_t{}, 0) | load(uint32_t{}, n - 4) << (8 * (n - 4));
    } else if (n != 0) {
        first = load(uint8_t{}, 0) | load(uint8_t{}, n / 2) << (8 * (n / 2)) |
                load(uint8_t{}, n - 1) << (8 * (n - 1));
    }
    return short_key_lock_name(object, first, second, n);
}
// The gap above the largest key of an index.
inline LockName end_lock_name(ObjectId object) {
    return LockName{(0xd6e8feb86659fd93ull * (object.value + 1ull)) | 1};
}
inline uint64_t mix64(uint64_t x) {
    x = (x ^ (x >> 32)) * 0xd6e8feb86659fd93ull;
    x = (x ^ (x >> 32)) * 0xd6e8feb86659fd93ull;
    return x ^ (x >> 32);
}
inline LockName page_lock_name(ObjectId object, PageId page) {
    return LockName{mix64((uint64_t{object.value} << 32) ^ page.value ^ 0xa5a5a5a500000000ull) | 1};
}
inline LockName record_lock_name(ObjectId object, RecordId id) {
    return LockName{mix64(mix64((uint64_t{object.value} << 32) ^ id.page.value) + id.slot.value) |
                    1};
}

// Lock of a whole index, heap or database, in that object's run-time descriptor. `strong` counts
// owners that hold or want S SIX U X. While it is zero, intentions are only noted in
// LockOwner::noted. Protocol: lock_object.cc.
struct alignas(kCacheLineBytes) ObjectLock {
    ObjectId id{};
    std::atomic<uint32_t> strong{0};
    // Set by bar_object(), for ever: an owner without rights gets none any more.
    std::atomic<bool> gone{false};
    // Constant: many record locks of one owner may become one of the whole object.
    bool escalates = true;
    // Newest commit of an owner that held S SIX U X here; see commit_note().
    std::atomic<uint64_t> committed{0};
};

// A commit note: the end of a commit record in the form that the lock table keeps, 48 bits in units
// of 8 bytes. Zero: none. kNoteMax: unknown, or beyond 2 PB of log.
inline constexpr uint64_t kNoteMax = (uint64_t{1} << 48) - 1;
constexpr uint64_t commit_note(Lsn end) {
    return end.value / 8 + (end.value % 8 != 0) < kNoteMax ? end.value / 8 + (end.value % 8 != 0)
                                                           : kNoteMax;
}
constexpr Lsn lsn_of_note(uint64_t note) { return note >= kNoteMax ? kLsnMax : Lsn{note * 8}; }
// Raises `at` to `note`. From any thread.
inline void raise_note(std::atomic<uint64_t>& at, uint64_t note) {
    uint64_t before = at.load(std::memory_order_relaxed);
    while (before < note && !at.compare_exchange_weak(before, note, std::memory_order_release)) {}
}

struct LockRequest;  // private to the lock manager

inline constexpr ObjectId kNoObject{UINT32_MAX};

// How the wait of an owner ended. Written by the thread that ended it, before LockOwner::waiting
// becomes null.
enum class WaitOutcome : uint8_t {
    none,
    granted,
    deadlock,
    own_thread,
    timeout,
    cancelled,
    store_failed
};

// What an owner knows about its lock on one object. Owner's thread only; other threads read
// LockOwner::noted instead. Four of them fill a cache line.
struct Intent {
    ObjectLock* lock = nullptr;
    // Record locks until the next try to escalate.
    uint32_t left = UINT32_MAX;
    LockMode held = LockMode::none;  // on the object, noted or real
    // Rights on records that the object's lock makes superfluous.
    LockMode records_covered = LockMode::none;
    // Rights on records that need no further check of this intent. None if no lock is left.
    LockMode records_short = LockMode::none;
    bool real : 1 = false;            // this owner has used the lock table for it
    bool strong_counted : 1 = false;  // this owner is in lock->strong
    uint8_t doubled : 6 = 0;          // tries to escalate that were refused
};
static_assert(sizeof(Intent) == 16);

// Embedded in a transaction. All fields belong to the owner's thread unless a comment says
// otherwise. Register it with add_owner() before the first lock. Other threads read txn, work,
// priority, operations_left, waits_in, level, repeats and age only while the owner waits. Meanwhile
// the deadlock search may give it a place in a line (lock_line.h), which adds a name to its list.
// Under a bucket's latch they also read txn, thread and thread_use of an owner that has rights
// there.
struct alignas(kCacheLineBytes) LockOwner {
    // Names held, in order of grant; a pool provides the chunks.
    struct alignas(kCacheLineBytes) Chunk {
        static constexpr size_t kNames = 62;
        Chunk* before = nullptr;
        uint64_t used = 0;  // counts only while a newer chunk exists; see used_in()
        LockName names[kNames];
    };
    static_assert(sizeof(Chunk) == 8 * kCacheLineBytes);
    struct alignas(kCacheLineBytes) Objects {
        static constexpr size_t kMax = 6;
        Objects* before = nullptr;
        uint64_t used = 0;
        ObjectLock* of[kMax];
    };
    static_assert(sizeof(Objects) == kCacheLineBytes);
    // Objects noted per transaction; further ones take real locks.
    static constexpr size_t kIntentsMax = 32;

    // --- The line that each lock touches.
    // Free places of the newest chunk; both null without a chunk.
    LockName* next = nullptr;
    LockName* end = nullptr;
    uint64_t locks_held = 0;  // names in the chunks
    uint32_t slot = 0;
    uint16_t intents_used = 0;
    // The list may contain names that are not held; see lock_names.cc.
    bool names_unsure = false;
    uint8_t intent_hint[16] = {};  // ObjectId modulo 16 -> likely index in intents
    // Bit (ObjectId modulo 64) is set if an object of that residue may be among the intents.
    uint64_t intents_of = 0;
    // Largest commit note of what it has unlocked or read without a lock, since the last
    // release_all.
    uint64_t seen = 0;

    // --- Lines of one access for each object.
    Intent intents[kIntentsMax];
    // noted[i] = object id + 1 (high half), kMaterialised, LockMode of intents[i]; zeros from
    // intents_used on. Atomic: see lock_object.cc.
    std::atomic<uint64_t> noted[kIntentsMax] = {};

    // --- The line that begin and release touch.
    // The newest chunk. One stays with the owner until remove_owner().
    Chunk* chunk = nullptr;
    // Objects that count it in `strong` and for which no intent was free.
    Objects* strong_unlisted = nullptr;
    // Names granted after a wait, since the last release_all.
    uint32_t waits = 0;
    // Low bits of the id that `thread` had when it began. Thread objects are reused: an owner that
    // an ended thread has left open belongs to no later use. Written with `thread`, atomically.
    uint32_t thread_use = 0;
    TxnId txn{};
    // The thread to wake; written before `waiting` is set. Null: no thread can end the owner, which
    // waits for nothing. See LockOptions::owners_have_threads.
    threads::Thread* thread = nullptr;
    Nanos timeout = kNever;  // longest wait of one request
    // Log bytes written. The deadlock victim has the least work + locks_held.
    uint64_t work = 0;
    uint32_t priority = 0;    // for LockPolicy::priority: larger comes first
    uint32_t operations = 0;  // declared length in records it locks, 0 = unknown

    // --- Waits, and what is rare.
    // Object of its newest wait, for texts; written under the bucket's latch.
    ObjectId waits_in = kNoObject;
    // Operations left, as of its newest wait; for LockPolicy::short_first.
    uint32_t operations_left = UINT32_MAX;
    // What its newest wait is for, if it says so; set before that wait and cleared behind it.
    // Others read it under the bucket's latch while the owner waits.
    const LockPlace* place = nullptr;
    Nanos wait_began = 0;                        // the newest wait
    std::atomic<LockRequest*> waiting{nullptr};  // written under the bucket's latch
    // Written under the bucket's latch while waiting != null; else the owner's.
    WaitOutcome outcome = WaitOutcome::none;
    uint8_t level = 0;  // of a repetition: see lock_line.h
    // A request that would have to wait ends with lock_refused instead.
    bool never_waits = false;
    uint32_t cycle = 0;  // id of the deadlock; protected like `outcome`
    // It repeats a deadlock victim if this is its own `txn`, so a later use of the object need not
    // reset it. Then `level` and `age` count: the first attempt.
    TxnId repeats{};
    TxnId age{};
    LockName lost{};  // at which it became a deadlock victim last

    bool is_repetition() const { return repeats == txn; }

    // Names of a chunk of the list.
    uint64_t used_in(const Chunk* of) const {
        return of == chunk ? static_cast<uint64_t>(next - of->names) : of->used;
    }

    // What its own thread finds between two calls.
    void assert_state() const {
        DCHECK(chunk == nullptr ? locks_held == 0 : locks_held >= used_in(chunk));  // LM-4
        DCHECK(chunk == nullptr || end == chunk->names + Chunk::kNames);
        DCHECK(next <= end && (chunk == nullptr) == (end == nullptr));
        DCHECK(strong_unlisted == nullptr || strong_unlisted->used <= Objects::kMax);
        DCHECK(intents_used <= kIntentsMax && (intents_used == 0) == (intents_of == 0));
        DCHECK(intents_used == 0 || noted[intents_used - 1].load() != 0);        // IL-2
        DCHECK(intents_used == kIntentsMax || noted[intents_used].load() == 0);  // IL-2
        DCHECK(intents_used == kIntentsMax || intents[intents_used].lock == nullptr);
    }
};
static_assert(offsetof(LockOwner, intents) == kCacheLineBytes);  // what each lock touches
static_assert(offsetof(LockOwner, chunk) % kCacheLineBytes == 0);
static_assert(offsetof(LockOwner, waits_in) - offsetof(LockOwner, chunk) == kCacheLineBytes);
static_assert(sizeof(LockOwner) - offsetof(LockOwner, waits_in) == kCacheLineBytes);

}  // namespace lockstep::txn
