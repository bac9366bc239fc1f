// hermitage.cc - the anomalies of Hermitage at every isolation level: each is provoked by one fixed
// order of steps, and must appear where the level permits it, and nowhere else.
//
// Concepts   A transaction is a user thread that takes its steps from a channel. The director hands
//            out the steps in their order. Commits are lazy, so a step waits for locks only. A step
//            that waits for a lock stays behind, and the director goes on. A deadlock victim rolls
//            back and takes no further steps.
// Source     M. Kleppmann, "Hermitage: testing the I in ACID", 2014; the names after A. Adya, 1999.
#include <lockstep/sync.h>

#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <vector>

#include <embed/expect.h>

using namespace lockstep;
using embed::expect, embed::expect_value;

namespace {

constexpr Nanos kPatience = 10 * kMillisecond;  // a step that takes longer waits for a lock

// What the transactions of one run have read, and which of them have committed.
struct History {
    std::vector<std::map<int, int>> rows;  // what each step read: key -> value
    std::vector<bool> committed;
    std::map<int, int> final;
    int value(size_t step, int key) const {
        return rows[step].contains(key) ? rows[step].at(key) : -1;
    }
    bool all() const {
        for (const bool one : committed)
            if (!one) return false;
        return true;
    }
};

using Rows = std::map<int, int>;
struct Action {
    size_t who;                                           // number of the transaction
    std::function<Result<Rows>(Txn&, const Index&)> run;  // empty: the end
    bool commits = true;
};

Action write(size_t who, int key, int value) {
    return {who, [=](Txn& txn, const Index& table) -> Result<Rows> {
                LOCKSTEP_TRY(table.put(txn, Key().i32(key), std::to_string(value)));
                return Rows{};
            }};
}
Action read(size_t who, int key) {
    return {who, [=](Txn& txn, const Index& table) -> Result<Rows> {
                std::string value;
                if (!LOCKSTEP_TRY(table.get(txn, Key().i32(key), value))) return Rows{};
                return Rows{{key, std::stoi(value)}};
            }};
}
// Reads all rows; the caller looks for those that its predicate selects.
Action select(size_t who) {
    return {who, [=](Txn& txn, const Index& table) -> Result<Rows> {
                Rows rows;
                Cursor cursor = table.scan(txn);
                for (int key = 1; LOCKSTEP_TRY(cursor.next()); ++key) {
                    while (cursor.key() != Slice(Key().i32(key))) ++key;
                    rows[key] = std::stoi(std::string(cursor.value()));
                }
                return rows;
            }};
}
Action commit(size_t who) { return {who, {}}; }
Action abort(size_t who) { return {who, {}, false}; }

class Director {
public:
    explicit Director(const std::string& path) : store_(expect_value(Store::open(path), "open")) {}
    History play(const std::vector<Action>& actions, Isolation isolation) {
        return expect_value(store_.start([&] { return direct(actions, isolation); }).join(),
                            "the director");
    }

private:
    // One transaction: its thread, and the steps that it has not taken.
    struct Player {
        Channel<size_t> steps{64};
        std::optional<Handle<bool>> thread;
    };

    Result<History> direct(const std::vector<Action>& actions, Isolation isolation) {
        LOCKSTEP_TRY(reset());
        size_t count = 0;
        for (const Action& action : actions) count = std::max(count, action.who + 1);
        History history{std::vector<Rows>(actions.size()), std::vector<bool>(count), {}};
        std::vector<std::unique_ptr<Event>> taken;
        for (size_t n = 0; n < actions.size(); ++n) taken.push_back(std::make_unique<Event>());
        std::vector<std::unique_ptr<Player>> players;
        for (size_t n = 0; n < count; ++n) {
            players.push_back(std::make_unique<Player>());
            players[n]->thread = store_.start([&, n, steps = &players[n]->steps] {
                return perform(actions, isolation, *steps, history, taken);
            });
        }
        for (size_t n = 0; n < actions.size(); ++n) {
            LOCKSTEP_TRY(players[actions[n].who]->steps.send(n));
            const Result<void> done = taken[n]->wait(kPatience);
            expect(done || done.error().code == ErrorCode::timeout, "a wait for a step");
        }
        for (size_t n = 0; n < count; ++n)
            history.committed[n] = LOCKSTEP_TRY(players[n]->thread->join());
        history.final =
            LOCKSTEP_TRY(store_.run([&](Txn& txn) { return select(0).run(txn, table_); }));
        return history;
    }
    // A new table: an erased record that is still in its page would be locked by scans.
    Result<void> reset() {
        return store_.run([&](Txn& txn) -> Result<void> {
            table_ = LOCKSTEP_TRY(store_.create_index(txn, "test " + std::to_string(++plays_)));
            LOCKSTEP_TRY(table_.insert(txn, Key().i32(1), "10"));
            return table_.insert(txn, Key().i32(2), "20");
        });
    }
    // The body of a transaction's thread: true if it has committed.
    Result<bool> perform(const std::vector<Action>& actions, Isolation isolation,
                         Channel<size_t>& steps, History& history,
                         std::vector<std::unique_ptr<Event>>& taken) {
        Txn txn =
            LOCKSTEP_TRY(store_.begin({.isolation = isolation, .durability = Durability::lazy}));
        for (bool victim = false;;) {
            const size_t n = LOCKSTEP_TRY(steps.receive()).value();
            if (!actions[n].run) {
                const bool commits = actions[n].commits && !victim;
                if (commits) LOCKSTEP_TRY(txn.commit());
                else if (txn.live()) LOCKSTEP_TRY(txn.abort());
                taken[n]->set();
                return commits;
            }
            if (!victim) {
                Result<Rows> rows = actions[n].run(txn, table_);
                if (rows) history.rows[n] = std::move(*rows);
                else expect(rows.error().code == ErrorCode::deadlock, rows.error().text());
                victim = !rows;
                if (victim) LOCKSTEP_TRY(txn.abort());
            }
            taken[n]->set();
        }
    }

    Store store_;
    Index table_;
    int plays_ = 0;
};

struct Scenario {
    const char* name;
    std::vector<Action> actions;
    bool (*anomaly)(const History&);
    bool permitted[3];  // serializable, repeatable_read, read_committed
};

// Steps are counted from 0 in the order of the list.
std::vector<Scenario> scenarios() {
    return {
        {"G0 write cycle",
         {write(0, 1, 11), write(1, 1, 12), write(0, 2, 21), commit(0), write(1, 2, 22), commit(1)},
         [](const History& h) { return h.final.at(1) - 10 != h.final.at(2) - 20; },
         {false, false, false}},
        {"G1a aborted read",
         {write(0, 1, 101), read(1, 1), abort(0), read(1, 1), commit(1)},
         [](const History& h) { return h.value(1, 1) == 101 || h.value(3, 1) == 101; },
         {false, false, false}},
        {"G1b intermediate read",
         {write(0, 1, 101), read(1, 1), write(0, 1, 11), commit(0), commit(1)},
         [](const History& h) { return h.value(1, 1) == 101; },
         {false, false, false}},
        {"G1c circular information flow",
         {write(0, 1, 11), write(1, 2, 22), read(0, 2), read(1, 1), commit(0), commit(1)},
         [](const History& h) { return h.value(2, 2) == 22 && h.value(3, 1) == 11; },
         {false, false, false}},
        {"OTV observed transaction vanishes",
         {write(0, 1, 11), write(0, 2, 19), write(1, 1, 12), commit(0), read(2, 1), write(1, 2, 18),
          read(2, 2), commit(1), read(2, 2), read(2, 1), commit(2)},
         [](const History& h) {
             return h.value(4, 1) == 12 && (h.value(6, 2) == 19 || h.value(8, 2) == 19);
         },
         {false, false, false}},
        {"PMP predicate-many-preceders",
         {select(0), write(1, 3, 30), commit(1), select(0), commit(0)},
         [](const History& h) { return h.value(0, 3) == -1 && h.value(3, 3) == 30; },
         {false, true, true}},
        {"P4 lost update",
         {read(0, 1), read(1, 1), write(0, 1, 11), write(1, 1, 12), commit(0), commit(1)},
         [](const History& h) { return h.all() && h.value(0, 1) == 10 && h.value(1, 1) == 10; },
         {false, false, true}},
        {"G-single read skew",
         {read(0, 1), read(1, 1), read(1, 2), write(1, 1, 12), write(1, 2, 18), commit(1),
          read(0, 2), commit(0)},
         [](const History& h) { return h.all() && h.value(0, 1) == 10 && h.value(6, 2) == 18; },
         {false, false, true}},
        {"G2-item write skew",
         {read(0, 1), read(0, 2), read(1, 1), read(1, 2), write(0, 1, 11), write(1, 2, 21),
          commit(0), commit(1)},
         [](const History& h) { return h.all() && h.value(1, 2) == 20 && h.value(2, 1) == 10; },
         {false, false, true}},
        {"G2 anti-dependency cycle",
         {select(0), select(1), write(0, 3, 30), write(1, 4, 42), commit(0), commit(1)},
         [](const History& h) { return h.all() && h.value(0, 4) == -1 && h.value(1, 3) == -1; },
         {false, true, true}},
    };
}

}  // namespace

int main(int argc, char** argv) {
    constexpr Isolation kLevels[] = {Isolation::serializable, Isolation::repeatable_read,
                                     Isolation::read_committed};
    constexpr const char* kNames[] = {"serializable", "repeatable_read", "read_committed"};
    Director director(embed::directory(argc, argv) + "/hermitage.db");
    for (const Scenario& scenario : scenarios()) {
        std::printf("%-36s", scenario.name);
        for (int level = 0; level < 3; ++level) {
            const History history = director.play(scenario.actions, kLevels[level]);
            const bool seen = scenario.anomaly(history);
            std::printf(" %s: %s", kNames[level], seen ? "appears" : "never  ");
            std::fflush(stdout);
            expect(seen == scenario.permitted[level],
                   std::string(scenario.name) + " at " + kNames[level]);
        }
        std::printf("\n");
    }
    return 0;
}
