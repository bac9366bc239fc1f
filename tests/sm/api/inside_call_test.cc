// labels: unit
// inside_call_test.cc - functions of the application that end the transaction whose call has called
// them: an error, and the call goes on.
#include <gtest/gtest.h>

#include <optional>
#include <utility>

#include "tests/code_of.h"
#include "tests/sm/store_crash_util.h"

namespace lockstep::inside_call_test {

class InsideCall : public StoreCrash {
protected:
    void SetUp() override {
        StoreCrash::SetUp();
        store_.emplace(open("a"));
        ASSERT_TRUE(store_->run([&](Txn& txn) -> Result<void> {
            rows_ = LOCKSTEP_TRY(store_->create_index(txn, "rows"));
            heap_ = LOCKSTEP_TRY(store_->create_heap(txn, "heap"));
            for (uint32_t n = 0; n < kRecords; ++n) {
                LOCKSTEP_TRY(rows_.insert(txn, Key().u32(n), "value"));
                LOCKSTEP_TRY(heap_.insert(txn, "record"));
            }
            return {};
        }));
    }
    void TearDown() override {
        const auto faults = store_->verify();
        EXPECT_TRUE(faults && faults->empty());
        EXPECT_TRUE(store_->close());
        store_.reset();
        StoreCrash::TearDown();
    }
    // All ends of a transaction, and the rollback to `begin`, are refused.
    static void try_to_end(Txn& txn, const Savepoint& begin) {
        const auto refused = txn.commit();
        EXPECT_EQ(code_of(refused), ErrorCode::bad_argument);
        EXPECT_TRUE(refused.has_value() || refused.error().text().contains("is inside a call"));
        EXPECT_EQ(code_of(txn.abort()), ErrorCode::bad_argument);
        EXPECT_EQ(code_of(txn.prepare("gid")), ErrorCode::bad_argument);
        EXPECT_EQ(code_of(txn.rollback_to(begin)), ErrorCode::bad_argument);
        EXPECT_TRUE(txn.live());
    }
    // Another transaction, which the function may run.
    void use_another() {
        EXPECT_TRUE(store_->run([&](Txn& txn) { return rows_.put(txn, "other", "value"); }));
    }

    static constexpr uint32_t kRecords = 300;
    std::optional<Store> store_;
    Index rows_;
    Heap heap_;
};

TEST_F(InsideCall, OfABulkLoad) {
    constexpr uint32_t kLoaded = 3000;
    const auto loaded = store_->run([&](Txn& txn) -> Result<void> {
        const Savepoint begin = LOCKSTEP_TRY(txn.savepoint());
        const Index fresh = LOCKSTEP_TRY(store_->create_index(txn, "loaded"));
        uint32_t n = 0;
        Key key;
        return store_->bulk_load(txn, fresh, [&](Slice& k, Slice& value) {
            if (n == kLoaded) return false;
            if (n == kLoaded / 2) try_to_end(txn, begin), use_another();
            key = Key().u32(n++);
            k = key, value = "value";
            return true;
        });
    });
    ASSERT_TRUE(loaded) << loaded.error().text();
    const auto count = store_->run([&](Txn& txn) -> Result<uint32_t> {
        uint32_t n = 0;
        Cursor cursor = LOCKSTEP_TRY(store_->index(txn, "loaded")).scan(txn);
        while (LOCKSTEP_TRY(cursor.next())) ++n;
        return n;
    });
    EXPECT_EQ(count.value_or(0), kLoaded);
}

TEST_F(InsideCall, OfAScanOfAHeap) {
    for (const Isolation isolation : {Isolation::serializable, Isolation::repeatable_read,
                                      Isolation::read_committed, Isolation::snapshot}) {
        const auto scanned = store_->run(
            [&](Txn& txn) -> Result<uint32_t> {
                const Savepoint begin = LOCKSTEP_TRY(txn.savepoint());
                uint32_t n = 0;
                LOCKSTEP_TRY(heap_.scan(txn, [&](RecordId, Slice) {
                    if (n++ == kRecords / 2) try_to_end(txn, begin), use_another();
                    return true;
                }));
                return n;
            },
            {.isolation = isolation});
        EXPECT_EQ(scanned.value_or(0), kRecords);
    }
}

TEST_F(InsideCall, OfTheBuildingOfASecondaryIndex) {
    const auto built = store_->run([&](Txn& txn) -> Result<bool> {
        const Savepoint begin = LOCKSTEP_TRY(txn.savepoint());
        bool called = false;
        LOCKSTEP_TRY(store_->create_index(
            txn, "by_value",
            {.of = rows_,
             .key = [](Slice, Slice value, SecondaryKeys& keys) { keys.add(value); },
             .progress =
                 [&](const BuildProgress&) {
                     if (!std::exchange(called, true)) try_to_end(txn, begin);
                 }}));
        return called;
    });
    EXPECT_TRUE(built.value_or(false));
}

// Behind the call it ends as ever.
TEST_F(InsideCall, TheTransactionEndsBehindIt) {
    auto ended = store_->start([&]() -> Result<void> {
        Txn txn = LOCKSTEP_TRY(store_->begin());
        LOCKSTEP_TRY(heap_.scan(txn, [](RecordId, Slice) { return false; }));
        LOCKSTEP_TRY(rows_.put(txn, "k", "v"));
        LOCKSTEP_TRY(txn.commit());
        return {};
    });
    EXPECT_TRUE(ended.join());
}

}  // namespace lockstep::inside_call_test
