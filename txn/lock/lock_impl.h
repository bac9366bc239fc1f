// lock_impl.h - inside of the lock manager: bucket, thin entry, fat head, request, and the parts
// that share them.
//
// Layout     LockBucket, 64 bytes: latch (1 byte), commit note (6), overflow bucket (8), three
//            entries of 16 (name, word). A word is
//              thin: bits 0-6 mode, bit 7 = 0, bits 8.. owner slot;
//              fat:  bit 7 = 1, bits 8.. address of the LockHead.
// Concepts   A waiting request is a packet of the *lock stage*. Each fat lock has a line of it.
//            Each partition of the table has a Stage, which orders the lines by the policy and
//            counts. A grant takes its packet out; deadlock, timeout and cancellation cancel it.
// States     Entry: none -> thin (first lock) -> fat (inflate(): second owner or a waiter) -> thin
//            or none (deflate()).
//            Request: queued -> granted (grant_waiters()) or freed (conversion,
//            wait_until_grantable, denial).
// Invariants LK-1 A head has at least one granted request. [checked: deflate(), verify()]
//            LK-2 A new request is granted only if it conflicts with no right granted to others
//                 and takes no right that would delay a waiter. It may pass a waiter that it does
//                 not conflict with. A conversion (its owner holds the name) competes with granted
//                 rights only, and stands before new requests.
//            LK-3 The thread that ends a wait unlinks the request, writes LockOwner::outcome and
//                 clears LockOwner::waiting, all under the bucket's latch. Afterwards it touches
//                 neither, only the Thread; at worst that wake is spurious.
//            LK-4 Order of latches: deadlock search > bucket > pool. Only the search takes several
//                 buckets, in address order. No latch is held at park.
//            LK-5 The commit note of a bucket never falls. It covers each commit that has released
//                 X on a name of the bucket. [checked: raise_note()]
#pragma once

#include <algorithm>
#include <array>
#include <atomic>
#include <bit>
#include <deque>
#include <memory>
#include <vector>

#include "threads/base/check.h"
#include "threads/base/mutants.h"
#include "threads/base/spin_lock.h"
#include "threads/sync/stage.h"
#include "threads/thread/thread.h"
#include "txn/lock/hot_locks.h"
#include "txn/lock/lock_manager.h"
#include "txn/lock/lock_pool.h"

namespace lockstep::txn {

inline constexpr LockMode without(LockMode a, LockMode b) {
    return static_cast<LockMode>(static_cast<uint8_t>(a) & ~static_cast<uint8_t>(b));
}
inline constexpr LockMode kAllRights = static_cast<LockMode>(127);

struct LockEntry {
    uint64_t name;  // 0 = free
    uint64_t word;
};

// All-zero bytes are an empty bucket.
struct alignas(kCacheLineBytes) LockBucket {
    SpinLock latch;
    // The commit note, in two parts; of the first bucket of a chain, under its latch.
    uint16_t note_high = 0;
    uint32_t note_low = 0;
    LockBucket* overflow = nullptr;
    LockEntry entries[3] = {};

    uint64_t note() const { return uint64_t{note_high} << 32 | note_low; }
    void raise_note(uint64_t note_of_commit) {
        DCHECK(latch.is_held() && note_of_commit <= kNoteMax);  // LK-5
        if (note_of_commit <= note()) return;
        note_low = static_cast<uint32_t>(note_of_commit);
        note_high = static_cast<uint16_t>(note_of_commit >> 32);
    }

    // Of the first bucket of a chain: latched; what has a name has rights or a head.
    void assert_state() const {
        DCHECK(latch.is_held());
        DCHECK(entries[0].name == 0 || (entries[0].word & 0xff) != 0);
        DCHECK(entries[1].name == 0 || (entries[1].word & 0xff) != 0);
        DCHECK(entries[2].name == 0 || (entries[2].word & 0xff) != 0);
        DCHECK(entries[0].name == 0 || entries[0].name != entries[1].name);
        DCHECK(entries[0].name == 0 || entries[0].name != entries[2].name);
        DCHECK(overflow != this);
    }
};
static_assert(sizeof(LockBucket) == kCacheLineBytes);

// How many requests hold (or want) each right, and which rights at all.
struct RightCounts {
    uint16_t count[7];
    LockMode mask;

    void add(LockMode mode) {
        for (unsigned bits = static_cast<uint8_t>(mode); bits; bits &= bits - 1)
            ++count[std::countr_zero(bits)];
        DCHECK(static_cast<uint8_t>(mode) < 128);
        mask = mask | mode;
        assert_state();
    }
    void remove(LockMode mode) {
        assert_state();
        DCHECK(txn::without(mode, mask) == LockMode::none);  // only what was added
        for (unsigned bits = static_cast<uint8_t>(mode); bits; bits &= bits - 1)
            if (--count[std::countr_zero(bits)] == 0)
                mask = txn::without(mask, static_cast<LockMode>(bits & -bits));
    }
    // A right is in the mask exactly if its count is not zero.
    void assert_state() const {
        for ([[maybe_unused]] unsigned i = 0; i < 7; ++i)
            DCHECK((count[i] != 0) == ((static_cast<uint8_t>(mask) >> i & 1) != 0));
    }
    // The rights that remain without one request that has `own`.
    LockMode without(LockMode own) const {
        LockMode rest = mask;
        for (unsigned bits = static_cast<uint8_t>(own); bits; bits &= bits - 1)
            if (count[std::countr_zero(bits)] == 1)
                rest = txn::without(rest, static_cast<LockMode>(bits & -bits));
        return rest;
    }
};

struct LockHead;

// A granted or a waiting request of a fat lock. Fields are under the bucket's latch. `name` is
// atomic: the deadlock search reads it to find the bucket, and the request may be freed meanwhile.
struct alignas(kCacheLineBytes) LockRequest {
    LockRequest* next = nullptr;  // among the granted, or in the line
    LockRequest* prev = nullptr;
    // Waiting: begin of the wait. Granted: since when it is known to be held, 0 = unknown.
    Nanos entered = 0;
    uint32_t bypassed = 0;  // waiting: times overtaken
    LockMode granted = LockMode::none;
    LockMode wanted = LockMode::none;  // waiting
    bool instant = false;              // waiting: take nothing when granted
    uint8_t worker = 0;                // waiting: worker of its thread
    std::atomic<uint64_t> name{0};
    LockOwner* owner = nullptr;
    LockHead* head = nullptr;
    LockRequest* own = nullptr;  // waiting conversion: the owner's granted request
};
static_assert(sizeof(LockRequest) == kCacheLineBytes);

using LockStage = threads::Stage<LockRequest, true>;  // lines: under the bucket's latch

struct alignas(kCacheLineBytes) LockHead {
    union {
        LockRequest* granted_first = nullptr;  // any order
        LockHead* pool_next;                   // while in its pool
    };
    // Who waits: conversions, then the others in the policy's order.
    LockStage::Line line = {};
    RightCounts granted = {};
    RightCounts waiting = {};  // wanted rights

    // Under the bucket's latch: the counts are those of the requests, and the links agree (LM-3).
    void assert_state() const {
#ifdef LOCKSTEP_DEBUG_CHECKS
        RightCounts held = {}, wanted = {};
        const LockRequest* before = nullptr;
        for (const LockRequest* at = granted_first; at; before = at, at = at->next) {
            DCHECK(at->prev == before && at->head == this);
            DCHECK(at->granted != LockMode::none && at->owner != nullptr);
            held.add(at->granted);
        }
        for (const LockRequest* at = line.first; at; at = at->next) {
            DCHECK(at->head == this && at->wanted != LockMode::none);
            DCHECK(at->owner->waiting.load(std::memory_order_relaxed) == at);
            DCHECK(!at->own || (at->own->owner == at->owner && at->own->head == this));
            wanted.add(at->wanted);
        }
        DCHECK(held.mask == granted.mask && wanted.mask == waiting.mask);
        DCHECK(std::equal(held.count, held.count + 7, granted.count));
        DCHECK(std::equal(wanted.count, wanted.count + 7, waiting.count));
#endif
    }
};
static_assert(sizeof(LockHead) == kCacheLineBytes && sizeof(RightCounts) == 16);

namespace word {
inline constexpr uint64_t kFat = 0x80;
inline uint64_t thin(uint32_t slot, LockMode mode) {
    DCHECK(slot <= UINT16_MAX && mode != LockMode::none && static_cast<uint8_t>(mode) < kFat);
    return (uint64_t{slot} << 8) | static_cast<uint8_t>(mode);
}
inline uint64_t fat(const LockHead* head) {
    DCHECK(head != nullptr && reinterpret_cast<uint64_t>(head) >> 56 == 0);  // no bit is lost
    return (reinterpret_cast<uint64_t>(head) << 8) | kFat;
}
inline bool is_fat(uint64_t word) { return word & kFat; }
inline bool is_thin_of(uint64_t word, uint32_t slot) {
    return (word & ~uint64_t{0x7f}) == uint64_t{slot} << 8;
}
inline LockMode mode(uint64_t word) { return static_cast<LockMode>(word & 0x7f); }
inline uint32_t slot(uint64_t word) {
    DCHECK(!is_fat(word) && word >> 8 <= UINT16_MAX);
    return static_cast<uint32_t>(word >> 8);
}
inline LockHead* head(uint64_t word) {
    DCHECK(is_fat(word));
    return reinterpret_cast<LockHead*>(word >> 8);
}
}  // namespace word

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

// lock(), try_lock(), wait_until_grantable().
enum class Ask : uint8_t { wait, attempt, instant };
enum class Grant : uint8_t {
    fresh,    // granted; the owner had no right on the name before
    again,    // granted to a holder, or nothing to take
    refused,  // attempt only: the request would have to wait
    slow,     // the fast path does not apply
};

// The inline entry of `name`, or null. Unrolled by hand: a loop compiles to twice the
// instructions.
inline LockEntry* find_inline(LockBucket& bucket, LockName name) {
    LockEntry* const entries = bucket.entries;
    if (entries[0].name == name.value) return &entries[0];
    if (entries[1].name == name.value) return &entries[1];
    if (entries[2].name == name.value) return &entries[2];
    return nullptr;
}

// Fast path of a lock: a free entry of the bucket, or the caller's own thin entry. Under the
// bucket's latch.
inline Grant acquire_thin(LockBucket& bucket, uint32_t slot, LockName name, LockMode mode) {
    bucket.assert_state();
    if (LockEntry* entry = find_inline(bucket, name)) [[unlikely]] {
        if (!word::is_thin_of(entry->word, slot)) return Grant::slow;
        entry->word |= static_cast<uint8_t>(mode);
        return Grant::again;
    }
    LockEntry* const free = find_inline(bucket, LockName{0});
    if (!free || bucket.overflow) [[unlikely]]
        return Grant::slow;
    DCHECK(mode != LockMode::none && name.value != 0);
    free->word = word::thin(slot, mode);
    free->name = name.value;
    return Grant::fresh;
}

// What remains of the caller's rights after an unlock.
enum class Rest : uint8_t { none, some, slow };

// Was it a right to change what the name protects?
inline bool may_have_changed(uint64_t mode) { return mode & static_cast<uint8_t>(LockMode::X); }

// Fast path of an unlock: the caller's own thin entry among the inline ones. Under the bucket's
// latch. `note`: the owner's commit note, or 0.
inline Rest release_thin(LockBucket& bucket, uint32_t slot, LockName name, LockMode rights,
                         uint64_t note = 0) {
    bucket.assert_state();
    DCHECK(rights != LockMode::none && name.value != 0);
    LockEntry* const entry = find_inline(bucket, name);
    if (!entry) [[unlikely]]
        return bucket.overflow ? Rest::slow : Rest::none;
    if (!word::is_thin_of(entry->word, slot)) [[unlikely]]
        return Rest::slow;
    DCHECK(!word::is_fat(entry->word) && word::mode(entry->word) != LockMode::none);
    if (may_have_changed(entry->word) && !MUTANT(commit_not_noted)) bucket.raise_note(note);
    entry->word &= ~uint64_t{static_cast<uint8_t>(rights)};
    if (word::mode(entry->word) != LockMode::none) return Rest::some;
    entry->name = 0;
    return Rest::none;
}

// Bits of LockOwner::noted.
namespace noted {
// A real request of that owner for that object is in the table.
inline constexpr uint64_t kMaterialised = 0x80;
inline uint64_t tag(ObjectId object) {
    DCHECK(object.value != UINT32_MAX);  // else the tag of none
    return (uint64_t{object.value} + 1) << 32;
}
inline bool is_for(uint64_t word, ObjectId object) {
    return (word >> 32) == uint64_t{object.value} + 1;
}
inline LockMode mode(uint64_t word) { return static_cast<LockMode>(word & 0x7f); }
}  // namespace noted

// The name under which an object's lock stands in the table.
inline LockName object_lock_name(ObjectId object) { return page_lock_name(object, kPageNone); }

// Calls visit(blocker, queued) for each request that `request` waits for: a granted one, or one
// before it in the queue. Stops when visit returns false. Under the bucket's latch.
template <class Visit>
void for_each_blocker(const LockRequest& request, Visit visit) {
    for (const LockRequest* at = request.head->granted_first; at; at = at->next)
        if (at->owner != request.owner && !compatible(request.wanted, at->granted))
            if (!visit(*at, false)) return;
    // Conversions wait for granted rights only (LK-2).
    if (request.own && !MUTANT(conversion_waits_behind)) return;
    for (const LockRequest* at = request.prev; at; at = at->prev)
        if (!compatible(at->wanted, request.wanted))
            if (!visit(*at, true)) return;
}

// One request that another one waits for, as of some moment; for texts.
struct Blocker {
    TxnId txn{};
    LockMode mode = LockMode::none;
    bool queued = false;
    TxnId inner{};   // in a cycle: what its thread runs meanwhile, if that is the next member
    Nanos time = 0;  // held for at least so long, or waiting so long

    Blocker() = default;
    Blocker(const LockRequest& at, bool is_queued, Nanos now)
        : txn(at.owner->txn),
          mode(is_queued ? at.wanted : at.granted),
          queued(is_queued),
          time(at.entered != 0 && now > at.entered ? now - at.entered : 0) {
        DCHECK(mode != LockMode::none);
    }
    std::string text() const;
};
// What a request waited for when its time was up.
struct Blockers {
    static constexpr uint32_t kMax = 3;
    uint32_t count = 0;  // those beyond kMax are not kept
    Nanos waited = 0;
    Blocker of[kMax];
};

// One line of a recorded deadlock: `txn` waits for `wanted` on `name`, because of `blocker`.
struct CycleLine {
    TxnId txn{};
    uint64_t name = 0;
    ObjectId object = kNoObject;
    LockMode wanted = LockMode::none;
    Blocker blocker;
};
struct CycleRecord {
    static constexpr size_t kLines = 16;
    uint32_t id = 0;
    uint32_t length = 0;  // members of the cycle; lines beyond kLines are not kept
    TxnId victim{};
    CycleLine lines[kLines];
};

// State of the deadlock search, under `latch`. Sized once: a search allocates nothing.
struct DeadlockSearch {
    struct Node {
        LockOwner* owner;
        LockRequest* request;  // as seen under its bucket's latch
        LockBucket* bucket;
        uint32_t parent;  // index in nodes
        // The member before it waits for another owner of its thread.
        bool nested = false;
    };
    static constexpr size_t kKept = 64;
    // Under the latch: each owner is a node once, so nothing grows beyond the slots.
    void assert_state() const {
        DCHECK(latch.is_held());
        DCHECK(nodes.size() <= seen.size() && path.size() <= nodes.size());
        DCHECK(path.empty() || path.front() == 0);
    }

    SpinLock latch;
    uint32_t round = 0;
    uint32_t cycles = 0;
    std::vector<uint32_t> seen;        // by owner slot: round that made it a node
    std::vector<Node> nodes;           // breadth first
    std::vector<uint32_t> path;        // indices of nodes in the cycle
    std::vector<LockBucket*> buckets;  // of the cycle, sorted
    CycleRecord kept[kKept];
};

inline bool reorders_arrivals(LockPolicy policy) {
    return policy == LockPolicy::short_first || policy == LockPolicy::priority;
}
threads::StageOptions<LockRequest> lock_stage_options(const LockStageOptions& options);

struct LockManager::Impl {
    explicit Impl(const LockOptions& options);
    ~Impl();

    LockBucket& bucket(uint64_t name) const { return buckets[name >> shift]; }

    // --- lock_table.cc: entries; all under the bucket's latch
    static LockEntry* find(LockBucket& bucket, uint64_t name);
    LockEntry* insert(LockBucket& bucket, uint64_t name);  // null: out of memory
    void erase(LockBucket& bucket, LockEntry* entry);
    LockHead* inflate(uint64_t name, LockEntry* entry);  // null: out of memory
    void deflate(LockBucket& bucket, LockEntry* entry);
    LockRequest* add_granted(uint64_t name, LockHead* head, LockOwner* owner, LockMode mode);
    // Frees a granted request that has no right left.
    void drop_empty(LockBucket& bucket, LockEntry* entry, LockRequest* request);
    static LockRequest* granted_of(LockHead* head, const LockOwner* owner);
    // Rights of `owner` and of all others on an entry.
    static LockMode rights_of(const LockEntry* entry, const LockOwner& owner, LockMode* others,
                              LockMode* waiting);

    // --- lock_manager.cc: slow paths, as tail calls, so that the fast path needs no stack frame
    [[gnu::cold, gnu::noinline]] Result<void> grow_and_lock(LockManager& self, LockOwner& owner,
                                                            LockName name, LockMode mode);
    [[gnu::noinline]] Result<void> lock_slow(LockBucket& bucket, LockOwner& owner, LockName name,
                                             LockMode mode);
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
        wrong_thread
    };
    Result<Grant> acquire(LockBucket& bucket, LockOwner& owner, LockName name, LockMode mode,
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

    // --- lock_text.cc: without latches
    [[gnu::cold, gnu::noinline]] std::unexpected<Error> wait_failed(const LockOwner& owner,
                                                                    LockName name, LockMode mode,
                                                                    WaitOutcome outcome,
                                                                    const Blockers& blockers);
    std::string place_text(ObjectId object, uint64_t name, const LockPlace& place = {}) const;
    std::string describe_cycle(uint32_t id);

    // --- lock_object.cc
    static Intent* find_intent(LockOwner& owner, const ObjectLock& object);
    // Null: all are in use.
    Intent* add_intent(LockOwner& owner, ObjectLock& object, LockMode noted) const;
    [[gnu::cold, gnu::noinline]] Result<bool> lock_weak_slow(LockOwner& owner, ObjectLock& object,
                                                             Intent& intent, LockMode mode,
                                                             uint64_t before, bool attempt);
    Result<bool> lock_weak(LockOwner& owner, ObjectLock& object, LockMode mode, bool attempt);
    Result<bool> lock_strong(LockOwner& owner, ObjectLock& object, LockMode mode, bool attempt,
                             bool to_free = false);
    Result<bool> acquire_object(LockOwner& owner, const ObjectLock& object, LockMode mode,
                                bool attempt, bool listed, bool to_free = false);
    bool materialise_all(const ObjectLock& object);
    bool materialise(LockOwner& owner, std::atomic<uint64_t>& note, ObjectId object);
    void release_intents(LockOwner& owner, uint64_t note);
    // The largest commit note of the objects that the owner has locked; kNoteMax if an object's
    // lock has covered records.
    static uint64_t seen_in_objects(const LockOwner& owner);
    void release_shared_intents(LockOwner& owner);

    // --- lock_record.cc
    bool escalate(LockOwner& owner, Intent& intent, LockMode record_mode);
    [[gnu::noinline]] Result<bool> record_slow(LockBucket& bucket, LockOwner& owner, Intent& intent,
                                               LockName name, LockMode mode, Ask ask);
    [[gnu::noinline]] Result<bool> record_long(LockManager& self, LockOwner& owner,
                                               ObjectLock& object, LockName name, LockMode mode,
                                               Ask ask);
    [[gnu::noinline]] Result<void> lock_record_slow(LockBucket& bucket, LockOwner& owner,
                                                    Intent& intent, LockName name, LockMode mode);
    [[gnu::noinline]] Result<void> lock_record_long(LockManager& self, LockOwner& owner,
                                                    ObjectLock& object, LockName name,
                                                    LockMode mode);
    [[gnu::noinline]] Result<void> ask_record_slow(LockBucket& bucket, LockOwner& owner,
                                                   Intent& intent, LockName name, LockMode mode);
    [[gnu::noinline]] Result<void> ask_record_long(LockManager& self, LockOwner& owner,
                                                   ObjectLock& object, LockName name,
                                                   LockMode mode);

    // --- lock_names.cc: the owner's own list
    [[gnu::cold, gnu::noinline]] bool grow_names(LockOwner& owner);
    void pop_chunk(LockOwner& owner);
    [[gnu::noinline]] void forget_name(LockOwner& owner, LockName name);
    bool note_unlisted(LockOwner& owner, ObjectLock& object);
    // What release_all() does after the names.
    void finish_release(LockOwner& owner, uint64_t names, uint64_t note);

    // Pools are partitioned like the table (and chunks by owner slot), so that workers seldom meet.
    struct alignas(kCacheLineBytes) Partition {
        LockStage stage;
        LockPool<LockRequest, &LockRequest::next> requests;
        LockPool<LockHead, &LockHead::pool_next> heads;
        LockPool<LockBucket, &LockBucket::overflow> overflows;
        LockPool<LockOwner::Chunk, &LockOwner::Chunk::before> chunks;
        // Names released by owners of this partition, without those granted after a wait.
        std::atomic<uint64_t> released{0};
        explicit Partition(const threads::StageOptions<LockRequest>& options) : stage(options) {}
    };
    static constexpr size_t kPartitions = 16;
    Partition& partition(uint64_t name) { return partitions[(name >> shift) % kPartitions]; }
    Partition& partition(const LockOwner& owner) { return partitions[owner.slot % kPartitions]; }

    LockOptions options;
    LockBucket* buckets = nullptr;
    size_t bucket_bytes = 0;
    uint32_t shift = 0;
    std::unique_ptr<std::atomic<LockOwner*>[]> owners;  // by slot
    // Commit note of what others see without a lock on its name; see keep_note().
    std::atomic<uint64_t> unnamed{0};
    // Slots below may be in use; only grows.
    std::atomic<uint32_t> owners_end{0};
    // Scans that may read owners found in the table or the registry. remove_owner() waits for
    // zero.
    alignas(kCacheLineBytes) std::atomic<uint32_t> watchers{0};
    std::deque<Partition> partitions;  // kPartitions; fixed
    DeadlockSearch search;
    HotLocks hot;
    std::atomic<uint64_t> waits{0}, deadlocks{0}, timeouts{0}, escalations{0}, inflations{0},
        wait_nanos{0};
};

inline Intent* LockManager::Impl::find_intent(LockOwner& owner, const ObjectLock& object) {
    Intent& likely = owner.intents[owner.intent_hint[object.id.value % 16]];
    if (likely.lock == &object) [[likely]]
        return &likely;
    if (!(owner.intents_of >> object.id.value % 64 & 1)) return nullptr;
    for (uint32_t i = 0; i < owner.intents_used; ++i)
        if (owner.intents[i].lock == &object) {
            owner.intent_hint[object.id.value % 16] = static_cast<uint8_t>(i);
            return &owner.intents[i];
        }
    return nullptr;
}

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

inline bool has_room(const LockOwner& owner) {
    return owner.chunk && owner.chunk->used < LockOwner::Chunk::kNames;
}

// The caller has made sure of a free place, so that nothing fails after the grant.
inline void push_name(LockOwner& owner, LockName name) {
    LockOwner::Chunk* chunk = owner.chunk;
    DCHECK(has_room(owner) && name.value != 0);
    chunk->names[chunk->used++] = name;
    ++owner.locks_held;
}

// A whole lock on the fast path. Grant::slow: nothing is done, and the bucket's latch is held.
inline Grant lock_thin(LockBucket& bucket, LockOwner& owner, LockName name, LockMode mode) {
    bucket.latch.lock();
    const Grant grant = acquire_thin(bucket, owner.slot, name, mode);
    if (grant == Grant::slow) [[unlikely]]
        return Grant::slow;
    bucket.latch.unlock();
    if (grant == Grant::fresh) push_name(owner, name);
    return grant;
}

}  // namespace lockstep::txn
