// labels: unit
// needs_test.cc - records that transactions announce: operations find them without a search, wrong
// announcements change nothing, pages are read ahead.
#include "tests/sm/needs/needs_test_util.h"

namespace lockstep::needs_test {

INSTANTIATE_TEST_SUITE_P(Modes, Needs,
                         ::testing::Values(StepsMode::off, StepsMode::prefetch, StepsMode::on,
                                           StepsMode::ctx),
                         [](const auto& info) {
                             switch (info.param) {
                                 case StepsMode::off: return "off";
                                 case StepsMode::prefetch: return "prefetch";
                                 case StepsMode::on: return "on";
                                 default: return "ctx";
                             }
                         });

TEST_P(Needs, OperationsTakeTheirPlacesFromThem) {
    open_rows(options());
    const std::vector<int> numbers{100, 2000, 2001, 6, 3998};  // 2001 does not exist
    ASSERT_OK(store_->run([&](Txn& txn) -> Result<void> {
        EXPECT_EQ(txn.walks_needs(), walks());
        announce(txn, numbers, Access::write);
        for (const int n : numbers) {
            std::string value;
            EXPECT_EQ(TRY(rows_.get(txn, key_of(n), value)), n % 2 == 0);
            if (n % 2 == 0) {
                EXPECT_EQ(value, "value " + std::to_string(n));
            }
        }
        return {};
    }));
    EXPECT_EQ(walked(), walks() ? 5 : 0);
    EXPECT_EQ(used(), walks() ? 5 : 0);
    // Not in the order of the announcement, and changes.
    ASSERT_OK(store_->run([&](Txn& txn) -> Result<void> {
        announce(txn, {10, 1000, 2013, 3000}, Access::write);
        TRY(rows_.erase(txn, key_of(3000)));
        TRY(rows_.insert(txn, key_of(2013), "new"));
        TRY(rows_.patch(txn, key_of(10), 0, "VALUE"));
        TRY(rows_.update(txn, key_of(1000), "other"));
        return {};
    }));
    EXPECT_EQ(used(), walks() ? 9 : 0);
    const auto content = index_content(*store_, "rows");
    EXPECT_EQ(content.at(key_of(10)), "VALUE 10");
    EXPECT_EQ(content.at(key_of(1000)), "other");
    EXPECT_EQ(content.at(key_of(2013)), "new");
    EXPECT_FALSE(content.contains(key_of(3000)));
    EXPECT_EQ(content.size(), kRows / 2);
    expect_sound(*store_);
}

// The walk of one need ends at its leaf.
TEST_P(Needs, OneNeedAloneGivesTheLeaf) {
    open_rows(options());
    ASSERT_OK(store_->run([&](Txn& txn) -> Result<void> {
        std::string value;
        for (const int n : {0, 1234, 2001, 3998, 4321}) {
            announce(txn, {n});
            EXPECT_EQ(TRY(rows_.get(txn, key_of(n), value)), n < kRows && n % 2 == 0) << n;
        }
        announce(txn, {2013}, Access::write);
        TRY(rows_.insert(txn, key_of(2013), "new"));
        announce(txn, {1000}, Access::write);
        TRY(rows_.patch(txn, key_of(1000), 0, "VALUE"));
        announce(txn, {777});
        Cursor cursor = rows_.scan(txn, key_of(777), key_of(779));
        EXPECT_TRUE(TRY(cursor.next()));
        EXPECT_EQ(cursor.key(), key_of(778));
        return {};
    }));
    EXPECT_EQ(walked(), walks() ? 8 : 0);
    EXPECT_EQ(used(), walks() ? 8 : 0);
    const auto content = index_content(*store_, "rows");
    EXPECT_EQ(content.at(key_of(2013)), "new");
    EXPECT_EQ(content.at(key_of(1000)), "VALUE 1000");
    // The leaf is split before the use, and the key moves.
    for (int at = 10; at < 3900; at += 390) {
        ASSERT_OK(store_->run([&](Txn& txn) -> Result<void> {
            announce(txn, {at + 40});
            for (int i = at + 1; i < at + 80; i += 2)
                TRY(rows_.put(txn, key_of(i), std::string(400, 'v')));
            std::string value;
            EXPECT_TRUE(TRY(rows_.get(txn, key_of(at + 40), value))) << at;
            EXPECT_TRUE(value.ends_with("alue " + std::to_string(at + 40))) << value;
            return {};
        }));
    }
    expect_sound(*store_);
}

TEST_P(Needs, ModificationsTakeThemToo) {
    open_rows(options());
    const auto shout = [](std::span<std::byte> value) {
        value[0] = std::byte{'V'};
        return ByteRange{0, 1};
    };
    ASSERT_OK(store_->run([&](Txn& txn) -> Result<void> {
        std::byte one[40], several[20][40];
        announce(txn, {10, 1000, 3000}, Access::write);
        EXPECT_TRUE(TRY(rows_.modify(txn, key_of(1000), one, shout)));
        EXPECT_EQ(used(), 0u);  // counted when the transaction ends
        std::vector<int> numbers;
        std::vector<std::string> keys;
        for (int i = 0; i < 20; ++i) keys.push_back(key_of(numbers.emplace_back(150 * i + 4)));
        announce(txn, numbers, Access::write);
        std::vector<Lookup> lookups;
        for (size_t i = 0; i < keys.size(); ++i)
            lookups.push_back({.key = keys[i], .buffer = several[i]});
        EXPECT_EQ(
            TRY(rows_.modify_many(
                txn, lookups, [&](size_t, std::span<std::byte> value) { return shout(value); })),
            keys.size());
        return {};
    }));
    EXPECT_EQ(used(), walks() ? 1 + 20 : 0);
    const auto content = index_content(*store_, "rows");
    for (const int n : {1000, 4, 154, 2854})
        EXPECT_EQ(content.at(key_of(n)), "Value " + std::to_string(n));
    EXPECT_EQ(content.at(key_of(10)), "value 10");
    expect_sound(*store_);
}

TEST_P(Needs, ManyReadsAndScansTakeThemToo) {
    open_rows(options());
    ASSERT_OK(store_->run([&](Txn& txn) -> Result<void> {
        std::vector<int> numbers;
        for (int i = 0; i < 20; ++i) numbers.push_back(i * 177);
        announce(txn, numbers);
        std::vector<std::string> keys;
        for (const int n : numbers) keys.push_back(key_of(n));
        std::vector<std::array<std::byte, 40>> buffers(keys.size());
        std::vector<Lookup> lookups;
        for (size_t i = 0; i < keys.size(); ++i)
            lookups.push_back({.key = keys[i], .buffer = buffers[i]});
        EXPECT_EQ(TRY(rows_.get_many(txn, lookups)), 10u);
        for (size_t i = 0; i < keys.size(); ++i) {
            EXPECT_EQ(lookups[i].found, numbers[i] % 2 == 0);
            const std::string expected = "value " + std::to_string(numbers[i]);
            if (lookups[i].found) {
                EXPECT_EQ(std::string(reinterpret_cast<char*>(buffers[i].data()), lookups[i].bytes),
                          expected);
            }
        }
        Cursor cursor = rows_.scan(txn, keys[5], keys[6]);
        EXPECT_TRUE(TRY(cursor.next()));
        EXPECT_EQ(cursor.key(), key_of(numbers[5] + 1));
        return {};
    }));
    EXPECT_EQ(used(), walks() ? 21 : 0);
}

TEST_P(Needs, WrongOnesCostTimeOnly) {
    open_rows(options());
    Store other = open("b", options());
    Index elsewhere, dropped;
    make_useless(other, elsewhere, dropped);
    const uint64_t before = walked();
    ASSERT_OK(store_->run([&](Txn& txn) -> Result<void> {
        const std::string key = key_of(2), huge(100'000, 'k'), longer(49, 'k');
        std::vector<Need> needs{
            {elsewhere, key}, {Index(), key}, {rows_, huge}, {rows_, longer}, {rows_, ""}};
        needs.push_back({dropped, key});
        txn.will_need({});
        txn.will_need(needs);
        needs.assign(1'000'000, {rows_, key, Access::write, UINT32_MAX});
        txn.will_need(needs);
        std::string value;
        EXPECT_TRUE(TRY(rows_.get(txn, key, value)));
        EXPECT_EQ(value, "value 2");
        EXPECT_FALSE(TRY(rows_.get(txn, "", value)));
        EXPECT_FALSE(TRY(rows_.get(txn, longer, value)));
        EXPECT_EQ(rows_.get(txn, huge, value).error().code, ErrorCode::key_too_long);
        EXPECT_EQ(dropped.get(txn, key, value).error().code, ErrorCode::no_such_object);
        return {};
    }));
    EXPECT_EQ(walked() - before, walks() ? 2 + 64 : 0);
    // An ended transaction announces nothing.
    ASSERT_OK(store_
                  ->start([&]() -> Result<void> {
                      Txn txn = TRY(store_->begin());
                      TRY(txn.commit());
                      announce(txn, {2});
                      return {};
                  })
                  .join());
    EXPECT_EQ(walked() - before, walks() ? 2 + 64 : 0);
}

// Between the announcement and the use, leaves split, merge and are freed.
TEST_P(Needs, OldPlacesAreNotTrusted) {
    open_rows(options());
    std::map<std::string, std::string> model;
    for (int i = 0; i < kRows; i += 2) model[key_of(i)] = "value " + std::to_string(i);
    Rng rng(7);
    for (int round = 0; round < 60; ++round) {
        const int at = static_cast<int>(rng.below(kRows - 400));
        ASSERT_OK(store_->run([&](Txn& txn) -> Result<void> {
            std::vector<int> numbers;
            for (int i = 0; i < 30; ++i) numbers.push_back(at + static_cast<int>(rng.below(400)));
            announce(txn, numbers, Access::write);
            for (int i = at; i < at + 400; ++i) {
                const std::string key = key_of(i);
                if (round % 2 == 0 && model.erase(key) != 0) TRY(rows_.erase(txn, key));
                if (round % 2 != 0 && rng.chance(0.7)) {
                    const std::string value(rng.below(200), 'v');
                    TRY(rows_.put(txn, key, value));
                    model[key] = value;
                }
            }
            for (const int n : numbers) {
                std::string value;
                const auto it = model.find(key_of(n));
                EXPECT_EQ(TRY(rows_.get(txn, key_of(n), value)), it != model.end()) << n;
                if (it != model.end()) {
                    EXPECT_EQ(value, it->second);
                }
            }
            return {};
        }));
    }
    EXPECT_EQ(index_content(*store_, "rows"), model);
    expect_sound(*store_);
}

TEST_P(Needs, TransactionsThatAnnounceRunToCompletion) {
    open_rows(options());
    std::string trace;
    const auto run_three = [&](bool announced) {
        std::vector<Handle<void>> handles;
        trace.clear();
        on_thread(*store_, [&] {
            for (const char name : {'a', 'b', 'c'})
                handles.push_back(store_->spawn([&, name](Txn& txn) -> Result<void> {
                    if (announced) announce(txn, {2, 4, 8});
                    for (int i = 0; i < 3; ++i) {
                        std::string value;
                        trace += name;
                        TRY(rows_.get(txn, key_of(i * 1000), value));
                    }
                    return {};
                }));
        });
        for (auto& handle : handles) EXPECT_TRUE(handle.join());
    };
    const bool teams = teams_on(GetParam());
    for (const bool announced : {false, true, false}) {
        run_three(announced);
        const bool alone = !teams || (announced && walks());
        EXPECT_EQ(trace == "aaabbbccc", alone) << trace;
    }
}

TEST_P(Needs, PagesAreReadAhead) {
    open_rows(options());
    ASSERT_OK(store_->close());
    store_.emplace(open("a", options()));
    const auto found = store_->index("rows");
    ASSERT_OK(found);
    rows_ = *found;
    ASSERT_OK(store_->run([&](Txn& txn) -> Result<void> {
        std::string value;
        TRY(rows_.get(txn, key_of(0), value));  // the path down
        const uint64_t before = store_->stats().reads_ahead;
        announce(txn, {3998});
        EXPECT_EQ(store_->stats().reads_ahead - before, walks() ? 1 : 0);
        EXPECT_TRUE(TRY(rows_.get(txn, key_of(3998), value)));
        EXPECT_EQ(value, "value 3998");
        return {};
    }));
}

}  // namespace lockstep::needs_test
