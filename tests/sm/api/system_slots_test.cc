// labels: sim
// system_slots_test.cc - transactions that the store runs for itself do not need what all callers
// have taken; loads whose pages could not be freed.
#include <gtest/gtest.h>

#include "sm/api/engine_of.h"
#include "sm/catalog/catalog.h"
#include "tests/code_of.h"
#include "tests/seed_of_run.h"
#include "tests/sim_store.h"
#include "txn/transaction.h"

namespace lockstep::system_slots_test {

using threads::SimDisk;
using threads::SimFault;

constexpr int kCallers = 16;  // Options::transactions_max

class SystemSlots : public testing::Test {
protected:
    SimDisk disk{{.seed = seed_of_run()}};
    SimStore store{disk, seed_of_run()};

    void open() {
        store.options().transactions_max = kCallers;
        const auto opened = store.open();
        ASSERT_TRUE(opened) << opened.error().text();
    }
    // All callers have a transaction before any of them calls `then`. False: they hang.
    bool all(const std::function<Result<void>(Txn&, int)>& then) {
        int begun = 0, ended = 0;
        for (int n = 0; n < kCallers; ++n)
            (void)store->start([&, n]() -> Result<void> {
                const Result<void> done = store->run([&](Txn& txn) -> Result<void> {
                    ++begun;
                    while (begun < kCallers) yield();
                    return then(txn, n);
                });
                EXPECT_TRUE(done) << done.error().text();
                ++ended;
                return {};
            });
        const bool finished = store.step_until(
            [&] { return ended == kCallers || store.clock().now() > 3600 * kSecond; });
        return finished && ended == kCallers;
    }
    void expect_sound() {
        std::vector<std::string> faults;
        store.on_thread([&] { faults = store->verify().value(); });
        EXPECT_TRUE(faults.empty()) << faults.front();
    }
    std::vector<sm::DropEntry> drop_list() {
        std::vector<sm::DropEntry> entries;
        store.on_thread([&] { entries = *store.engine().catalog->drop_list().entries(); });
        return entries;
    }
};

// TT-2. Each had its own transaction and waited for a second one.
TEST_F(SystemSlots, AllCallersMayCreateAtOnce) {
    open();
    ASSERT_TRUE(all([&](Txn& txn, int n) -> Result<void> {
        TRY(store->create_index(txn, "index" + std::to_string(n)));
        TRY(store->create_heap(txn, "heap" + std::to_string(n)));
        return {};
    }));
    EXPECT_EQ(store->list().size(), 2u * kCallers);
    EXPECT_TRUE(drop_list().empty());
    expect_sound();
    ASSERT_TRUE(store.close());
}

TEST_F(SystemSlots, AllCallersMayLoadAtOnce) {
    open();
    ASSERT_TRUE(all([&](Txn& txn, int n) -> Result<void> {
        const Index index = TRY(store->create_index(txn, "index" + std::to_string(n)));
        const std::string key = "k";
        int left = 1;
        return store->bulk_load(txn, index, [&](Slice& k, Slice& v) {
            k = v = key;
            return left-- > 0;
        });
    }));
    // One after the other would not show it: a drop, too, frees its pages in a second transaction.
    ASSERT_TRUE(
        all([&](Txn& txn, int n) { return store->drop(txn, "index" + std::to_string(n)); }));
    EXPECT_TRUE(store->list().empty() && drop_list().empty());
    expect_sound();
    ASSERT_TRUE(store.close());
}

// More system transactions than there are slots: the rest waits for its turn.
TEST_F(SystemSlots, OthersWaitForASystemSlot) {
    open();
    constexpr uint32_t kSlots = txn::TransactionTable::kSystemSlots, kMore = 8;
    txn::TransactionTable& table = *store.engine().txns;
    std::vector<txn::Transaction*> held;
    store.on_thread([&] {
        for (uint32_t n = 0; n < kSlots; ++n) held.push_back(*table.begin_system({}));
    });
    uint32_t created = 0;
    for (uint32_t n = 0; n < kMore; ++n)
        (void)store->spawn([&, n](Txn& txn) -> Result<void> {
            TRY(store->create_index(txn, "index" + std::to_string(n)));
            ++created;
            return {};
        });
    store.on_thread([&] {
        sleep_for(kSecond);
        EXPECT_EQ(created, 0u);
        for (txn::Transaction* txn : held) {
            txn->thread = threads::current();
            table.finish_abort(*txn, true);
        }
    });
    ASSERT_TRUE(store.step_until([&] { return created == kMore; }));
    ASSERT_TRUE(store.close());
}

class LoadLeftovers : public SystemSlots {
protected:
    static constexpr int kValues = 100;  // of 200 KB: far more than the buffer pool has

    // Loads large values; the last key does not ascend if `refused`.
    Result<void> load(Txn& txn, bool refused) {
        const std::string value(200'000, 'v');
        std::string key;
        int n = 0;
        return store->bulk_load(txn, TRY(store->index(txn, "i")), [&](Slice& k, Slice& v) {
            key = n < kValues ? "k" + std::to_string(100 + n) : "a";
            k = key, v = value;
            return n++ < kValues + refused;
        });
    }
    // The chains are not in memory, and cannot be read.
    void reads_fail(bool on) { disk.faults().set_odds(SimFault::read_error, on ? 1 : 0); }
    void make_index() {
        open();
        store.on_thread([&] {
            ASSERT_TRUE(store->run([&](Txn& txn) -> Result<void> {
                TRY(store->create_index(txn, "i"));
                return {};
            }));
        });
        expect_sound();
    }
    void expect_freed_at_open() {
        ASSERT_EQ(drop_list().size(), 1u);
        EXPECT_EQ(drop_list()[0].kind, sm::DropKind::load);
        ASSERT_TRUE(store.close());
        ASSERT_TRUE(store.open());
        EXPECT_TRUE(drop_list().empty());
        expect_sound();
        ASSERT_TRUE(store.close());
    }
};

TEST_F(LoadLeftovers, OfARefusedLoadAreFreedAtOpen) {
    make_index();
    store.on_thread([&] {
        const auto refused = store->run([&](Txn& txn) -> Result<void> {
            std::string key;
            int n = 0;
            const std::string value(200'000, 'v');
            const auto done =
                store->bulk_load(txn, TRY(store->index("i")), [&](Slice& k, Slice& v) {
                    if (n == kValues) reads_fail(true);
                    key = n < kValues ? "k" + std::to_string(100 + n) : "a";
                    k = key, v = value;
                    return n++ <= kValues;
                });
            reads_fail(false);  // the drop list can be changed again
            return done;
        });
        EXPECT_EQ(code_of(refused), ErrorCode::bad_argument);
        EXPECT_GT(disk.faults().count(SimFault::read_error), 0u);
    });
    expect_freed_at_open();
}

// What can be freed at once leaves no entry.
TEST_F(LoadLeftovers, OfASoundStoreAreNone) {
    make_index();
    store.on_thread([&] {
        EXPECT_EQ(code_of(store->run([&](Txn& txn) { return load(txn, true); })),
                  ErrorCode::bad_argument);
    });
    EXPECT_TRUE(drop_list().empty());
    expect_sound();
    ASSERT_TRUE(store.close());
}

}  // namespace lockstep::system_slots_test
