// labels: unit
// isolation_test - anomalies in every interleaving of two transactions' steps: none at serializable; those that a level admits do show
// up there, so the test can see them.
#include <gtest/gtest.h>

#include <filesystem>
#include <set>

#include "sm/store.h"

namespace lockstep {
namespace {

namespace fs = std::filesystem;
using Step = std::function<Result<void>(Txn&)>;
using Script = std::vector<Step>;

// Runs two scripts in the order that `schedule` gives (0 or 1 per step; the step after a script's last is its commit). A step that has
// to wait for the other's lock is left waiting and the schedule goes on. Result: which of the two committed.
class Interleaver {
public:
    explicit Interleaver(Store& store) : store_(store) {}

    std::pair<bool, bool> run(const Script (&scripts)[2], Isolation isolation, const std::vector<int>& schedule) {
        State states[2];
        std::vector<Handle<void>> threads;
        for (int who : {0, 1})
            threads.push_back(store_.start([&, who]() -> Result<void> { return play(states[who], scripts[who], isolation); }, 0));
        auto control = store_.start([&]() -> Result<void> {
            for (const int who : schedule) {
                State& s = states[who];
                if (s.busy || s.over) continue;          // still waits in an earlier step: it catches up by itself
                ++s.allowed;
                settle(s);
            }
            for (State& s : states) s.allowed = 1000;
            return {};
        }, 0);
        EXPECT_TRUE(control.join());
        for (auto& t : threads) EXPECT_TRUE(t.join());
        return {states[0].committed, states[1].committed};
    }

private:
    struct State {
        int allowed = 0, done = 0;
        bool busy = false, over = false, committed = false;
    };
    // Lets the other threads run until the step is done or clearly waits.
    static void settle(State& s) {
        for (int i = 0; i < 20 && s.done < s.allowed && !s.over; ++i) yield();
    }
    Result<void> play(State& s, const Script& script, Isolation isolation) {
        Txn txn = TRY(store_.begin({.isolation = isolation, .durability = Durability::lazy}));
        for (const Step& step : script) {
            while (s.allowed <= s.done) yield();
            s.busy = true;
            const auto r = step(txn);
            s.busy = false;
            if (!r) {
                EXPECT_EQ(r.error().code, ErrorCode::deadlock) << r.error().text();
                TRY(txn.abort());
                s.over = true;
                return {};
            }
            ++s.done;
        }
        while (s.allowed <= s.done) yield();
        TRY(txn.commit());
        s.committed = s.over = true;
        return {};
    }
    Store& store_;
};

// All orders of `a` zeros and `b` ones.
std::vector<std::vector<int>> interleavings(size_t a, size_t b) {
    std::vector<int> order(a, 0);
    order.insert(order.end(), b, 1);
    std::vector<std::vector<int>> all;
    do all.push_back(order);
    while (std::next_permutation(order.begin(), order.end()));
    return all;
}

class IsolationTest : public ::testing::Test {
protected:
    void SetUp() override {
        directory = fs::temp_directory_path() / ("lockstep_isolation_test." + std::to_string(getpid()));
        fs::remove_all(directory);
        auto opened = Store::open(directory.string(), {.pool_bytes = 16ull << 20, .log_bytes = 64ull << 20,
                                                       .log_segment_bytes = 4ull << 20, .log_ring_bytes = 4ull << 20});
        ASSERT_TRUE(opened) << opened.error().text();
        store.emplace(std::move(*opened));
        auto made = store->run([&](Txn& txn) { return store->create_index(txn, "t"); });
        ASSERT_TRUE(made);
        index = *made;
    }
    void TearDown() override {
        store.reset();
        fs::remove_all(directory);
    }
    void put(Slice key, int value) {
        ASSERT_TRUE(store->run([&](Txn& txn) { return index.put(txn, key, std::to_string(value)); }));
    }
    int number(Slice key) {
        auto v = store->run([&](Txn& txn) { return get(txn, key); });
        EXPECT_TRUE(v);
        return *v;
    }
    Result<int> get(Txn& txn, Slice key) {
        std::string v;
        if (!TRY(index.get(txn, key, v))) return -1;
        return std::stoi(v);
    }
    Result<int> count(Txn& txn, Slice low, Slice high) {
        int n = 0;
        for (Cursor c = index.scan(txn, low, high); TRY(c.next());) ++n;
        return n;
    }

    fs::path directory;
    std::optional<Store> store;
    Index index;
};

// Both read x and write back one more: two commits must leave two more.
TEST_F(IsolationTest, LostUpdate) {
    std::set<Isolation> seen;
    for (const Isolation level : {Isolation::serializable, Isolation::repeatable_read, Isolation::read_committed})
        for (const auto& schedule : interleavings(3, 3)) {
            put("x", 0);
            int read[2] = {};
            const auto reader = [&](int who) { return [&, who](Txn& txn) -> Result<void> { read[who] = TRY(get(txn, "x")); return {}; }; };
            const auto writer = [&](int who) {
                return [&, who](Txn& txn) -> Result<void> { TRY(index.update(txn, "x", std::to_string(read[who] + 1))); return {}; };
            };
            const auto [a, b] = Interleaver(*store).run({{reader(0), writer(0)}, {reader(1), writer(1)}}, level, schedule);
            if (number("x") != a + b) seen.insert(level);
        }
    EXPECT_FALSE(seen.contains(Isolation::serializable));
    EXPECT_FALSE(seen.contains(Isolation::repeatable_read));
    EXPECT_TRUE(seen.contains(Isolation::read_committed)) << "the test is blind";
}

// x + y >= 1 must hold; each takes one off if the sum allows it.
TEST_F(IsolationTest, WriteSkew) {
    std::set<Isolation> seen;
    for (const Isolation level : {Isolation::serializable, Isolation::repeatable_read, Isolation::read_committed})
        for (const auto& schedule : interleavings(4, 4)) {
            put("x", 1);
            put("y", 1);
            int sum[2] = {};
            const auto script = [&](int who, Slice mine) -> Script {
                return {[&, who](Txn& txn) -> Result<void> { sum[who] = TRY(get(txn, "x")); return {}; },
                        [&, who](Txn& txn) -> Result<void> { sum[who] += TRY(get(txn, "y")); return {}; },
                        [&, who, mine](Txn& txn) -> Result<void> {
                            if (sum[who] >= 2) TRY(index.update(txn, mine, "0"));
                            return {};
                        }};
            };
            Interleaver(*store).run({script(0, "x"), script(1, "y")}, level, schedule);
            if (number("x") + number("y") < 1) seen.insert(level);
        }
    EXPECT_FALSE(seen.contains(Isolation::serializable));
    EXPECT_FALSE(seen.contains(Isolation::repeatable_read));
    EXPECT_TRUE(seen.contains(Isolation::read_committed)) << "the test is blind";
}

// One counts a range twice, the other puts a record into it (a new key, or one over a ghost) or takes one out: before the first, between,
// after the last, in an empty range, behind the last key of the index.
TEST_F(IsolationTest, Phantom) {
    enum class Change { insert, insert_over_ghost, erase };
    int round = 0;
    for (const std::string_view place : {"m0", "m2", "m9", "a", "zz"})
        for (const Change change : {Change::insert, Change::insert_over_ghost, Change::erase}) {
            std::set<Isolation> seen;
            for (const Isolation level : {Isolation::serializable, Isolation::repeatable_read})
                for (const auto& schedule : interleavings(3, 2)) {
                    put("m1", 1);
                    put("m3", 1);
                    const std::string key = std::string(place) + "." + std::to_string(++round);
                    if (change != Change::insert) put(key, 1);
                    if (change == Change::insert_over_ghost) {
                        ASSERT_TRUE(store->run([&](Txn& txn) { return index.erase(txn, key); }));
                    }
                    int first = -1, second = -1;
                    const Slice low = place == "a" ? "a" : place == "zz" ? "z" : "m",
                                high = place == "a" ? Slice("b") : place == "zz" ? Slice{} : Slice("n");
                    const Script counter = {[&](Txn& txn) -> Result<void> { first = TRY(count(txn, low, high)); return {}; },
                                            [&](Txn& txn) -> Result<void> { second = TRY(count(txn, low, high)); return {}; }};
                    const Script changer = {[&](Txn& txn) -> Result<void> {
                        if (change != Change::erase) return index.insert(txn, key, "1");
                        TRY(index.erase(txn, key));
                        return {};
                    }};
                    const auto [counted, changed] = Interleaver(*store).run({counter, changer}, level, schedule);
                    if (counted && first != second) seen.insert(level);
                }
            EXPECT_FALSE(seen.contains(Isolation::serializable)) << place << " change " << static_cast<int>(change);
            if (change == Change::insert) {
                EXPECT_TRUE(seen.contains(Isolation::repeatable_read)) << "the test is blind at " << place;
            }
        }
}

// A read of something that is not there is repeatable too.
TEST_F(IsolationTest, MissesAreRepeatable) {
    for (const auto& schedule : interleavings(3, 2)) {
        ASSERT_TRUE(store->run([&](Txn& txn) -> Result<void> { TRY(index.erase(txn, "k")); return {}; }));
        int first = 0, second = 0;
        const auto [read, wrote] = Interleaver(*store).run(
            {{[&](Txn& txn) -> Result<void> { first = TRY(get(txn, "k")); return {}; },
              [&](Txn& txn) -> Result<void> { second = TRY(get(txn, "k")); return {}; }},
             {[&](Txn& txn) -> Result<void> { return index.put(txn, "k", "7"); }}},
            Isolation::serializable, schedule);
        if (read) {
            EXPECT_EQ(first, second);
        }
        EXPECT_TRUE(read || wrote);
    }
}

// Nothing uncommitted is ever seen, whatever the level.
TEST_F(IsolationTest, DirtyRead) {
    for (const Isolation level : {Isolation::serializable, Isolation::repeatable_read, Isolation::read_committed})
        for (const auto& schedule : interleavings(2, 3)) {
            put("x", 0);
            int seen = 0;
            Interleaver(*store).run({{[&](Txn& txn) -> Result<void> { seen = TRY(get(txn, "x")); return {}; }},
                                     {[&](Txn& txn) -> Result<void> { TRY(index.update(txn, "x", "1")); return {}; },
                                      [&](Txn& txn) -> Result<void> { TRY(index.update(txn, "x", "2")); return {}; }}},
                                    level, schedule);
            EXPECT_NE(seen, 1);
        }
}

}  // namespace
}  // namespace lockstep
