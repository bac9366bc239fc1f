// version_table_note.cc - makes the versions of records that are about to change, or renews them.
#include <utility>

#include "sm/version/version_table_impl.h"
#include "threads/base/mutants.h"
#include "threads/runtime/runtime.h"

namespace lockstep::sm {

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
