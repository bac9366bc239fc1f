// labels: sim
// two_phase_test.cc - two or three stores and a coordinator in one seeded schedule, and power cuts
// of any of them at any moment, also during a restart.
//
// Concepts   A *node* is a simulated store on a disk of its own. The test steps one node after the
//            other, as its seed says. Each global transaction has participants: some of the stores,
//            or all. It adds 1 to the same counter in each of them, and leaves a record with its
//            gid there. The coordinator is a store of its own: its decision to commit is a durable
//            record, which names the participants. What it knows beside that is lost with it. A
//            participant that finds a transaction in doubt asks: if the coordinator does not know
//            the gid, the transaction is rolled back (presumed abort). Local transactions add to
//            the same counters, so a lock that a restart loses becomes a lost update. Some global
//            transactions read another counter, with S or U.
// Oracle     At the end no transaction is in doubt. Each gid is in all its participants and nowhere
//            else, or in no store. Each transaction whose decision was acknowledged is in all.
//            Each counter is the number of records that name it.
//
// LOCKSTEP_SEED: first seed. LOCKSTEP_CRASH_SEEDS: number of seeds, times 4.
#include <gtest/gtest.h>

#include <functional>
#include <map>
#include <set>
#include <string>

#include "tests/seed_of_run.h"
#include "tests/sim/two_phase_nodes.h"

// A store that loses power is left as it is, with what lies on the stacks of its user threads.
// NOLINTNEXTLINE(bugprone-reserved-identifier,readability-identifier-naming)
extern "C" const char* __asan_default_options();
const char* __asan_default_options() { return "detect_leaks=0"; }  // NOLINT

namespace lockstep::two_phase_test {

constexpr int kStoresMin = 2, kStoresMax = 3;
constexpr int kCounters = 3;
constexpr size_t kAtOnce = 5;
constexpr Nanos kTick = 2 * kMicrosecond;
static_assert(kStoresMax < Nodes::kMax);  // one is the coordinator

// By number. As text, in the decision's record: their digits.
using Participants = std::set<int>;

std::string text_of(const Participants& stores) {
    std::string text;
    for (const int n : stores) text += std::to_string(n);
    return text;
}

// What the coordinator knows of a transaction that has not ended, in memory.
struct Global {
    enum class State : uint8_t { working, deciding, committing };
    State state = State::working;
    Participants participants, voted, asked, ended;
    bool refused = false;  // a participant cannot vote
};

struct Totals {
    uint64_t seeds = 0, crashes = 0, in_doubt = 0, committed = 0;
    uint64_t in_some = 0;  // of the committed ones: not in all stores
};

class World {
public:
    // Both numbers of stores get equally many seeds, however few there are.
    static int stores_of(uint64_t seed) {
        return kStoresMin + static_cast<int>(seed % (kStoresMax - kStoresMin + 1));
    }

    explicit World(uint64_t seed)
        : rng_(seed), stores_(stores_of(seed)), nodes_(rng_, stores_ + 1, seed % 3 == 0) {}

    void run(uint64_t turns) {
        for (uint64_t i = 0; i < turns && !failed(); ++i) {
            turn();
            if (live_.size() < kAtOnce && rng_.chance(0.01)) begin();
            if (rng_.chance(0.002)) local(static_cast<int>(rng_.below(stores_)));
            if (rng_.chance(0.0005)) checkpoint(static_cast<int>(rng_.below(nodes())));
            if (rng_.chance(0.0007)) crash(static_cast<int>(rng_.below(nodes())));
        }
        settle();
    }
    // Everything that was told must survive a power cut of all.
    void cut_all() {
        for (int n = 0; n < nodes(); ++n) cut(n, threads::SimCrash::drop_unsynced);
        for (int n = 0; n < nodes(); ++n) open(n);
        settle();
    }
    void expect_atomic();
    void close() { nodes_.close(); }
    void add_to(Totals& totals) const {
        ++totals.seeds;
        totals.crashes += crashes_;
        totals.in_doubt += found_in_doubt_;
        totals.committed += acknowledged_.size();
        for (const std::string& gid : acknowledged_)
            if (begun_.at(gid).size() < static_cast<size_t>(stores_)) ++totals.in_some;
    }

private:
    static bool failed() { return ::testing::Test::HasFailure(); }
    int coordinator() const { return stores_; }
    int nodes() const { return nodes_.count(); }
    Participants draw();
    void open(int n);
    void cut(int n, threads::SimCrash mode);
    void crash(int n);
    void turn();
    void settle();
    void begin();
    void local(int n);
    void checkpoint(int n);
    void call(int n, std::function<Result<bool>()> work, Nodes::Ended ended) {
        nodes_.call(n, std::move(work), std::move(ended));
    }
    void work_at(int n, const std::string& gid, int counter);
    void go_on(const std::string& gid);
    void forget(const std::string& gid);
    void decide(const std::string& gid);
    void recall();
    void ask_about_doubts(int n);
    Result<void> read(int n, Txn& txn, int counter, Access access);
    Result<void> add(int n, Txn& txn, const std::string& gid, int counter);

    Rng rng_;
    const int stores_;
    Nodes nodes_;                         // the stores, and then the coordinator
    std::map<std::string, Global> live_;  // the coordinator's memory
    std::map<std::string, Participants> begun_;
    std::set<std::string> acknowledged_;
    std::set<std::pair<int, std::string>> resolving_;
    uint64_t crashes_ = 0, found_in_doubt_ = 0, number_ = 0;
    bool knows_ = false;  // the coordinator has read its decisions
};

void World::open(int n) {
    nodes_.open(n);
    if (n == coordinator()) knows_ = false;
    else found_in_doubt_ += nodes_.store(n).prepared().size();
}

void World::cut(int n, threads::SimCrash mode) {
    if (!nodes_.up(n)) return;
    nodes_.cut(n, mode);
    ++crashes_;
    if (n == coordinator()) {
        live_.clear();
        return;
    }
    std::erase_if(resolving_, [n](const auto& of) { return of.first == n; });
    for (auto& [gid, global] : live_) {
        global.asked.erase(n);
        if (global.participants.contains(n) && !global.voted.contains(n))
            global.refused = true;  // the connection is lost
    }
}

void World::crash(int n) {
    cut(n, threads::kSimCrashes[rng_.below(5)]);
    nodes_.stay_down(n, rng_.below(2000));
}

void World::turn() {
    const int n = static_cast<int>(rng_.below(nodes()));
    if (!nodes_.up(n)) {
        if (nodes_.is_due(n)) open(n);
        return;
    }
    nodes_.step(n, kTick);
    if (n != coordinator()) {
        if (rng_.chance(0.02)) ask_about_doubts(n);
        return;
    }
    if (!knows_) recall();
    std::set<std::string> gids;
    for (const auto& [gid, global] : live_) gids.insert(gid);
    for (const std::string& gid : gids) go_on(gid);
}

Result<void> World::read(int n, Txn& txn, int counter, Access access) {
    const Index index = TRY(nodes_.store(n).index("i"));
    std::string value;
    TRY(index.get(txn, "counter" + std::to_string(counter), value, access));
    return {};
}

Result<void> World::add(int n, Txn& txn, const std::string& gid, int counter) {
    const Index index = TRY(nodes_.store(n).index("i"));
    const std::string key = "counter" + std::to_string(counter);
    std::string value;
    const bool found = TRY(index.get(txn, key, value, Access::write));
    yield();
    TRY(index.put(txn, key, std::to_string((found ? std::stoull(value) : 0) + 1)));
    return index.insert(txn, "record " + gid, std::to_string(counter));
}

// Three in four transactions are in all stores, some in one only.
Participants World::draw() {
    Participants drawn;
    for (int n = 0; n < stores_; ++n) drawn.insert(n);
    if (rng_.chance(0.75)) return drawn;
    const size_t some = 1 + rng_.below(stores_ - 1);
    while (drawn.size() > some) drawn.erase(std::next(drawn.begin(), rng_.below(drawn.size())));
    return drawn;
}

void World::begin() {
    if (!nodes_.up(coordinator()) || !knows_) return;
    const std::string gid = "g" + std::to_string(++number_);
    const int counter = static_cast<int>(rng_.below(kCounters));
    const Participants participants = draw();
    live_[gid].participants = participants;
    begun_[gid] = participants;
    for (const int n : participants) {
        if (nodes_.up(n)) work_at(n, gid, counter);
        else live_[gid].refused = true;
    }
}

void World::work_at(int n, const std::string& gid, int counter) {
    const bool gives_up = rng_.chance(0.05), reads = rng_.chance(0.5);
    // Another counter, which it does not change.
    const int other = (counter + 1 + static_cast<int>(rng_.below(kCounters - 1))) % kCounters;
    const Access access = rng_.chance(0.5) ? Access::read : Access::update;
    call(
        n,
        [this, n, gid, counter, gives_up, reads, other, access]() -> Result<bool> {
            Txn txn = TRY(nodes_.store(n).begin({.durability = Durability::lazy}));
            if (reads) TRY(read(n, txn, other, access));
            TRY(add(n, txn, gid, counter));
            if (gives_up) return false;
            const Vote vote = TRY(txn.prepare(gid));
            EXPECT_EQ(vote, Vote::prepared);
            return true;
        },
        [this, n, gid](const Result<bool>& voted) {
            const auto at = live_.find(gid);
            if (at == live_.end()) return;  // the coordinator has lost it, or given it up
            if (voted.has_value() && *voted) at->second.voted.insert(n);
            else at->second.refused = true;
        });
}

void World::local(int n) {
    if (!nodes_.up(n)) return;
    const std::string name = "local" + std::to_string(++number_);
    const int counter = static_cast<int>(rng_.below(kCounters));
    call(
        n,
        [this, n, name, counter]() -> Result<bool> {
            TRY(nodes_.store(n).run([&](Txn& txn) { return add(n, txn, name, counter); }));
            return true;
        },
        [](const Result<bool>&) {});
}

void World::checkpoint(int n) {
    if (!nodes_.up(n)) return;
    call(
        n,
        [this, n]() -> Result<bool> {
            TRY(nodes_.store(n).checkpoint());
            return true;
        },
        [](const Result<bool>& done) { EXPECT_TRUE(done.has_value()) << done.error().text(); });
}

// The coordinator's next step. A rollback needs no record and no answer: whoever is in doubt asks.
void World::go_on(const std::string& gid) {
    Global& global = live_[gid];
    switch (global.state) {
        case Global::State::working:
            if (global.refused) live_.erase(gid);
            else if (global.voted == global.participants) decide(gid);
            return;
        case Global::State::deciding: return;
        case Global::State::committing:
            for (const int n : global.participants) {
                if (global.ended.contains(n) || !nodes_.up(n)) continue;
                if (!global.asked.insert(n).second) continue;
                call(
                    n, [this, n, gid] { return nodes_.store(n).commit_prepared(gid); },
                    [this, n, gid](const Result<bool>& ended) {
                        EXPECT_TRUE(ended.has_value()) << ended.error().text();
                        const auto at = live_.find(gid);
                        if (at != live_.end()) at->second.ended.insert(n);
                    });
            }
            if (global.ended == global.participants) forget(gid);
            return;
    }
}

void World::decide(const std::string& gid) {
    live_[gid].state = Global::State::deciding;
    call(
        coordinator(),
        [this, gid, who = text_of(live_[gid].participants)]() -> Result<bool> {
            TRY(nodes_.store(coordinator()).run([&](Txn& txn) -> Result<void> {
                return TRY(nodes_.store(coordinator()).index("i")).put(txn, gid, who);
            }));
            return true;
        },
        [this, gid](const Result<bool>& done) {
            ASSERT_OK(done);
            live_[gid].state = Global::State::committing;
            acknowledged_.insert(gid);
        });
}

// All participants have committed durably.
void World::forget(const std::string& gid) {
    live_.erase(gid);
    call(
        coordinator(),
        [this, gid]() -> Result<bool> {
            TRY(nodes_.store(coordinator())
                    .run(
                        [&](Txn& txn) -> Result<void> {
                            TRY(TRY(nodes_.store(coordinator()).index("i")).erase(txn, gid));
                            return {};
                        },
                        {.durability = Durability::lazy}));
            return true;
        },
        [](const Result<bool>& done) { EXPECT_TRUE(done.has_value()) << done.error().text(); });
}

// After its restart the coordinator goes on with the commits that it has decided.
void World::recall() {
    Store& store = nodes_.store(coordinator());
    ASSERT_OK(store.run([&](Txn& txn) -> Result<void> {
        Cursor cursor = TRY(store.index("i")).scan(txn);
        while (TRY(cursor.next())) {
            Global& global = live_[std::string(cursor.key())];
            global.state = Global::State::committing;
            for (const char digit : cursor.value()) global.participants.insert(digit - '0');
        }
        return {};
    }));
    knows_ = true;
}

void World::ask_about_doubts(int n) {
    if (!nodes_.up(coordinator()) || !knows_) return;
    for (const PreparedInfo& of : nodes_.store(n).prepared()) {
        if (live_.contains(of.gid) || !resolving_.emplace(n, of.gid).second) continue;
        call(
            n, [this, n, gid = of.gid] { return nodes_.store(n).rollback_prepared(gid); },
            [this, n, gid = of.gid](const Result<bool>& ended) {
                EXPECT_TRUE(ended.has_value()) << ended.error().text();
                resolving_.erase({n, gid});
            });
    }
}

void World::settle() {
    for (int n = 0; n < nodes(); ++n) nodes_.stay_down(n, 0);
    const auto done = [&] {
        for (int n = 0; n < nodes(); ++n) {
            if (!nodes_.up(n)) return false;
            Store& store = nodes_.store(n);
            if (!store.prepared().empty() || !store.transactions().empty()) return false;
        }
        return live_.empty() && knows_;
    };
    for (uint64_t turns = 0; !failed(); ++turns) {
        for (int i = 0; i < 1000; ++i) turn();
        if (done()) return;
        ASSERT_LT(turns, 2000u) << "in doubt for ever";
    }
}

void World::expect_atomic() {
    std::map<std::string, Participants> seen;
    for (int n = 0; n < stores_; ++n) {
        std::map<std::string, uint64_t> counters, records;
        ASSERT_OK(nodes_.store(n).run([&](Txn& txn) -> Result<void> {
            Cursor cursor = TRY(nodes_.store(n).index("i")).scan(txn);
            while (TRY(cursor.next())) {
                const std::string key(cursor.key()), value(cursor.value());
                if (key.starts_with("counter")) counters[key] = std::stoull(value);
                else ++records["counter" + value];
                if (key.starts_with("record g")) seen[key.substr(7)].insert(n);
            }
            return {};
        }));
        EXPECT_EQ(counters, records) << "a change is lost at node " << n;
    }
    for (const auto& [gid, stores] : seen) {
        ASSERT_TRUE(begun_.contains(gid)) << gid;
        EXPECT_EQ(text_of(stores), text_of(begun_[gid])) << gid << " is committed in part";
    }
    for (const std::string& gid : acknowledged_)
        EXPECT_TRUE(seen.contains(gid)) << gid << " is lost";
}

void print(int stores, const Totals& totals) {
    const auto number = [](uint64_t n) { return static_cast<unsigned long long>(n); };
    std::printf(
        "%d stores: %llu seeds, %llu crashes, %llu found in doubt, %llu committed, "
        "%llu of them not in all stores\n",
        stores, number(totals.seeds), number(totals.crashes), number(totals.in_doubt),
        number(totals.committed), number(totals.in_some));
}

TEST(TwoPhase, EveryTransactionIsCommittedEverywhereOrNowhere) {
    const uint64_t first = number_from("LOCKSTEP_SEED", 1),
                   seeds = 4 * number_from("LOCKSTEP_CRASH_SEEDS", 12);
    std::map<int, Totals> all;  // by number of stores
    for (uint64_t seed = first; seed < first + seeds && !HasFailure(); ++seed) {
        SCOPED_TRACE("LOCKSTEP_SEED=" + std::to_string(seed));
        World world(seed);
        world.run(12000);
        world.expect_atomic();
        if (!HasFailure()) world.cut_all();
        world.expect_atomic();
        if (!HasFailure()) world.close();
        world.add_to(all[World::stores_of(seed)]);
    }
    for (const auto& [stores, totals] : all) print(stores, totals);
    if (HasFailure()) return;
    EXPECT_EQ(all.size(), size_t{kStoresMax - kStoresMin + 1});
    for (const auto& [stores, totals] : all) {
        SCOPED_TRACE(std::to_string(stores) + " stores");
        EXPECT_GT(totals.crashes, totals.seeds);
        EXPECT_GT(totals.in_doubt, totals.seeds / 4);
        EXPECT_GT(totals.committed, totals.seeds);
        EXPECT_GT(totals.in_some, totals.seeds / 4);
    }
}

}  // namespace lockstep::two_phase_test
