// version_table.cc - periods, and what readers ask. version_table_note.cc makes versions, and
// version_table_sweep.cc frees them.
#include "sm/version/version_table.h"

#include <bit>
#include <new>

#include "threads/base/limits.h"
#include "threads/runtime/runtime.h"

namespace lockstep::sm {

namespace {

// A version that is made alone takes 128 bytes at least: there are about as many buckets as
// versions, except in the largest table.
constexpr size_t kBytesPerBucket = 128, kBucketsMin = 1024, kBucketsMax = 4 << 20;
static_assert(kBucketsMax <= VersionBucket::kBucketsMax);

}  // namespace

VersionTable::VersionTable(uint64_t limit, uint32_t workers, VersionMemory memory)
    : limit_(limit), workers_(workers), memory_(memory), pool_(workers, memory) {
    DCHECK(workers >= 1 && workers <= UINT8_MAX);
}

VersionTable::~VersionTable() {
    if (queues_) clear();
}

Result<void> VersionTable::start() {
    DCHECK(bytes() == 0);
    DCHECK((buckets_ == nullptr) == (queues_ == nullptr));
    incomplete_.store(false, std::memory_order_release);
    period_.fetch_add(1);
    run_objects_.store(0);
    if (!pool_.start(limit_)) return fail(ErrorCode::out_of_memory, "versions");
    if (buckets_) return {};
    const size_t n = std::clamp(std::bit_ceil(limit_ / kBytesPerBucket), kBucketsMin,
                                memory_ == VersionMemory::small ? kBucketsMin : kBucketsMax);
    std::unique_ptr<Queue[]> queues(new (std::nothrow) Queue[workers_]);
    if (!queues) return fail(ErrorCode::out_of_memory, "versions");
    bucket_memory_ = TRY(threads::make_aligned_buffer(
        n * sizeof(VersionBucket),
        n == kBucketsMin ? threads::PageSize::normal : threads::PageSize::huge));
    mask_ = n - 1;
    DCHECK((n & mask_) == 0);
    queues_ = std::move(queues);
    buckets_ = reinterpret_cast<VersionBucket*>(bucket_memory_.get());  // zeros are an empty bucket
    return {};
}

void VersionTable::clear() {
    size_t freed = 0;
    for (uint32_t i = 0; i < workers_; ++i) {
        Queue& queue = queues_[i];
        while (queue.first != nullptr) {
            VersionGroup& group = *queue.first;
            queue.remove(group);
            for (Version* v = group.first(); v != nullptr; v = group.next(*v)) {
                VersionBucket& bucket = bucket_of(v->hash);
                const SpinGuard guard(bucket.lock);
                if (v->linked) bucket.unlink(*v);
            }
            dispose(&group);
            if (++freed % limits::versions_cleared() == 0 && threads::current() != nullptr)
                threads::yield();
        }
    }
    erased_.clear();
    DCHECK(bytes() == 0);
    pool_.release();
}

bool VersionTable::begin_in_period(txn::Transaction& txn) {
    DCHECK(threads::current() != nullptr && threads::worker_index() < workers_);
    if (txn.outcome == nullptr)
        txn.outcome = queues_[threads::worker_index()].outcomes.make(txn.id);
    txn::Outcome* const outcome = txn.outcome;
    if (outcome == nullptr) [[unlikely]] {
        give_up();
        return false;
    }
    const uint32_t period = period_.load(std::memory_order_relaxed);
    DCHECK(period != 0 && outcome->active() && outcome->txn() == txn.id);
    DCHECK(outcome->period < period);
    outcome->period = period;
    outcome->earlier = txn.last_lsn;
    return true;
}

std::string VersionTable::verify() const {
    if (const char* fault = snapshots_.verify(); *fault != '\0') return fault;
    if (const char* fault = erased_.verify(); *fault != '\0') return fault;
    uint64_t bytes = 0;
    for (uint32_t i = 0; queues_ && i < workers_; ++i) {
        const SpinGuard guard(queues_[i].lock);
        const VersionGroup* before = nullptr;
        for (VersionGroup* g = queues_[i].first; g != nullptr; before = g, g = g->behind) {
            uint32_t linked = 0;
            for (Version* v = g->first(); v != nullptr; v = g->next(*v)) linked += v->linked;
            if (g->before != before || linked == 0 || linked != g->left.load())
                return "VG-1: versions of a group that are in their chains";
            bytes += VersionPool::bytes_of(g->bytes);
        }
        if (queues_[i].last != before) return "queue of versions";
    }
    return bytes == bytes_.load() ? "" : "bytes of versions";
}

uint64_t VersionTable::made() const {
    uint64_t sum = 0;
    for (uint32_t i = 0; queues_ && i < workers_; ++i)
        sum += queues_[i].made.load(std::memory_order_relaxed);
    return sum;
}

void VersionTable::oldest_of(const RecordName& name, RecordCopy& state) const {
    DCHECK(name.key.size() <= UINT16_MAX);
    {
        const VersionBucket& bucket = bucket_of(short_hash(name.hash));
        const SpinGuard guard(bucket.lock);
        for (const Version* at = bucket.find(name); at != nullptr; at = at->older) at->apply(state);
    }
    if (is_in_run(name)) state = RecordCopy();
}

// Is the key in a run whose writer the snapshot does not see? `applied`: the writer of the key's
// oldest own version, which may be that of the run as well and may have ended meanwhile.
VersionTable::Look VersionTable::look_at_runs(const Snapshot& snapshot, const RecordName& name,
                                              const txn::Outcome* applied) const {
    const RecordName run = name_of_run(name.object, name.key);
    const VersionBucket& bucket = bucket_of(short_hash(run.hash));
    if (!bucket.may_have(short_hash(run.hash))) return Look::page;
    const SpinGuard guard(bucket.lock);
    for (const Version* v = bucket.find(run); v != nullptr; v = v->older) {
        if (!run_has(*v, name.key)) continue;
        if (v->writer == applied) return Look::version;
        switch (v->writer->committed_below(snapshot.sees)) {
            case txn::Outcome::Below::unknown: return Look::again;
            case txn::Outcome::Below::yes: return Look::page;
            case txn::Outcome::Below::no: break;
        }
        if (!v->writer->aborted()) return Look::version;
    }
    return Look::page;
}

bool VersionTable::is_in_run(const RecordName& name) const {
    if (!may_have_run(name.object, name.key)) return false;
    const RecordName run = name_of_run(name.object, name.key);
    const VersionBucket& bucket = bucket_of(short_hash(run.hash));
    const SpinGuard guard(bucket.lock);
    for (const Version* v = bucket.find(run); v != nullptr; v = v->older)
        if (run_has(*v, name.key) && !v->writer->aborted()) return true;
    return false;
}

// Applies the record's own versions to `out`, unless null, as far as the snapshot needs them.
// `applied`: the writer of the last one. `yes`: the snapshot sees the writer of the next one; `no`:
// there is no other.
txn::Outcome::Below VersionTable::apply_own(const Snapshot& snapshot, const RecordName& name,
                                            const RecordState& state, RecordCopy* out,
                                            const txn::Outcome*& applied) const {
    const VersionBucket& bucket = bucket_of(short_hash(name.hash));
    const SpinGuard guard(bucket.lock);
    for (const Version* v = bucket.find(name); v != nullptr; v = v->older) {
        // A writer that has made two, one of them to catch up, may end between them.
        if (v->writer != applied) {
            const auto below = v->writer->committed_below(snapshot.sees);
            if (below != txn::Outcome::Below::no) return below;
            if (v->writer->aborted()) continue;  // VT-2
        }
        if (out != nullptr) {
            if (applied == nullptr && !v->part.whole) *out = RecordCopy(state);
            v->apply(*out);
        }
        applied = v->writer;
    }
    return txn::Outcome::Below::no;
}

VersionTable::Look VersionTable::look(const Snapshot& snapshot, const RecordName& name,
                                      const RecordState& state, RecordCopy* out) const {
    DCHECK(name.hash != 0 && snapshot.quiet <= snapshot.sees);
    DCHECK(buckets_ != nullptr);  // a snapshot is open
    const txn::Outcome* applied = nullptr;
    auto below = txn::Outcome::Below::no;
    if (may_have(name.hash)) below = apply_own(snapshot, name, state, out, applied);
    if (below == txn::Outcome::Below::unknown) return Look::again;
    if (below == txn::Outcome::Below::no && may_have_runs(name.object) && !name.key.empty()) {
        const Look run = look_at_runs(snapshot, name, applied);
        if (run == Look::version && out != nullptr) *out = RecordCopy();
        if (run != Look::page) return run;
    }
    return applied == nullptr ? Look::page : Look::version;
}

bool VersionTable::has(const RecordName& name) const {
    if (!buckets_) return false;
    const VersionBucket& bucket = bucket_of(short_hash(name.hash));
    if (!bucket.may_have(short_hash(name.hash))) return false;
    const SpinGuard guard(bucket.lock);
    for (const Version* v = bucket.find(name); v != nullptr; v = v->older)
        if (!v->writer->aborted()) return true;
    return false;  // VT-2: those of aborted writers are passed over
}

}  // namespace lockstep::sm
