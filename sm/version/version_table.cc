// version_table.cc - the chains of versions and the queues that free them.
#include "sm/version/version_table.h"

#include <bit>
#include <new>
#include <utility>

#include "sm/version/version_bucket.h"
#include "threads/base/mutants.h"
#include "threads/runtime/runtime.h"

namespace lockstep::sm {

using Below = txn::Outcome::Below;

namespace {

// A version that is made alone takes 128 bytes at least: there are about as many buckets as
// versions, except in the largest table.
constexpr size_t kBytesPerBucket = 128, kBucketsMin = 1024, kBucketsMax = 4 << 20;
static_assert(kBucketsMax <= VersionBucket::kBucketsMax);
constexpr size_t kClear = 1024;   // groups that clear() frees between two yields
constexpr size_t kRelieve = 256;  // versions that a writer looks at, at once beyond the limit

}  // namespace

struct alignas(kCacheLineBytes) VersionTable::Queue {
    SpinLock lock;
    VersionGroup* first = nullptr;  // under lock
    VersionGroup* last = nullptr;
    std::atomic<uint64_t> made{0};  // by threads of the worker
    txn::OutcomeSource outcomes;    // of its transactions

    // A list of groups.
    void push(VersionGroup& front, VersionGroup& back) {
        DCHECK(lock.is_held() && (first == nullptr) == (last == nullptr));
        front.before = last;
        back.behind = nullptr;
        (last != nullptr ? last->behind : first) = &front;
        last = &back;
    }
    void remove(VersionGroup& group) {
        DCHECK(first != nullptr && (group.before != nullptr || first == &group));
        DCHECK(group.behind != nullptr || last == &group);
        (group.before != nullptr ? group.before->behind : first) = group.behind;
        (group.behind != nullptr ? group.behind->before : last) = group.before;
    }
};

// New groups of one writer, in the order in which they will be queued.
struct VersionTable::Made {
    VersionGroup* first = nullptr;
    VersionGroup* last = nullptr;
    uint32_t versions = 0;
    uint32_t renewed = 0;  // versions of other writers that became this one's
    uint64_t bytes = 0;    // of the groups

    void add(VersionGroup& group) {
        group.before = last;
        (last != nullptr ? last->behind : first) = &group;
        last = &group;
        bytes += VersionPool::bytes_of(group.bytes);
    }
};

// Where the table has the versions of a record that is about to change.
struct VersionTable::Place {
    const ChangedRecord* record;
    VersionBucket* bucket;
    bool may_have;               // versions of the record
    RecordPart part;             // that its new version will have
    Version* instead = nullptr;  // of the same writer, whose part is too small

    const RecordName& name() const { return record->name; }
    const RecordState& before() const { return record->before; }
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
            VersionGroup& group = *queue.first;
            queue.remove(group);
            for (Version* v = group.first(); v != nullptr; v = group.next(*v)) {
                VersionBucket& bucket = bucket_of(v->hash);
                const SpinGuard guard(bucket.lock);
                if (v->linked) bucket.unlink(*v);
            }
            dispose(&group);
            if (++freed % kClear == 0 && threads::current() != nullptr) threads::yield();
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

inline VersionBucket& VersionTable::bucket_of(uint32_t hash) const {
    DCHECK(buckets_ != nullptr);
    return buckets_[hash & mask_];
}

inline void VersionTable::count_made(size_t n) {
    std::atomic<uint64_t>& made = queues_[threads::worker_index()].made;
    made.store(made.load(std::memory_order_relaxed) + n, std::memory_order_relaxed);
}

// Counts them first: from the queue they may go at once. Those that were renewed stay while their
// writer is active.
inline void VersionTable::enqueue(txn::Outcome& writer, const Made& made) {
    if (made.versions + made.renewed == 0) return;
    writer.add_uses(MUTANT(group_used_once) ? 1 : made.versions + made.renewed);
    count_made(made.versions + made.renewed);
    if (made.first == nullptr) return;
    DCHECK(made.first->queue < workers_ && made.versions != 0);
    bytes_.fetch_add(made.bytes, std::memory_order_relaxed);
    Queue& queue = queues_[made.first->queue];
    const SpinGuard guard(queue.lock);
    queue.push(*made.first, *made.last);
}

void VersionTable::drop(VersionGroup& group) {
    {
        Queue& queue = queues_[group.queue];
        const SpinGuard guard(queue.lock);
        queue.remove(group);
    }
    dispose(&group);
}

void VersionTable::dispose(VersionGroup* group) {
    const size_t bytes = group->bytes;
    DCHECK(bytes_.load() >= VersionPool::bytes_of(bytes));
    bytes_.fetch_sub(VersionPool::bytes_of(bytes), std::memory_order_relaxed);
    for (Version* v = group->first(); v != nullptr; v = group->next(*v)) {
        DCHECK(!v->linked && v->writer != nullptr);
        txn::Outcome::drop(v->writer);
    }
    const VersionPool::Taken memory{group, group->of_heap};
    const uint32_t taker = group->queue;
    group->~VersionGroup();
    // close() frees from outside.
    const uint32_t here = threads::current() != nullptr ? threads::worker_index() : workers_;
    pool_.give(taker, here, memory, bytes);
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
    DCHECK(txn.runs_here() && threads::worker_index() < workers_ && changed.size() <= kTogether);
    if (writer == nullptr) [[unlikely]]
        return give_up();
    if (changed.size() == 1) [[likely]]
        note_these(*writer, changed.first<1>());
    else note_these(*writer, changed);
    if (bytes() > limit_) [[unlikely]]
        relieve();
}

// kRecords: how many there are, if that is known at compile time.
template <size_t kRecords>
[[gnu::always_inline]] inline void VersionTable::note_these(
    txn::Outcome& writer, std::span<const ChangedRecord, kRecords> changed) {
    constexpr bool kOne = kRecords == 1;
    Place places[kOne ? 1 : kTogether];
    size_t chains = 0;
    for (size_t i = 0; i < changed.size(); ++i) {
        places[i] = place_of(changed[i]);
        chains += places[i].may_have;
    }
    if (!kOne && chains > 1) ask_for_writers({places, changed.size()});
    Made made;
    const Place* wanted[kOne ? 1 : kTogether];
    size_t n = 0;
    for (size_t i = 0; i < changed.size(); ++i)
        if (!places[i].may_have || needs_version(writer, places[i], made)) wanted[n++] = &places[i];
    if (!kOne) make(writer, std::span<const Place* const>(wanted, n), made);
    else if (n == 1) make(writer, std::span<const Place* const, 1>(wanted, 1), made);
    enqueue(writer, made);
}

// Asks for the record's newest version.
inline VersionTable::Place VersionTable::place_of(const ChangedRecord& record) const {
    const ShortHash hash = short_hash(record.name.hash);
    VersionBucket& bucket = bucket_of(hash);
    return {&record, &bucket, bucket.ask_for_first(hash), record.part};
}

// Asks for what needs_version() reads behind the newest versions, for all of them at a time.
void VersionTable::ask_for_writers(std::span<const Place> places) const {
    for (const Place& place : places) {
        if (!place.may_have) continue;
        const SpinGuard guard(place.bucket->lock);
        const Version* const newest = place.bucket->find(place.name());
        if (newest == nullptr) continue;
        prefetch_line(newest->writer);
        if (newest->older != nullptr) prefetch_line(newest->older);
    }
}

// VT-5.
inline bool VersionTable::may_leave(const Version& newest) {
    const Version* const below = newest.older;
    return newest.writer->aborted() || below == nullptr || below->writer->aborted() ||
           below->part.covers(newest.part) || MUTANT(part_uncovered);
}

// False: the record has a version of this writer, at least now, that has what is about to change.
// A new version has the whole record if the one below would not cover its part: it covers the parts
// of those that follow, so they can leave, and chains stay short.
[[gnu::always_inline]] inline bool VersionTable::needs_version(txn::Outcome& writer, Place& place,
                                                               Made& made) {
    VersionGroup* left = nullptr;
    txn::Outcome* earlier = nullptr;
    {
        const SpinGuard guard(place.bucket->lock);
        Version* const newest = place.bucket->find(place.name());
        if (newest == nullptr) return true;
        if (newest->writer == &writer && !MUTANT(version_of_each_change)) {
            if (newest->part.covers(place.part) || MUTANT(part_not_extended)) return false;
            place.part = RecordPart::all(place.before().bytes);
            place.instead = newest;
            return true;
        }
        const bool leaves = is_needless(*newest) && may_leave(*newest);
        const Version* const below = leaves ? newest->older : newest;
        if (below != nullptr && !below->part.covers(place.part))
            place.part = RecordPart::all(place.before().bytes);
        if (!leaves) return true;
        if (place.part.bytes <= newest->room) {
            earlier = renew(*newest, writer, place);
        } else {
            place.bucket->unlink(*newest);
            if (newest->group().let_go()) left = &newest->group();
        }
    }
    if (earlier != nullptr) {
        txn::Outcome::drop(earlier);
        ++made.renewed;
        return false;
    }
    if (left != nullptr) drop(*left);
    return true;
}

// Under the bucket's lock: the needless version becomes that of `writer`'s change. Returns the
// reference to the writer before.
inline txn::Outcome* VersionTable::renew(Version& version, txn::Outcome& writer,
                                         const Place& place) {
    DCHECK(version.linked && !version.writer->active() && writer.active());
    txn::Outcome* const earlier = std::exchange(version.writer, &writer);
    version.group().renewed.store(!MUTANT(renewed_holds_up), std::memory_order_relaxed);
    if (!MUTANT(renewed_in_part)) version.set(place.before(), place.part);
    return earlier;
}

// Null: no memory.
inline VersionGroup* VersionTable::make_group(size_t bytes) {
    const uint32_t worker = threads::worker_index();
    DCHECK(threads::current() != nullptr && worker < workers_ && bytes <= UINT16_MAX);
    const VersionPool::Taken taken = pool_.take(worker, bytes);
    if (taken.block == nullptr) [[unlikely]]
        return nullptr;
    auto* const group = new (taken.block) VersionGroup;
    group->bytes = static_cast<uint16_t>(bytes);
    group->queue = static_cast<uint8_t>(worker);
    group->of_heap = taken.of_heap;
    return group;
}

// In no chain yet. Of a ghost too: catching up may bring them back.
inline Version* VersionTable::add_version(VersionGroup& group, size_t place, txn::Outcome& writer,
                                          const RecordName& name, const RecordState& before,
                                          const RecordPart& part) {
    DCHECK(name.object.value != 0 && name.key.size() <= UINT16_MAX);
    DCHECK(before.bytes.size() <= kPageBytes && place < group.bytes && place % 8 == 0);
    auto* const version = new (reinterpret_cast<char*>(&group) + place) Version;
    version->writer = &writer;
    version->hash = short_hash(name.hash);
    version->object = name.object;
    version->key_bytes = static_cast<uint16_t>(name.key.size());
    version->room = part.bytes;
    version->place = static_cast<uint8_t>(place / 8);
    bytes::copy_bytes(version->text(), name.key);
    version->set(before, part);
    return version;
}

// Groups of as many versions as fit.
template <size_t kPlaces>
[[gnu::always_inline]] inline void VersionTable::make(txn::Outcome& writer,
                                                      std::span<const Place* const, kPlaces> places,
                                                      Made& made) {
    const auto size_of = [](const Place& place) {
        return Version::size_of(place.name().key.size(), place.part.bytes);
    };
    for (size_t i = 0; i < places.size();) {
        size_t bytes = sizeof(VersionGroup) + size_of(*places[i]), end = i + 1;
        for (; end < places.size(); ++end) {
            const size_t more = size_of(*places[end]);
            if (bytes + more > VersionGroup::kGroupBytes) break;
            bytes += more;
        }
        VersionGroup* const group = make_group(bytes);
        if (group == nullptr) [[unlikely]]
            return give_up();
        group->left.store(static_cast<uint16_t>(end - i), std::memory_order_relaxed);
        made.add(*group);
        made.versions += static_cast<uint32_t>(end - i);
        for (size_t at = sizeof(VersionGroup); i < end; ++i) {
            const Place& place = *places[i];
            Version* const version =
                add_version(*group, at, writer, place.name(), place.before(), place.part);
            at += size_of(place);
            if (place.instead != nullptr) [[unlikely]]
                version->keep(*place.instead);
            VersionGroup* left = nullptr;
            {
                const SpinGuard guard(place.bucket->lock);
                place.may_have ? place.bucket->push(*version) : place.bucket->push_first(*version);
                if (place.instead != nullptr) [[unlikely]] {
                    place.bucket->unlink(*place.instead);
                    if (place.instead->group().let_go()) left = &place.instead->group();
                }
            }
            if (left != nullptr) [[unlikely]]
                drop(*left);
        }
    }
}

void VersionTable::oldest_of(const RecordName& name, RecordCopy& state) const {
    const VersionBucket& bucket = bucket_of(short_hash(name.hash));
    const SpinGuard guard(bucket.lock);
    DCHECK(name.key.size() <= UINT16_MAX);
    for (const Version* at = bucket.find(name); at != nullptr; at = at->older) at->apply(state);
}

void VersionTable::note_earlier(txn::Outcome& writer, const RecordName& name,
                                const RecordState& before) {
    DCHECK(writer.active());  // its page is latched, so its rollback has not passed it
    VersionGroup* const group =
        make_group(sizeof(VersionGroup) + Version::size_of(name.key.size(), before.bytes.size()));
    if (group == nullptr) return give_up();
    group->left.store(1, std::memory_order_relaxed);
    Version* const version = add_version(*group, sizeof(VersionGroup), writer, name, before,
                                         RecordPart::all(before.bytes));
    {
        VersionBucket& bucket = bucket_of(version->hash);
        const SpinGuard guard(bucket.lock);
        bucket.push_oldest(*version);
    }
    Made made;
    made.add(*group);
    made.versions = 1;
    enqueue(writer, made);
    if (bytes() > limit_) [[unlikely]]
        relieve();
}

void VersionTable::prefetch(uint64_t hash) const {
    DCHECK(buckets_ != nullptr && hash != 0);
    prefetch_line(&bucket_of(short_hash(hash)));
}

bool VersionTable::may_have(uint64_t hash) const {
    DCHECK(buckets_ != nullptr);
    return bucket_of(short_hash(hash)).may_have(short_hash(hash));
}

VersionTable::Look VersionTable::look(const Snapshot& snapshot, const RecordName& name,
                                      const RecordState& state, RecordCopy* out) const {
    DCHECK(name.hash != 0 && snapshot.quiet <= snapshot.sees);
    DCHECK(buckets_ != nullptr);  // a snapshot is open
    const VersionBucket& bucket = bucket_of(short_hash(name.hash));
    if (!bucket.may_have(short_hash(name.hash))) return Look::page;
    const SpinGuard guard(bucket.lock);
    const txn::Outcome* applied = nullptr;  // the writer of the last one
    for (const Version* v = bucket.find(name); v != nullptr; v = v->older) {
        // A writer that has made two, one of them to catch up, may end between them.
        if (v->writer != applied) {
            const Below below = v->writer->committed_below(
                Lsn{snapshot.sees.value + (MUTANT(snapshot_off_by_one) ? 8u : 0u)});
            if (below == Below::unknown) return Look::again;
            if (below == Below::yes) break;
            if (v->writer->aborted()) continue;  // VT-2
        }
        if (out != nullptr) {
            if ((applied == nullptr && !v->part.whole) || MUTANT(part_of_page))
                *out = RecordCopy(state);
            v->apply(*out);
        }
        applied = v->writer;
        if (MUTANT(first_version_only)) break;
    }
    return applied == nullptr ? Look::page : Look::version;
}

bool VersionTable::has(const RecordName& name) const {
    if (!buckets_) return false;
    const VersionBucket& bucket = bucket_of(short_hash(name.hash));
    if (!bucket.may_have(short_hash(name.hash))) return false;
    const SpinGuard guard(bucket.lock);
    return bucket.find(name) != nullptr;
}

// Takes the group's versions that no snapshot needs out of their chains. Whether a writer is active
// is read before the bounds of the snapshots: the commit record of one that is not has its place
// (snapshot_set.cc).
VersionTable::Fate VersionTable::judge(VersionGroup& group, Sweep& sweep) {
    const bool renewed = group.renewed.exchange(false, std::memory_order_relaxed);
    bool active = false, needed = false, free = false;
    for (Version* v = group.first(); v != nullptr; v = group.next(*v)) {
        VersionBucket& bucket = bucket_of(v->hash);
        const SpinGuard guard(bucket.lock);
        ++sweep.looked;
        if (!v->linked) continue;
        if (v->writer->active()) {
            active = true;
        } else if (snapshots_.needs_before(*v->writer) && !MUTANT(version_freed_early)) {
            needed = true;
        } else {
            bucket.unlink(*v);
            ++sweep.unlinked;
            free = group.let_go();
        }
    }
    if (free) return Fate::free;
    return active || (needed && renewed) ? Fate::later : Fate::stays;
}

// VT-3. Groups with a version whose writer has not ended, and those renewed since they were queued,
// go to the end of the queue, so they hold up none. A group stays first that a writer has just
// dropped: the writer waits for the queue.
size_t VersionTable::sweep_queue(Queue& queue, size_t most) {
    DCHECK(most != 0);
    Sweep sweep;
    VersionGroup* gone = nullptr;
    {
        const SpinGuard guard(queue.lock);
        while (sweep.looked < most && queue.first != nullptr) {
            VersionGroup& group = *queue.first;
            const Fate fate = judge(group, sweep);
            if (fate == Fate::stays) break;
            queue.remove(group);
            if (fate == Fate::later) {
                queue.push(group, group);
                continue;
            }
            group.behind = gone;
            gone = &group;
        }
    }
    while (gone != nullptr) {
        VersionGroup* const next = gone->behind;
        dispose(gone);
        gone = next;
    }
    return sweep.unlinked;
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
