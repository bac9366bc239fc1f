// needs_test_util.h - a store with an index of numbered rows, whose needs transactions announce.
#pragma once

#include <lockstep/need.h>
#include "tests/sm/store_crash_util.h"

namespace lockstep {

inline std::string key_of(int n) {
    std::string key = std::to_string(1'000'000 + n);
    return key;
}

class Needs : public StoreCrash, public ::testing::WithParamInterface<StepsMode> {
protected:
    static constexpr int kRows = 4000;

    Options options(uint32_t workers = 1) const {
        Options o = small_options(workers);
        o.steps = {};
        o.steps.mode = GetParam();
        o.steps.window_records = 0;
        return o;
    }
    bool walks() const { return needs_on(GetParam()); }

    void TearDown() override {
        store_.reset();
        StoreCrash::TearDown();
    }
    void open_rows(const Options& options) {
        store_.emplace(open("a", options));
        ASSERT_OK(store_->run([&](Txn& txn) -> Result<void> {
            rows_ = TRY(store_->create_index(txn, "rows"));
            for (int i = 0; i < kRows; i += 2)
                TRY(rows_.insert(txn, key_of(i), "value " + std::to_string(i)));
            return {};
        }));
    }
    // The announced keys, in the order of `numbers`.
    void announce(Txn& txn, const std::vector<int>& numbers, Access access = Access::read) {
        std::vector<std::string> keys;
        for (const int n : numbers) keys.push_back(key_of(n));
        std::vector<Need> needs;
        for (const std::string& key : keys) needs.push_back({rows_, key, access});
        txn.will_need(needs);
    }
    // Indexes that no need of this store leads to.
    void make_useless(Store& other, Index& elsewhere, Index& dropped) {
        ASSERT_OK(other.run([&](Txn& txn) -> Result<void> {
            elsewhere = TRY(other.create_index(txn, "rows"));
            return elsewhere.insert(txn, key_of(2), "elsewhere");
        }));
        ASSERT_OK(store_->run([&](Txn& txn) -> Result<void> {
            dropped = TRY(store_->create_index(txn, "dropped"));
            return dropped.insert(txn, key_of(2), "dropped");
        }));
        ASSERT_OK(store_->run([&](Txn& txn) { return store_->drop(txn, "dropped"); }));
    }
    uint64_t used() const { return store_->stats().needs_used; }
    uint64_t walked() const { return store_->stats().needs_walked; }

    std::optional<Store> store_;
    Index rows_;
};

}  // namespace lockstep
