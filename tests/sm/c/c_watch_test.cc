// labels: unit
// c_watch_test.cc - lockstep_watch_waits(): what a kernel thread does while its calls wait, and how
// it gives a wait up.
#include <atomic>
#include <thread>

#include "tests/sm/c/c_util.h"

namespace lockstep::c_watch_test {

class CWatch : public CStore {
public:  // for callbacks
    void SetUp() override {
        CStore::SetUp();
        index_ = make_index("i");
        lockstep_txn_options_init(&patient_, sizeof patient_);
        patient_.lock_timeout = LOCKSTEP_NEVER;
        ASSERT_C(lockstep_begin(store, nullptr, &holder_, &error));
        ASSERT_C(lockstep_put(holder_, index_, key(), lockstep_text("held"), &error));
    }
    void TearDown() override {
        lockstep_watch_waits(nullptr, nullptr);
        if (holder_ != nullptr) EXPECT_C(lockstep_abort(holder_, &error));
        CStore::TearDown();
    }
    static lockstep_slice key() { return lockstep_text("k"); }
    // Gives up at the n-th look.
    static int look(void* arg) {
        auto& self = *static_cast<CWatch*>(arg);
        return ++self.looks_ >= self.patience_;
    }
    void give_up_at(int n) {
        looks_ = 0;
        patience_ = n;
        lockstep_watch_waits(look, this);
    }
    int get(lockstep_txn* txn) {
        size_t bytes = 0;
        bool found = false;
        return lockstep_get(txn, index_, key(), LOCKSTEP_ACCESS_READ, nullptr, 0, &bytes, &found,
                            &error);
    }
    // Transactions that the application has begun.
    size_t open() {
        size_t count = 0;
        const auto each = [](void* arg, const lockstep_transaction_info* info) {
            *static_cast<size_t*>(arg) += !info->internal;
            return true;
        };
        lockstep_watch_waits(nullptr, nullptr);
        EXPECT_C(lockstep_transactions(store, each, &count, &error));
        return count;
    }

    lockstep_index* index_ = nullptr;
    lockstep_txn* holder_ = nullptr;
    lockstep_txn_options patient_;
    int looks_ = 0, patience_ = 0;
};

TEST_F(CWatch, ACallOfASessionIsCancelled) {
    lockstep_txn* txn = nullptr;
    ASSERT_C(lockstep_begin(store, &patient_, &txn, &error));
    give_up_at(3);
    EXPECT_EQ(get(txn), LOCKSTEP_CANCELLED) << error.text;
    EXPECT_GE(looks_, 3);
    // The transaction can only roll back.
    EXPECT_EQ(get(txn), LOCKSTEP_CANCELLED);
    EXPECT_C(lockstep_abort(txn, &error));
    EXPECT_EQ(open(), 1u);
}

TEST_F(CWatch, AWatchThatDoesNotGiveUpChangesNothing) {
    lockstep_txn* txn = nullptr;
    ASSERT_C(lockstep_begin(store, &patient_, &txn, &error));
    // It makes calls of its own: at the third look it lets the other transaction go.
    const auto watch = [](void* arg) {
        auto& self = *static_cast<CWatch*>(arg);
        if (++self.looks_ == 3) {
            EXPECT_EQ(lockstep_abort(self.holder_, nullptr), LOCKSTEP_OK);
            self.holder_ = nullptr;
        }
        return 0;
    };
    lockstep_watch_waits(watch, this);
    EXPECT_EQ(get(txn), LOCKSTEP_OK) << error.text;
    EXPECT_EQ(looks_, 3);
    EXPECT_C(lockstep_commit(txn, nullptr, &error));
}

TEST_F(CWatch, AWatchTakesItselfAway) {
    lockstep_txn* txn = nullptr;
    ASSERT_C(lockstep_begin(store, nullptr, &txn, &error));
    const auto watch = [](void* arg) {
        ++static_cast<CWatch*>(arg)->looks_;
        lockstep_watch_waits(nullptr, nullptr);
        return 0;
    };
    lockstep_watch_waits(watch, this);
    EXPECT_EQ(get(txn), LOCKSTEP_LOCK_TIMEOUT);
    EXPECT_EQ(looks_, 1);
    EXPECT_C(lockstep_abort(txn, &error));
}

TEST_F(CWatch, WholeTransactionsAreCancelled) {
    const auto body = [](lockstep_txn* txn, void* arg) {
        auto& self = *static_cast<CWatch*>(arg);
        return lockstep_put(txn, self.index_, key(), lockstep_text("x"), nullptr);
    };
    give_up_at(2);
    EXPECT_EQ(lockstep_run(store, body, this, &patient_, &error), LOCKSTEP_CANCELLED) << error.text;
    lockstep_operation put = {};
    put.kind = LOCKSTEP_OP_PUT;
    put.index = index_;
    put.key = key();
    lockstep_request request;
    lockstep_request_init(&request, sizeof request);
    request.store = store;
    request.options = &patient_;
    request.operations = &put;
    request.count = 1;
    request.end = LOCKSTEP_END_COMMIT;
    give_up_at(2);
    lockstep_batch(&request);
    EXPECT_EQ(request.code, LOCKSTEP_CANCELLED);
    EXPECT_EQ(open(), 1u);
}

// It has not begun: nobody waits for that, and what begins later is rolled back.
TEST_F(CWatch, ABeginIsGivenUp) {
    std::vector<lockstep_txn*> all;
    lockstep_options known;
    known.size = sizeof known;
    ASSERT_C(lockstep_get_options(store, &known, nullptr, &error));
    for (uint32_t n = 1; n < known.transactions_max; ++n)
        ASSERT_C(lockstep_begin(store, nullptr, &all.emplace_back(), &error));
    lockstep_txn* late = nullptr;
    for (int turn = 0; turn < 3; ++turn) {
        give_up_at(turn + 1);
        EXPECT_EQ(lockstep_begin(store, &patient_, &late, &error), LOCKSTEP_CANCELLED)
            << error.text;
        EXPECT_EQ(late, nullptr);
    }
    lockstep_watch_waits(nullptr, nullptr);
    for (lockstep_txn* const txn : all) EXPECT_C(lockstep_abort(txn, &error));
    while (open() != 1) lockstep_sleep_for(1'000'000);
    // The watch is no hindrance to what begins at once.
    give_up_at(1000);
    EXPECT_C(lockstep_begin(store, &patient_, &late, &error));
    EXPECT_C(lockstep_commit(late, nullptr, &error));
}

// Another thread lets go as this one gives up: whatever comes first, nothing remains.
TEST_F(CWatch, ABeginThatIsGivenUpAsItBegins) {
    lockstep_options known;
    known.size = sizeof known;
    ASSERT_C(lockstep_get_options(store, &known, nullptr, &error));
    std::vector<lockstep_txn*> all(known.transactions_max - 1);
    for (lockstep_txn*& txn : all) ASSERT_C(lockstep_begin(store, nullptr, &txn, &error));
    for (int turn = 0; turn < 20; ++turn) {
        std::thread other([&] {
            lockstep_sleep_for(50'000'000 + static_cast<uint64_t>(turn) * 20'000);
            EXPECT_EQ(lockstep_abort(all.back(), nullptr), LOCKSTEP_OK);
        });
        give_up_at(1);
        lockstep_txn* late = nullptr;
        const int code = lockstep_begin(store, &patient_, &late, nullptr);
        other.join();
        lockstep_watch_waits(nullptr, nullptr);
        if (code == LOCKSTEP_OK) EXPECT_C(lockstep_abort(late, &error));
        else EXPECT_EQ(code, LOCKSTEP_CANCELLED);
        while (open() != known.transactions_max - 1) lockstep_sleep_for(1'000'000);
        ASSERT_C(lockstep_begin(store, nullptr, &all.back(), &error));
    }
    for (lockstep_txn* const txn : all) EXPECT_C(lockstep_abort(txn, &error));
}

// Calls in no transaction go on.
TEST_F(CWatch, OtherCallsGoOn) {
    give_up_at(1);
    EXPECT_C(lockstep_checkpoint(store, &error));
    EXPECT_C(lockstep_abort(holder_, &error));
    holder_ = nullptr;
    EXPECT_C(lockstep_close(store, &error));
    store = nullptr;
}

}  // namespace lockstep::c_watch_test
