// labels: unit
// follow_up_test.cc - needs that lead to others: what follow-ups see, whose records operations then
// find without a search; wrong and endless ones.
#include <lockstep/packet.h>
#include <lockstep/sync.h>
#include "tests/sm/needs/needs_test_util.h"

namespace lockstep::follow_up_test {

// An index of names that leads to rows: the middle one of a name's rows.
class FollowUps : public Needs {
protected:
    static constexpr int kNames = 300;

    // Entries are name and number; rows 2n, 2n+2 and 2n+4 have name n.
    static std::string name_of(int name) { return "name " + key_of(name) + ":"; }
    void open_names() {
        open_rows(options());
        ASSERT_OK(store_->run([&](Txn& txn) -> Result<void> {
            names_ = TRY(store_->create_index(txn, "names"));
            for (int name = 0; name < kNames; ++name)
                for (const int row : {0, 2, 4})
                    TRY(names_.insert(txn, name_of(name) + key_of(2 * name + row), ""));
            return {};
        }));
    }

    Index names_;
};

INSTANTIATE_TEST_SUITE_P(Modes, FollowUps,
                         ::testing::Values(StepsMode::off, StepsMode::prefetch, StepsMode::on));

class MiddleRow final : public FollowUp {
public:
    explicit MiddleRow(Index& rows) : rows_(rows) {}
    void follow(std::span<const Slice> keys, Announcement& to) const override {
        const Slice key = keys[(keys.size() - 1) / 2];
        to.add(rows_, key.substr(key.find(':') + 1), Access::write);
        seen.emplace_back(keys.begin(), keys.end());
    }
    mutable std::vector<std::vector<std::string>> seen;

private:
    Index& rows_;
};

TEST_P(FollowUps, LeadToRecordsThatOperationsFind) {
    open_names();
    const MiddleRow middle(rows_);
    ASSERT_OK(store_->run([&](Txn& txn) -> Result<void> {
        TRY(names_.erase(txn, name_of(7) + key_of(14)));
        return {};
    }));
    ASSERT_OK(store_->run([&](Txn& txn) -> Result<void> {
        const std::string a = name_of(7), b = name_of(200), none = name_of(1234);
        const Need needs[] = {{names_, a, Access::read, 0, &middle},
                              {names_, b, Access::read, 0, &middle},
                              {names_, none, Access::read, 0, &middle}};
        txn.will_need(needs);
        EXPECT_EQ(walked(), walks() ? 3 + 2 : 0);
        std::string value;
        EXPECT_TRUE(TRY(rows_.get(txn, key_of(16), value)));
        EXPECT_EQ(value, "value 16");
        TRY(rows_.update(txn, key_of(402), "new"));
        return {};
    }));
    EXPECT_EQ(used(), walks() ? 2 : 0);
    ASSERT_EQ(middle.seen.size(), walks() ? 2u : 0u);
    if (walks()) {
        // The erased entry is a ghost or gone.
        EXPECT_EQ(middle.seen[0], (std::vector{name_of(7) + key_of(16), name_of(7) + key_of(18)}));
        EXPECT_EQ(middle.seen[1].size(), 3u);
    }
    EXPECT_EQ(index_content(*store_, "rows").at(key_of(402)), "new");
    expect_sound(*store_);
}

TEST_P(FollowUps, ALoneOneIsNotCalled) {
    open_names();
    const MiddleRow middle(rows_);
    ASSERT_OK(store_->run([&](Txn& txn) -> Result<void> {
        const std::string name = name_of(7);
        const Need need{names_, name, Access::read, 0, &middle};
        txn.will_need({&need, 1});
        return {};
    }));
    EXPECT_EQ(walked(), walks() ? 1 : 0);
    EXPECT_TRUE(middle.seen.empty());
}

// At most kKeysMax keys, those that have the need's key as their beginning, and none beyond 48
// bytes.
TEST_P(FollowUps, SeeTheFirstKeysOnly) {
    open_names();
    const MiddleRow middle(rows_);
    ASSERT_OK(store_->run([&](Txn& txn) -> Result<void> {
        TRY(names_.insert(txn, name_of(7) + std::string(40, 'x'), ""));
        return {};
    }));
    ASSERT_OK(store_->run([&](Txn& txn) -> Result<void> {
        const std::string one = name_of(7);
        const Need needs[] = {{names_, "name", Access::read, 0, &middle},
                              {names_, one, Access::read, 0, &middle},
                              {names_, "nam", Access::read, 0, &middle}};
        txn.will_need(needs);
        return {};
    }));
    ASSERT_EQ(middle.seen.size(), walks() ? 3u : 0u);
    if (walks()) {
        ASSERT_EQ(middle.seen[0].size(), FollowUp::kKeysMax);
        for (int i = 0; i < static_cast<int>(FollowUp::kKeysMax); ++i)
            EXPECT_EQ(middle.seen[0][i], name_of(i / 3) + key_of(2 * (i / 3) + 2 * (i % 3)));
        EXPECT_EQ(middle.seen[1].size(), 3u);
        EXPECT_EQ(middle.seen[2], middle.seen[0]);
    }
}

// Adds itself again and again, and everything that needs may have wrong.
class Endless final : public FollowUp {
public:
    Endless(Index& index, Index& elsewhere) : index_(index), elsewhere_(elsewhere) {}
    void follow(std::span<const Slice> keys, Announcement& to) const override {
        ++calls;
        to.add(elsewhere_, keys[0]);
        to.add(Index(), keys[0]);
        to.add(index_, std::string(100'000, 'k'));
        for (int i = 0; i < 1000; ++i) to.add(index_, keys[0], Access::write, UINT32_MAX, this);
    }
    mutable int calls = 0;

private:
    Index& index_;
    Index& elsewhere_;
};

TEST_P(FollowUps, EndlessAndWrongOnesCostTimeOnly) {
    open_names();
    Store other = open("b", options());
    Index elsewhere;
    ASSERT_OK(other.run([&](Txn& txn) -> Result<void> {
        elsewhere = TRY(other.create_index(txn, "names"));
        return elsewhere.insert(txn, name_of(7), "");
    }));
    const Endless endless(names_, elsewhere);
    ASSERT_OK(store_->run([&](Txn& txn) -> Result<void> {
        const std::string name = name_of(7);
        const Need needs[] = {{names_, name, Access::read, 0, &endless},
                              {names_, name, Access::read, 0, &endless}};
        txn.will_need(needs);
        std::string value;
        EXPECT_TRUE(TRY(rows_.get(txn, key_of(2), value)));
        return {};
    }));
    EXPECT_LE(endless.calls, 64);
    EXPECT_EQ(endless.calls > 16, walks());
    expect_sound(*store_);
}

class ByName final : public Packet {
public:
    ByName(Store& store, const Index& names, const Index& rows, std::string name, std::string row)
        : store_(store), names_(names), rows_(rows), name_(std::move(name)), row_(std::move(row)) {}
    void announce(Announcement& to) override { to.add(names_, name_, Access::read, 0, &middle_); }
    void run() override {
        EXPECT_TRUE(store_.run([&](Txn& txn) -> Result<void> {
            std::string value;
            EXPECT_TRUE(TRY(rows_.get(txn, row_, value)));
            return {};
        }));
        done.set();
    }
    Event done;

private:
    Store& store_;
    Index names_, rows_;
    const std::string name_, row_;
    const MiddleRow middle_{rows_};
};

// The follow-ups of a team's packets.
TEST_P(FollowUps, OfPackets) {
    open_names();
    std::vector<std::unique_ptr<ByName>> packets;
    for (int i = 0; i < 40; ++i)
        packets.push_back(
            std::make_unique<ByName>(*store_, names_, rows_, name_of(7 * i), key_of(14 * i + 2)));
    on_thread(*store_, [&] {  // the worker is busy until all wait
        for (auto& packet : packets) EXPECT_TRUE(store_->submit(*packet));
    });
    for (auto& packet : packets) EXPECT_TRUE(packet->done.wait());
    // Without teams each packet is walked alone. Some find their leaf where the one before was.
    EXPECT_EQ(walked(), !walks() ? 0 : teams_on(GetParam()) ? 80 : 40);
    EXPECT_EQ(used() > 0, teams_on(GetParam()));
}

}  // namespace lockstep::follow_up_test
