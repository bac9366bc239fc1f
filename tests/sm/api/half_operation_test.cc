// labels: sim
// half_operation_test.cc - an operation fails after it has logged pages of a large value, and those
// cannot be undone at once. Its transaction can only end.
#include <gtest/gtest.h>

#include "tests/sim_store.h"

namespace lockstep::half_operation_test {

using threads::SimFault;

class HalfOperation : public ::testing::Test {
protected:
    void SetUp() override {
        disk_.faults().set_odds(SimFault::read_error, 1);
        disk_.faults().enable(false);
        ASSERT_TRUE(store_.open());
        expect_done([&]() -> Result<void> {
            return store_->run([&](Txn& txn) -> Result<void> {
                return TRY(store_->create_index(txn, "i")).insert(txn, "there", "v");
            });
        });
    }
    void expect_done(std::function<Result<void>()> fn) {
        Result<void> done;
        store_.on_thread([&] { done = fn(); });
        EXPECT_TRUE(done) << done.error().text();
    }
    // The operation returns `plain`, and `failed` if the log cannot be read.
    void expect_end(std::function<Result<bool>(const Index&, Txn&)> operation, ErrorCode plain) {
        for (const bool fails : {false, true}) {
            SCOPED_TRACE(fails);
            expect_done([&]() -> Result<void> {
                Txn txn = TRY(store_->begin());
                const Index index = TRY(store_->index("i"));
                TRY(index.put(txn, "before", fails ? "2" : "1"));
                disk_.faults().enable(fails);
                const Result<bool> done = operation(index, txn);
                disk_.faults().enable(false);
                const ErrorCode code = done.has_value() ? ErrorCode::none : done.error().code;
                EXPECT_EQ(code, fails ? ErrorCode::io_error : plain);
                EXPECT_EQ(index.put(txn, "after", "v").has_value(), !fails);
                EXPECT_EQ(txn.commit().has_value(), !fails);
                if (fails) TRY(txn.abort());
                return {};
            });
            expect_done([&]() -> Result<void> {
                const auto faults = TRY(store_->verify());
                EXPECT_TRUE(faults.empty()) << faults.front();
                return {};
            });
        }
    }

    // Longer than the part of the log that is in memory.
    const std::string large_ = std::string(3 << 20, 'l');
    threads::SimDisk disk_;
    SimStore store_{disk_};
};

TEST_F(HalfOperation, AnInsertOfAKeyThatIsThere) {
    expect_end(
        [&](const Index& index, Txn& txn) -> Result<bool> {
            TRY(index.insert(txn, "there", large_));
            return true;
        },
        ErrorCode::duplicate_key);
}

TEST_F(HalfOperation, AnUpdateOfAKeyThatIsNotThere) {
    expect_end([&](const Index& index,
                   Txn& txn) -> Result<bool> { return index.update(txn, "none", large_); },
               ErrorCode::none);
}

}  // namespace lockstep::half_operation_test
