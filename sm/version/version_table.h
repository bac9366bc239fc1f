// version_table.h - before-images of records, kept in memory for snapshot transactions.
//
// Concepts   While snapshots are open, each transaction's first change of a record leaves the part
//            that it replaced: a *version*. If a later change of the same transaction goes beyond
//            that part, a version of the whole record takes its place. The versions of a record
//            form a chain, newest first.
//            A reader begins with the record as the page has it and walks the chain: as long as it
//            does not see the writer, it applies the version. The first writer that it sees ends
//            the walk. version_bucket.h has the chains.
//            A record that changes again *renews* its newest version in place, if no snapshot lies
//            between that version's writer and the writer before, and there is room. If there is
//            not, the version leaves its chain at once (VT-5).
//            Each worker has a queue of the groups of versions that its threads have made, which
//            frees them when no snapshot needs them (version.h).
// Invariants VT-1 A version is in its chain before the page changes; the page's latch orders the
//                 two. So a reader that validates the page after its look has seen both or neither.
//            VT-2 A chain's writers commit in the order of the chain. The versions of an aborted
//                 writer are passed over, because its rollback has restored the record.
//            VT-3 A group leaves the queue under the queue's lock, so it is not freed while a sweep
//                 looks at it under that lock. Only clear(), which is alone, needs neither the lock
//                 nor VG-1. A version's writer is read under the bucket's lock.
//            VT-4 Writers never wait, and no change fails for lack of memory for versions: the
//                 oldest snapshot becomes too old.
//            VT-5 A version whose writer committed leaves its chain, while one below it may be
//                 needed, only if that one covers its part.
// Blocking   Spin locks, held for one chain or for a bounded share of a queue. Nothing parks.
// Source     Bernstein & Goodman, "Multiversion Concurrency Control", 1983.
#pragma once

#include <atomic>
#include <memory>
#include <span>

#include "sm/version/erased_keys.h"
#include "sm/version/key_run.h"
#include "sm/version/record_state.h"
#include "sm/version/snapshot_set.h"
#include "sm/version/version_bucket.h"
#include "sm/version/version_pool.h"
#include "sm/version/version_queue.h"
#include "threads/base/hints.h"
#include "threads/base/spin_lock.h"
#include "threads/io/aligned_buffer.h"
#include "txn/transaction.h"

namespace lockstep::sm {

// A record that a transaction is about to change.
struct ChangedRecord {
    RecordName name;
    RecordState before;
    RecordPart part;   // that its new version will have
    bool run = false;  // `name` and `before` are those of a run (key_run.h)
    // From VersionTable::find_bucket() on: where its versions are.
    VersionBucket* bucket;
    // What note() finds out.
    bool may_have;           // versions of the record
    char text[kRunKeysMax];  // the key of a heap's record, or the last bytes of a run's keys
    Version* instead;        // of the same writer, whose part is too small
};

class VersionTable {
public:
    // `limit`: bytes that versions may take. Takes no memory before the first start().
    VersionTable(uint64_t limit, uint32_t workers, VersionMemory memory);
    ~VersionTable();

    SnapshotSet& snapshots() { return snapshots_; }
    const SnapshotSet& snapshots() const { return snapshots_; }

    // Before the first version of a period.
    Result<void> start();
    // Frees all; no thread is in note(). User threads may run others meanwhile.
    void clear();
    // Gets memory ready for versions to come. Parks meanwhile. By one thread at a time.
    void prepare() { pool_.prepare(); }

    // `txn` is about to change something, or its earlier changes are about to get their versions:
    // notes where the changes begin that leave versions by themselves. False: no memory.
    bool begin_writer(txn::Transaction& txn) {
        const txn::Outcome* const outcome = txn.outcome;
        if (outcome != nullptr && outcome->period == period_.load(std::memory_order_relaxed))
            return true;
        return begin_in_period(txn);
    }
    // `txn` is about to change the records, at most kTogether different ones. Their pages are
    // latched exclusively and their locks are held. Does nothing about a record whose version
    // from this transaction has what changes.
    static constexpr size_t kTogether = 16;
    void note(txn::Transaction& txn, std::span<ChangedRecord> changed);
    // The same for one record: most changes have one.
    void note(txn::Transaction& txn, ChangedRecord& record);
    // Before that, for a change in place: does the same if the record's newest version just needs
    // to be renewed. False: it does not. In version_renew.h.
    bool renew_settled(txn::Transaction& txn, const RecordName& name, const RecordState& before,
                       const RecordPart& part);
    // Before note(): finds the record's bucket.
    void find_bucket(ChangedRecord& record) const {
        record.bucket = &bucket_of(short_hash(record.name.hash));
        record.instead = nullptr;
    }
    // May keys that the index is about to insert become a run (KR-1)? Its leaf is latched.
    bool may_note_run(ObjectId index) const { return !erased_.may_have_of(index); }
    // `writer` changed the record before versions were kept, and has not ended. The page is
    // latched. `state` is the record in the page; it becomes that of the oldest version, if there
    // is one.
    void oldest_of(const RecordName& name, RecordCopy& state) const;
    void note_earlier(txn::Outcome& writer, const RecordName& name, const RecordState& before);

    enum class Look : uint8_t {
        page,     // as the page has it
        version,  // another state
        again,    // a writer is appending its commit record
    };
    // Asks for the memory that look() begins with.
    void prefetch(uint64_t hash) const { prefetch_line(&bucket_of(short_hash(hash))); }
    // False: a record whose name has that hash has no version by itself.
    bool may_have(uint64_t hash) const {
        return bucket_of(short_hash(hash)).may_have(short_hash(hash));
    }
    // False: the key is in no run.
    bool may_have_run(ObjectId object, Slice key) const {
        if (!may_have_runs(object) || key.empty()) return false;
        return may_have(name_of_run(object, key).hash);
    }
    bool may_have_runs(ObjectId object) const {
        return (run_objects_.load(std::memory_order_acquire) & run_bit(object)) != 0;
    }
    // What the snapshot sees of a record that the page has as `state`. `out`, unless null: that
    // state if the answer is `version`.
    Look look(const Snapshot& snapshot, const RecordName& name, const RecordState& state,
              RecordCopy* out) const;
    // Does the record have a version by itself, of a writer that did not abort? Then its overflow
    // chains stay, and its key stays in a leaf or in erased().
    bool has(const RecordName& name) const;
    // The record, which had a version a moment ago, is about to leave its latched leaf (EK-1).
    void keep_key(const RecordName& name);
    const ErasedKeys& erased() const { return erased_; }

    // Frees what no snapshot needs. Looks at about `most` versions of each worker's queue at most.
    // Returns the number that it took out of their chains.
    size_t sweep(size_t most);
    // The same for erased keys, of all workers together.
    size_t sweep_keys(size_t most);

    uint64_t bytes() const { return bytes_.load(std::memory_order_relaxed) + erased_.bytes(); }
    uint64_t limit() const { return limit_; }
    // While nothing runs: checks the counts of snapshots, groups and erased keys. Text of a fault,
    // or empty.
    std::string verify() const;
    // Versions made or renewed.
    uint64_t made() const;
    // The oldest snapshot becomes too old. False: none is open.
    bool expel_oldest();
    uint64_t expelled() const { return expelled_.load(std::memory_order_relaxed); }
    // Versions were given up although a later snapshot may need them: the period must end.
    bool incomplete() const { return incomplete_.load(std::memory_order_acquire); }

private:
    using Queue = VersionQueue;
    struct Made;
    // What note() does about a record that may have versions.
    struct Decision {
        bool makes = true;                // a new version
        txn::Outcome* earlier = nullptr;  // the reference of the newest one, which was renewed
        VersionGroup* left = nullptr;     // its last version has left its chain
    };

    bool begin_in_period(txn::Transaction& txn);
    static uint64_t run_bit(ObjectId object) { return uint64_t{1} << (object.value % 64); }
    void note_runs_of(ObjectId runs) {
        if (may_have_runs(runs)) [[likely]]
            return;
        run_objects_.fetch_or(run_bit(runs), std::memory_order_release);
    }
    txn::Outcome::Below apply_own(const Snapshot& snapshot, const RecordName& name,
                                  const RecordState& state, RecordCopy* out,
                                  const txn::Outcome*& applied) const;
    Look look_at_runs(const Snapshot& snapshot, const RecordName& name,
                      const txn::Outcome* applied) const;
    bool is_in_run(const RecordName& name) const;
    VersionBucket& bucket_of(ShortHash hash) const {
        DCHECK(buckets_ != nullptr);
        return buckets_[hash & mask_];
    }
    void prepare_run(ChangedRecord& run);
    Decision decide(txn::Outcome& writer, ChangedRecord& record);
    [[gnu::noinline]] bool note_beside(txn::Outcome& writer, ChangedRecord& record);
    static bool has_committed(const Version& version) {
        return version.writer->committed_below(kLsnMax) == txn::Outcome::Below::yes;
    }
    bool is_settled(const Version& newest, const RecordPart& part) const;
    bool is_first(const Version& newest, const RecordPart& part) const;
    [[gnu::noinline]] Decision decide_slowly(txn::Outcome& writer, ChangedRecord& record,
                                             Version& newest);
    bool is_needless(const Version& newest) const;
    static bool may_leave(const Version& newest);
    static txn::Outcome* renew(Version& version, txn::Outcome& writer, const RecordState& before,
                               const RecordPart& part);
    VersionGroup* make_group(size_t bytes);
    Version* add_version(VersionGroup& group, size_t place, txn::Outcome& writer,
                         const RecordName& name, const RecordState& before, const RecordPart& part);
    void make(txn::Outcome& writer, std::span<ChangedRecord* const> records, Made& made);
    [[gnu::cold, gnu::noinline]] void replace(VersionBucket& bucket, Version& version,
                                              Version& part);
    void make_alone(txn::Outcome& writer, ChangedRecord& record);
    void enqueue(txn::Outcome& writer, const Made& made);
    void drop(VersionGroup& group);     // queued; all its versions are unlinked
    void dispose(VersionGroup* group);  // linked nowhere
    [[gnu::cold, gnu::noinline]] void relieve();
    [[gnu::cold, gnu::noinline]] void give_up();
    enum class Fate : uint8_t { free, later, stays };
    struct Sweep {
        size_t looked = 0, unlinked = 0;  // versions
    };
    Fate judge(VersionGroup& group, Sweep& sweep);
    size_t sweep_queue(Queue& queue, size_t most);

    const uint64_t limit_;
    const uint32_t workers_;
    const VersionMemory memory_;
    uint64_t mask_ = 0;
    threads::AlignedBuffer bucket_memory_;  // lasts from the first start() on; zeros
    VersionBucket* buckets_ = nullptr;
    std::unique_ptr<Queue[]> queues_;
    VersionPool pool_;
    SnapshotSet snapshots_;
    ErasedKeys erased_;
    std::atomic<uint64_t> bytes_{0}, expelled_{0};
    std::atomic<bool> incomplete_{false};
    std::atomic<uint32_t> period_{0};  // number of start()s
    // A bit for each index that has had runs in this period; indexes share bits.
    std::atomic<uint64_t> run_objects_{0};
};

}  // namespace lockstep::sm
