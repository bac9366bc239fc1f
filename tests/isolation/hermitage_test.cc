// labels: sim model
// hermitage_test.cc - the Hermitage schedules in every interleaving of their steps, at
// every isolation level.
//
// Concepts   Each scenario says which levels must forbid its anomaly and which may show it. A
//            forbidden one must never appear, and one that is permitted must appear in some
//            interleaving: a test that could not see it proves nothing. At serializable, whatever
//            the scenario looks for, the outcome must also be that of some serial order (script.h).
//            Index rows and heap records, reads of one key and of a group, lazy commits and durable
//            ones that have released their locks early, STEPS off and on.
// Source     M. Kleppmann, "Hermitage: testing the I in ACID", 2014; names of anomalies after A.
//            Adya, 1999.
#include <cstdio>

#include "tests/isolation/player.h"

namespace lockstep::isolation::hermitage_test {

enum Verdict : bool { forbidden, permitted };
constexpr Isolation kLevels[] = {Isolation::serializable, Isolation::repeatable_read,
                                 Isolation::read_committed};
constexpr const char* kLevelNames[] = {"serializable", "repeatable_read", "read_committed"};

struct Judged {  // what an anomaly is judged by
    const std::vector<Outcome>& of;
    const Table& final;
    bool committed(size_t who) const { return of[who].committed; }
    bool all() const { return std::ranges::all_of(of, &Outcome::committed); }
    int at(int key) const { return final.contains(key) ? final.at(key) : -1; }
};

struct Scenario {
    const char* name;
    std::vector<Script> scripts;
    bool (*anomaly)(const Judged&);
    Verdict verdict[3];      // as kLevels
    bool items_only = true;  // can be played on heap records, too
};

const Table kInitial = {{1, 10}, {2, 20}};

std::vector<Scenario> scenarios() {
    return {
        {"G0 write cycle",
         {{write(1, 11), write(2, 21)}, {write(1, 12), write(2, 22)}},
         [](const Judged& r) { return r.all() && r.at(1) - 10 != r.at(2) - 20; },
         {forbidden, forbidden, forbidden}},
        {"G0 write lost to an abort",
         {{write(1, 11), abort()}, {write(1, 12)}},
         [](const Judged& r) { return r.at(1) != (r.committed(1) ? 12 : 10); },
         {forbidden, forbidden, forbidden}},
        {"G1a aborted read",
         {{write(1, 101), abort()}, {read(1), read(1)}},
         [](const Judged& r) { return r.of[1].value(0) == 101 || r.of[1].value(1) == 101; },
         {forbidden, forbidden, forbidden}},
        {"G1a aborted insert read",
         {{insert(3, 30), abort()}, {select(3), read(3)}},
         [](const Judged& r) { return r.of[1].count(0) + r.of[1].count(1) > 0; },
         {forbidden, forbidden, forbidden}},
        {"G1a aborted erase read",
         {{erase(1), abort()}, {read(1), select(10)}},
         [](const Judged& r) {
             return r.committed(1) && (r.of[1].count(0) != 1 || r.of[1].count(1) != 2);
         },
         {forbidden, forbidden, forbidden}},
        {"G1a read of what a savepoint undid",
         {{savepoint(), write(1, 101), rollback(), write(1, 11)}, {read(1), read(1)}},
         [](const Judged& r) { return r.of[1].value(0) == 101 || r.of[1].value(1) == 101; },
         {forbidden, forbidden, forbidden}},
        {"G1b intermediate read",
         {{write(1, 101), write(1, 11)}, {read(1), read(1)}},
         [](const Judged& r) { return r.of[1].value(0) == 101 || r.of[1].value(1) == 101; },
         {forbidden, forbidden, forbidden}},
        {"G1c circular information flow",
         {{write(1, 11), read(2)}, {write(2, 22), read(1)}},
         [](const Judged& r) {
             return r.all() && r.of[0].value(1) == 22 && r.of[1].value(1) == 11;
         },
         {forbidden, forbidden, forbidden}},
        {"OTV observed transaction vanishes",
         {{write(1, 11), write(2, 19)},
          {write(1, 12), write(2, 18)},
          {read(1), read(2), read(2), read(1)}},
         [](const Judged& r) {
             bool seen = false, vanished = false;
             for (size_t n = 0; n < 4; ++n) {
                 const int v = r.of[2].value(n);
                 // The second writer in this run is the one whose values are final.
                 const bool second = v == r.at(1) || v == r.at(2);
                 vanished |= seen && v != -1 && !second;
                 seen |= second;
             }
             return r.committed(0) && r.committed(1) && vanished;
         },
         {forbidden, forbidden, forbidden}},
        {"PMP predicate read twice",
         {{select(30), select(3)}, {insert(3, 30)}},
         [](const Judged& r) { return r.all() && r.of[0].count(0) == 0 && r.of[0].count(1) == 1; },
         {forbidden, permitted, permitted},
         false},
        {"PMP predicate read twice, backward",
         {{select_back(30), select_back(3)}, {insert(3, 30)}},
         [](const Judged& r) { return r.all() && r.of[0].count(0) == 0 && r.of[0].count(1) == 1; },
         {forbidden, permitted, permitted},
         false},
        {"PMP write by predicate",
         {{erase_where(20), select(10)}, {insert(3, 20)}},
         [](const Judged& r) { return r.all() && r.of[0].count(0) == 1 && r.of[0].count(1) == 2; },
         {forbidden, permitted, permitted},
         false},
        {"P4 lost update",
         {{read(1), write(1, 11)}, {read(1), write(1, 12)}},
         [](const Judged& r) {
             return r.all() && r.of[0].value(0) == 10 && r.of[1].value(0) == 10;
         },
         {forbidden, forbidden, permitted}},
        {"G-single read skew",
         {{read(1), read(2)}, {read(1), read(2), write(1, 12), write(2, 18)}},
         [](const Judged& r) {
             return r.all() && r.of[0].value(0) == 10 && r.of[0].value(1) == 18;
         },
         {forbidden, forbidden, permitted}},
        {"G-single read skew by predicate",
         {{select(5), select(3)}, {write(1, 12)}},
         [](const Judged& r) { return r.all() && r.of[0].count(0) == 2 && r.of[0].count(1) == 1; },
         {forbidden, forbidden, permitted}},
        {"G-single write by predicate",
         {{read(1), erase_where(20)}, {write(1, 12), write(2, 18)}},
         [](const Judged& r) { return r.all() && r.of[0].value(0) == 10 && r.of[0].count(1) == 0; },
         {forbidden, forbidden, permitted}},
        {"G2-item write skew",
         {{read(1), read(2), write(1, 11)}, {read(1), read(2), write(2, 21)}},
         [](const Judged& r) {
             return r.all() && r.of[0].value(1) == 20 && r.of[1].value(0) == 10;
         },
         {forbidden, forbidden, permitted}},
        {"G2 write skew by predicate",
         {{select(3), insert(3, 30)}, {select(3), insert(4, 42)}},
         [](const Judged& r) { return r.all() && r.of[0].count(0) + r.of[1].count(0) == 0; },
         {forbidden, permitted, permitted},
         false},
        {"G2 missing keys",
         {{read(3), insert(4, 42)}, {read(4), insert(3, 30)}},
         [](const Judged& r) { return r.all() && r.of[0].count(0) + r.of[1].count(0) == 0; },
         {forbidden, forbidden, permitted},
         false},
        {"G2 two edges",
         {{select(1), write(1, 0)}, {write(2, 25)}, {select(1)}},
         [](const Judged& r) {
             return r.all() && r.of[0].seen[0] == Rows{{1, 10}, {2, 20}} &&
                    r.of[2].seen[0] == Rows{{1, 10}, {2, 25}};
         },
         {forbidden, forbidden, permitted}},
    };
}

// Steps of a script as the player counts them: its actions and its commit.
size_t steps_of(const Script& script) {
    return script.size() + (script.back().kind != Action::abort);
}

// Plays all interleavings; the number of those that show the anomaly.
size_t anomalies(Player& player, const Scenario& scenario, const PlayOptions& options,
                 size_t& played) {
    std::vector<size_t> steps;
    for (const Script& script : scenario.scripts) steps.push_back(steps_of(script));
    size_t found = 0;
    each_interleaving(steps, [&](const std::vector<int>& order) {
        if (::testing::Test::HasFailure()) return;
        player.reset(kInitial, options.heap);
        const std::vector<Outcome> outcomes = player.play(scenario.scripts, order, options);
        const Table final = player.table(options.heap);
        ++played;
        found += scenario.anomaly({outcomes, final});
        EXPECT_TRUE(std::ranges::any_of(outcomes, &Outcome::committed) ||
                    scenario.scripts[0].back().kind == Action::abort)
            << "no transaction succeeded";
        if (options.isolation == Isolation::serializable &&
            !serializable(kInitial, scenario.scripts, outcomes, final))
            ADD_FAILURE() << "no serial order explains the interleaving "
                          << ::testing::PrintToString(order);
    });
    return found;
}

void run_all(StepsMode steps, Durability durability, bool heap, bool groups = false) {
    Player player(steps);
    std::printf("%-36s", "interleavings with the anomaly");
    for (const char* level : kLevelNames) std::printf(" %18s", level);
    std::printf("\n");
    for (const Scenario& scenario : scenarios()) {
        if (heap && !scenario.items_only) continue;
        SCOPED_TRACE(scenario.name);
        std::printf("%-36s", scenario.name);
        for (size_t level = 0; level < 3; ++level) {
            SCOPED_TRACE(kLevelNames[level]);
            size_t played = 0;
            const size_t found =
                anomalies(player, scenario, {kLevels[level], durability, heap, groups}, played);
            const std::string cell = std::to_string(found) + "/" + std::to_string(played) +
                                     (scenario.verdict[level] ? " may" : " no");
            std::printf(" %18s", cell.c_str());
            if (scenario.verdict[level] == forbidden) EXPECT_EQ(found, 0u);
            else EXPECT_GT(found, 0u) << "permitted, and never seen: the test is blind";
        }
        std::printf("\n");
        if (::testing::Test::HasFailure()) return;
    }
}

// The readers are snapshots: the anomalies stay forbidden, each outcome is that of a serial order,
// and no reader waits or becomes a victim.
void run_snapshots(StepsMode steps, Durability durability, bool heap) {
    Player player(steps);
    size_t scenarios_played = 0;
    for (const Scenario& scenario : scenarios()) {
        if (heap && !scenario.items_only) continue;
        if (!std::ranges::any_of(scenario.scripts, [](const Script& script) {
                return std::ranges::all_of(script, only_reads);
            }))
            continue;
        SCOPED_TRACE(scenario.name);
        size_t played = 0;
        EXPECT_EQ(
            anomalies(player, scenario,
                      {.durability = durability, .heap = heap, .snapshot_readers = true}, played),
            0u);
        EXPECT_GT(played, 1u);
        ++scenarios_played;
        if (::testing::Test::HasFailure()) return;
    }
    EXPECT_GE(scenarios_played, 8u);
}

TEST(Hermitage, SnapshotsOfAnIndex) { run_snapshots(StepsMode::off, Durability::lazy, false); }
TEST(Hermitage, SnapshotsDurable) { run_snapshots(StepsMode::on, Durability::durable, false); }
TEST(Hermitage, SnapshotsOfAHeap) { run_snapshots(StepsMode::off, Durability::lazy, true); }

TEST(Hermitage, IndexLazy) { run_all(StepsMode::off, Durability::lazy, false); }
TEST(Hermitage, IndexDurableEarlyRelease) { run_all(StepsMode::off, Durability::durable, false); }
TEST(Hermitage, IndexGroups) { run_all(StepsMode::off, Durability::lazy, false, true); }
TEST(Hermitage, IndexSteps) { run_all(StepsMode::on, Durability::lazy, false); }
TEST(Hermitage, HeapLazy) { run_all(StepsMode::off, Durability::lazy, true); }
TEST(Hermitage, HeapDurableEarlyRelease) { run_all(StepsMode::off, Durability::durable, true); }

}  // namespace lockstep::isolation::hermitage_test
