// labels: model
// txn_watch_stress_test.cc - an operator ends transactions at any moment of their lives. What
// commit() returned is what the store holds.
#include <atomic>
#include <thread>

#include "tests/sim_store.h"
#include "tests/sm/store_crash_util.h"

namespace lockstep::txn_watch_stress_test {

constexpr uint64_t kAccounts = 24, kClerks = 8, kMoney = 1000;

std::string account(uint64_t n) { return "account" + std::to_string(n); }
std::string clerk(uint64_t n) { return "clerk" + std::to_string(n); }

// Clerks move money between accounts; each transaction also counts itself in the clerk's record.
class Bank {
public:
    Bank(Store& store, uint64_t transfers) : store_(store), transfers_(transfers) {}

    void open() {
        auto made = store_.run([&](Txn& txn) -> Result<Index> {
            const Index index = TRY(store_.create_index(txn, "bank"));
            for (uint64_t n = 0; n < kAccounts; ++n) TRY(put(index, txn, account(n), kMoney));
            for (uint64_t n = 0; n < kClerks; ++n) TRY(put(index, txn, clerk(n), 0));
            return index;
        });
        CHECK(made);
        index_ = *made;
    }
    Handle<void> start(uint64_t number, uint64_t seed) {
        return store_.start([this, number, seed]() -> Result<void> {
            Rng rng(seed * 100 + number);
            for (uint64_t n = 0; n < transfers_; ++n) {
                const Result<void> done = transfer(number, rng);
                if (done) ++committed_[number];
                else note(done.error());
            }
            ++ended_;
            return {};
        });
    }
    uint64_t ended() const { return ended_.load(); }
    uint64_t by_operator() const { return by_operator_.load(); }
    uint64_t others() const { return others_.load(); }

    // On a user thread.
    void check() {
        uint64_t sum = 0;
        const auto read = store_.run([&](Txn& txn) -> Result<void> {
            sum = 0;
            for (uint64_t n = 0; n < kAccounts; ++n) sum += TRY(get(txn, account(n)));
            for (uint64_t n = 0; n < kClerks; ++n)
                EXPECT_EQ(TRY(get(txn, clerk(n))), committed_[n].load()) << n;
            return {};
        });
        EXPECT_TRUE(read) << read.error().text();
        EXPECT_EQ(sum, kAccounts * kMoney);
    }

private:
    static Result<void> put(const Index& index, Txn& txn, const std::string& key, uint64_t value) {
        return index.put(txn, key, std::to_string(value));
    }
    Result<uint64_t> get(Txn& txn, const std::string& key) {
        std::string text;
        if (!TRY(index_.get(txn, key, text, Access::update))) return uint64_t{0};
        return std::stoull(text);
    }
    static void dawdle(Rng& rng) {
        switch (rng.below(4)) {
            case 0: return yield();
            case 1: return sleep_for(rng.below(300) * kMicrosecond);
            default: return;
        }
    }
    Result<void> transfer(uint64_t number, Rng& rng) {
        Txn txn = TRY(
            store_.begin({.durability = rng.below(2) ? Durability::durable : Durability::lazy}));
        const std::string from = account(rng.below(kAccounts)), to = account(rng.below(kAccounts));
        const uint64_t amount = rng.below(10);
        if (from != to) {
            const uint64_t had = TRY(get(txn, from));
            dawdle(rng);
            if (had >= amount) {
                TRY(put(index_, txn, from, had - amount));
                dawdle(rng);
                TRY(put(index_, txn, to, TRY(get(txn, to)) + amount));
            }
        }
        const Savepoint here = TRY(txn.savepoint());
        TRY(put(index_, txn, clerk((number + 1) % kClerks), 0));
        if (rng.below(2)) dawdle(rng);
        TRY(txn.rollback_to(here));
        TRY(put(index_, txn, clerk(number), TRY(get(txn, clerk(number))) + 1));
        dawdle(rng);
        TRY(txn.commit());
        return {};
    }
    void note(const Error& error) {
        if (error.code == ErrorCode::ended_by_operator) ++by_operator_;
        else if (error.code != ErrorCode::deadlock && error.code != ErrorCode::lock_timeout)
            ADD_FAILURE() << error.text();
        else ++others_;
    }

    Store& store_;
    const uint64_t transfers_;
    Index index_;
    std::atomic<uint64_t> committed_[kClerks]{};
    std::atomic<uint64_t> ended_{0}, by_operator_{0}, others_{0};
};

// Ends transactions until the clerks have ended.
void operate(Store& store, const Bank& bank, Rng& rng, Nanos pause) {
    while (bank.ended() < kClerks) {
        const std::vector<TransactionInfo> all = store.transactions();
        for (size_t n = 1; n < all.size(); ++n) EXPECT_LT(all[n - 1].id.value, all[n].id.value);
        if (!all.empty()) {
            const auto done = store.end_transaction(all[rng.below(all.size())].id);
            EXPECT_TRUE(done || done.error().code == ErrorCode::txn_ended ||
                        done.error().code == ErrorCode::bad_argument)
                << done.error().text();
        }
        sleep_for(rng.below(pause) + 1);
    }
}

class TxnWatchStress : public StoreCrash {};

TEST_F(TxnWatchStress, OnKernelThreads) {
    Options options = small_options(2);
    options.sync = false;
    options.lock_timeout = 100 * kMillisecond;
    options.logger = {};
    Store store = open("db", options);
    Bank bank(store, 300);
    bank.open();
    const uint64_t seed = seed_of_run();
    std::vector<Handle<void>> clerks;
    for (uint64_t n = 0; n < kClerks; ++n) clerks.push_back(bank.start(n, seed));
    std::thread outside([&] {
        Rng rng(seed + 1);
        operate(store, bank, rng, 200 * kMicrosecond);
    });
    auto inside = store.start([&]() -> Result<void> {
        Rng rng(seed + 2);
        operate(store, bank, rng, kMillisecond);
        return {};
    });
    for (auto& clerk : clerks) EXPECT_TRUE(clerk.join());
    outside.join();
    EXPECT_TRUE(inside.join());
    EXPECT_GT(bank.by_operator(), 10u);
    bank.check();
    EXPECT_TRUE(store.transactions().empty());
    expect_sound(store);
    ASSERT_OK(store.close());
}

// Every schedule can be repeated by its seed.
TEST(TxnWatchSim, InRandomSchedules) {
    uint64_t by_operator = 0;
    const uint64_t first = seed_of_run();
    for (uint64_t seed = first; seed < first + 12; ++seed) {
        SCOPED_TRACE(seed);
        threads::SimDisk disk({.seed = seed});
        SimStore store(disk, seed, 2);
        store.interrupt_one_in(20);
        ASSERT_OK(store.open());
        Bank bank(*store, 40);
        bank.open();
        std::vector<Handle<void>> clerks;
        for (uint64_t n = 0; n < kClerks; ++n) clerks.push_back(bank.start(n, seed));
        Rng rng(seed);
        bool stopped = false;
        auto operators = store->start([&]() -> Result<void> {
            operate(*store, bank, rng, 500 * kMicrosecond);
            stopped = true;
            return {};
        });
        ASSERT_TRUE(store.step_until([&] { return stopped; }, kMicrosecond));
        by_operator += bank.by_operator();
        bank.check();
        EXPECT_TRUE(store->transactions().empty());
        auto faults = store->verify();
        ASSERT_OK(faults);
        for (const auto& fault : *faults) ADD_FAILURE() << fault;
        EXPECT_TRUE(store.close());
        EXPECT_EQ(store.errors(), "");
    }
    EXPECT_GT(by_operator, 20u);
}

}  // namespace lockstep::txn_watch_stress_test
