// labels: model
// snapshot_transfer_test.cc - transfers between accounts on two workers, whose sum every snapshot
// must see.
#include <array>
#include <atomic>
#include <map>
#include <string>
#include <vector>

#include <lockstep/key.h>
#include "tests/sm/services/snapshot_test_util.h"

namespace lockstep::snapshot_transfer_test {

std::string account(uint64_t number) { return std::string(Slice(Key().u64(number))); }

class SnapshotTransfers : public StoreCrash {
protected:
    Index index() { return *store_->index("i"); }
    std::optional<Store> store_;
};

TEST_F(SnapshotTransfers, OnTwoWorkersKeepTheirSum) {
    constexpr uint64_t kAccounts = 200;
    constexpr int64_t kEach = 1000;
    store_.emplace(open("db", small_options(2)));
    make(*store_, "i", "h");
    ASSERT_OK(store_->run([&](Txn& txn) -> Result<void> {
        for (uint64_t i = 0; i < kAccounts; ++i)
            TRY(index().put(txn, account(i), std::to_string(kEach)));
        return {};
    }));
    std::atomic<bool> stop{false};
    std::atomic<uint64_t> transfers{0}, scans{0}, reads{0};
    const uint64_t seed = seed_of_run();
    const auto transfer = [&](Rng& rng) {
        return store_->run(
            [&](Txn& txn) -> Result<void> {
                const uint64_t from = rng.below(kAccounts), to = rng.below(kAccounts);
                std::string a, b;
                // An account without money has no record.
                const bool has_from = TRY(index().get(txn, account(from), a, Access::write));
                const int64_t amount = static_cast<int64_t>(rng.below(800));
                const int64_t there = has_from ? std::stoll(a) : 0;
                if (there < amount || from == to) return {};
                if (there == amount) TRY(index().erase(txn, account(from)));
                else TRY(index().put(txn, account(from), std::to_string(there - amount)));
                if (rng.below(3) == 0) threads::yield();
                const bool has_to = TRY(index().get(txn, account(to), b, Access::write));
                const int64_t then = has_to ? std::stoll(b) : 0;
                if (then + amount != 0)
                    TRY(index().put(txn, account(to), std::to_string(then + amount)));
                if (rng.below(8) == 0) return fail(ErrorCode::rolled_back);
                return {};
            },
            kWriter);
    };
    std::vector<Handle<void>> all;
    for (int w = 0; w < 2; ++w) {
        for (uint64_t t = 0; t < 3; ++t)
            all.push_back(store_->start(
                [&, t, w]() -> Result<void> {
                    Rng rng(seed * 100 + t * 2 + static_cast<uint64_t>(w));
                    while (!stop.load()) {
                        const auto done = transfer(rng);
                        if (!done && done.error().code != ErrorCode::rolled_back) return done;
                        ++transfers;
                    }
                    return {};
                },
                w));
        all.push_back(store_->start(
            [&, w]() -> Result<void> {
                Rng rng(seed * 100 + 50 + static_cast<uint64_t>(w));
                while (!stop.load()) {
                    Txn txn = TRY(store_->begin(kSnapshot));
                    std::map<std::string, std::string> seen;
                    Cursor cursor = index().scan(txn);
                    int64_t sum = 0;
                    while (TRY(cursor.next())) {
                        sum += std::stoll(std::string(cursor.value()));
                        seen.emplace(cursor.key(), cursor.value());
                        if (seen.size() % 16 == 0) threads::yield();
                    }
                    EXPECT_EQ(sum, kEach * static_cast<int64_t>(kAccounts));
                    ++scans;
                    for (uint64_t i = 0; i < kAccounts; i += 7) {
                        std::string value;
                        const bool found = TRY(index().get(txn, account(i), value));
                        EXPECT_EQ(found, seen.contains(account(i)));
                        EXPECT_EQ(found ? value : "", found ? seen[account(i)] : "");
                        ++reads;
                    }
                    std::array<std::string, 20> keys;
                    for (std::string& key : keys) key = account(rng.below(kAccounts));
                    TRY(compare_many(index(), txn, keys, seen));
                    if (scans.load() % 8 == 0) {
                        Cursor back = index().scan(txn);
                        int64_t again = 0;
                        while (TRY(back.prev())) again += std::stoll(std::string(back.value()));
                        EXPECT_EQ(again, sum);
                    }
                    TRY(txn.commit());
                    if (scans.load() >= 400 && transfers.load() >= 2000) stop.store(true);
                }
                return {};
            },
            w));
    }
    for (auto& handle : all) EXPECT_TRUE(handle.join());
    EXPECT_GT(transfers.load(), 0u);
    expect_sound(*store_);
    ASSERT_OK(store_->close());
}

}  // namespace lockstep::snapshot_transfer_test
