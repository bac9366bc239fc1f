// labels: unit model
// checker_test.cc - the checker of histories itself: each anomaly and the nearest history without
// it, random serial executions, the same with one lie, and the promises of the documents.
#include <gtest/gtest.h>

#include <fstream>
#include <map>
#include <optional>
#include <sstream>

#include "tests/isolation/checker.h"
#include "tests/isolation/checker_cases.h"
#include "tests/seed_of_run.h"
#include "threads/base/rng.h"

namespace lockstep::isolation::checker_test {

void expect(const Case& c) {
    SCOPED_TRACE(c.name);
    const Checker with(c.with.all()), without(c.without.all());
    EXPECT_FALSE(with.sound());
    EXPECT_TRUE(with.shows(c.anomaly, false)) << with.text();
    EXPECT_FALSE(with.text().empty());
    EXPECT_TRUE(without.findings().empty())
        << (without.findings().empty() ? "" : without.findings().front().text);
}

TEST(Checker, FindsEachCycleAndNotItsNeighbour) {
    for (const Case& c : cycles()) expect(c);
    for (const Case& c : wider_cycles()) expect(c);
}
TEST(Checker, FindsEachFaultAndNotItsNeighbour) {
    for (const Case& c : faults()) expect(c);
}

// A reader of each level meets a cycle that needs an anti-dependency of it.
TEST(Checker, ALevelIsJudgedByWhatItPromises) {
    for (const Held held : {Held::nothing, Held::record, Held::range}) {
        const Checker record(Story()
                                 .txn()
                                 .append(1, 1)
                                 .append(2, 2)
                                 .txn()
                                 .list(1, {}, held)
                                 .list(2, {2}, held)
                                 .all());
        EXPECT_EQ(record.sound(), held == Held::nothing) << record.text();
        EXPECT_TRUE(record.shows(Anomaly::fuzzy_read, record.sound()));
        const Checker absent(Story()
                                 .txn()
                                 .write(1, 1)
                                 .write(2, 2)
                                 .txn()
                                 .none(1, Operation::before_birth, held)
                                 .reg(2, 2, held)
                                 .all());
        EXPECT_EQ(absent.sound(), held != Held::range) << absent.text();
        EXPECT_TRUE(absent.shows(Anomaly::phantom, absent.sound()));
    }
}

// One weak reader in the cycle excuses it, at whatever place.
TEST(Checker, ACycleNeedsAPromiseOfEachReader) {
    for (int weak = 0; weak < 3; ++weak) {
        const Held first = weak == 1 ? Held::nothing : Held::record,
                   second = weak == 2 ? Held::nothing : Held::record;
        const Checker skew(Story()
                               .txn()
                               .append(1, 1)
                               .append(2, 2)
                               .txn()
                               .list(2, {2}, first)
                               .append(1, 3)
                               .txn()
                               .list(1, {1}, second)
                               .append(2, 4)
                               .all());
        EXPECT_EQ(skew.sound(), weak != 0) << skew.text();
        EXPECT_TRUE(skew.shows(Anomaly::write_skew, weak != 0));
    }
}

TEST(Checker, AWitnessIsShortAndNamesWhatHappened) {
    Story story = Story().txn().append(1, 1).append(2, 2).txn().list(1, {}).list(2, {2});
    for (Element e = 10; e < 40; ++e) story.txn().append(3, e).list(1, {1});
    const Checker checker(story.all());
    const std::string text = checker.text();
    EXPECT_NE(text.find("T0 -wr-> T1: it read 2 of list 2"), std::string::npos) << text;
    EXPECT_NE(text.find("T1 -rw-> T0: it read 0 of list 1, before 1"), std::string::npos) << text;
    EXPECT_EQ(text.find("T9"), std::string::npos) << text;
}

// --- Random serial executions of a model, and one lie.

class Serial {
public:
    explicit Serial(uint64_t seed) : rng_(seed) {
        for (uint32_t t = 0; t < 60; ++t) transaction();
    }
    std::vector<Observed> history;

private:
    using State = std::pair<std::map<uint32_t, std::vector<Element>>, std::map<uint32_t, Element>>;

    void transaction() {
        const State before = state_;
        Observed seen{.process = static_cast<uint32_t>(rng_.below(4)), .began = ++clock_};
        std::optional<std::pair<State, size_t>> point;
        for (uint64_t n = 1 + rng_.below(6); n > 0; --n) {
            if (rng_.chance(0.1)) point = {state_, seen.operations.size()};
            if (point && rng_.chance(0.1)) {
                state_ = point->first;
                seen.operations.push_back({.kind = Operation::rollback, .from = point->second});
            }
            operation(seen);
        }
        seen.ended = rng_.chance(0.15) ? Ended::aborted : Ended::committed;
        if (seen.ended == Ended::aborted) state_ = before;
        seen.ended_at = ++clock_;
        history.push_back(std::move(seen));
    }
    // Each change reads first.
    void operation(Observed& seen) {
        const auto key = static_cast<uint32_t>(rng_.below(4));
        const bool writes = rng_.chance(0.5);
        Operation op;
        if (rng_.chance(0.5)) {
            op.object = {Object::list, key};
            op.seen = state_.first[key];
            if (writes) state_.first[key].push_back(++elements_);
        } else {
            op.object = {Object::reg, key};
            const Element now = state_.second[key];
            if (now != 0) op.seen = {now};
            else op.absence = Operation::before_birth;
            if (writes) state_.second[key] = ++elements_;
        }
        seen.operations.push_back(op);
        if (!writes) return;
        seen.operations.push_back(
            {.kind = Operation::write, .object = op.object, .element = elements_});
    }

    Rng rng_;
    State state_;
    uint64_t clock_ = 0;
    Element elements_ = 0;
};

using Lie = bool (*)(std::vector<Observed>&, Operation& op, Rng& rng);

// Each changes one read, or says that there was nothing to change.
constexpr std::pair<const char*, Lie> kLies[] = {
    {"the last element is missing",
     [](std::vector<Observed>&, Operation& op, Rng&) {
         if (op.seen.empty()) return false;
         op.seen.pop_back();
         if (op.object.kind == Object::reg) op.absence = Operation::before_birth;
         return true;
     }},
    {"the first element is missing",
     [](std::vector<Observed>&, Operation& op, Rng&) {
         if (op.object.kind != Object::list || op.seen.size() < 2) return false;
         op.seen.erase(op.seen.begin());
         return true;
     }},
    {"two elements change places",
     [](std::vector<Observed>&, Operation& op, Rng& rng) {
         if (op.seen.size() < 2) return false;
         const size_t n = rng.below(op.seen.size() - 1);
         std::swap(op.seen[n], op.seen[n + 1]);
         return true;
     }},
    {"an element comes twice",
     [](std::vector<Observed>&, Operation& op, Rng&) {
         if (op.object.kind != Object::list || op.seen.empty()) return false;
         op.seen.push_back(op.seen.front());
         return true;
     }},
    {"nobody wrote it",
     [](std::vector<Observed>&, Operation& op, Rng&) {
         op.seen.assign(1, 1'000'000);
         op.absence = Operation::present;
         return true;
     }},
    {"the writer has aborted",
     [](std::vector<Observed>& all, Operation& op, Rng&) {
         if (op.seen.empty()) return false;
         for (Observed& t : all) {
             bool wrote = false;
             for (const Operation& o : t.operations) {
                 wrote = wrote || (o.kind == Operation::write && o.element == op.seen.back());
                 if (&o == &op) return false;  // it reads its own write
             }
             if (!wrote) continue;
             t.ended = Ended::aborted;
             return true;
         }
         return false;
     }},
};

TEST(Checker, SerialExecutionsAreClean) {
    const uint64_t seed = seed_of_run();
    for (uint64_t n = 0; n < 200; ++n) {
        const Checker checker(Serial(seed + n).history);
        ASSERT_TRUE(checker.findings().empty()) << "seed " << seed + n << "\n"
                                                << checker.findings().front().text;
    }
}

TEST(Checker, OneLieIsFound) {
    const uint64_t seed = seed_of_run();
    Rng rng(seed);
    for (const auto& [name, lie] : kLies) {
        int told = 0;
        for (uint64_t n = 0; told < 100; ++n) {
            ASSERT_LT(n, 10'000u) << name;
            std::vector<Observed> history = Serial(seed + n).history;
            Observed& t = history[rng.below(history.size())];
            Operation& op = t.operations[rng.below(t.operations.size())];
            if (op.kind != Operation::read || !lie(history, op, rng)) continue;
            ++told;
            EXPECT_FALSE(Checker(history).sound())
                << name << ", seed " << seed + n << ": " << t.text();
        }
    }
}

// --- Graphs.

TEST(Checker, FindsAShortestCycleOfAnyGraph) {
    Rng rng(seed_of_run());
    for (int round = 0; round < 300; ++round) {
        const auto n = static_cast<uint32_t>(2 + rng.below(9));
        Graph graph(n);
        std::vector<std::vector<uint32_t>> length(n, std::vector<uint32_t>(n, 1000));
        for (uint64_t edges = rng.below(2 * n); edges > 0; --edges) {
            const auto from = static_cast<uint32_t>(rng.below(n)),
                       to = static_cast<uint32_t>(rng.below(n));
            graph.add({from, to});
            if (from != to) length[from][to] = 1;
        }
        for (uint32_t k = 0; k < n; ++k)
            for (uint32_t i = 0; i < n; ++i)
                for (uint32_t j = 0; j < n; ++j)
                    length[i][j] = std::min(length[i][j], length[i][k] + length[k][j]);
        const auto any = [](const Edge&) { return true; };
        const auto component = graph.components(any);
        uint32_t best = 1000;
        for (uint32_t i = 0; i < n; ++i) {
            best = std::min(best, length[i][i]);
            for (uint32_t j = 0; j < n; ++j)
                EXPECT_EQ(component[i] == component[j],
                          i == j || (length[i][j] < 1000 && length[j][i] < 1000));
        }
        const Graph::Cycle cycle = graph.shortest(any, any);
        ASSERT_EQ(cycle.size(), best == 1000 ? 0 : best);
        for (size_t at = 0; at < cycle.size(); ++at)
            EXPECT_EQ(cycle[at].to, cycle[(at + 1) % cycle.size()].from);
    }
}

// --- Documents.

std::vector<std::string> cells_of(const std::string& line) {
    std::vector<std::string> cells;
    std::stringstream rest(line.substr(1));
    for (std::string cell; std::getline(rest, cell, '|');) {
        const size_t begin = cell.find_first_not_of(' '), end = cell.find_last_not_of(' ');
        cells.push_back(begin == std::string::npos ? "" : cell.substr(begin, end - begin + 1));
    }
    return cells;
}

TEST(Checker, TheDocumentPromisesWhatTheTableSays) {
    std::ifstream file(LOCKSTEP_SOURCE_DIR "/tools/docs/pages/explanation/isolation.md");
    ASSERT_TRUE(file);
    constexpr const char* kWords[] = {"no", "possible", "reads only"};
    size_t rows = 0;
    for (std::string line; std::getline(file, line);) {
        if (line.empty() || line[0] != '|' || line.find("---") != std::string::npos) continue;
        const auto cells = cells_of(line);
        ASSERT_EQ(cells.size(), 5u) << line;
        if (cells[0] == "anomaly") {
            EXPECT_EQ(cells, (std::vector<std::string>{"anomaly", "serializable", "repeatable_read",
                                                       "read_committed", "snapshot"}));
            continue;
        }
        ASSERT_LT(rows, kAnomalies) << line;
        const AnomalyRow& row = kAnomalyTable[rows++];
        EXPECT_EQ(cells[0], row.name);
        for (size_t level = 0; level < 4; ++level)
            EXPECT_EQ(cells[level + 1], kWords[static_cast<size_t>(row.verdict[level])]) << line;
    }
    EXPECT_EQ(rows, kAnomalies);
}

}  // namespace lockstep::isolation::checker_test
