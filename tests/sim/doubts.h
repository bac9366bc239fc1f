// doubts.h - transactions of two-phase commits: what a store says of them after a crash must fit
// what it has answered before.
//
// Concepts   A transaction enters before it calls prepare(). Its thread then leaves it, and another
//            thread decides later. Until the decision its changes are in no ledger. After a crash
//            the store is asked for its transactions in doubt. Each is ended as was decided. If
//            nothing was decided, its gid and the time of the crash choose.
// Invariants TD-1 What has been prepared and not decided is in doubt after a crash, and holds its
//                 locks. The locks are seen by what the ledger says of all others.
//            TD-2 What was committed with an answer is not in doubt.
//            TD-3 Nothing else is in doubt.
#pragma once

#include <deque>
#include <set>
#include <string>

#include "tests/sim/host.h"
#include "tests/sim/ledger.h"

namespace lockstep::sim {

struct Doubt {
    std::string gid, marker, who;
    Changes changes;
    std::vector<Observation> reads;
    std::vector<size_t> read_from;
    bool decision = true;
    // Times of the ledger: prepare() was called and returned, the second phase was called and
    // returned.
    uint64_t called = 0, prepared = kNotYet, decided = kNotYet, ended = kNotYet;
};

class Doubts {
public:
    // `rolled_back`: gids of an earlier run. Their rollbacks need not be durable.
    explicit Doubts(std::set<std::string> rolled_back = {})
        : rolled_back_(std::move(rolled_back)) {}

    Doubt& add(Doubt doubt) { return all_.emplace_back(std::move(doubt)); }

    struct Settled {
        std::string fault;  // empty: none
        std::vector<LateCommit> late;
        std::set<std::string> rolled_back;
        // A damaged page is in the way of some.
        bool refused = false;
    };
    // Ends all that a store is in doubt about which recovered from a crash at `at`. `again`: an
    // earlier recovery from there may have done so already.
    Settled settle(Host& host, uint64_t at, bool again) const;
    // Those that were never decided in the run, and may have been committed behind it.
    std::vector<LateCommit> undecided() const;
    // Rolls back all that a copy of the store is in doubt about. The fault.
    std::string roll_back_all(Host& host) const;

private:
    static bool choice(const Doubt& doubt, uint64_t at);
    const Doubt* find(const std::string& gid) const;

    std::deque<Doubt> all_;  // references stay valid
    std::set<std::string> rolled_back_;
};

}  // namespace lockstep::sim
