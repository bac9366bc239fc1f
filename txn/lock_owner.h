// lock_owner.h - lock names, and what a transaction remembers about its locks.
#pragma once

#include <xxhash.h>

#include <atomic>
#include <cstdint>

#include "threads/base/types.h"
#include "threads/thread.h"
#include "txn/lock_mode.h"

namespace lockstep::txn {

// 64-bit hash. Zero is reserved for "no name".
using LockName = Id<struct LockNameTag, uint64_t>;

inline LockName key_lock_name(StoreId store, Slice key) {
    return LockName{XXH3_64bits_withSeed(key.data(), key.size(), 0x9e3779b97f4a7c15ull * (store.value + 1ull)) | 1};
}
// The gap above the largest key of an index.
inline LockName end_lock_name(StoreId store) { return LockName{(0xd6e8feb86659fd93ull * (store.value + 1ull)) | 1}; }
inline uint64_t mix64(uint64_t x) {
    x = (x ^ (x >> 32)) * 0xd6e8feb86659fd93ull;
    x = (x ^ (x >> 32)) * 0xd6e8feb86659fd93ull;
    return x ^ (x >> 32);
}
inline LockName page_lock_name(StoreId store, PageId page) {
    return LockName{mix64((uint64_t{store.value} << 32) ^ page.value ^ 0xa5a5a5a500000000ull) | 1};
}
inline LockName record_lock_name(StoreId store, RecordId id) {
    return LockName{mix64(mix64((uint64_t{store.value} << 32) ^ id.page.value) + id.slot.value) | 1};
}

// Lock of a whole index, heap or database. Lives in that object's run-time descriptor; `strong` counts owners that hold or want
// S SIX U X. While it is zero, intentions are only noted in LockOwner::intents.
struct alignas(kCacheLineBytes) StoreLock {
    StoreId store{};
    std::atomic<uint32_t> strong{0};
};

struct LockRequest;        // lock_manager's own

// Noted intention: which store, which mode, how many record locks under it (for escalation).
struct Intent {
    std::atomic<uint32_t> store{0};          // StoreId value + 1; 0 = free entry. Written by the owner, read by strong lockers
    std::atomic<uint8_t> mode{0};            // LockMode
    bool covers_records_shared = false;      // escalated: the store's lock makes record locks superfluous
    bool covers_records_exclusive = false;
    uint32_t record_locks = 0;
    StoreLock* lock = nullptr;
};

// Embedded in a transaction. All fields belong to the owner's thread, except where said.
struct LockOwner {
    uint32_t slot = 0;
    TxnId txn{};
    threads::Thread* thread = nullptr;
    Nanos timeout = kNever;
    uint64_t work = 0;                       // victim choice: least work is rolled back (log bytes written, locks held)
    uint32_t priority = 0;                   // for grant policies
    uint32_t operations_left = 0;            // declared length, 0 = unknown; for grant policies

    static constexpr size_t kIntentsMax = 32;    // stores noted per transaction; further ones take real locks
    Intent intents[kIntentsMax];
    uint32_t intents_used = 0;

    // Names held, in order of grant; grown in chunks that a pool keeps.
    struct Chunk {
        static constexpr size_t kNames = 62;
        Chunk* before;
        uint64_t used;
        LockName names[kNames];
    };
    Chunk* chunk = nullptr;
    uint64_t locks_held = 0;
    std::atomic<LockRequest*> waiting{nullptr};  // written under the bucket's lock
};

}  // namespace lockstep::txn
