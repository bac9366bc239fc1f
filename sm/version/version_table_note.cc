// version_table_note.cc - makes the versions of records that are about to change, or renews them.
#include <utility>

#include "sm/version/version_renew.h"
#include "threads/base/limits.h"
#include "threads/runtime/runtime.h"

namespace lockstep::sm {

static_assert(VersionGroup::kGroupBytes == limits::most::version_group);

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

// Counts them first: from the queue they may go at once. Those that were renewed stay while their
// writer is active.
inline void VersionTable::enqueue(txn::Outcome& writer, const Made& made) {
    if (made.versions + made.renewed == 0) return;
    writer.add_uses(made.versions + made.renewed);
    queues_[threads::worker_index()].count_made(made.versions + made.renewed);
    if (made.first == nullptr) return;
    DCHECK(made.first->queue < workers_ && made.versions != 0);
    bytes_.fetch_add(made.bytes, std::memory_order_relaxed);
    Queue& queue = queues_[made.first->queue];
    const SpinGuard guard(queue.lock);
    queue.push(*made.first, *made.last);
}

// Under the bucket's lock: does no snapshot see the state that `newest` replaced? A later change of
// the record is about to leave another version.
inline bool VersionTable::is_needless(const Version& newest) const {
    DCHECK(newest.linked);
    if (newest.writer->active()) return false;
    if (newest.writer->aborted()) return true;
    DCHECK(bucket_of(newest.hash).lock.is_held());
    const Version* const below = newest.older;
    return !snapshots_.between(
        below != nullptr && !below->writer->aborted() ? below->writer : nullptr, *newest.writer);
}

// Null: no memory.
[[gnu::always_inline]] inline VersionGroup* VersionTable::make_group(size_t bytes) {
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
[[gnu::always_inline]] inline Version* VersionTable::add_version(VersionGroup& group, size_t place,
                                                                 txn::Outcome& writer,
                                                                 const RecordName& name,
                                                                 const RecordState& before,
                                                                 const RecordPart& part) {
    DCHECK(name.object.value != 0 && name.key.size() <= UINT16_MAX);
    DCHECK(before.bytes.size() <= kPageBytes && place < group.bytes && place % 8 == 0);
    auto* const version = new (reinterpret_cast<char*>(&group) + place)
        Version{.writer = &writer,
                .hash = short_hash(name.hash),
                .object = name.object,
                .part = part,
                .key_bytes = static_cast<uint16_t>(name.key.size()),
                .room = part.bytes,
                .place = static_cast<uint8_t>(place / 8),
                .bits = before.bits,
                .live = before.live};
    bytes::copy_bytes(bytes::copy_bytes(version->text(), name.key), part.of(before.bytes));
    return version;
}

// One version. Not through make(): half the versions are made alone.
[[gnu::always_inline]] inline void VersionTable::make_alone(txn::Outcome& writer,
                                                            ChangedRecord& record) {
    VersionGroup* const group = make_group(
        sizeof(VersionGroup) + Version::size_of(record.name.key.size(), record.part.bytes));
    if (group == nullptr) [[unlikely]]
        return give_up();
    group->left.store(1, std::memory_order_relaxed);
    Version& version =
        *add_version(*group, sizeof(VersionGroup), writer, record.name, record.before, record.part);
    if (record.instead != nullptr) [[unlikely]] {
        replace(*record.bucket, version, *record.instead);
    } else {
        const SpinGuard guard(record.bucket->lock);
        if (record.may_have) record.bucket->push(version);
        else record.bucket->push_first(version);
    }
    writer.add_use();
    bytes_.fetch_add(VersionPool::bytes_of(group->bytes), std::memory_order_relaxed);
    {
        Queue& queue = queues_[group->queue];
        queue.count_made(1);
        const SpinGuard guard(queue.lock);
        queue.push(*group, *group);
    }
    if (bytes() > limit_) [[unlikely]]
        relieve();
}

// The records' locks are held and their pages are latched, so only sweeps touch their chains
// meanwhile, and those only what is queued.
void VersionTable::note(txn::Transaction& txn, ChangedRecord& record) {
    txn::Outcome* const writer = txn.outcome;
    DCHECK(writer == nullptr || (writer->active() && writer->period == period_.load()));
    DCHECK(txn.runs_here() && threads::worker_index() < workers_);
    if (writer == nullptr) [[unlikely]]
        return give_up();
    record.may_have = record.bucket->may_have(short_hash(record.name.hash));
    DCHECK(!record.run);
    if (record.may_have && !note_beside(*writer, record)) return;
    make_alone(*writer, record);
}

// The record may have versions. False: no new one is needed.
bool VersionTable::note_beside(txn::Outcome& writer, ChangedRecord& record) {
    const Decision decision = decide(writer, record);
    if (decision.left != nullptr) drop(*decision.left);
    if (decision.earlier == nullptr) return decision.makes;
    DCHECK(!decision.makes);
    txn::Outcome::drop(decision.earlier);
    writer.add_use();
    queues_[threads::worker_index()].count_made(1);
    return false;
}

// Writers in other leaves may change the chain of a run at the same time: its keys are others
// (KR-2). Runs of aborted writers leave it. Nothing renews them, and one that is retried beside an
// old snapshot would make the chain longer each time.
void VersionTable::prepare_run(ChangedRecord& run) {
    DCHECK(run.run && run.bucket == &bucket_of(short_hash(run.name.hash)));
    note_runs_of(run.name.object);
    if (!std::exchange(run.may_have, true)) return;
    VersionGroup* left[limits::most::runs_left];
    size_t n = 0;
    {
        const SpinGuard guard(run.bucket->lock);
        for (Version* at = run.bucket->find(run.name); at != nullptr && n < limits::runs_left();) {
            Version& version = *std::exchange(at, at->older);
            if (!version.writer->aborted()) continue;
            run.bucket->unlink(version);
            if (version.group().let_go()) left[n++] = &version.group();
        }
    }
    for (size_t i = 0; i < n; ++i) drop(*left[i]);
}

void VersionTable::note(txn::Transaction& txn, std::span<ChangedRecord> changed) {
    txn::Outcome* const writer = txn.outcome;
    DCHECK(writer == nullptr || (writer->active() && writer->period == period_.load()));
    DCHECK(txn.runs_here() && threads::worker_index() < workers_ && changed.size() <= kTogether);
    if (writer == nullptr) [[unlikely]]
        return give_up();
    size_t chains = 0;
    for (ChangedRecord& record : changed) {
        record.may_have = record.bucket->ask_for_first(short_hash(record.name.hash));
        if (record.run) prepare_run(record);
        chains += record.may_have;
    }
    // Asks for what decide() reads behind the newest versions, for all of them at a time.
    if (chains >= 2) {
        for (const ChangedRecord& record : changed) {
            if (!record.may_have) continue;
            const SpinGuard guard(record.bucket->lock);
            record.bucket->ask_behind_first();
        }
    }
    Made made;
    ChangedRecord* wanted[kTogether];
    size_t n = 0;
    for (ChangedRecord& record : changed) {
        if (record.may_have && !record.run) {
            const Decision decision = decide(*writer, record);
            if (decision.earlier != nullptr) {
                txn::Outcome::drop(decision.earlier);
                ++made.renewed;
            }
            if (!decision.makes) continue;
            if (decision.left != nullptr) drop(*decision.left);
        }
        wanted[n++] = &record;
    }
    if (n != 0) make(*writer, {wanted, n}, made);
    enqueue(*writer, made);
    if (n != 0 && bytes() > limit_) [[unlikely]]
        relieve();
}

// VT-5.
inline bool VersionTable::may_leave(const Version& newest) {
    const Version* const below = newest.older;
    return newest.writer->aborted() || below == nullptr || below->writer->aborted() ||
           below->part.covers(newest.part);
}

// A record that may have versions. makes == false: it has a version of this writer, at least now,
// that has what is about to change.
[[gnu::always_inline]] inline VersionTable::Decision VersionTable::decide(txn::Outcome& writer,
                                                                          ChangedRecord& record) {
    const SpinGuard guard(record.bucket->lock);
    Version* const newest = record.bucket->find_in_chains(record.name);
    if (newest == nullptr) return {};
    if (is_settled(*newest, record.part)) [[likely]]
        return {.makes = false, .earlier = renew(*newest, writer, record.before, record.part)};
    if (is_first(*newest, record.part)) return {};
    return decide_slowly(writer, record, *newest);
}

// The same under the bucket's lock. A new version has the whole record if the one below would not
// cover its part: it covers the parts of those that follow, so they can leave, and chains stay
// short.
VersionTable::Decision VersionTable::decide_slowly(txn::Outcome& writer, ChangedRecord& record,
                                                   Version& newest) {
    DCHECK(record.bucket->lock.is_held());
    if (newest.writer == &writer) {
        if (newest.part.covers(record.part)) return {.makes = false};
        record.part = RecordPart::all(record.before.bytes);
        record.instead = &newest;
        return {};
    }
    const bool leaves = is_needless(newest) && may_leave(newest);
    const Version* const below = leaves ? newest.older : &newest;
    if (below != nullptr && !below->part.covers(record.part))
        record.part = RecordPart::all(record.before.bytes);
    if (!leaves) return {};
    if (record.part.bytes <= newest.room)
        return {.makes = false, .earlier = renew(newest, writer, record.before, record.part)};
    record.bucket->unlink(newest);
    return {.left = newest.group().let_go() ? &newest.group() : nullptr};
}

// Groups of as many versions as fit.
void VersionTable::make(txn::Outcome& writer, std::span<ChangedRecord* const> records, Made& made) {
    const auto size_of = [](const ChangedRecord& record) {
        return Version::size_of(record.name.key.size(), record.part.bytes);
    };
    for (size_t i = 0; i < records.size();) {
        size_t bytes = sizeof(VersionGroup) + size_of(*records[i]), end = i + 1;
        for (; end < records.size(); ++end) {
            const size_t more = size_of(*records[end]);
            if (bytes + more > limits::version_group()) break;
            bytes += more;
        }
        VersionGroup* const group = make_group(bytes);
        if (group == nullptr) [[unlikely]]
            return give_up();
        group->left.store(static_cast<uint16_t>(end - i), std::memory_order_relaxed);
        made.add(*group);
        made.versions += static_cast<uint32_t>(end - i);
        for (size_t at = sizeof(VersionGroup); i < end; ++i) {
            const ChangedRecord& record = *records[i];
            Version* const version =
                add_version(*group, at, writer, record.name, record.before, record.part);
            at += size_of(record);
            if (record.instead != nullptr) [[unlikely]] {
                replace(*record.bucket, *version, *record.instead);
                continue;
            }
            const SpinGuard guard(record.bucket->lock);
            if (record.may_have) record.bucket->push(*version);
            else record.bucket->push_first(*version);
        }
    }
}

// `version` has the whole record and takes the place of `part`, of the same writer.
void VersionTable::replace(VersionBucket& bucket, Version& version, Version& part) {
    DCHECK(version.writer == part.writer && version.part.whole);
    version.keep(part);
    VersionGroup* left = nullptr;
    {
        const SpinGuard guard(bucket.lock);
        bucket.push(version);
        bucket.unlink(part);
        if (part.group().let_go()) left = &part.group();
    }
    if (left != nullptr) drop(*left);
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

}  // namespace lockstep::sm
