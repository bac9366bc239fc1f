// labels: unit
// c_callbacks_test.cc - callbacks of the C interface that close the store or end the transaction
// whose call has called them: an error, and no wait without an end.
#include "tests/sm/c/c_util.h"

namespace lockstep::c_callbacks_test {

class CCallbacks : public CStore {
public:
    using CStore::error, CStore::root, CStore::store;  // for callbacks

    void SetUp() override {
        CStore::SetUp();
        lockstep_record_id id;
        ASSERT_C(lockstep_begin(store, nullptr, &txn, &error));
        ASSERT_C(lockstep_create_heap(txn, "h", &heap, &error));
        ASSERT_C(lockstep_heap_insert(txn, heap, lockstep_text("record"), &id, &error));
        ASSERT_C(lockstep_commit(txn, nullptr, &error));
    }

    lockstep_txn* txn = nullptr;
    lockstep_heap* heap = nullptr;
    int codes[2] = {};  // of what a callback tried
};

// In the session form callbacks run on the thread that made the call.
TEST_F(CCallbacks, CannotCloseTheStoreOfTheirCall) {
    const auto each_record = [](void* arg, lockstep_record_id, lockstep_slice) {
        auto& t = *static_cast<CCallbacks*>(arg);
        t.codes[0] = lockstep_close(t.store, &t.error);
        t.codes[1] = lockstep_commit(t.txn, nullptr, nullptr);
        return true;
    };
    ASSERT_C(lockstep_begin(store, nullptr, &txn, &error));
    ASSERT_EQ(lockstep_heap_scan(txn, heap, each_record, this, nullptr), LOCKSTEP_OK);
    for (const int code : codes) EXPECT_EQ(code, LOCKSTEP_WRONG_THREAD);
    EXPECT_NE(std::string(error.text).find("callback"), std::string::npos) << error.text;
    const auto each_txn = [](void* arg, const lockstep_transaction_info*) {
        auto& t = *static_cast<CCallbacks*>(arg);
        t.codes[0] = lockstep_close(t.store, nullptr);
        // Another store may be opened and closed there.
        lockstep_store* other = nullptr;
        t.codes[1] = lockstep_open((t.root + "/other").c_str(), nullptr, &other, &t.error);
        if (t.codes[1] == LOCKSTEP_OK) t.codes[1] = lockstep_close(other, &t.error);
        return false;
    };
    ASSERT_C(lockstep_transactions(store, each_txn, this, &error));
    EXPECT_EQ(codes[0], LOCKSTEP_WRONG_THREAD);
    EXPECT_EQ(codes[1], LOCKSTEP_OK) << error.text;
    EXPECT_C(lockstep_commit(txn, nullptr, &error));
}

// In the callback form they may use the transaction, but not end it.
TEST_F(CCallbacks, CannotEndTheTransactionOfTheirCall) {
    const auto body = [](lockstep_txn* within, void* arg) {
        auto& t = *static_cast<CCallbacks*>(arg);
        t.txn = within;
        const auto each = [](void* self, lockstep_record_id id, lockstep_slice) {
            auto& u = *static_cast<CCallbacks*>(self);
            bool found = false;
            EXPECT_EQ(lockstep_heap_get(u.txn, u.heap, id, LOCKSTEP_ACCESS_READ, nullptr, 0,
                                        nullptr, &found, nullptr),
                      LOCKSTEP_OK);
            u.codes[0] = lockstep_commit(u.txn, nullptr, &u.error);
            u.codes[1] = lockstep_abort(u.txn, nullptr);
            for (const int end : {LOCKSTEP_END_COMMIT, LOCKSTEP_END_ABORT}) {
                lockstep_request request = {};
                request.size = sizeof request;
                request.txn = u.txn;
                request.end = end;
                EXPECT_EQ(lockstep_batch(&request), LOCKSTEP_BAD_ARGUMENT);
                EXPECT_EQ(request.txn, u.txn);  // it goes on
            }
            return found;
        };
        const int scanned = lockstep_heap_scan(within, t.heap, each, arg, nullptr);
        lockstep_record_id id;
        const int stored =
            lockstep_heap_insert(within, t.heap, lockstep_text("second"), &id, nullptr);
        return scanned != LOCKSTEP_OK ? scanned : stored;
    };
    ASSERT_EQ(lockstep_run(store, body, this, nullptr, nullptr), LOCKSTEP_OK);
    for (const int code : codes) EXPECT_EQ(code, LOCKSTEP_BAD_ARGUMENT);
    EXPECT_NE(std::string(error.text).find("is inside a call"), std::string::npos) << error.text;
    // What came behind it has committed.
    int records = 0;
    const auto count = [](void* arg, lockstep_record_id, lockstep_slice) {
        ++*static_cast<int*>(arg);
        return true;
    };
    ASSERT_C(lockstep_begin(store, nullptr, &txn, &error));
    EXPECT_C(lockstep_heap_scan(txn, heap, count, &records, &error));
    EXPECT_EQ(records, 2);
    EXPECT_C(lockstep_commit(txn, nullptr, &error));
}

}  // namespace lockstep::c_callbacks_test
