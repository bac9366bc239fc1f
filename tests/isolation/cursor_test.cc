// labels: sim model
// cursor_test.cc - whatever happens between two steps of a cursor, each step keeps its promise.
//
// Concepts   A scan runs forward or backward, at each isolation level, with bounds of several
//            kinds. Between two of its steps one thing happens: changes by others at the position
//            and ahead of it, splits, merges, the cleaner, a checkpoint, a drop, escalation, locks
//            that others hold until the scan waits for them, and changes of its own. When the scan
//            waits, a further transaction changes the place in the moment at which the wait ends.
//            cursor_scan.h judges. At the end the index is compared with the committed state.
//
// LOCKSTEP_TRANSACTIONS: random scans. LOCKSTEP_SEED: the first seed.
#include <algorithm>

#include "sm/services/ghost_cleaner.h"
#include "tests/isolation/cursor_scan.h"
#include "tests/seed_of_run.h"
#include "threads/base/rng.h"
#include "threads/base/sanitized.h"

namespace lockstep::isolation::cursor_test {

enum class Op : uint8_t {
    nothing,
    cleaner,
    checkpoint,
    insert_before,
    insert_behind,
    insert_at_bound,
    erase_position,
    erase_ahead,
    grow_position,
    grow_ahead,
    grow_into_chain,
    split_position,
    split_ahead,
    merge_ahead,
    merge_position,
    merge_behind,
    hold_insert,
    hold_erase,
    hold_update,
    hold_bound,
    hold_many,
    hold_reads,
    drop,
    drop_undone,
    own_erase,
    own_grow,
    own_insert,
    own_patch,
    own_undone,
    turn,
    count_,
};
constexpr const char* kOpNames[] = {
    "nothing",         "cleaner",        "checkpoint",  "insert_before", "insert_behind",
    "insert_at_bound", "erase_position", "erase_ahead", "grow_position", "grow_ahead",
    "grow_into_chain", "split_position", "split_ahead", "merge_ahead",   "merge_position",
    "merge_behind",    "hold_insert",    "hold_erase",  "hold_update",   "hold_bound",
    "hold_many",       "hold_reads",     "drop",        "drop_undone",   "own_erase",
    "own_grow",        "own_insert",     "own_patch",   "own_undone",    "turn"};
constexpr size_t kOps = static_cast<size_t>(Op::count_);
static_assert(std::size(kOpNames) == kOps);

struct Bounds {
    const char* name;
    std::string low, high;
};
// Rows are a/05 .. a/75, b/shared/05 .., and c05 ..: see rows().
const Bounds kBounds[] = {{"all", "", ""},
                          {"between keys", "a/2", "c42"},
                          {"at keys", "a/25", "c35"},
                          {"prefix", "b/", "b0"},
                          {"below all", "", "a"}};

struct Case {
    Isolation isolation = Isolation::serializable;
    bool backward = false;
    Bounds bounds = kBounds[0];
    Access access = Access::read;
    bool ghosts = false;  // every other row has just been erased
    // What happens before step `first`, and before each `every` steps from there on.
    Op op = Op::nothing;
    size_t first = 0, every = 1;
    bool any_op = false;  // draws at each step instead
    bool commits = true;  // what others hold; else they roll it back
    bool fourth = true;   // changes the place when a wait ends
};

std::string describe(const Case& c) {
    constexpr const char* kNames[] = {"serializable", "repeatable_read", "read_committed",
                                      "snapshot"};
    return std::string(kNames[static_cast<int>(c.isolation)]) +
           (c.backward ? ", backward, " : ", forward, ") + c.bounds.name + " " + c.bounds.low +
           " to " + c.bounds.high + ", access " + std::to_string(static_cast<int>(c.access)) +
           (c.ghosts ? ", ghosts, " : ", ") +
           (c.any_op ? "any" : kOpNames[static_cast<int>(c.op)]) + " from " +
           std::to_string(c.first) + " every " + std::to_string(c.every) +
           (c.commits ? ", commits" : ", rolls back") + (c.fourth ? ", a fourth" : "");
}

// Three groups of keys with prefixes of different lengths, which share pages.
State rows() {
    State rows;
    for (int n = 5; n < 85; n += 10) {
        const std::string number = (n < 10 ? "0" : "") + std::to_string(n);
        rows["a/" + number] = std::string(900, 'a');
        rows["b/shared/" + std::string(40, '-') + number] = std::string(300, 'b');
        rows["c" + number] = std::string(1200, 'c');
    }
    return rows;
}
std::string behind(const std::string& key) { return key + "+"; }
// The last character of each row's key is '5', that of an inserted one is '+' or '~'.
std::string before(std::string key) {
    if (key.empty()) return key;
    key.back() = static_cast<char>(key.back() - 1);
    return key + "~";
}

class Play {
public:
    Play(Stage& stage, const Case& c, uint64_t seed) : stage_(stage), case_(c), rng_(seed) {
        State kept;
        std::vector<std::string> ghosts;
        for (const auto& [key, value] : rows()) {
            if (c.ghosts && (kept.size() + ghosts.size()) % 2 == 1) ghosts.push_back(key);
            else kept[key] = value;
        }
        stage_.reset(kept, ghosts);
        scan_.emplace(stage_, c.isolation, Range{c.bounds.low, c.bounds.high}, c.access,
                      [this] { return let_go(); });
        scan_->begin();
    }

    // True: the scan waited.
    bool run() {
        bool backward = case_.backward;
        for (size_t step = 0; step < 100 && !scan_->ended(); ++step) {
            if (step >= case_.first && (step - case_.first) % case_.every == 0) {
                const Op op = case_.any_op ? static_cast<Op>(rng_.below(kOps)) : case_.op;
                if (op == Op::turn && scan_->at()) {
                    scan_->step(!backward);  // back and forth
                    if (case_.any_op) backward = !backward && rng_.chance(0.3);
                } else {
                    perform(op, backward);
                }
            }
            if (scan_->ended() || !scan_->step(backward)) break;
            if (::testing::Test::HasFailure()) break;
        }
        after_the_end(backward);
        scan_->finish(rng_.chance(0.5));
        end_all();
        return scan_->waited();
    }

private:
    // The range has been read, and stays protected: others go on, and the scan may turn.
    void after_the_end(bool backward) {
        for (int steps = 0; steps < 3 && !scan_->ended(); ++steps) {
            perform(case_.any_op ? static_cast<Op>(rng_.below(kOps)) : case_.op, backward);
            perform(Op::cleaner, backward);
            perform(Op::insert_at_bound, backward);
            if (!scan_->ended() && rng_.chance(0.5)) scan_->step(rng_.chance(0.5));
        }
    }
    void perform(Op op, bool backward) {
        if (stage_.dropped && op != Op::checkpoint && op != Op::cleaner) return;
        // A scan that has failed is free for the next command, but has to end first.
        if (scan_->ended()) return;
        const std::string fallback = backward ? "c85" : "a/";
        const auto at = scan_->at();
        const std::vector<std::string> ahead = scan_->ahead(backward, 7);
        const std::string next = ahead.empty() ? fallback : ahead[0];
        const std::string position = at.value_or(next);
        const bool own = case_.isolation != Isolation::snapshot;
        switch (op) {
            case Op::nothing:
            case Op::turn:
            case Op::count_: return;
            case Op::cleaner:
                return helper([&](Actor&) { return stage_.store().engine().ghosts->run_once(); });
            case Op::checkpoint:
                return helper([&](Actor&) { return stage_.store()->checkpoint(); });
            case Op::insert_before: return change({{before(position), some_value()}});
            case Op::insert_behind: return change({{behind(position), some_value()}});
            // The last place of the range.
            case Op::insert_at_bound:
                return change({{(backward ? behind(case_.bounds.low) : before(case_.bounds.high)) +
                                    std::to_string(++writes_),
                                some_value()}});
            case Op::erase_position: return change({{position, std::nullopt}});
            case Op::erase_ahead: return change({{next, std::nullopt}});
            case Op::grow_position: return change({{position, std::string(1700, 'g')}});
            case Op::grow_ahead: return change({{next, std::string(1700, 'g')}});
            case Op::grow_into_chain: return change({{next, std::string(5000, 'o')}});
            case Op::split_position: return change(many_around(position));
            case Op::split_ahead: return change(many_around(next));
            case Op::merge_ahead: return merge(ahead);
            case Op::merge_position: {
                std::vector<std::string> keys(ahead.begin(), ahead.begin() + ahead.size() / 2);
                keys.push_back(position);
                return merge(keys);
            }
            case Op::merge_behind: return merge(scan_->ahead(!backward, 7));
            case Op::hold_insert:
                return hold({{backward ? behind(next) : before(next), some_value()}});
            case Op::hold_erase: return hold({{next, std::nullopt}});
            case Op::hold_update: return hold({{next, some_value()}});
            // The key that stands behind the range's end, or in its last place.
            case Op::hold_bound:
                return hold({{backward ? case_.bounds.low : case_.bounds.high, some_value()}});
            case Op::hold_many: {
                Changes all;
                for (const auto& [key, value] : stage_.newest())
                    if (!at || (backward ? key < *at : key > *at)) all[key] = some_value();
                return hold(all);
            }
            case Op::hold_reads:
                return helper([&](Actor& self) -> Result<void> {
                    TRY(self.begin(Isolation::serializable));
                    Cursor cursor = stage_.index().scan(self.txn());
                    while (TRY(cursor.next())) {}
                    return {};
                });
            case Op::drop:
            case Op::drop_undone: return drop(op == Op::drop);
            case Op::own_erase:
                if (own)
                    scan_->run([&](Actor& self) -> Result<void> {
                        (void)TRY(self.erase(position));
                        return {};
                    });
                return;
            case Op::own_grow:
                if (own) scan_->run([&](Actor& self) { return self.put(position, some_value()); });
                return;
            case Op::own_insert:
                if (own)
                    scan_->run([&](Actor& self) {
                        return self.put(backward ? before(position) : behind(position), "own");
                    });
                return;
            case Op::own_patch:
                if (own && at) scan_->patch("patched");
                return;
            case Op::own_undone:
                if (own)
                    scan_->run([&](Actor& self) -> Result<void> {
                        const Savepoint point = TRY(self.txn().savepoint());
                        for (const std::string& key : ahead)
                            TRY(stage_.index().erase(self.txn(), key));
                        TRY(stage_.index().put(self.txn(), behind(position), "undone"));
                        return self.txn().rollback_to(point);
                    });
                return;
        }
    }

    std::string some_value() {
        return std::string(1 + rng_.below(rng_.chance(0.1) ? 4000 : 1500), 'v') +
               std::to_string(++writes_);
    }
    Changes many_around(const std::string& key) {
        Changes changes;
        for (int i = 0; i < 6; ++i) {
            changes[behind(key) + std::to_string(i)] = some_value();
            changes[before(key) + std::to_string(i)] = some_value();
        }
        return changes;
    }

    void helper(const Stage::Command& command) { stage_.tell(stage_.someone(), command); }
    Result<void> make(Actor& self, const Changes& changes) {
        TRY(self.begin(rng_.chance(0.5) ? Isolation::serializable : Isolation::read_committed));
        for (const auto& [key, value] : changes) {
            if (value) TRY(self.put(key, *value));
            else (void)TRY(self.erase(key));
        }
        return {};
    }
    // A transaction that ends, unless the scan is in its way.
    void change(const Changes& changes) {
        helper([this, changes](Actor& self) -> Result<void> {
            TRY(make(self, changes));
            return self.commit();
        });
    }
    // One that stays open until the scan waits, or ends.
    void hold(const Changes& changes) {
        helper([this, changes](Actor& self) { return make(self, changes); });
    }
    void merge(const std::vector<std::string>& keys) {
        Changes changes;
        for (const std::string& key : keys) changes[key] = std::nullopt;
        change(changes);
        helper([&](Actor&) { return stage_.store().engine().ghosts->run_once(); });
    }
    void drop(bool commits) {
        // Others that still want to change it would fail.
        for (const auto& actor : stage_.actors())
            if (&*actor != &scan_->actor() && !actor->free()) return;
        stage_.dropped = commits;
        helper([this, commits](Actor& self) -> Result<void> {
            TRY(self.begin(Isolation::serializable));
            TRY(stage_.store()->drop(self.txn(), stage_.name()));
            return commits ? self.commit() : self.abort();
        });
    }

    // Ends one transaction of those that hold locks. Another one then changes the place that the
    // scan is about to look at again.
    bool let_go() {
        Actor* const holder = stage_.holder(scan_->actor());
        if (!holder) return scan_stalls_++ < 3 && (stage_.pass_time(50 * kMillisecond), true);
        Actor* const fourth = case_.fourth && !stage_.dropped ? &stage_.someone() : nullptr;
        if (fourth) {
            const std::string key = place_of_fourth() + "4" + std::to_string(++writes_);
            stage_.prepare(*fourth, [this, key](Actor& self) -> Result<void> {
                TRY(make(self, {{key, some_value()}}));
                return self.commit();
            });
        }
        stage_.tell(*holder, [this, fourth](Actor& self) -> Result<void> {
            if (fourth) stage_.let(*fourth);
            return case_.commits ? self.commit() : self.abort();
        });
        return true;
    }
    // Right behind the position, right before what comes next, or the range's last place.
    std::string place_of_fourth() {
        const auto ahead = scan_->ahead(case_.backward, 1);
        const uint64_t where = rng_.below(3);
        if (where == 0 && scan_->at())
            return case_.backward ? before(*scan_->at()) : behind(*scan_->at());
        if (where == 1 && !ahead.empty())
            return case_.backward ? behind(ahead[0]) : before(ahead[0]);
        return case_.backward ? behind(case_.bounds.low) : before(case_.bounds.high);
    }
    void end_all() {
        // Who has waited may hold locks then.
        for (int turns = 0; turns < 20 && !stage_.all_free(); ++turns)
            while (Actor* const holder = stage_.holder(scan_->actor()))
                stage_.tell(*holder, [this](Actor& self) {
                    return case_.commits ? self.commit() : self.abort();
                });
        if (!stage_.all_free()) {
            ADD_FAILURE() << "a transaction waits for ever";
            std::abort();
        }
        for (const auto& actor : stage_.actors())
            EXPECT_TRUE(!actor->error() || &*actor == &scan_->actor() ||
                        actor->error()->code == ErrorCode::deadlock ||
                        (stage_.dropped && actor->error()->code == ErrorCode::no_such_object))
                << actor->error()->text();
        if (stage_.dropped) return;
        State content;
        helper([&](Actor& self) -> Result<void> {
            TRY(self.begin(Isolation::serializable));
            Cursor cursor = stage_.index().scan(self.txn());
            while (TRY(cursor.next())) content.emplace(cursor.key(), cursor.value());
            TRY(self.abort());
            const auto report = TRY(stage_.tree().verify());
            EXPECT_EQ(report.records, content.size());
            return {};
        });
        ASSERT_TRUE(stage_.all_free());
        compare(content, stage_.newest());
    }

    static void compare(const State& found, const State& committed) {
        for (const auto& [key, value] : committed) {
            const auto it = found.find(key);
            EXPECT_TRUE(it != found.end()) << key << " is missing";
            EXPECT_TRUE(it == found.end() || it->second == value)
                << key << " has another value than the committed one";
        }
        for (const auto& [key, value] : found)
            EXPECT_TRUE(committed.contains(key)) << key << " was never committed";
    }

    Stage& stage_;
    const Case case_;
    Rng rng_;
    int writes_ = 0, scan_stalls_ = 0;
    std::optional<Scan> scan_;
};

constexpr Isolation kLevels[] = {Isolation::serializable, Isolation::repeatable_read,
                                 Isolation::read_committed, Isolation::snapshot};

struct Tally {
    uint64_t scans = 0, waits = 0;
    void play(Stage& stage, const Case& c, uint64_t seed) {
        SCOPED_TRACE(describe(c) + ", seed " + std::to_string(seed));
        ++scans;
        waits += Play(stage, c, seed).run();
    }
};

// At rows, and right before and behind them.
Bounds some_bounds(Rng& rng) {
    const State all = rows();
    const auto key = [&] {
        auto it = all.begin();
        std::advance(it, rng.below(all.size()));
        const uint64_t where = rng.below(3);
        return where == 0 ? it->first : where == 1 ? before(it->first) : behind(it->first);
    };
    Bounds bounds{"random", key(), key()};
    if (bounds.low > bounds.high) std::swap(bounds.low, bounds.high);
    bounds.name = "random bounds";
    return bounds;
}

class CursorSteps : public ::testing::TestWithParam<Isolation> {};

// Each thing at each of some places, crossed with direction, bounds, ends and ghosts.
TEST_P(CursorSteps, EachThingAtEachPlace) {
    Tally tally;
    uint64_t seed = 1, skipped = 0;
    for (const std::optional<uint32_t> escalate_at : {std::optional<uint32_t>(5000), {3u}}) {
        Stage stage(escalate_at, seed);
        Case c{.isolation = GetParam()};
        for (size_t op = 0; op < kOps; ++op)
            for (const Bounds& bounds : kBounds)
                for (const size_t first : {0, 1, 2, 4, 7})
                    for (const bool backward : {false, true}) {
                        if (first > 2 && bounds.high == "a") continue;
                        const bool in_part = escalate_at == 3u || kAddressSanitizer;
                        if (in_part && ++skipped % (kAddressSanitizer ? 5 : 3) != 0) continue;
                        c.op = static_cast<Op>(op);
                        c.bounds = bounds;
                        c.first = first;
                        c.every = first == 0 ? 1 : 3;
                        c.backward = backward;
                        ++seed;
                        c.ghosts = seed % 3 == 0;
                        c.commits = seed % 2 == 0;
                        c.fourth = seed % 5 != 0;
                        c.access = c.isolation == Isolation::snapshot || seed % 4 != 0
                                       ? Access::read
                                       : static_cast<Access>(1 + seed % 8 / 4);
                        tally.play(stage, c, seed);
                        if (HasFailure()) return;
                    }
        const StoreStats stats = stage.store()->stats();
        std::printf("%lu scans, %lu waited, %lu deadlocks, %lu escalations\n", tally.scans,
                    tally.waits, stats.deadlocks, stats.escalations);
        EXPECT_EQ(escalate_at == 3u, stats.escalations > 0) << "the test is blind";
    }
    EXPECT_EQ(GetParam() == Isolation::snapshot, tally.waits == 0) << "the test is blind";
}

// Anything before any step.
TEST_P(CursorSteps, AnythingAnywhere) {
    const uint64_t first = seed_of_run(), scans = number_from("LOCKSTEP_TRANSACTIONS", 500);
    Tally tally;
    std::optional<Stage> stage;
    for (uint64_t seed = first; seed < first + scans && !HasFailure(); ++seed) {
        Rng rng(seed);
        if (!stage || seed % 100 == 0) {
            stage.reset();
            stage.emplace(rng.chance(0.5) ? 4u : 5000u, seed);
        }
        Case c{.isolation = GetParam(), .any_op = true};
        c.backward = rng.chance(0.5);
        c.bounds = rng.chance(0.3) ? kBounds[rng.below(std::size(kBounds))] : some_bounds(rng);
        c.ghosts = rng.chance(0.3);
        c.every = 1 + rng.below(3);
        c.commits = rng.chance(0.6);
        c.fourth = rng.chance(0.6);
        if (c.isolation != Isolation::snapshot && rng.chance(0.3))
            c.access = static_cast<Access>(rng.below(3));
        tally.play(*stage, c, seed);
    }
    std::printf("%lu scans, %lu waited\n", tally.scans, tally.waits);
}

std::string name_of(const ::testing::TestParamInfo<Isolation>& info) {
    constexpr const char* kNames[] = {"serializable", "repeatable_read", "read_committed",
                                      "snapshot"};
    return kNames[static_cast<int>(info.param)];
}
INSTANTIATE_TEST_SUITE_P(Levels, CursorSteps, ::testing::ValuesIn(kLevels), name_of);

}  // namespace lockstep::isolation::cursor_test
