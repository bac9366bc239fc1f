// ledger.h - the oracle: commits called, acknowledged and lost, and what each read must see.
//
// Concepts   Time is a counter of calls and returns. A transaction enters the ledger when it
//            *calls* commit (or abort). Under strict two-phase locking that order is a
//            serialization order. Of two transactions that conflict, the later got its lock after
//            the earlier released it, and the earlier releases only after it has called commit. At
//            that call the model advances, and all reads of a serializable transaction are compared
//            with it. Each writer also leaves a marker row. After a crash the markers tell which
//            transactions survived.
// Invariants LD-1 Every acknowledged transaction survives.
//            LD-2 The survivors are closed downwards in the order of commit records.
//            LD-3 The recovered content is exactly the base plus the effects of the survivors in
//            call order.
//            LD-4 A read below serializable saw a version that was committed at some moment of the
//            read. [checked: check_weak()]
//            LD-5 What an acknowledged durable transaction has read survives too, also if it wrote
//            nothing. A missing row counts as read from its last deletion.
//            LD-6 A snapshot sees the effects of exactly the transactions whose commit records end
//            at or below its place in the log, whatever was called meanwhile.
#pragma once

#include <optional>
#include <set>

#include <lockstep/store.h>
#include "tests/sim/content.h"
#include "tests/sim/report.h"

namespace lockstep::sim {

inline constexpr uint64_t kNotYet = UINT64_MAX;
inline constexpr const char* kMarkers = "ledger";  // the index of marker rows

// A read of other transactions' data: rows of [low, high), or to the end if `high` is empty. Rows
// that the transaction itself had changed are left out.
struct Observation {
    // entries: of the secondary index of `object` (entries.h). name: whether the object exists;
    // `seen` has the empty key if so.
    enum class Of : uint8_t { rows, entries, name } of = Of::rows;
    std::string object, low, high;
    bool point = true;
    // The answer told only that the row exists: `seen` has a row without a value.
    bool existence_only = false;
    Rows seen;
    std::vector<std::string> own;  // keys to leave out, sorted
};

// A transaction in doubt that was committed behind the crash.
struct LateCommit {
    std::string marker;
    const Changes* changes;
    bool certain;  // otherwise an earlier recovery may have committed it
};

class Ledger {
public:
    Ledger(Content base, Report& report) : base_(base), model_(std::move(base)), report_(report) {}

    uint64_t now() const { return clock_; }
    uint64_t tick() { return ++clock_; }

    // A transaction is about to call commit. Returns its number. `marker` is the key of its marker
    // row (empty: it wrote nothing).
    // `weakly_read_from`: what check_weak() said.
    size_t commit_called(std::string marker, Changes changes, const std::vector<Observation>& reads,
                         const std::vector<size_t>& weakly_read_from, bool durable,
                         const std::string& who);
    // The call returned `end`. On an error the outcome is unknown until recovery. The reads count
    // only now.
    void commit_returned(size_t number, Result<Lsn> end);
    // A wait for the durability of a lazy commit has ended.
    void became_durable(size_t number);
    // The log is durable up to `end`.
    void became_durable(Lsn end);
    // The commit of a transaction in doubt returned. Its record lies somewhere in between.
    void second_phase_returned(size_t number, Lsn after, Lsn before, const Result<bool>& done);
    // The call of commit was refused: the transaction had been ended from outside.
    void commit_refused(size_t number);
    // A transaction is about to call abort. None of its effects may be seen afterwards.
    void abort_called(const std::vector<Observation>& reads, const std::string& who);
    // Checks a read below serializable that lasted from `began` to now. Adds to `sources` the
    // commits that it must have read from.
    void check_weak(const Observation& read, uint64_t began, const std::string& who,
                    std::vector<size_t>& sources);

    // A snapshot at `sees` made these reads. They are compared as soon as the ends of all commits
    // that were called so far are known.
    void check_snapshot(Lsn sees, std::vector<Observation> reads, std::string who);

    // Judges the content of a store that was recovered after a power cut at time `at`. Returns the
    // first fault or an empty text. Objects in `unreadable` are not compared.
    std::string judge(const Content& seen, uint64_t at, const std::vector<LateCommit>& late = {},
                      const std::set<std::string>& unreadable = {}) const;
    // Judges a copy of the state at `point`.
    std::string judge_copy(const Content& seen, Lsn point,
                           const std::vector<LateCommit>& late) const;
    const Content& model() const { return model_; }
    size_t commits() const { return commits_.size(); }

private:
    struct Commit {
        std::string marker;
        Changes changes;
        // Numbers of the commits whose versions it saw, if they are in this ledger. A missing row
        // is a version too.
        std::vector<size_t> read_from;
        uint64_t called = 0, returned = kNotYet, acknowledged = kNotYet;
        uint64_t end = 0;  // of its commit record; 0: unknown or no record
        // Of a transaction that was in doubt, `end` is an upper bound, and this a lower one.
        uint64_t after = 0;
        bool two_phase = false;
        bool durable = false;
        bool unknown = false;  // the call failed
        std::string fault;     // a wrong read
    };
    // In the history: the names of objects, as rows of an object that no store has.
    static constexpr const char* kNames = "(names)";
    struct Version {
        size_t commit;
        Value value;
    };

    struct SnapshotReads {
        Lsn sees;
        size_t commits;  // called before the check
        std::vector<Observation> reads;
        std::string who;
    };
    bool check_now(const SnapshotReads& snapshot);
    void check_pending();

    std::string check(const std::vector<Observation>& reads, const std::string& who);
    std::string check_range(const Observation& read, const std::string& who);
    std::string check_entries(const Observation& read, const std::string& who);
    std::string check_name(const Observation& read, const std::string& who);
    void note_history(size_t number, const Change& change);
    void note_sources_of_entries(const Observation& read, std::vector<size_t>& sources) const;
    static void apply_late(Content& expected, const Content& seen,
                           const std::vector<LateCommit>& late);
    static bool has_marker(const Content& seen, const std::string& marker);
    const Rows& rows(const std::string& object) const;
    const std::vector<Version>* versions(const std::string& object, const std::string& key) const;
    bool may_see(const std::string& object, const std::string& key, const Value& value,
                 uint64_t began) const;
    void note_sources(const Observation& read, std::vector<size_t>& sources) const;
    std::optional<size_t> weak_source(const std::string& object, const std::string& key,
                                      const Value& value, uint64_t began) const;
    bool stable_since(const std::string& object, const std::string& key, uint64_t began) const;
    void note_acknowledged(size_t number);

    const Content base_;
    Content model_;
    Report& report_;
    std::vector<Commit> commits_;
    std::map<std::string, std::map<std::string, std::vector<Version>>, std::less<>> history_;
    std::vector<SnapshotReads> pending_;
    uint64_t clock_ = 0;
};

}  // namespace lockstep::sim
