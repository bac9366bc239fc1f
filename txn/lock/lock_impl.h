// lock_impl.h - inside of the lock manager: LockManager::Impl, which the lock_*.cc files share.
//
// Parts      lock_array.h   where a name's bucket is
//            lock_bucket.h  layout of the table
//            lock_thin.h    the fast path
//            lock_intent.h  what an owner notes about an object
//            lock_cycle.h   what a request waits for, and the deadlock search
// Concepts   A waiting request is a packet of the *lock stage*. Each fat lock has a line of it.
//            Each partition of the table has a Stage, which orders the lines by the policy and
//            counts. A grant takes its packet out; deadlock, timeout and cancellation cancel it.
// States     Request: queued -> granted (grant_waiters()) or freed (conversion,
//            wait_until_grantable, denial).
// Invariants LK-1 A head has at least one granted request. [checked: deflate(), verify()]
//            LK-2 A new request is granted only if it conflicts with no right granted to others
//                 and takes no right that would delay a waiter. It may pass a waiter that it does
//                 not conflict with. A conversion (its owner holds the name) competes with granted
//                 rights only, and stands before new requests.
//            LK-3 The thread that ends a wait unlinks the request, writes LockOwner::outcome and
//                 clears LockOwner::waiting, all under the bucket's latch. Afterwards it touches
//                 neither, only the Thread; at worst that wake is spurious.
//            LK-4 Order of latches: deadlock search, resize > bucket > pool. Only these two take
//                 several buckets, in address order. No latch is held at park.
//            LK-5 The commit note of a bucket never falls. It covers each commit that has released
//                 X on a name of the bucket. A bucket that is split or merged hands its note on.
//                 [checked: raise_note()]
//            LK-6 An exchange of the header frees the only entry of a bucket if its owner holds the
//                 name. Proof: the header says at that moment that the bucket is not latched, has
//                 the name (LT-1), and has one entry, which is thin. The owner holds the name, so
//                 its lock is in the bucket, and it is this entry. The owner's rights change in its
//                 own thread only. An owner whose list may contain other names does not exchange
//                 (LockOwner::names_unsure). [checked: verify()]
#pragma once

#include <array>
#include <atomic>
#include <memory>
#include <utility>

#include "threads/base/check.h"
#include "threads/base/spin_lock.h"
#include "threads/sync/stage.h"
#include "threads/thread/thread.h"
#include "txn/lock/hot_locks.h"
#include "txn/lock/lock_cycle.h"
#include "txn/lock/lock_intent.h"
#include "txn/lock/lock_manager.h"
#include "txn/lock/lock_pool.h"
#include "txn/lock/lock_thin.h"

namespace lockstep::txn {

// Threads to wake once the bucket's latch is free.
class WakeBatch {
public:
    WakeBatch() = default;
    ~WakeBatch() { flush(); }
    WakeBatch(const WakeBatch&) = delete;
    WakeBatch& operator=(const WakeBatch&) = delete;
    void add(threads::Thread* thread) {
        DCHECK(thread != nullptr && used_ <= kMax);
        if (used_ == kMax) flush();  // under the latch: allowed, since wake() never parks
        threads_[used_++] = thread;
    }
    void flush() {
        for (size_t i = 0; i < used_; ++i) threads::wake(threads_[i]);
        used_ = 0;
    }

private:
    static constexpr size_t kMax = 32;
    threads::Thread* threads_[kMax];
    size_t used_ = 0;
};

// The name under which an object's lock stands in the table.
inline LockName object_lock_name(ObjectId object) { return page_lock_name(object, kPageNone); }

inline bool reorders_arrivals(LockPolicy policy) {
    return policy == LockPolicy::short_first || policy == LockPolicy::priority;
}
threads::StageOptions<LockRequest> lock_stage_options(const LockStageOptions& options);

// How the table changes its size. Under its latch; see lock_resize.cc.
struct alignas(kCacheLineBytes) Resize {
    SpinLock latch;
    uint32_t depth = 0;   // of all buckets, or before the present move
    uint32_t target = 0;  // equal to depth, or one more or less
    uint64_t moved = 0;   // pairs of buckets with the target's depth already
    // The present round: looks, buckets sampled, locks in them, most names released at once.
    uint32_t looks = 0;
    uint64_t looked_at = 0, locks = 0, largest = 0;
    // The largest need of the rounds since the last growth or quiet time.
    uint64_t peak = 0, rounds = 0;
    uint64_t at = 0;  // next bucket to sample
};

struct LockManager::Impl {
    Impl(const LockOptions& options, LockArray& array);
    ~Impl();
    LockBucket* map_buckets() const;

    // --- lock_resize.cc: where a name's bucket is, and the size of the table
    // The bucket of the name, latched.
    LockBucket& latch(uint64_t name);
    [[gnu::cold, gnu::noinline]] LockBucket& latch_slowly(uint64_t name);
    // False: the bucket is not part of the table any more.
    bool latch_bucket(LockBucket& bucket);
    // Does the latched bucket have the locks of the name?
    bool has_name(const LockBucket& bucket, uint64_t name) const {
        DCHECK(bucket.is_held());
        return (name & LockArray::mask_of(bucket.depth())) == array.offset_of(bucket);
    }
    // Looks at a part of the table, or moves some buckets. No bucket's latch is held. `released`:
    // names that the caller held until now. `crowded`: it has met an overflow bucket.
    [[gnu::cold, gnu::noinline]] void tend_table(uint64_t released, bool crowded);
    void sample(Resize& resize, uint32_t looks) const;
    void choose_size(Resize& resize, bool crowded);
    void move_some(Resize& resize);
    bool split(LockBucket& low, LockBucket& high, uint32_t depth);
    void free_parts(const LockBucket& first, LockBucket* spare);
    bool merge(LockBucket& low, LockBucket& high, uint32_t depth);
    bool merge_entries(LockBucket& low, LockBucket& high);

    // --- lock_table.cc: entries; all under the bucket's latch
    static LockEntry* find(LockBucket& bucket, uint64_t name);
    LockEntry* insert(LockBucket& bucket, uint64_t name);  // null: out of memory
    static LockEntry* use(LockBucket& part, unsigned entry, uint64_t name);
    void erase(LockBucket& bucket, LockEntry* entry);
    LockHead* inflate(uint64_t name, LockEntry* entry);  // null: out of memory
    void deflate(LockBucket& bucket, LockEntry* entry);
    LockRequest* add_granted(uint64_t name, LockHead* head, LockOwner* owner, LockMode mode);
    static LockRequest* granted_of(LockHead* head, const LockOwner* owner);
    // Rights of `owner` and of all others on an entry.
    static LockMode rights_of(const LockEntry* entry, const LockOwner& owner, LockMode* others,
                              LockMode* waiting);

    // --- lock_manager.cc: slow paths, as tail calls, so that the fast path needs no stack frame
    Result<Grant> lock_long(LockOwner& owner, LockName name, LockMode mode, Ask ask);
    [[gnu::noinline]] Result<void> lock_slow(LockOwner& owner, LockName name, LockMode mode);
    [[gnu::noinline]] bool grantable_slow(const LockOwner& owner, LockName name, LockMode mode);
    // `seen`: raised to the note of the bucket, if true.
    [[gnu::noinline]] bool only_committed_slow(const LockOwner& owner, LockName name,
                                               uint64_t& seen);
    // The same for a look without an owner: LockManager::only_committed().
    [[gnu::noinline]] bool only_committed_used(const ObjectLock& object, LockName name, Lsn& seen);
    bool only_committed_but_object(const ObjectLock& object, uint64_t note, Lsn& seen) const;
    [[gnu::noinline]] void unlock_slow(LockBucket& bucket, LockOwner& owner, LockName name,
                                       LockMode rights);

    // --- lock_acquire.cc: enter with the bucket's latch held, leave without
    enum class Step : uint8_t {
        fresh,
        again,
        refused,
        later,
        queued,
        converting,
        out_of_memory,
        wrong_thread,
        unwanted  // a wait, by an owner that never waits
    };
    Result<Grant> acquire(LockBucket& latched, LockOwner& owner, LockName name, LockMode mode,
                          Ask ask);
    // Keeps the latch. may_yield: answer `later` instead of queueing behind a holder that only
    // needs the CPU.
    Step decide(LockBucket& bucket, LockOwner& owner, LockName name, LockMode mode, Ask ask,
                bool may_yield);
    bool holder_is_ready_here(const LockEntry* entry) const;
    Step queue_up(LockBucket& bucket, LockEntry* entry, LockOwner& owner, LockMode mode, Ask ask,
                  bool conversion);
    // True if the owner has no right left. `note`: its commit note, or 0.
    bool release(LockBucket& bucket, LockOwner& owner, LockName name, LockMode rights,
                 uint64_t note = 0);
    // The same; takes the latch itself.
    bool release_one(LockOwner& owner, LockName name, LockMode rights, uint64_t note = 0);
    // Releases all rights on a name: the share of release_all().
    void release_noted(LockOwner& owner, LockName name, uint64_t note);
    // Releases all rights of an owner that has changed nothing. Returns the bucket's commit note.
    uint64_t release_seen(LockOwner& owner, LockName name);

    // --- lock_queue.cc: under the bucket's latch
    void enqueue(LockRequest* request, Nanos now);
    // Notes that the granted rights are held at `now`, where no earlier time is known.
    static void note_held(LockHead* head, Nanos now) {
        // New grants come first, so the known ones are behind.
        for (LockRequest* at = head->granted_first; at && at->entered == 0; at = at->next) {
            DCHECK(at->granted != LockMode::none && at->head == head);
            at->entered = now;
        }
    }
    void grant_waiters(uint64_t name, LockHead* head, WakeBatch& wakes);
    LockRequest* prefer_local(LockStage& stage, LockHead* head, LockRequest* first, LockMode ahead);
    void grant_request(uint64_t name, LockHead* head, LockRequest* request);
    void end_wait(LockRequest* request, WaitOutcome outcome, WakeBatch& wakes);
    void deny(LockBucket& bucket, LockRequest* request, WaitOutcome outcome, uint32_t cycle,
              WakeBatch& wakes);

    // --- lock_wait.cc: without latches
    Result<void> wait(LockOwner& owner, LockName name, LockMode mode);
    // `blockers` receives what the request waited for.
    void cancel(LockOwner& owner, WaitOutcome outcome, Blockers* blockers = nullptr);

    // --- lock_deadlock.cc: without latches
    void resolve_deadlocks(LockOwner& start);

    // --- lock_line.cc: without latches
    TxnId first_in_line(LockName line);
    bool wait_in_line(LockManager& self, LockOwner& owner, LockName line);

    // --- lock_text.cc: without latches
    [[gnu::cold, gnu::noinline]] std::unexpected<Error> wait_failed(const LockOwner& owner,
                                                                    LockName name, LockMode mode,
                                                                    WaitOutcome outcome,
                                                                    const Blockers& blockers);
    std::string place_text(ObjectId object, uint64_t name, const LockPlace& place = {}) const;
    std::string describe_cycle(uint32_t id);

    // --- lock_object.cc; more in lock_intent.h
    [[gnu::cold, gnu::noinline]] Result<bool> lock_weak_slow(LockOwner& owner, ObjectLock& object,
                                                             Intent& intent, LockMode mode,
                                                             uint64_t before, bool attempt);
    Result<bool> lock_weak(LockOwner& owner, ObjectLock& object, LockMode mode, bool attempt);
    Result<bool> lock_strong(LockOwner& owner, ObjectLock& object, LockMode mode, bool attempt,
                             bool to_free = false);
    Result<bool> acquire_object(LockOwner& owner, const ObjectLock& object, LockMode mode,
                                bool attempt, bool listed, bool first = false,
                                bool to_free = false);
    bool materialise_all(const ObjectLock& object);
    bool materialise(LockOwner& owner, std::atomic<uint64_t>& note, ObjectId object);
    [[gnu::cold, gnu::noinline]] static void note_unlisted_commit(const LockOwner& owner,
                                                                  uint64_t note);
    // Returns the largest commit note of the objects that the owner had locked; kNoteMax if an
    // object's lock has covered records: the owner has no names of what it read there.
    uint64_t release_intents(LockOwner& owner, uint64_t note);
    [[gnu::cold, gnu::noinline]] uint64_t release_unlisted(LockOwner& owner);
    [[gnu::cold, gnu::noinline]] void release_real(LockOwner& owner, const Intent& intent,
                                                   uint64_t last, uint64_t note);
    void release_shared_intents(LockOwner& owner);

    // --- lock_record.cc
    bool escalate(LockOwner& owner, Intent& intent, LockMode record_mode);
    // Notes the intention, then locks. False, with Ask::attempt only: it would have to wait.
    [[gnu::noinline]] Result<bool> note_and_lock(LockManager& self, LockOwner& owner,
                                                 ObjectLock& object, LockName name, LockMode mode,
                                                 Ask ask);
    // The rest of it, with the intention in `noted.intent`.
    struct Noted {
        Intent* intent = nullptr;  // null: no free note for the object
        uint64_t before = 0;       // its word before
        bool confirmed = false;    // IL-1
    };
    [[gnu::noinline]] Result<bool> lock_noted(LockManager& self, LockOwner& owner,
                                              ObjectLock& object, LockName name, LockMode mode,
                                              Ask ask, Noted noted);
    // In a bucket that has locks. False: nothing is done, and the latch is still held.
    static bool lock_in_used(LockBucket& bucket, LockOwner& owner, Intent& intent, LockName name,
                             LockMode mode);
    // The same where others hold or want the name. Releases the latch.
    [[gnu::noinline]] Result<bool> lock_in_queue(LockBucket& bucket, LockOwner& owner,
                                                 Intent& intent, LockName name, LockMode mode,
                                                 Ask ask);
    // For try_lock_record(): without a note of the intention, and in a bucket that has locks.
    [[gnu::noinline]] bool try_unnoted(LockManager& self, LockOwner& owner, ObjectLock& object,
                                       LockName name, LockMode mode);
    [[gnu::noinline]] bool try_in_used(LockOwner& owner, Intent& intent, LockName name,
                                       LockMode mode);

    // --- lock_names.cc: the owner's own list
    [[gnu::cold, gnu::noinline]] bool grow_names(LockOwner& owner);
    static void take_chunk(LockOwner& owner, LockOwner::Chunk* chunk, uint64_t used);
    void pop_chunk(LockOwner& owner);
    [[gnu::noinline]] void forget_name(LockOwner& owner, LockName name);
    bool note_unlisted(LockOwner& owner, ObjectLock& object);
    // What release_all() does after the names. Returns what release_intents() does.
    uint64_t finish_release(LockOwner& owner, uint64_t names, uint64_t note);

    using BucketPool = LockPool<LockBucket, &LockBucket::overflow>;
    // Pools are partitioned like the table (and chunks by owner slot), so that workers seldom meet.
    struct alignas(kCacheLineBytes) Partition {
        LockStage stage;
        LockPool<LockRequest, &LockRequest::next> requests;
        LockPool<LockHead, &LockHead::pool_next> heads;
        BucketPool overflows;
        LockPool<LockOwner::Chunk, &LockOwner::Chunk::before> chunks;
        LockPool<LockOwner::Objects, &LockOwner::Objects::before> objects;
        // Names released by owners of this partition, without those granted after a wait.
        std::atomic<uint64_t> released{0};
        explicit Partition(const threads::StageOptions<LockRequest>& options) : stage(options) {}
    };
    template <size_t... kEach>
    static std::array<Partition, sizeof...(kEach)> make_partitions(
        const threads::StageOptions<LockRequest>& options, std::index_sequence<kEach...>) {
        const auto make = [&](size_t) { return Partition(options); };
        return {{make(kEach)...}};
    }
    static constexpr size_t kPartitions = 16;
    static size_t partition_of(uint64_t name) { return name >> 60; }
    Partition& partition(uint64_t name) { return partitions[partition_of(name)]; }
    Partition& partition(const LockOwner& owner) { return partitions[owner.slot % kPartitions]; }
    // For the overflow buckets of a bucket. A split or merge of at least kPartitions buckets keeps
    // its number modulo kPartitions, so the pool that gives a part gets it back.
    BucketPool& overflows_of(const LockBucket& first) {
        return partitions[array.offset_of(first) % kPartitions].overflows;
    }

    LockOptions options;
    LockArray& array;
    Resize resize;
    // LockOptions::look_every, or less while the table changes its size.
    std::atomic<uint32_t> look_every{options.look_every};
    std::unique_ptr<std::atomic<LockOwner*>[]> owners;  // by slot
    // Commit note of what others see without a lock on its name; see keep_note().
    std::atomic<uint64_t> unnamed{0};
    // Slots below may be in use; only grows.
    std::atomic<uint32_t> owners_end{0};
    // Scans that may read owners found in the table or the registry. remove_owner() waits for
    // zero.
    alignas(kCacheLineBytes) std::atomic<uint32_t> watchers{0};
    std::array<Partition, kPartitions> partitions;
    DeadlockSearch search;
    HotLocks hot;
    std::atomic<uint64_t> waits{0}, deadlocks{0}, timeouts{0}, escalations{0}, inflations{0},
        wait_nanos{0};
};

inline LockBucket& LockManager::Impl::latch(uint64_t name) {
    SIM_POINT();
    const uint64_t shape = array.shape.load(std::memory_order_relaxed);
    LockBucket& bucket = array.bucket(shape, name);
    const uint64_t h = bucket.head();
    constexpr uint16_t kDepthAndLatch = 0xff << LockBucket::kDepthAt | LockBucket::kLatched;
    if (((h ^ LockArray::empty_header(shape)) & kDepthAndLatch) != 0 || !bucket.try_latch(h))
        [[unlikely]]
        return latch_slowly(name);
    SIM_POINT();
    return bucket;
}

// Releases the latch of a bucket.
class [[nodiscard]] BucketGuard {
public:
    explicit BucketGuard(LockBucket& bucket) : bucket_(bucket) { DCHECK(bucket.is_held()); }
    ~BucketGuard() { bucket_.unlatch(); }
    BucketGuard(const BucketGuard&) = delete;
    BucketGuard& operator=(const BucketGuard&) = delete;

private:
    LockBucket& bucket_;
};

// Keeps owners that a search meets from being removed.
class WatchGuard {
public:
    explicit WatchGuard(std::atomic<uint32_t>& watchers) : watchers_(watchers) {
        watchers_.fetch_add(1);
    }
    ~WatchGuard() { watchers_.fetch_sub(1); }
    WatchGuard(const WatchGuard&) = delete;
    WatchGuard& operator=(const WatchGuard&) = delete;

private:
    std::atomic<uint32_t>& watchers_;
};

}  // namespace lockstep::txn
