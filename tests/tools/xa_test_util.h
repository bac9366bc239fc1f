// xa_test_util.h - a store as an XA resource manager for one test, and short calls of its switch.
#pragma once

#include <gtest/gtest.h>

#include <cstring>
#include <filesystem>
#include <optional>
#include <string>
#include <thread>
#include <utility>

#include "tests/own_directory.h"
#include "tools/xa/lockstep_xa.h"
#include "tools/xa/resource.h"
#include "tools/xa/xid.h"

namespace lockstep::xa {

inline constexpr int kRm = 7;

inline XID xid_for(const std::string& global, const std::string& branch = "b") {
    XID xid = {};
    xid.formatID = 1;
    xid.gtrid_length = static_cast<long>(global.size());
    xid.bqual_length = static_cast<long>(branch.size());
    std::memcpy(xid.data, (global + branch).data(), global.size() + branch.size());
    return xid;
}

class XaStore : public ::testing::Test {
protected:
    void SetUp() override {
        root = make_own_directory("xa");
        ASSERT_EQ(open(), XA_OK);
        lockstep_txn* txn = nullptr;
        ASSERT_EQ(lockstep_xa_begin_outside(kRm, nullptr, &txn, &error), XA_OK) << error.text;
        ASSERT_EQ(lockstep_open_or_create_index(txn, "i", nullptr, &index, &error), 0);
        ASSERT_EQ(lockstep_commit(txn, nullptr, &error), 0);
    }
    void TearDown() override {
        EXPECT_EQ(close(), XA_OK);
        std::filesystem::remove_all(root);
    }

    int open(int rmid = kRm) {
        std::string info = root + "/db";
        return lockstep_xa_switch.xa_open_entry(info.data(), rmid, TMNOFLAGS);
    }
    static int close(int rmid = kRm) {
        char none[] = "";
        return lockstep_xa_switch.xa_close_entry(none, rmid, TMNOFLAGS);
    }
    // All threads of the process leave the store, and this one opens it again.
    void reopen() {
        ASSERT_EQ(close(), XA_OK);
        ASSERT_EQ(open(), XA_OK);
        ASSERT_EQ(lockstep_find_index(store(), "i", &index, &error), 0) << error.text;
    }
    static int start(XID xid, long flags = TMNOFLAGS) {
        return lockstep_xa_switch.xa_start_entry(&xid, kRm, flags);
    }
    static int end(XID xid, long flags = TMSUCCESS) {
        return lockstep_xa_switch.xa_end_entry(&xid, kRm, flags);
    }
    static int prepare(XID xid, long flags = TMNOFLAGS) {
        return lockstep_xa_switch.xa_prepare_entry(&xid, kRm, flags);
    }
    static int commit(XID xid, long flags = TMNOFLAGS) {
        return lockstep_xa_switch.xa_commit_entry(&xid, kRm, flags);
    }
    static int roll_back(XID xid, long flags = TMNOFLAGS) {
        return lockstep_xa_switch.xa_rollback_entry(&xid, kRm, flags);
    }
    static int forget(XID xid, long flags = TMNOFLAGS) {
        return lockstep_xa_switch.xa_forget_entry(&xid, kRm, flags);
    }
    static lockstep_store* store() {
        lockstep_store* found = nullptr;
        EXPECT_EQ(lockstep_xa_store(kRm, &found), XA_OK);
        return found;
    }

    // In the branch of this thread.
    int put(const std::string& key, const std::string& value = "v") {
        lockstep_txn* txn = nullptr;
        EXPECT_EQ(lockstep_xa_transaction(kRm, &txn), XA_OK);
        return lockstep_put(txn, index, lockstep_text(key.c_str()), lockstep_text(value.c_str()),
                            &error);
    }
    // A branch that has changed one record, and is idle.
    void make_idle(const XID& xid, const std::string& key) {
        ASSERT_EQ(start(xid), XA_OK);
        ASSERT_EQ(put(key), 0) << error.text;
        ASSERT_EQ(end(xid), XA_OK);
    }
    // What a snapshot sees, or "-".
    std::string get(const std::string& key) {
        lockstep_txn_options options;
        lockstep_txn_options_init(&options, sizeof options);
        options.isolation = LOCKSTEP_SNAPSHOT;
        lockstep_txn* txn = nullptr;
        EXPECT_EQ(lockstep_begin(store(), &options, &txn, &error), 0) << error.text;
        char buffer[64];
        size_t bytes = 0;
        bool found = false;
        EXPECT_EQ(lockstep_get(txn, index, lockstep_text(key.c_str()), LOCKSTEP_ACCESS_READ, buffer,
                               sizeof buffer, &bytes, &found, &error),
                  0);
        EXPECT_EQ(lockstep_commit(txn, nullptr, &error), 0);
        return found ? std::string(buffer, bytes) : "-";
    }
    std::optional<BranchState> state_of(const XID& xid) {
        int result = XA_OK;
        auto resource = Resource::open(root + "/db", result);
        const auto state = resource->state_of(gid_of(xid));
        EXPECT_EQ(Resource::close(std::move(resource)), XA_OK);
        return state;
    }
    // As an operator does it.
    void end_behind_its_back(const XID& xid) {
        const std::string gid = gid_of(xid);
        bool ended = false;
        EXPECT_EQ(lockstep_commit_prepared(store(), {gid.data(), gid.size()}, &ended, &error), 0);
        EXPECT_TRUE(ended);
    }
    // On another thread of control, which opens and closes the resource manager for itself.
    template <class Call>
    void on_another_thread(Call call) {
        std::thread([&] {
            EXPECT_EQ(open(), XA_OK);
            call();
            EXPECT_EQ(close(), XA_OK);
        }).join();
    }

    std::string root;
    lockstep_index* index = nullptr;
    lockstep_error error = {};
};

}  // namespace lockstep::xa
