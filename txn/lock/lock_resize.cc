// lock_resize.cc - the lock table grows and shrinks while transactions run.
//
// Concepts   A table that fits its locks stays in the caches: the first touch of a bucket is most
//            of the time of a lock. With four buckets for each lock few buckets have two locks, so
//            the shortest path (lock_thin.h) serves nearly all.
//            Nothing counts the locks. Each look_every released names a thread *looks*: it samples
//            some buckets, and adds the names that it has just released. A transaction with many
//            locks is the one that looks more often than others, so its locks are seen too.
//            The table grows as soon as the looks of one round, or a bucket that overflows, show
//            less than four buckets for a lock. It shrinks if the largest need of quiet_rounds
//            rounds left sixteen or more. So a transaction with many locks that comes now and then
//            keeps the size that it needs, and the table does not change to and fro.
//            A move goes on in small batches, one for each look: bucket i of a table of depth d is
//            split into i and i + 2^d, or merged with it.
//            No bucket changes its place in memory, and the address space stays mapped. So a
//            bucket's address may be old, but it never points to something else.
// States     Resize: depth == target -> choose_size() -> moving (target is one more or less) ->
//            move_some() ... -> depth == target.
// Invariants LT-1 At each moment a name has one bucket: the one whose header has a depth d with
//                 number == name's bits modulo 2^d. A split or merge holds both latches, or has one
//                 bucket that is not part of the table. [checked: has_name(), verify()]
//            LT-2 A latch is taken, and an entry freed, by an exchange of a header that was seen
//                 with the depth that LT-1 requires. So a thread with an old shape never works on a
//                 wrong bucket: the exchange fails, and latch_slowly() searches again.
//            LT-3 A bucket outside the table has a header of zero and no locks. Only the thread
//                 that resizes changes it. A page that the system took back reads as zero, so the
//                 upper half of a table that has shrunk goes back to the system. [checked:
//                 verify()]
//            LT-4 One thread resizes at a time. It never waits for its turn, and moves at most
//                 limits::lock_buckets_moved() pairs of buckets at once.
// Blocking   Spins for buckets. tend_table() takes buckets' latches, so its caller holds none.
// Source     W. Litwin, "Linear Hashing", 1980; R. Fagin et al., "Extendible Hashing", 1979 (the
//            depth of a bucket).
#include <sys/mman.h>

#include "threads/base/hints.h"
#include "threads/base/limits.h"
#include "threads/base/sim_point.h"
#include "txn/lock/lock_impl.h"

namespace lockstep::txn {
namespace {

constexpr uint32_t kMoveFaster = 8;  // times as many looks while the table changes its size
constexpr uint64_t kBucketsPerLockMin = 4, kBucketsPerLockMax = 16;
constexpr size_t kPageBytes = 4096;

// A bucket with overflow buckets while its entries are handed out again.
class Chain {
public:
    explicit Chain(LockBucket& first) : last_(&first) {}

    // Appends an entry. `spare`: a list of free overflow buckets, not empty if one is needed.
    void add(uint64_t name, uint64_t word, LockBucket*& spare) {
        DCHECK(name != 0 && (word & 0xff) != 0 && used_ <= LockBucket::kEntries);
        DCHECK(last_->overflow == nullptr);
        if (used_ == LockBucket::kEntries) {
            LockBucket* more = spare;
            CHECK(more != nullptr);  // hand_out() says why
            DCHECK(more != last_);
            spare = more->overflow;
            more->overflow = nullptr;
            more->header.store(0, std::memory_order_relaxed);
            last_->overflow = more;
            last_ = more;
            used_ = 0;
        }
        last_->entries[used_].name = name;
        last_->entries[used_].word = word;
        last_->set_used(used_++, true);
    }

private:
    LockBucket* last_;
    unsigned used_ = 0;
};

// Entries of one bucket, taken out of it.
struct Taken {
    uint64_t names[LockBucket::kEntries] = {}, words[LockBucket::kEntries] = {};

    explicit Taken(LockBucket& part) {
        for (unsigned i = 0; i < LockBucket::kEntries; ++i) {
            if (!part.uses(i)) continue;
            DCHECK(part.entries[i].name != 0);
            names[i] = part.entries[i].name;
            words[i] = part.entries[i].word;
            part.set_used(i, false);
        }
        part.overflow = nullptr;
        DCHECK(part.is_empty());
    }
    // Those with `bit` in their names go to `high`.
    void add_to(Chain& low, Chain& high, uint64_t bit, LockBucket*& spare) const {
        for (unsigned i = 0; i < LockBucket::kEntries; ++i)
            if (names[i] != 0) (names[i] & bit ? high : low).add(names[i], words[i], spare);
    }
};

// Hands the entries of `from` and of its overflow buckets out. `from` is perhaps the first bucket
// of `low`. An overflow bucket becomes a spare one before its entries are added, and the entries
// of the first bucket come last. So a split needs no further overflow buckets.
void hand_out(LockBucket& from, uint64_t bit, Chain& low, Chain& high, LockBucket*& spare) {
    LockBucket* next = from.overflow;
    DCHECK(std::popcount(bit) <= 1);  // zero: all go to one chain
    const Taken first(from);
    while (LockBucket* part = next) {
        next = part->overflow;
        const Taken taken(*part);
        part->overflow = spare;
        spare = part;
        taken.add_to(low, high, bit, spare);
    }
    first.add_to(low, high, bit, spare);
}

// No lock, and no overflow bucket.
bool is_free(const LockBucket& bucket) { return bucket.is_empty() && bucket.overflow == nullptr; }

uint64_t header_for(const LockBucket& bucket, uint32_t depth, uint64_t note) {
    const uint64_t kept = LockBucket::kUsedMask | LockBucket::kOdd;
    DCHECK(depth > 0 && depth <= LockArray::kDepthMax && note <= kNoteMax);
    return LockBucket::header_of(depth, note) | (bucket.normal_header() & kept);
}

size_t parts_of(const LockBucket& bucket) {
    size_t parts = 1;
    for (const LockBucket* at = bucket.overflow; at; at = at->overflow) ++parts;
    return parts;
}

size_t entries_of(const LockBucket& bucket) {
    size_t entries = 0;
    for (const LockBucket* at = &bucket; at; at = at->overflow)
        entries += static_cast<size_t>(std::popcount(at->head() & LockBucket::kUsedMask));
    return entries;
}

}  // namespace

LockBucket& LockManager::Impl::latch_slowly(uint64_t name) {
    for (;;) {
        SIM_POINT();
        uint64_t offset = array.shape.load(std::memory_order_acquire) & UINT32_MAX & name;
        for (;;) {
            LockBucket& bucket = array.at(offset);
            const uint64_t h = bucket.header.load(std::memory_order_acquire);
            const uint32_t depth = LockBucket::depth_of(h);
            // Outside the table: in the bucket that is split into this one, or was merged with it.
            const uint64_t right =
                depth == 0 ? offset & ~std::bit_floor(offset) : name & LockArray::mask_of(depth);
            if (right != offset) {
                offset = right;
                continue;
            }
            DCHECK(depth > 0);  // LT-3: bucket 0 is always part of the table
            SIM_POINT();
            if (!(h & LockBucket::kLatched) && bucket.try_latch(h)) {
                SIM_POINT();
                return bucket;
            }
            break;
        }
        cpu_relax();
    }
}

bool LockManager::Impl::latch_bucket(LockBucket& bucket) {
    for (;; cpu_relax()) {
        const uint64_t h = bucket.header.load(std::memory_order_acquire);
        DCHECK(LockBucket::depth_of(h) <= options.buckets_log2);
        if (LockBucket::depth_of(h) == 0) return false;
        if (!(h & LockBucket::kLatched) && bucket.try_latch(h)) return true;
    }
}

void LockManager::Impl::tend_table(uint64_t released, bool crowded) {
    const uint64_t shape = array.shape.load(std::memory_order_relaxed);
    if (crowded && shape == LockArray::shape_of(options.buckets_log2)) return;
    if (options.buckets_min_log2 == options.buckets_log2 || !resize.latch.try_lock()) return;
    if (resize.target == resize.depth) {
        resize.largest = std::max(resize.largest, released);
        sample(resize, crowded ? limits::lock_looks() : 1);
        if (resize.looks >= limits::lock_looks()) choose_size(resize, crowded);
    }
    if (resize.target != resize.depth) move_some(resize);
    resize.latch.unlock();
}

void LockManager::Impl::sample(Resize& r, uint32_t looks) const {
    const uint64_t buckets = uint64_t{1} << r.depth;
    DCHECK(r.latch.is_held() && r.depth == r.target);
    // What was seen before a bucket overflowed counts no more.
    if (looks == limits::lock_looks()) r.looked_at = r.locks = 0;
    r.looks += looks;
    for (uint64_t i = 0; i < std::min(uint64_t{looks} * limits::lock_buckets_sampled(), buckets);
         ++i, ++r.at) {
        const uint64_t h = array.buckets[r.at % buckets].head();
        r.locks += static_cast<uint64_t>(std::popcount(h & LockBucket::kUsedMask));
        ++r.looked_at;
    }
}

void LockManager::Impl::choose_size(Resize& r, bool crowded) {
    const uint64_t buckets = uint64_t{1} << r.depth;
    DCHECK(r.latch.is_held() && r.depth == r.target && r.moved == 0 && r.looked_at > 0);
    // Where a bucket has overflowed, the caller's locks are in the table yet.
    const uint64_t need = r.locks * buckets / r.looked_at + (crowded ? 0 : r.largest);
    r.looks = 0;
    r.looked_at = r.locks = r.largest = 0;
    r.peak = std::max(r.peak, need);
    r.rounds += !crowded;
    if (need * kBucketsPerLockMin > buckets && r.depth < options.buckets_log2) {
        ++r.target;
        r.peak = need;
        r.rounds = 0;
    } else if (r.rounds >= options.quiet_rounds && !crowded) {
        if (r.peak * kBucketsPerLockMax <= buckets && r.depth > options.buckets_min_log2) {
            --r.target;  // the next round may go on with the same peak
        } else {
            r.peak = r.rounds = 0;
        }
    }
    DCHECK(r.target >= options.buckets_min_log2 && r.target <= options.buckets_log2);
    look_every.store(
        r.target == r.depth ? options.look_every : std::max(options.look_every / kMoveFaster, 1u),
        std::memory_order_relaxed);
}

void LockManager::Impl::move_some(Resize& r) {
    DCHECK(r.latch.is_held() && r.depth != r.target);
    const bool grows = r.target > r.depth;
    const uint64_t pairs = uint64_t{1} << std::min(r.depth, r.target);
    DCHECK(r.moved < pairs && std::max(r.depth, r.target) - std::min(r.depth, r.target) == 1);
    for (const uint64_t end = std::min(pairs, r.moved + limits::lock_buckets_moved());
         r.moved < end; ++r.moved) {
        LockBucket &low = array.buckets[r.moved], &high = array.buckets[r.moved + pairs];
        // Without memory the rest stays as it is. That costs time only.
        if (!(grows ? split(low, high, r.target) : merge(low, high, r.target))) return;
    }
    // The shape is that of most buckets: the others take the longer way.
    if (r.moved * 2 >= pairs)
        array.shape.store(LockArray::shape_of(r.target), std::memory_order_release);
    if (r.moved < pairs) return;
    if (const size_t bytes = pairs * sizeof(LockBucket); !grows && bytes >= kPageBytes)
        madvise(array.buckets + pairs, bytes, MADV_DONTNEED);  // LT-3
    r.depth = r.target;
    r.moved = 0;
    look_every.store(options.look_every, std::memory_order_relaxed);
}

// `depth`: the new one of both.
bool LockManager::Impl::split(LockBucket& low, LockBucket& high, uint32_t depth) {
    CHECK(latch_bucket(low));
    SIM_POINT();
    DCHECK(low.depth() + 1 == depth && high.head() == 0 && high.overflow == nullptr);  // LT-3
    if (!is_free(low)) {
        Chain stay(low), leave(high);
        LockBucket* spare = nullptr;
        hand_out(low, array.offset_of(high) - array.offset_of(low), stay, leave, spare);
        free_parts(low, spare);
    }
    DCHECK(entries_of(high) == 0 || high.depth() == 0);
    const uint64_t note = low.note();
    high.header.store(header_for(high, depth, note), std::memory_order_release);
    SIM_POINT();
    low.unlatch(header_for(low, depth, low.note()));
    return true;
}

bool LockManager::Impl::merge(LockBucket& low, LockBucket& high, uint32_t depth) {
    CHECK(latch_bucket(low));
    SIM_POINT();
    CHECK(latch_bucket(high));
    SIM_POINT();
    DCHECK(low.depth() == depth + 1 && high.depth() == depth + 1);
    DCHECK(array.offset_of(low) < array.offset_of(high));  // LK-4
    const uint64_t note = std::max(low.note(), high.note());
    const bool fits = is_free(high) || merge_entries(low, high);
    DCHECK(!fits || is_free(high));  // LT-3
    if (fits) high.unlatch(0);
    else high.unlatch();
    SIM_POINT();
    if (fits) low.unlatch(header_for(low, depth, note));
    else low.unlatch();
    return fits;
}

// All entries go to `low`. False: no memory for an overflow bucket, and nothing is done.
bool LockManager::Impl::merge_entries(LockBucket& low, LockBucket& high) {
    const size_t entries = entries_of(low) + entries_of(high);
    const size_t room = (parts_of(low) + parts_of(high) - 1) * LockBucket::kEntries;
    LockBucket* spare = entries > room ? overflows_of(low).get() : nullptr;
    if (entries > room && spare == nullptr) return false;
    Chain both(low);
    hand_out(low, 0, both, both, spare);
    hand_out(high, 0, both, both, spare);
    free_parts(low, spare);
    DCHECK(entries_of(low) == entries);
    return true;
}

void LockManager::Impl::free_parts(const LockBucket& first, LockBucket* spare) {
    while (spare) {
        LockBucket* const next = spare->overflow;
        overflows_of(first).put(spare);
        spare = next;
    }
}

}  // namespace lockstep::txn
