// labels: unit
// key_call_test.cc - key functions of secondary indexes that call the store: an error at once.
#include <gtest/gtest.h>

#include <functional>
#include <optional>
#include <thread>

#include "tests/code_of.h"
#include "tests/sm/store_crash_util.h"

namespace lockstep {
namespace {

class KeyFunctionCalls : public StoreCrash {
protected:
    void SetUp() override {
        StoreCrash::SetUp();
        store_.emplace(open("a"));
        ASSERT_TRUE(store_->run([&](Txn& txn) -> Result<void> {
            rows_ = LOCKSTEP_TRY(store_->create_index(txn, "rows"));
            other_ = LOCKSTEP_TRY(store_->create_index(txn, "other"));
            for (uint32_t n = 0; n < kRecords; ++n)
                LOCKSTEP_TRY(rows_.insert(txn, Key().u32(n), "value"));
            return {};
        }));
    }
    void TearDown() override {
        inside_ = nullptr;
        const auto faults = store_->verify();
        EXPECT_TRUE(faults && faults->empty());
        EXPECT_TRUE(store_->close());
        store_.reset();
        StoreCrash::TearDown();
    }
    // Calls that could wait for the change of a record, and what they return.
    std::vector<ErrorCode> call_all() {
        const auto put = [&](Txn& txn) { return rows_.put(txn, "key", "value"); };
        auto started = store_->start([]() -> Result<void> { return {}; });
        return {code_of(store_->run(put)), code_of(store_->checkpoint()),
                code_of(store_->wait_durable(Lsn{1})), code_of(store_->close()),
                code_of(started.join())};
    }
    Result<void> make_secondary(Txn& txn) {
        LOCKSTEP_TRY(store_->create_index(
            txn, "by_value", {.of = rows_, .key = [this](Slice, Slice value, SecondaryKeys& keys) {
                                  if (inside_) inside_();
                                  keys.add(value);
                              }}));
        return {};
    }

    static constexpr uint32_t kRecords = 3000;
    std::optional<Store> store_;
    Index rows_, other_;
    std::function<void()> inside_;
};

TEST_F(KeyFunctionCalls, AreRefusedWhileARecordChanges) {
    ASSERT_TRUE(store_->run([&](Txn& txn) { return make_secondary(txn); }));
    std::vector<ErrorCode> codes;
    ErrorCode begun = ErrorCode::none, nested = ErrorCode::none;
    std::string text;
    const auto changed = store_->run([&](Txn& txn) -> Result<void> {
        inside_ = [&] {
            inside_ = nullptr;  // for a change within
            codes = call_all();
            begun = code_of(store_->begin());
            nested = code_of(rows_.put(txn, "nested", "value"));
            text = store_->run([](Txn&) -> Result<void> { return {}; }).error().text();
        };
        return rows_.put(txn, "key", "value");
    });
    EXPECT_TRUE(changed);  // the function has given its key
    EXPECT_EQ(codes, std::vector(5, ErrorCode::wrong_thread));
    EXPECT_EQ(begun, ErrorCode::wrong_thread);
    EXPECT_EQ(nested, ErrorCode::wrong_thread);
    EXPECT_NE(text.find("key function"), std::string::npos) << text;
    // Behind it calls go on as ever.
    EXPECT_TRUE(store_->run([&](Txn& txn) { return rows_.put(txn, "later", "value"); }));
    EXPECT_TRUE(store_->checkpoint());
}

// A build runs the function on kernel threads of its own.
TEST_F(KeyFunctionCalls, AreRefusedWhileAnIndexIsBuilt) {
    std::atomic<uint32_t> refused{0}, let{0};
    inside_ = [&] {
        for (const ErrorCode code : call_all())
            (code == ErrorCode::wrong_thread ? refused : let).fetch_add(1);
    };
    ASSERT_TRUE(store_->run([&](Txn& txn) { return make_secondary(txn); }));
    EXPECT_EQ(refused.load(), 5 * kRecords);
    EXPECT_EQ(let.load(), 0u);
}

// A function may sleep: other user threads of its worker are not in it.
TEST_F(KeyFunctionCalls, OfOtherThreadsGoOn) {
    ASSERT_TRUE(store_->run([&](Txn& txn) { return make_secondary(txn); }));
    std::atomic<bool> within{false}, over{false};
    inside_ = [&] {
        within = true;
        for (int n = 0; n < 2000 && !over; ++n) sleep_for(kMillisecond);
    };
    auto changing = store_->spawn([&](Txn& txn) { return rows_.put(txn, "key", "value"); });
    while (!within) std::this_thread::sleep_for(std::chrono::milliseconds(1));
    EXPECT_TRUE(store_->run([&](Txn& txn) { return other_.put(txn, "key", "value"); }));
    over = true;
    EXPECT_TRUE(changing.join());
}

}  // namespace
}  // namespace lockstep
