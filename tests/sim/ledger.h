// ledger.h - the oracle: which transactions were called, acknowledged and lost; what every read had
// to see.
//
// Concepts   Time is a counter of calls and returns. A transaction enters the ledger when it
//            *calls* commit (or abort). Under strict two-phase locking that order is a
//            serialization order: of two transactions that conflict, the later one got its lock
//            after the earlier had released it, which it does after it has called commit. So the
//            model is advanced, and all reads of a serializable transaction are compared with it,
//            at that call. Each writer also leaves a marker row, which tells after a crash which
//            transactions survived.
// Invariants LD-1 Every acknowledged transaction survives. LD-2 Those that survive are closed
// downwards in the order of commit records.
//            LD-3 The recovered content is the base plus the effects of the survivors in call
//            order, nothing else.
//            LD-4 A read below serializable saw a version that was committed at some moment of the
//            read.
#pragma once

#include <set>

#include <lockstep/store.h>
#include "tests/sim/content.h"
#include "tests/sim/report.h"

namespace lockstep::sim {

inline constexpr uint64_t kNotYet = UINT64_MAX;
inline constexpr const char* kMarkers = "ledger";  // the index of marker rows

// A read of what others wrote: rows of [low, high) (high empty: no end) but those that the
// transaction itself had changed.
struct Observation {
    std::string object, low, high;
    bool point = true;
    // `seen` has a row without a value if the answer was that it exists.
    bool existence_only = false;
    Rows seen;
    std::vector<std::string> own;  // keys to leave out, sorted
};

class Ledger {
public:
    Ledger(Content base, Report& report) : base_(base), model_(std::move(base)), report_(report) {}

    uint64_t now() const { return clock_; }
    uint64_t tick() { return ++clock_; }

    // A transaction is about to call commit; its number. `marker` is the key of its marker row
    // (empty: it wrote nothing).
    size_t commit_called(std::string marker, Changes changes, const std::vector<Observation>& reads,
                         bool durable, const std::string& who);
    // The call returned; `end` as commit gives it. Error: the outcome is unknown until recovery.
    // What it read counts only then.
    void commit_returned(size_t number, Result<Lsn> end);
    // A lazy commit was waited for.
    void became_durable(size_t number);
    // About to call abort, after which nothing of it must be seen.
    void abort_called(const std::vector<Observation>& reads, const std::string& who);
    // A read below serializable that took from `began` to now.
    void check_weak(const Observation& read, uint64_t began, const std::string& who);

    // Compares a recovered store's content, if power was lost at time `at`; text of the first fault
    // or empty. Objects in `unreadable` are not compared.
    std::string judge(const Content& seen, uint64_t at,
                      const std::set<std::string>& unreadable = {}) const;
    const Content& model() const { return model_; }
    size_t commits() const { return commits_.size(); }

private:
    struct Commit {
        std::string marker;
        Changes changes;
        // Whose versions it saw, as far as they are in this ledger.
        std::vector<size_t> read_from;
        uint64_t called = 0, returned = kNotYet, acknowledged = kNotYet;
        uint64_t end = 0;  // of its commit record; 0: not known or none
        bool durable = false;
        std::string fault;  // in what it read
    };
    struct Version {
        size_t commit;
        Value value;
    };

    std::string check(const std::vector<Observation>& reads, const std::string& who);
    std::string check_range(const Observation& read, const std::string& who);
    const Rows& rows(const std::string& object) const;
    const std::vector<Version>* versions(const std::string& object, const std::string& key) const;
    bool may_see(const std::string& object, const std::string& key, const Value& value,
                 uint64_t began) const;
    bool stable_since(const std::string& object, const std::string& key, uint64_t began) const;
    void note_acknowledged(size_t number);

    const Content base_;
    Content model_;
    Report& report_;
    std::vector<Commit> commits_;
    std::map<std::string, std::map<std::string, std::vector<Version>>, std::less<>> history_;
    uint64_t clock_ = 0;
};

}  // namespace lockstep::sim
