// version_table.cc - the chains of versions and the queues that free them.
#include "sm/version/version_table.h"

#include <bit>
#include <new>

#include "sm/version/version_bucket.h"
#include "threads/base/mutants.h"
#include "threads/runtime/runtime.h"

namespace lockstep::sm {

using Below = txn::Outcome::Below;

namespace {

// The shortest version takes 128 bytes: there are at least as many buckets as versions, except in
// the largest table.
constexpr size_t kBytesPerBucket = 128, kBucketsMin = 1024, kBucketsMax = 4 << 20;
static_assert(kBucketsMax <= VersionBucket::kBucketsMax);
constexpr size_t kClear = 1024;   // versions that clear() frees between two yields
constexpr size_t kRelieve = 256;  // versions that a writer frees at once beyond the limit

}  // namespace

struct alignas(kCacheLineBytes) VersionTable::Queue {
    SpinLock lock;
    Version* first = nullptr;  // under lock
    Version* last = nullptr;
    std::atomic<uint64_t> made{0};  // by threads of the worker

    // A list of versions.
    void push(Version& front, Version& back) {
        DCHECK(lock.is_held() && (first == nullptr) == (last == nullptr));
        front.before = last;
        back.behind = nullptr;
        (last != nullptr ? last->behind : first) = &front;
        last = &back;
    }
    void remove(Version& version) {
        DCHECK(first != nullptr && (version.before != nullptr || first == &version));
        DCHECK(version.behind != nullptr || last == &version);
        (version.before != nullptr ? version.before->behind : first) = version.behind;
        (version.behind != nullptr ? version.behind->before : last) = version.before;
    }
};

// New versions of one writer, in the order in which they will be queued.
struct VersionTable::Made {
    Version* first = nullptr;
    Version* last = nullptr;
    uint32_t count = 0;
    uint32_t renewed = 0;  // versions of other writers that became this one's
    uint64_t bytes = 0;

    void add(Version& version) {
        version.before = last;
        (last != nullptr ? last->behind : first) = &version;
        last = &version;
        ++count;
        bytes += version.bytes();
    }
};

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
            Version& v = *queue.first;
            queue.remove(v);
            VersionBucket& bucket = bucket_of(v.hash);
            {
                const SpinGuard guard(bucket.lock);
                bucket.unlink(v);
            }
            dispose(&v);
            if (++freed % kClear == 0 && threads::current() != nullptr) threads::yield();
        }
    }
    erased_.clear();
    DCHECK(bytes() == 0);
    pool_.release();
}

txn::Outcome* VersionTable::outcome_of(txn::Transaction& txn) {
    if (txn.outcome == nullptr) [[unlikely]]
        txn.outcome = new (std::nothrow) txn::Outcome(txn.id);
    return txn.outcome;
}

bool VersionTable::begin_in_period(txn::Transaction& txn) {
    txn::Outcome* const outcome = outcome_of(txn);
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

inline VersionBucket& VersionTable::bucket_of(uint32_t hash) const {
    DCHECK(buckets_ != nullptr);
    return buckets_[hash & mask_];
}

inline Version* VersionTable::make(txn::Outcome& writer, const RecordName& name,
                                   const RecordState& before) {
    // Of a ghost too: catching up may bring them back.
    const size_t value_bytes = before.bytes.size();
    const size_t bytes = Version::own_bytes(name.key.size(), value_bytes);
    const uint32_t worker = threads::worker_index();
    DCHECK(name.object.value != 0 && name.key.size() <= UINT16_MAX && value_bytes <= kPageBytes);
    DCHECK(threads::current() != nullptr && worker < workers_);
    const VersionPool::Taken taken = pool_.take(worker, bytes);
    if (taken.block == nullptr) [[unlikely]]
        return nullptr;
    auto* const version = new (taken.block) Version;
    version->of_heap = taken.of_heap;
    version->writer = &writer;
    version->hash = short_hash(name.hash);
    version->object = name.object;
    version->key_bytes = static_cast<uint16_t>(name.key.size());
    version->value_bytes = static_cast<uint16_t>(value_bytes);
    version->queue = static_cast<uint8_t>(worker);
    std::memcpy(version->text(), name.key.data(), name.key.size());
    version->set(before);
    return version;
}

inline void VersionTable::count_made(size_t n) {
    std::atomic<uint64_t>& made = queues_[threads::worker_index()].made;
    made.store(made.load(std::memory_order_relaxed) + n, std::memory_order_relaxed);
}

void VersionTable::dispose(Version* version) {
    DCHECK(!version->linked && version->writer != nullptr);
    DCHECK(bytes_.load() >= version->bytes());
    bytes_.fetch_sub(version->bytes(), std::memory_order_relaxed);
    txn::Outcome::drop(version->writer);
    const size_t bytes = Version::own_bytes(version->key_bytes, version->value_bytes);
    const VersionPool::Taken memory{version, version->of_heap};
    const uint32_t taker = version->queue;
    version->~Version();
    // close() frees from outside.
    const uint32_t here = threads::current() != nullptr ? threads::worker_index() : workers_;
    pool_.give(taker, here, memory, bytes);
}

// Counts them first: from the queue they may go at once.
inline void VersionTable::enqueue(const Made& made) {
    if (made.count == 0) return;
    DCHECK(made.first->queue < workers_ && made.first->writer == made.last->writer);
    made.first->writer->add_uses(MUTANT(group_used_once) ? 1 : made.count);
    bytes_.fetch_add(made.bytes, std::memory_order_relaxed);
    Queue& queue = queues_[made.first->queue];
    const SpinGuard guard(queue.lock);
    queue.push(*made.first, MUTANT(group_cut) ? *made.first : *made.last);
}

void VersionTable::leave_queue(Version& version) {
    Queue& queue = queues_[version.queue];
    const SpinGuard guard(queue.lock);
    queue.remove(version);
}

uint64_t VersionTable::made() const {
    uint64_t sum = 0;
    for (uint32_t i = 0; queues_ && i < workers_; ++i)
        sum += queues_[i].made.load(std::memory_order_relaxed);
    return sum;
}

// Under the bucket's lock: does no snapshot see the state that `newest` replaced? A later change of
// the record is about to leave another version.
inline bool VersionTable::is_needless(const Version& newest) const {
    DCHECK(newest.linked);
    if (newest.writer->active()) return false;
    if (newest.writer->aborted() || MUTANT(version_dropped_early)) return true;
    DCHECK(bucket_of(newest.hash).lock.is_held());
    const Version* const below = newest.older;
    return !snapshots_.between(
        below != nullptr && !below->writer->aborted() ? below->writer : nullptr, *newest.writer);
}

// The records' locks are held and their pages are latched, so only sweeps touch their chains
// meanwhile, and those only what is queued.
void VersionTable::note(txn::Transaction& txn, std::span<const ChangedRecord> changed) {
    txn::Outcome* const writer = txn.outcome;
    DCHECK(writer == nullptr || (writer->active() && writer->period == period_.load()));
    DCHECK(txn.runs_here() && threads::worker_index() < workers_);
    if (writer == nullptr) [[unlikely]]
        return give_up();
    Made made;
    if (changed.size() > 1) ask_for_chains(changed);
    for (const ChangedRecord& record : changed) note_one(*writer, record, made);
    enqueue(made);
    count_made(made.count + made.renewed);
    if (bytes() > limit_) [[unlikely]]
        relieve();
}

// Asks for what note_one() reads of each record, for all of them at a time: the newest version,
// then its writer and the version below.
void VersionTable::ask_for_chains(std::span<const ChangedRecord> changed) const {
    for (const ChangedRecord& record : changed) {
        const ShortHash hash = short_hash(record.name.hash);
        bucket_of(hash).prefetch_first(hash);
    }
    for (const ChangedRecord& record : changed) {
        const ShortHash hash = short_hash(record.name.hash);
        const VersionBucket& bucket = bucket_of(hash);
        if (!bucket.may_have(hash)) continue;
        const SpinGuard guard(bucket.lock);
        const Version* const newest = bucket.find(record.name);
        if (newest == nullptr) continue;
        prefetch_line(newest->writer);
        if (newest->older != nullptr) prefetch_line(newest->older);
    }
}

[[gnu::always_inline]] inline void VersionTable::note_one(txn::Outcome& writer,
                                                          const ChangedRecord& changed,
                                                          Made& made) {
    const RecordName& name = changed.name;
    VersionBucket& bucket = bucket_of(short_hash(name.hash));
    Version* dropped = nullptr;
    txn::Outcome* earlier = nullptr;
    if (bucket.may_have(short_hash(name.hash))) {
        const SpinGuard guard(bucket.lock);
        if (Version* const newest = bucket.find(name)) {
            if (newest->writer == &writer && !MUTANT(version_of_each_change)) return;
            if (is_needless(*newest)) {
                if (newest->value_bytes == changed.before.bytes.size()) {
                    earlier = renew(*newest, writer, changed.before);
                } else {
                    bucket.unlink(*newest);
                    dropped = newest;
                }
            }
        }
    }
    if (earlier != nullptr) {
        ++made.renewed;
        return txn::Outcome::drop(earlier);
    }
    if (Version* const version = make(writer, name, changed.before)) [[likely]] {
        made.add(*version);
        const SpinGuard guard(bucket.lock);
        bucket.push(*version);
    } else {
        give_up();
    }
    if (dropped != nullptr) {
        leave_queue(*dropped);
        dispose(dropped);
    }
}

// Under the bucket's lock: the needless version becomes that of `writer`'s change. Returns the
// reference to the writer before.
inline txn::Outcome* VersionTable::renew(Version& version, txn::Outcome& writer,
                                         const RecordState& before) {
    DCHECK(version.linked && !version.writer->active() && writer.active());
    txn::Outcome* const earlier = version.writer;
    writer.add_use();
    version.writer = &writer;
    version.renewed = !MUTANT(renewed_holds_up);
    if (!MUTANT(renewed_in_part)) version.set(before);
    return earlier;
}

void VersionTable::oldest_of(const RecordName& name, RecordCopy& state) const {
    const VersionBucket& bucket = bucket_of(short_hash(name.hash));
    const SpinGuard guard(bucket.lock);
    DCHECK(name.key.size() <= UINT16_MAX);
    const Version* oldest = bucket.find(name);
    while (oldest != nullptr && oldest->older != nullptr) oldest = oldest->older;
    if (oldest != nullptr) state = RecordCopy(oldest->state());
}

void VersionTable::note_earlier(txn::Outcome& writer, const RecordName& name,
                                const RecordState& before) {
    DCHECK(writer.active());  // its page is latched, so its rollback has not passed it
    Version* const version = make(writer, name, before);
    if (version == nullptr) return give_up();
    count_made(1);
    VersionBucket& bucket = bucket_of(short_hash(name.hash));
    {
        const SpinGuard guard(bucket.lock);
        bucket.push_oldest(*version);
    }
    Made made;
    made.add(*version);
    enqueue(made);
    if (bytes() > limit_) [[unlikely]]
        relieve();
}

void VersionTable::prefetch(uint64_t hash) const {
    DCHECK(buckets_ != nullptr && hash != 0);
    prefetch_line(&bucket_of(short_hash(hash)));
}

VersionTable::Look VersionTable::look(const Snapshot& snapshot, const RecordName& name,
                                      RecordCopy& out) const {
    DCHECK(name.hash != 0 && snapshot.quiet <= snapshot.sees);
    DCHECK(buckets_ != nullptr);  // a snapshot is open
    const VersionBucket& bucket = bucket_of(short_hash(name.hash));
    if (!bucket.may_have(short_hash(name.hash))) return Look::page;
    const SpinGuard guard(bucket.lock);
    const Version* seen = nullptr;
    for (const Version* v = bucket.find(name); v != nullptr; v = v->older) {
        const Below below = v->writer->committed_below(
            Lsn{snapshot.sees.value + (MUTANT(snapshot_off_by_one) ? 8u : 0u)});
        if (below == Below::unknown) return Look::again;
        if (below == Below::yes) break;
        if (v->writer->aborted()) continue;  // VT-2
        seen = v;
        if (MUTANT(first_version_only)) break;
    }
    if (seen == nullptr) return Look::page;
    out = RecordCopy(seen->state());
    return Look::version;
}

bool VersionTable::has(const RecordName& name) const {
    if (!buckets_) return false;
    const VersionBucket& bucket = bucket_of(short_hash(name.hash));
    if (!bucket.may_have(short_hash(name.hash))) return false;
    const SpinGuard guard(bucket.lock);
    return bucket.find(name) != nullptr;
}

// VT-3. Versions whose writer has not ended, and those renewed since they were queued, go to the
// end of the queue, so they hold up none.
size_t VersionTable::sweep_queue(Queue& queue, size_t most) {
    DCHECK(most != 0);
    size_t freed = 0;
    Version* gone = nullptr;
    {
        const SpinGuard guard(queue.lock);
        for (size_t looked = 0; looked < most && queue.first != nullptr; ++looked) {
            Version& v = *queue.first;
            bool later = false;
            {
                VersionBucket& bucket = bucket_of(v.hash);
                const SpinGuard inner(bucket.lock);
                if (!v.linked) break;  // a writer has just dropped it, and waits for the queue
                const bool needed = snapshots_.needs_before(*v.writer);
                later = v.writer->active() || (needed && v.renewed);
                v.renewed = false;
                if (!later && needed && !MUTANT(version_freed_early)) break;
                if (!later) bucket.unlink(v);
            }
            if (later) {
                queue.remove(v);
                queue.push(v, v);
                continue;
            }
            DCHECK(!v.linked && v.queue < workers_);
            queue.remove(v);
            v.behind = gone;
            gone = &v;
            ++freed;
        }
    }
    while (gone != nullptr) {
        Version* const next = gone->behind;
        dispose(gone);
        gone = next;
    }
    return freed;
}

size_t VersionTable::sweep(size_t most) {
    size_t freed = 0;
    for (uint32_t i = 0; queues_ && i < workers_; ++i) freed += sweep_queue(queues_[i], most);
    return freed;
}

void VersionTable::keep_key(const RecordName& name) {
    if (erased_.add(name.object, name.key) && bytes() > limit_) [[unlikely]]
        relieve();
}

size_t VersionTable::sweep_keys(size_t most) {
    return erased_.sweep(most, [this](const RecordName& name) { return has(name); });
}

// VT-4.
void VersionTable::relieve() {
    DCHECK(queues_ != nullptr && period_.load() != 0);
    if (sweep(kRelieve) + sweep_keys(kRelieve) != 0 || bytes() <= limit_) return;
    if (snapshots_.expel_oldest()) expelled_.fetch_add(1, std::memory_order_relaxed);
    else give_up();
}

// A snapshot that gets its place meanwhile looks at incomplete_ behind that. It sees the mark, or
// it is expelled here.
void VersionTable::give_up() {
    incomplete_.store(true);
    while (snapshots_.expel_oldest()) expelled_.fetch_add(1, std::memory_order_relaxed);
}

}  // namespace lockstep::sm
