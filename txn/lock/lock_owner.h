// lock_owner.h - lock names, and what a transaction remembers about its locks.
#pragma once

#include <xxhash.h>

#include <atomic>
#include <cstdint>
#include <cstring>

#include <lockstep/types.h>
#include "threads/thread/thread.h"
#include "txn/lock/lock_mode.h"

namespace lockstep::txn {

// 64-bit hash. Zero is reserved for "no name".
using LockName = Id<struct LockNameTag, uint64_t>;

// Of a key of at most 16 bytes, given as two words in memory order with zeros behind its end: one
// multiplication (after wyhash's short form).
inline LockName short_key_lock_name(ObjectId store, uint64_t first, uint64_t second, size_t bytes) {
    const uint64_t seed = 0x9e3779b97f4a7c15ull * (store.value + 1ull);
    const auto product = static_cast<unsigned __int128>(first ^ seed ^ 0xa0761d6478bd642full) *
                         (second ^ bytes * 0x100000001b3ull ^ 0xe7037ed1a0b428dbull);
    return LockName{(static_cast<uint64_t>(product) ^ static_cast<uint64_t>(product >> 64)) | 1};
}
inline LockName key_lock_name(ObjectId store, Slice key) {
    if (key.size() > 16)
        return LockName{XXH3_64bits_withSeed(key.data(), key.size(),
                                             0x9e3779b97f4a7c15ull * (store.value + 1ull)) |
                        1};
    uint64_t words[2] = {0, 0};
    if (!key.empty()) std::memcpy(words, key.data(), key.size());
    return short_key_lock_name(store, words[0], words[1], key.size());
}
// The gap above the largest key of an index.
inline LockName end_lock_name(ObjectId store) {
    return LockName{(0xd6e8feb86659fd93ull * (store.value + 1ull)) | 1};
}
inline uint64_t mix64(uint64_t x) {
    x = (x ^ (x >> 32)) * 0xd6e8feb86659fd93ull;
    x = (x ^ (x >> 32)) * 0xd6e8feb86659fd93ull;
    return x ^ (x >> 32);
}
inline LockName page_lock_name(ObjectId store, PageId page) {
    return LockName{mix64((uint64_t{store.value} << 32) ^ page.value ^ 0xa5a5a5a500000000ull) | 1};
}
inline LockName record_lock_name(ObjectId store, RecordId id) {
    return LockName{mix64(mix64((uint64_t{store.value} << 32) ^ id.page.value) + id.slot.value) |
                    1};
}

// Lock of a whole index, heap or database. Lives in that object's run-time descriptor; `strong`
// counts owners that hold or want S SIX U X. While it is zero, intentions are only noted in
// LockOwner::noted. lock_object.cc states the protocol.
struct alignas(kCacheLineBytes) ObjectLock {
    ObjectId store{};
    std::atomic<uint32_t> strong{0};
    // Set by bar_object(), for ever: nobody gets rights any more.
    std::atomic<bool> gone{false};
    // constant: many record locks of one owner may become one of the whole.
    bool escalates = true;
};

struct LockRequest;  // lock_manager's own

// How the wait of an owner ended; written by whoever ended it, before LockOwner::waiting becomes
// null.
enum class WaitOutcome : uint8_t { none, granted, deadlock, timeout, cancelled };

// What an owner knows about its lock on one store. Owner's thread only; the part that others read
// is LockOwner::noted.
struct Intent {
    ObjectLock* lock = nullptr;
    LockMode held = LockMode::none;  // on the store, noted or real
    // Rights on records that the store's lock makes superfluous.
    LockMode records_covered = LockMode::none;
    // Rights on records that may be asked for without a further look at this.
    LockMode records_short = LockMode::none;
    bool real = false;                  // this owner has asked the lock table itself
    bool strong_counted = false;        // this owner is in lock->strong
    uint32_t record_locks = 0;          // record locks taken under it, for escalation
    uint32_t escalate_at = UINT32_MAX;  // record_locks of the next attempt
};

// Embedded in a transaction. All fields belong to the owner's thread, except where said. Register
// it with add_owner() before the first lock. Another thread reads txn, work, priority and
// operations_left only while the owner waits.
struct LockOwner {
    uint32_t slot = 0;
    TxnId txn{};
    // Who waits, to be woken; written before `waiting` is set.
    threads::Thread* thread = nullptr;
    Nanos timeout = kNever;  // longest wait of one request
    // Victim choice: least work + locks_held is rolled back (log bytes written).
    uint64_t work = 0;
    uint32_t priority = 0;    // for LockPolicy::priority: larger comes first
    uint32_t operations = 0;  // declared length in records it locks, 0 = unknown
    // Of those, as of its newest wait; for LockPolicy::short_first.
    uint32_t operations_left = UINT32_MAX;

    // Names held, in order of grant; grown in chunks that a pool keeps.
    struct alignas(kCacheLineBytes) Chunk {
        static constexpr size_t kNames = 62;
        Chunk* before = nullptr;
        uint64_t used = 0;
        LockName names[kNames];
    };
    // The newest; one stays with the owner until remove_owner().
    Chunk* chunk = nullptr;
    uint64_t locks_held = 0;  // names in the chunks
    // Of them granted after a wait, since the last release_all.
    uint64_t waits = 0;

    // Stores noted per transaction; further ones take real locks.
    static constexpr size_t kIntentsMax = 32;
    uint32_t intents_used = 0;
    uint8_t intent_hint[16] = {};  // ObjectId modulo 16 -> likely index in intents
    // Bit ObjectId modulo 64: some store of that number may be among the intents; no bit, none is.
    uint64_t intents_of = 0;
    // ObjectLock addresses counted in `strong` for which no intent was free.
    Chunk* strong_unlisted = nullptr;
    // noted[i] = store + 1 (high half), kMaterialised, LockMode of intents[i]; zeros from
    // intents_used on. Atomic: see lock_object.cc.
    std::atomic<uint64_t> noted[kIntentsMax] = {};
    Intent intents[kIntentsMax];

    Nanos wait_began = 0;                        // the newest wait
    std::atomic<LockRequest*> waiting{nullptr};  // written under the bucket's latch
    // Written under the bucket's latch while waiting != null; else the owner's.
    WaitOutcome outcome = WaitOutcome::none;
    uint32_t cycle = 0;  // the same; id of the deadlock
};

}  // namespace lockstep::txn
