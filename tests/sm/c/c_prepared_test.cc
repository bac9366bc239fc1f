// labels: unit
// c_prepared_test.cc - the C interface of two-phase commit: prepare in all forms, and the calls
// that end what is in doubt.
#include <algorithm>
#include <deque>
#include <thread>
#include <utility>
#include <vector>

#include "tests/sm/c/c_util.h"

namespace lockstep::c_prepared_test {

struct Seen {
    std::string gid;
    uint64_t id, age, locks;
};

class CPrepared : public CStore {
public:
    void SetUp() override {
        CStore::SetUp();
        index = make_index("i");
    }
    // What is in doubt is not sound to leave: close() reports it.
    void TearDown() override {
        for (const Seen& of : in_doubt())
            EXPECT_C(lockstep_rollback_prepared(store, slice_of(of.gid), nullptr, &error));
        CStore::TearDown();
    }
    static lockstep_slice slice_of(const std::string& text) {
        return lockstep_bytes(text.data(), text.size());
    }
    std::vector<Seen> in_doubt() {
        std::vector<Seen> all;
        const auto each = [](void* arg, const lockstep_prepared_info* of) {
            EXPECT_EQ(of->size, sizeof *of);
            static_cast<std::vector<Seen>*>(arg)->push_back(
                {text_of(of->gid), of->id, of->age_nanos, of->locks});
            return true;
        };
        EXPECT_C(lockstep_list_prepared(store, each, &all, &error));
        return all;
    }
    lockstep_txn* begin_with(const char* key) {
        lockstep_txn* txn = nullptr;
        EXPECT_C(lockstep_begin(store, nullptr, &txn, &error));
        EXPECT_C(lockstep_put(txn, index, lockstep_text(key), lockstep_text("v"), &error));
        return txn;
    }
    void prepare_session(const char* key, const std::string& gid) {
        int vote = -1;
        EXPECT_C(lockstep_prepare(begin_with(key), slice_of(gid), &vote, &error));
        EXPECT_EQ(vote, LOCKSTEP_VOTE_PREPARED);
    }
    // Refused at first.
    void prepare_by_request(const char* key, const std::string& gid) {
        lockstep_txn* const txn = begin_with(key);
        lockstep_request refused = request(txn, "");
        EXPECT_EQ(lockstep_batch(&refused), LOCKSTEP_BAD_ARGUMENT);
        EXPECT_EQ(refused.txn, txn);
        lockstep_request r = request(txn, gid);
        EXPECT_C(lockstep_batch(&r));
        EXPECT_EQ(r.txn, nullptr);
        EXPECT_EQ(lockstep_abort(txn, nullptr), LOCKSTEP_TXN_ENDED);
    }
    std::string get(const char* key) {
        lockstep_txn_options options;
        lockstep_txn_options_init(&options, sizeof options);
        options.isolation = LOCKSTEP_SNAPSHOT;
        lockstep_txn* txn = nullptr;
        EXPECT_C(lockstep_begin(store, &options, &txn, &error));
        const std::string value = value_of(txn, index, key);
        EXPECT_C(lockstep_commit(txn, nullptr, &error));
        return value;
    }
    bool commit(const std::string& gid) {
        bool ended = false;
        EXPECT_C(lockstep_commit_prepared(store, slice_of(gid), &ended, &error));
        return ended;
    }
    bool roll_back(const std::string& gid) {
        bool ended = false;
        EXPECT_C(lockstep_rollback_prepared(store, slice_of(gid), &ended, &error));
        return ended;
    }
    lockstep_request request(lockstep_txn* txn, const std::string& gid) {
        op = {};
        op.kind = LOCKSTEP_OP_PUT;
        op.index = index;
        op.key = lockstep_text("k");
        op.value = lockstep_text("v");
        lockstep_request r;
        lockstep_request_init(&r, sizeof r);
        r.txn = txn;
        r.store = store;
        r.operations = &op;
        r.count = 1;
        r.end = LOCKSTEP_END_PREPARE;
        r.gid = slice_of(gids.emplace_back(gid));
        r.vote = -1;
        r.error = &error;
        return r;
    }

    lockstep_index* index = nullptr;
    lockstep_operation op = {};
    std::deque<std::string> gids;  // of requests
};

TEST_F(CPrepared, ASession) {
    lockstep_txn* const txn = begin_with("k");
    lockstep_cursor* cursor = nullptr;
    ASSERT_C(lockstep_scan(txn, index, {}, {}, LOCKSTEP_ACCESS_READ, &cursor, &error));
    ASSERT_C(lockstep_prepare(txn, lockstep_text("g"), nullptr, &error));
    EXPECT_EQ(lockstep_commit(txn, nullptr, &error), LOCKSTEP_TXN_ENDED);
    EXPECT_EQ(lockstep_abort(txn, &error), LOCKSTEP_TXN_ENDED);
    EXPECT_EQ(lockstep_cursor_close(cursor, &error), LOCKSTEP_TXN_ENDED);
    EXPECT_EQ(get("k"), "none");
    std::thread([&] { EXPECT_TRUE(commit("g")); }).join();
    EXPECT_EQ(get("k"), "v");
    EXPECT_FALSE(commit("g"));
    EXPECT_FALSE(roll_back("g"));
}

TEST_F(CPrepared, InTheCallbackForm) {
    struct Arg {
        lockstep_index* index;
        int vote = -1;
    } arg{index};
    const auto body = [](lockstep_txn* txn, void* given) {
        auto& a = *static_cast<Arg*>(given);
        const int code =
            lockstep_put(txn, a.index, lockstep_text("k"), lockstep_text("v"), nullptr);
        if (code != LOCKSTEP_OK) return code;
        return lockstep_prepare(txn, lockstep_text("g"), &a.vote, nullptr);
    };
    ASSERT_C(lockstep_run(store, body, &arg, nullptr, &error));
    EXPECT_EQ(arg.vote, LOCKSTEP_VOTE_PREPARED);
    // The record is locked. An error names the transaction in doubt.
    lockstep_txn_options options;
    lockstep_txn_options_init(&options, sizeof options);
    options.lock_timeout = 1'000'000;
    EXPECT_EQ(lockstep_run(store, body, &arg, &options, &error), LOCKSTEP_LOCK_TIMEOUT);
    EXPECT_NE(std::string(error.text).find("prepared as \"g\""), std::string::npos) << error.text;
    EXPECT_TRUE(roll_back("g"));
    EXPECT_EQ(get("k"), "none");
}

// A transaction of lockstep_begin() on a user thread.
TEST_F(CPrepared, OnAUserThread) {
    const auto body = [](lockstep_txn*, void* given) {
        auto& t = *static_cast<CPrepared*>(given);
        t.prepare_session("other", "g");
        return 0;
    };
    ASSERT_C(lockstep_run(store, body, this, nullptr, &error));
    EXPECT_EQ(in_doubt().size(), 1u);
    EXPECT_TRUE(commit("g"));
    EXPECT_EQ(get("other"), "v");
}

TEST_F(CPrepared, AReaderHasNothingToDecide) {
    lockstep_txn* txn = nullptr;
    ASSERT_C(lockstep_begin(store, nullptr, &txn, &error));
    EXPECT_EQ(value_of(txn, index, "k"), "none");
    int vote = -1;
    ASSERT_C(lockstep_prepare(txn, lockstep_text("g"), &vote, &error));
    EXPECT_EQ(vote, LOCKSTEP_VOTE_READ_ONLY);
    EXPECT_EQ(lockstep_abort(txn, &error), LOCKSTEP_TXN_ENDED);
    EXPECT_TRUE(in_doubt().empty());
    EXPECT_FALSE(commit("g"));
}

// A refused prepare changes nothing: the handle stays, and the transaction may commit.
TEST_F(CPrepared, ARefusedOneGoesOn) {
    prepare_session("a", "g");
    lockstep_txn* const txn = begin_with("b");
    EXPECT_EQ(lockstep_prepare(txn, lockstep_text("g"), nullptr, &error), LOCKSTEP_ALREADY_EXISTS);
    EXPECT_NE(std::string(error.text).find("choose another"), std::string::npos) << error.text;
    const std::string long_gid(LOCKSTEP_GID_BYTES_MAX + 1, 'x');
    for (const lockstep_slice& gid :
         {lockstep_slice{}, lockstep_slice{nullptr, 3}, lockstep_text(""), slice_of(long_gid)})
        EXPECT_EQ(lockstep_prepare(txn, gid, nullptr, &error), LOCKSTEP_BAD_ARGUMENT);
    EXPECT_C(lockstep_put(txn, index, lockstep_text("c"), lockstep_text("v"), &error));
    EXPECT_C(lockstep_commit(txn, nullptr, &error));
    EXPECT_EQ(get("b") + get("c"), "vv");
    EXPECT_TRUE(commit("g"));
    const lockstep_slice without_data{nullptr, 3};
    EXPECT_EQ(lockstep_commit_prepared(store, without_data, nullptr, &error),
              LOCKSTEP_BAD_ARGUMENT);
    EXPECT_EQ(lockstep_rollback_prepared(store, without_data, nullptr, &error),
              LOCKSTEP_BAD_ARGUMENT);
    EXPECT_EQ(lockstep_list_prepared(store, nullptr, nullptr, &error), LOCKSTEP_BAD_ARGUMENT);
}

TEST_F(CPrepared, ChangesOfTheSchemaAreRefused) {
    lockstep_txn* const txn = begin_with("a");
    lockstep_index* made = nullptr;
    EXPECT_C(lockstep_create_index(txn, "new", nullptr, &made, &error));
    EXPECT_EQ(lockstep_prepare(txn, lockstep_text("g"), nullptr, &error), LOCKSTEP_UNSUPPORTED);
    const std::string text = error.text;
    EXPECT_NE(text.find("created, dropped or bulk-loaded"), std::string::npos) << text;
    EXPECT_NE(text.find("a transaction of their own"), std::string::npos) << text;
    EXPECT_TRUE(in_doubt().empty());
    EXPECT_C(lockstep_commit(txn, nullptr, &error));
    EXPECT_EQ(get("a"), "v");
}

TEST_F(CPrepared, IsListedAndCounted) {
    const std::string first("g\0\xff", 3);
    prepare_session("a", first);
    lockstep_sleep_for(20'000'000);
    prepare_session("b", "second");
    const auto all = in_doubt();
    ASSERT_EQ(all.size(), 2u);
    EXPECT_EQ(all[0].gid, first);
    EXPECT_EQ(all[1].gid, "second");
    EXPECT_GE(all[0].age, all[1].age + 20'000'000);
    EXPECT_GT(all[0].locks, 0u);
    int calls = 0;
    const auto once = [](void* arg, const lockstep_prepared_info*) {
        ++*static_cast<int*>(arg);
        return false;
    };
    ASSERT_C(lockstep_list_prepared(store, once, &calls, &error));
    EXPECT_EQ(calls, 1);

    std::vector<std::pair<uint64_t, std::string>> running;
    const auto each = [](void* arg, const lockstep_transaction_info* of) {
        if (std::string(of->state) == "prepared")
            static_cast<decltype(running)*>(arg)->emplace_back(of->id, text_of(of->gid));
        else EXPECT_EQ(of->gid.size, 0u);
        return true;
    };
    ASSERT_C(lockstep_transactions(store, each, &running, &error));
    ASSERT_EQ(running.size(), 2u);
    std::ranges::sort(running);
    std::vector<std::pair<uint64_t, std::string>> expected = {{all[0].id, first},
                                                              {all[1].id, "second"}};
    std::ranges::sort(expected);
    EXPECT_EQ(running, expected);

    lockstep_stats stats = {};
    stats.size = sizeof stats;
    ASSERT_C(lockstep_get_stats(store, &stats, &error));
    EXPECT_EQ(stats.prepared_open, 2u);
    EXPECT_GE(stats.prepared_oldest_nanos, all[0].age);
    EXPECT_TRUE(commit(first));
    ASSERT_C(lockstep_get_stats(store, &stats, &error));
    EXPECT_EQ(stats.prepared_open, 1u);
    EXPECT_LT(stats.prepared_oldest_nanos, all[0].age + 60'000'000'000);
    EXPECT_TRUE(commit("second"));
    ASSERT_C(lockstep_get_stats(store, &stats, &error));
    EXPECT_EQ(stats.prepared_open + stats.prepared_oldest_nanos, 0u);
}

TEST_F(CPrepared, StaysInDoubtWhenTheStoreIsClosed) {
    prepare_session("k", "g");
    ASSERT_C(lockstep_close(store, &error));
    open("db");
    ASSERT_C(lockstep_find_index(store, "i", &index, &error));
    const auto all = in_doubt();
    ASSERT_EQ(all.size(), 1u);
    EXPECT_EQ(all[0].gid, "g");
    EXPECT_TRUE(commit("g"));
    EXPECT_EQ(get("k"), "v");
}

TEST_F(CPrepared, RequestsPrepare) {
    // A whole transaction.
    lockstep_request whole = request(nullptr, "whole");
    ASSERT_C(lockstep_batch(&whole));
    EXPECT_EQ(whole.vote, LOCKSTEP_VOTE_PREPARED);
    EXPECT_EQ(in_doubt().size(), 1u);
    EXPECT_TRUE(commit("whole"));
    EXPECT_EQ(get("k"), "v");
    // One that is submitted.
    lockstep_request submitted = request(nullptr, "submitted");
    op.value = lockstep_text("w");
    ASSERT_C(lockstep_submit(&submitted));
    while (!lockstep_request_done(&submitted)) lockstep_sleep_for(1'000'000);
    EXPECT_EQ(submitted.code, LOCKSTEP_OK);
    EXPECT_EQ(submitted.vote, LOCKSTEP_VOTE_PREPARED);
    EXPECT_TRUE(roll_back("submitted"));
    EXPECT_EQ(get("k"), "v");
    // Nothing but reads.
    lockstep_request reads = request(nullptr, "reads");
    op.kind = LOCKSTEP_OP_GET;
    ASSERT_C(lockstep_batch(&reads));
    EXPECT_EQ(reads.vote, LOCKSTEP_VOTE_READ_ONLY);
    EXPECT_TRUE(op.found);
    // An open transaction; its first prepare is refused.
    lockstep_txn* const txn = begin_with("other");
    lockstep_request open = request(txn, "");
    EXPECT_EQ(lockstep_batch(&open), LOCKSTEP_BAD_ARGUMENT);
    EXPECT_EQ(open.txn, txn);
    open = request(txn, "open");
    ASSERT_C(lockstep_batch(&open));
    EXPECT_EQ(open.txn, nullptr);
    EXPECT_EQ(lockstep_abort(txn, &error), LOCKSTEP_TXN_ENDED);
    EXPECT_TRUE(commit("open"));
    EXPECT_EQ(get("other"), "v");
}

// The request's transaction is freed when it is prepared.
TEST_F(CPrepared, RequestsPrepareOnAUserThread) {
    const auto body = [](lockstep_txn*, void* given) {
        static_cast<CPrepared*>(given)->prepare_by_request("k", "g");
        return 0;
    };
    ASSERT_C(lockstep_run(store, body, this, nullptr, &error));
    EXPECT_TRUE(commit("g"));
    EXPECT_EQ(get("k"), "v");
}

TEST_F(CPrepared, RequestsThatFailAreRolledBack) {
    lockstep_request r = request(nullptr, "g");
    r.gid = {nullptr, 1};
    EXPECT_EQ(lockstep_batch(&r), LOCKSTEP_BAD_ARGUMENT);
    r = request(nullptr, std::string(LOCKSTEP_GID_BYTES_MAX + 1, 'x'));
    EXPECT_EQ(lockstep_batch(&r), LOCKSTEP_BAD_ARGUMENT);
    r = request(nullptr, "g");
    op.key = {};
    op.kind = 99;
    EXPECT_EQ(lockstep_batch(&r), LOCKSTEP_BAD_ARGUMENT);
    EXPECT_EQ(r.performed, 0u);
    EXPECT_TRUE(in_doubt().empty());
    EXPECT_EQ(get("k"), "none");
}

// The ends of what is in doubt, from a thread that waits and from one that does not.
TEST_F(CPrepared, RequestsEndWhatIsPrepared) {
    const auto end = [&](int how, const std::string& gid, bool submit) {
        lockstep_request r = request(nullptr, gid);
        r.count = 0;
        r.end = how;
        if (!submit) {
            EXPECT_C(lockstep_batch(&r));
            return r.performed;
        }
        EXPECT_C(lockstep_submit(&r));
        while (!lockstep_request_done(&r)) lockstep_sleep_for(1'000'000);
        EXPECT_EQ(r.code, LOCKSTEP_OK);
        return r.performed;
    };
    for (const bool submit : {false, true}) {
        const char* const kept = submit ? "kept, submitted" : "kept";
        prepare_session(kept, "kept");
        prepare_session("gone", "gone");
        EXPECT_EQ(end(LOCKSTEP_END_COMMIT_PREPARED, "kept", submit), 1u);
        EXPECT_EQ(end(LOCKSTEP_END_ROLLBACK_PREPARED, "gone", submit), 1u);
        EXPECT_EQ(end(LOCKSTEP_END_COMMIT_PREPARED, "kept", submit), 0u);
        EXPECT_EQ(end(LOCKSTEP_END_ROLLBACK_PREPARED, "gone", submit), 0u);
        EXPECT_EQ(get(kept), "v");
        EXPECT_EQ(get("gone"), "none");
    }
}

TEST_F(CPrepared, RequestsThatEndWhatIsPreparedHaveNothingElse) {
    prepare_session("k", "g");
    lockstep_request r = request(nullptr, "g");
    r.end = LOCKSTEP_END_COMMIT_PREPARED;
    EXPECT_EQ(lockstep_batch(&r), LOCKSTEP_BAD_ARGUMENT);  // with an operation
    lockstep_txn* txn = nullptr;
    ASSERT_C(lockstep_begin(store, nullptr, &txn, &error));
    r.count = 0;
    r.txn = txn;
    EXPECT_EQ(lockstep_batch(&r), LOCKSTEP_BAD_ARGUMENT);
    EXPECT_EQ(lockstep_submit(&r), LOCKSTEP_BAD_ARGUMENT);
    EXPECT_C(lockstep_abort(txn, &error));
    r.txn = nullptr;
    r.gid = {nullptr, 1};
    EXPECT_EQ(lockstep_batch(&r), LOCKSTEP_BAD_ARGUMENT);
    r.size = offsetof(lockstep_request, gid);  // a program that knows no gid
    EXPECT_EQ(lockstep_batch(&r), LOCKSTEP_BAD_ARGUMENT);
    EXPECT_EQ(in_doubt().size(), 1u);
}

// A program of the first version has a request without a gid.
TEST_F(CPrepared, RequestsOfOlderPrograms) {
    lockstep_request r = request(nullptr, "g");
    r.size = offsetof(lockstep_request, gid);
    EXPECT_EQ(lockstep_batch(&r), LOCKSTEP_BAD_ARGUMENT);
    r.end = LOCKSTEP_END_COMMIT;
    ASSERT_C(lockstep_batch(&r));
    EXPECT_EQ(get("k"), "v");
    // A newer program, which may set nothing that this library does not know.
    struct {
        lockstep_request known;
        uint64_t newer;
    } grown = {};
    lockstep_request_init(&grown.known, sizeof grown);
    grown.known.store = store;
    grown.known.end = LOCKSTEP_END_COMMIT;
    EXPECT_EQ(lockstep_batch(&grown.known), LOCKSTEP_OK);
    grown.newer = 1;
    EXPECT_EQ(lockstep_batch(&grown.known), LOCKSTEP_BAD_OPTION);
    r.size = sizeof r - 8;
    EXPECT_EQ(lockstep_batch(&r), LOCKSTEP_BAD_OPTION);
}

}  // namespace lockstep::c_prepared_test
