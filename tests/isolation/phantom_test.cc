// labels: sim model
// phantom_test.cc - a range (or a missing key) is read twice while another transaction
// changes one key, at every position, in every interleaving.
//
// Concepts   Trees: empty; only ghosts; one leaf; several leaves (rows of a quarter of a page, so
//            that some positions lie at a leaf's first and last key and some at a key that only the
//            fence knows). Rows have odd keys, and every position 0..n is changed in turn: even
//            ones lie between rows, before the first and after the last. What changes is there, or
//            absent, or a ghost. The reader scans forward or backward, in ranges that end before,
//            at and behind the position, or asks for the key. It may put a row of its own into the
//            gap between its two looks, above or below the position: then it protects two gaps, and
//            must go on to. serializable: both reads give the same and some serial order explains
//            all. repeatable_read: the same for rows that were there; phantoms may appear, and must
//            be seen to appear wherever a row can be inserted into a range that is read.
#include "tests/isolation/player.h"

namespace lockstep::isolation::phantom_test {

struct Tree {
    const char* name;
    int rows;  // at 1, 3, 5 ...
    size_t row_bytes;
    bool ghosts;  // all rows have just been erased
};
constexpr Tree kTrees[] = {{"empty", 0, 0, false},
                           {"one leaf", 4, 0, false},
                           {"several leaves", 11, 1900, false},
                           {"ghosts in one leaf", 4, 0, true},
                           {"ghosts in several leaves", 8, 1900, true}};

enum Before { absent, present, ghost };

struct Case {
    Script reader;
    Action change;
    // What stands at the position when the schedule starts.
    Before before;
    bool shows_phantoms;    // at repeatable_read some schedule must
    bool cuts_gap = false;  // the reader inserts, too
    bool erases = false;    // the reader erases a range
};

// All readers and changes for a position.
std::vector<Case> cases(int at, int end) {
    std::vector<Script> readers = {{read(at), read(at)}};
    // {at - 2, at + 1}: the scan ends in the gap of the position, behind a row of the same leaf.
    const std::pair<int, int> ranges[] = {{0, 1'000'000},  {at, at + 1},     {at + 1, end},
                                          {at - 1, at},    {at - 2, at + 3}, {at, 1'000'000},
                                          {at - 2, at + 1}};
    for (const auto& [low, high] : ranges) {
        if (low < 0 || low >= high) continue;
        readers.push_back({select(1, low, high), select(1, low, high)});
        readers.push_back({select_back(1, low, high), select_back(1, low, high)});
        readers.push_back({select(1, low, high), select_back(1, low, high)});
    }
    std::vector<Case> all;
    for (const Script& reader : readers) {
        const Action& r = reader[0];
        const bool covers = r.kind != Action::read && r.key <= at && at < r.key_end;
        for (const Before before : {absent, present, ghost}) {
            for (const Action& change : {insert(at, 7), put(at, 7), erase(at), write(at, 7)}) {
                if (before == present
                        ? change.kind == Action::insert
                        : change.kind == Action::erase || change.kind == Action::write)
                    continue;
                all.push_back({reader, change, before, covers && before == absent});
            }
        }
    }
    // A row of the reader's own between its looks: only a row that is not there leaves room for it
    // beside the position.
    for (const int own : {at - 1, at + 1}) {
        if (at % 2 == 0 || own < 0) continue;
        for (const Script& reader :
             {Script{select(1), insert(own, 9), select(1)},
              Script{select_back(1, at - 1, at + 2), insert(own, 9), select(1, at - 1, at + 2)}})
            for (const Before before : {absent, ghost})
                all.push_back({reader, insert(at, 7), before, false, true});
    }
    // A range that is erased, and looked at: nothing may have come into it. These
    // come last, because they leave other rows.
    for (const auto& [low, high] : ranges) {
        if (low < 0 || low >= high) continue;
        for (const Before before : {absent, present, ghost})
            for (const Action& change : {insert(at, 7), put(at, 7), erase(at)})
                if (before == present ? change.kind != Action::insert
                                      : change.kind != Action::erase)
                    all.push_back({{erase_range(low, high), select(1, low, high)},
                                   change,
                                   before,
                                   false,
                                   false,
                                   true});
    }
    return all;
}

std::string story(const std::vector<Outcome>& outcomes, const Table& final) {
    std::string text;
    for (const Outcome& outcome : outcomes) {
        text += outcome.committed ? "committed saw" : "aborted saw";
        for (const Rows& rows : outcome.seen) {
            text += " {";
            for (const auto& [key, value] : rows)
                text += " " + std::to_string(key) + ":" + std::to_string(value);
            text += " }";
        }
        text += "; ";
    }
    text += "finally";
    for (const auto& [key, value] : final)
        text += " " + std::to_string(key) + ":" + std::to_string(value);
    return text;
}

class PhantomTest : public ::testing::TestWithParam<Tree> {
protected:
    // Brings the position into the state that a case wants.
    void prepare(Player& player, int at, Before before) {
        if (before != absent) player.change(put(at, 5), false);
        if (before != present) player.change(erase(at), false);
        if (before != absent) return;
        // The cleaner takes the ghost away, and all others.
        player.pass_time(20 * kMillisecond);
        make_ghosts(player);
    }
    void make_ghosts(Player& player) {
        for (const auto& [key, value] : ghosts_) player.change(put(key, value), false);
        for (const auto& [key, value] : ghosts_) player.change(erase(key), false);
    }
    void play(Player& player, const Table& rows, int at, const Case& c, Isolation level,
              bool& seen) {
        const size_t steps[] = {c.reader.size() + 1, 2};
        for (const bool aborts : {false, true}) {
            const Script scripts[] = {c.reader,
                                      aborts ? Script{c.change, abort()} : Script{c.change}};
            each_interleaving(steps, [&](const std::vector<int>& order) {
                if (HasFailure()) return;
                if (c.cuts_gap) {
                    for (const int own : {at - 1, at + 1}) player.change(erase(own), false);
                    player.pass_time(20 * kMillisecond);
                }
                if (c.erases) {
                    player.reset(rows, false);
                    make_ghosts(player);
                }
                prepare(player, at, c.before);
                const auto outcomes = player.play(scripts, order, {.isolation = level});
                Table initial = rows;
                initial.erase(at);
                if (c.before == present) initial[at] = 5;
                check(initial, scripts, outcomes, level, player.table(false), seen);
                ++played_;
            });
        }
    }
    void check(const Table& initial, std::span<const Script> scripts,
               const std::vector<Outcome>& outcomes, Isolation level, const Table& final,
               bool& seen) {
        EXPECT_TRUE(outcomes[0].committed && (outcomes[1].committed || scripts[1].size() == 2))
            << "one reader and one writer of one key cannot deadlock";
        if (level == Isolation::serializable) {
            EXPECT_TRUE(serializable(initial, scripts, outcomes, final)) << story(outcomes, final);
            return;
        }
        Rows first = outcomes[0].seen[0], second = outcomes[0].seen[1];
        std::ranges::sort(first);
        std::ranges::sort(second);
        seen |= first != second;
        EXPECT_TRUE(std::ranges::includes(second, first)) << "a row that was read has changed";
    }
    size_t played_ = 0;
    // Rows that have just been erased when a schedule starts.
    Table ghosts_;
};

TEST_P(PhantomTest, AtEveryPosition) {
    const Tree& tree = GetParam();
    Player player(StepsMode::off, tree.row_bytes);
    Table rows;
    for (int i = 0; i < tree.rows; ++i) rows[2 * i + 1] = 3;
    const int end = 2 * tree.rows + 1;
    for (int at = 0; at < end; ++at) {
        player.reset(rows, false);
        ghosts_ = tree.ghosts ? rows : Table{};
        ghosts_.erase(at);
        const Table initial = tree.ghosts ? Table{} : rows;
        make_ghosts(player);
        const auto shape = player.shape();
        ASSERT_GE(shape.ghosts, ghosts_.size());  // a leaf keeps its last ghost (BT-5)
        ASSERT_EQ(shape.pages_leaf > 1, tree.row_bytes > 0);
        for (const Case& c : cases(at, end)) {
            SCOPED_TRACE(std::string(tree.name) + ", position " + std::to_string(at) + ", change " +
                         std::to_string(c.change.kind) + ", state " + std::to_string(c.before) +
                         ", reader " + std::to_string(c.reader[0].kind) + "," +
                         std::to_string(c.reader[1].kind) + " from " +
                         std::to_string(c.reader[0].key) + " to " +
                         std::to_string(c.reader[0].key_end));
            bool seen = false, ignored = false;
            play(player, initial, at, c, Isolation::serializable, ignored);
            if (!c.cuts_gap && !c.erases)
                play(player, initial, at, c, Isolation::repeatable_read, seen);
            if (c.shows_phantoms) {
                EXPECT_TRUE(seen) << "the test is blind";
            }
            if (HasFailure()) return;
        }
    }
    std::printf("%s: %zu schedules\n", tree.name, played_);
}

INSTANTIATE_TEST_SUITE_P(Trees, PhantomTest, ::testing::ValuesIn(kTrees), [](const auto& info) {
    std::string name = info.param.name;
    std::ranges::replace(name, ' ', '_');
    return name;
});

}  // namespace lockstep::isolation::phantom_test
