// version_renew.h - the frequent case of VersionTable::note(): a change in place of a record whose
// newest version is that of an earlier change, and needless.
//
// Concepts   A hot record has two versions while the same snapshots stay open. The older one is
//            that of the first change behind the newest snapshot. Each further change renews the
//            newer one. That happens here, in the function that reads the page action.
// Blocking   Spin lock of the bucket. Nothing parks.
#pragma once

#include <utility>

#include "sm/version/version_table.h"
#include "threads/thread/worker_local.h"

namespace lockstep::sm {

// Under the bucket's lock: is `newest` one that decide_slowly() would renew? True only in the
// frequent case: the writers of `newest` and of the version below have committed, no open snapshot
// sees the latter, and the version below covers both parts. So no snapshot lies between the two.
[[gnu::always_inline]] inline bool VersionTable::is_settled(const Version& newest,
                                                            const RecordPart& part) const {
    DCHECK(newest.linked && newest.writer != nullptr);
    const Version* const below = newest.older;
    return has_committed(newest) && below != nullptr && below->part.covers(newest.part) &&
           below->part.covers(part) && part.bytes <= newest.room && has_committed(*below) &&
           !snapshots_.may_see(*below->writer);
}

// Under the bucket's lock: is `newest` the only version, which a snapshot needs and which covers
// the part? Then decide_slowly() would make another one above it.
[[gnu::always_inline]] inline bool VersionTable::is_first(const Version& newest,
                                                          const RecordPart& part) const {
    DCHECK(newest.linked && newest.writer != nullptr);
    return newest.older == nullptr && has_committed(newest) && newest.part.covers(part) &&
           newest.writer->committed_below(snapshots_.oldest()) != txn::Outcome::Below::yes;
}

// Under the bucket's lock: the needless version becomes that of `writer`'s change. Returns the
// reference to the writer before.
[[gnu::always_inline]] inline txn::Outcome* VersionTable::renew(Version& version,
                                                                txn::Outcome& writer,
                                                                const RecordState& before,
                                                                const RecordPart& part) {
    DCHECK(version.linked && !version.writer->active() && writer.active());
    txn::Outcome* const earlier = std::exchange(version.writer, &writer);
    version.group().renewed.store(true, std::memory_order_relaxed);
    version.set(before, part);
    return earlier;
}

[[gnu::always_inline]] inline bool VersionTable::renew_settled(txn::Transaction& txn,
                                                               const RecordName& name,
                                                               const RecordState& before,
                                                               const RecordPart& part) {
    txn::Outcome* const writer = txn.outcome;
    VersionBucket& bucket = bucket_of(short_hash(name.hash));
    if (writer == nullptr || !bucket.may_have(short_hash(name.hash))) return false;
    DCHECK(writer->active() && writer->period == period_.load() && txn.runs_here());
    txn::Outcome* earlier = nullptr;
    {
        const SpinGuard guard(bucket.lock);
        Version* const newest = bucket.find_in_chains(name);
        if (newest == nullptr || !is_settled(*newest, part)) return false;
        earlier = renew(*newest, *writer, before, part);
    }
    txn::Outcome::drop(earlier);
    writer->add_use();
    DCHECK(threads::worker_index() < workers_);
    queues_[threads::worker_index()].count_made(1);
    return true;
}

}  // namespace lockstep::sm
