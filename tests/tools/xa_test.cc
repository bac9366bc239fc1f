// labels: unit
// xa_test.cc - the XA resource manager beyond its state tables: arguments, threads, work outside of
// branches, outcomes, recovery.
#include <atomic>
#include <set>
#include <vector>

#include "tests/tools/xa_test_util.h"

namespace lockstep::xa::xa_test {

class Xa : public XaStore {
protected:
    static int recover(std::vector<XID>& found, long flags) {
        return lockstep_xa_switch.xa_recover_entry(found.data(), static_cast<long>(found.size()),
                                                   kRm, flags);
    }
    static std::string bytes_of(const XID& xid) {
        return {reinterpret_cast<const char*>(&xid), sizeof xid};
    }
    static lockstep_slice bytes(const std::string& gid) { return {gid.data(), gid.size()}; }
    // What xa_recover() lists, as the bytes of its XIDs.
    static std::set<std::string> listed() {
        std::vector<XID> some(100);
        const int n = recover(some, TMSTARTRSCAN | TMENDRSCAN);
        EXPECT_GE(n, 0);
        std::set<std::string> all;
        for (int i = 0; i < n; ++i) all.insert(bytes_of(some[static_cast<size_t>(i)]));
        EXPECT_EQ(all.size(), static_cast<size_t>(n));
        return all;
    }
    // The gids in the store.
    std::set<std::string> in_doubt() {
        std::set<std::string> all;
        const auto each = [](void* arg, const lockstep_prepared_info* of) {
            static_cast<std::set<std::string>*>(arg)->emplace(
                static_cast<const char*>(of->gid.data), of->gid.size);
            return true;
        };
        EXPECT_EQ(lockstep_list_prepared(store(), each, &all, &error), 0);
        return all;
    }
    // Outside of any branch, under a name of the application.
    void prepare_outside(const std::string& gid) {
        lockstep_txn* txn = nullptr;
        ASSERT_EQ(lockstep_xa_begin_outside(kRm, nullptr, &txn, &error), XA_OK) << error.text;
        ASSERT_EQ(lockstep_put(txn, index, bytes("own " + gid), lockstep_text("v"), &error), 0);
        ASSERT_EQ(lockstep_prepare(txn, bytes(gid), nullptr, &error), 0) << error.text;
    }
    static std::string name_of(const XID& xid) {
        return {xid.data, static_cast<size_t>(xid.gtrid_length)};
    }
};

TEST_F(Xa, XidsAreGids) {
    std::set<std::string> gids;
    std::vector<XID> xids;
    for (const long format : {0L, 1L, 255L, 256L, 0x7fffffffffffffffL})
        for (const size_t global : {1u, 2u, 64u})
            for (const size_t branch : {1u, 64u}) {
                XID xid = xid_for(std::string(global, '\0'), std::string(branch, '\xff'));
                xid.formatID = format;
                xids.push_back(xid);
            }
    xids.push_back(xid_for("a", "bc"));
    xids.push_back(xid_for("ab", "c"));
    for (const XID& xid : xids) {
        const std::string gid = gid_of(xid);
        EXPECT_LE(gid.size(), size_t{LOCKSTEP_GID_BYTES_MAX});
        EXPECT_TRUE(gids.insert(gid).second);
        const auto back = xid_of(gid);
        ASSERT_TRUE(back);
        EXPECT_EQ(std::memcmp(&*back, &xid, sizeof xid), 0);
        EXPECT_FALSE(xid_of(gid + "x"));
        EXPECT_FALSE(xid_of(gid.substr(0, gid.size() - 1)));
        EXPECT_FALSE(xid_of("Y" + gid.substr(1)));
    }
    EXPECT_FALSE(xid_of(""));
}

TEST_F(Xa, ArgumentsAreChecked) {
    const XID good = xid_for("g");
    std::vector<XID> bad(5, good);
    bad[0].formatID = -1;
    bad[1].gtrid_length = 0;
    bad[2].gtrid_length = MAXGTRIDSIZE + 1;
    bad[3].bqual_length = 0;
    bad[4].bqual_length = MAXBQUALSIZE + 1;
    for (const XID& xid : bad)
        for (const auto call : {start, end, prepare, commit, roll_back, forget})
            EXPECT_EQ(call(xid, call == end ? TMSUCCESS : TMNOFLAGS), XAER_INVAL);
    EXPECT_EQ(lockstep_xa_switch.xa_start_entry(nullptr, kRm, TMNOFLAGS), XAER_INVAL);
    for (const auto call : {start, end, prepare, commit, roll_back, forget}) {
        EXPECT_EQ(call(good, TMASYNC | TMSUCCESS), XAER_ASYNC);
        EXPECT_EQ(call(good, TMSTARTRSCAN), XAER_INVAL);
    }
    EXPECT_EQ(start(good, TMJOIN | TMRESUME), XAER_INVAL);
    for (const long flags : {TMNOFLAGS, TMMIGRATE, TMSUCCESS | TMMIGRATE, TMFAIL | TMMIGRATE,
                             TMSUCCESS | TMFAIL, TMSUSPEND | TMSUCCESS})
        EXPECT_EQ(end(good, flags), XAER_INVAL) << flags;
    EXPECT_EQ(prepare(good, TMONEPHASE), XAER_INVAL);

    std::string info = root + "/other", too_long(MAXINFOSIZE, 'x'), none, no_store = "/proc/none/x";
    const auto open_entry = lockstep_xa_switch.xa_open_entry;
    EXPECT_EQ(open_entry(nullptr, 1, TMNOFLAGS), XAER_INVAL);
    EXPECT_EQ(open_entry(none.data(), 1, TMNOFLAGS), XAER_INVAL);
    EXPECT_EQ(open_entry(too_long.data(), 1, TMNOFLAGS), XAER_INVAL);
    EXPECT_EQ(open_entry(info.data(), 1, TMJOIN), XAER_INVAL);
    EXPECT_EQ(open_entry(info.data(), 1, TMASYNC), XAER_ASYNC);
    EXPECT_EQ(open_entry(no_store.data(), 1, TMNOFLAGS), XAER_RMERR);
    EXPECT_EQ(open_entry(info.data(), kRm, TMNOFLAGS), XAER_INVAL);  // it is another store
    EXPECT_EQ(lockstep_xa_switch.xa_close_entry(nullptr, 1, TMASYNC), XAER_ASYNC);
    EXPECT_EQ(lockstep_xa_switch.xa_close_entry(nullptr, 1, TMJOIN), XAER_INVAL);

    std::vector<XID> found(2);
    EXPECT_EQ(recover(found, TMNOFLAGS), XAER_INVAL);  // no scan is open
    EXPECT_EQ(recover(found, TMSTARTRSCAN | TMJOIN), XAER_INVAL);
    EXPECT_EQ(lockstep_xa_switch.xa_recover_entry(nullptr, 1, kRm, TMSTARTRSCAN), XAER_INVAL);
    EXPECT_EQ(lockstep_xa_switch.xa_recover_entry(found.data(), -1, kRm, TMSTARTRSCAN), XAER_INVAL);
    EXPECT_EQ(lockstep_xa_store(kRm, nullptr), XAER_INVAL);
    EXPECT_EQ(lockstep_xa_transaction(kRm, nullptr), XAER_INVAL);
    EXPECT_EQ(lockstep_xa_begin_outside(kRm, nullptr, nullptr, nullptr), XAER_INVAL);

    int handle = 0, result = 0;
    const auto complete = lockstep_xa_switch.xa_complete_entry;
    EXPECT_EQ(complete(&handle, &result, kRm, TMNOFLAGS), XAER_PROTO);
    EXPECT_EQ(complete(&handle, &result, kRm, TMMULTIPLE | TMNOWAIT), XAER_PROTO);
    EXPECT_EQ(complete(nullptr, &result, kRm, TMNOFLAGS), XAER_INVAL);
    EXPECT_EQ(complete(&handle, &result, kRm, TMJOIN), XAER_INVAL);
}

TEST_F(Xa, WorkOutsideABranch) {
    lockstep_txn *txn = nullptr, *second = nullptr;
    ASSERT_EQ(lockstep_xa_begin_outside(kRm, nullptr, &txn, &error), XA_OK);
    EXPECT_EQ(start(xid_for("g")), XAER_OUTSIDE);
    EXPECT_EQ(lockstep_xa_begin_outside(kRm, nullptr, &second, &error), XAER_PROTO);
    EXPECT_EQ(close(), XAER_PROTO);
    on_another_thread([&] {
        EXPECT_EQ(start(xid_for("g")), XA_OK);
        EXPECT_EQ(end(xid_for("g")), XA_OK);
    });
    ASSERT_EQ(lockstep_put(txn, index, lockstep_text("k"), lockstep_text("out"), &error), 0);
    ASSERT_EQ(lockstep_commit(txn, nullptr, &error), 0);
    EXPECT_EQ(start(xid_for("g"), TMJOIN), XA_OK);
    EXPECT_EQ(lockstep_xa_begin_outside(kRm, nullptr, &second, &error), XAER_PROTO);
    EXPECT_EQ(end(xid_for("g")), XA_OK);
    EXPECT_EQ(roll_back(xid_for("g")), XA_OK);
    EXPECT_EQ(get("k"), "out");
}

TEST_F(Xa, AReaderIsDoneWhenItHasVoted) {
    const XID xid = xid_for("g");
    ASSERT_EQ(start(xid), XA_OK);
    ASSERT_EQ(end(xid), XA_OK);
    EXPECT_EQ(prepare(xid), XA_RDONLY);
    EXPECT_EQ(commit(xid), XAER_NOTA);
    EXPECT_EQ(state_of(xid), std::nullopt);
}

// Two branches of this thread in turn, and one that goes from thread to thread.
TEST_F(Xa, SuspendedBranches) {
    const XID a = xid_for("a"), b = xid_for("b"), moving = xid_for("m");
    ASSERT_EQ(start(a), XA_OK);
    ASSERT_EQ(put("a1"), 0);
    ASSERT_EQ(end(a, TMSUSPEND), XA_OK);
    ASSERT_EQ(start(b), XA_OK);
    ASSERT_EQ(put("b1"), 0);
    ASSERT_EQ(end(b, TMSUSPEND), XA_OK);
    on_another_thread([&] { EXPECT_EQ(start(a, TMRESUME), XAER_PROTO); });
    ASSERT_EQ(start(a, TMRESUME), XA_OK);
    ASSERT_EQ(put("a2"), 0);
    ASSERT_EQ(end(a), XA_OK);
    EXPECT_EQ(prepare(b), XAER_PROTO);
    ASSERT_EQ(end(b), XA_OK);
    EXPECT_EQ(prepare(b), XA_OK);
    EXPECT_EQ(roll_back(b), XA_OK);
    EXPECT_EQ(commit(a, TMONEPHASE), XA_OK);
    EXPECT_EQ(get("a1") + get("a2") + get("b1"), "vv-");

    ASSERT_EQ(start(moving), XA_OK);
    ASSERT_EQ(put("m1"), 0);
    ASSERT_EQ(end(moving, TMSUSPEND | TMMIGRATE), XA_OK);
    EXPECT_EQ(prepare(moving), XAER_PROTO);
    on_another_thread([&] {
        EXPECT_EQ(start(moving, TMRESUME), XA_OK);
        EXPECT_EQ(put("m2"), 0);
        EXPECT_EQ(end(moving), XA_OK);
    });
    EXPECT_EQ(start(moving, TMRESUME), XAER_PROTO);
    EXPECT_EQ(prepare(moving), XA_OK);
    EXPECT_EQ(commit(moving), XA_OK);
    EXPECT_EQ(get("m1") + get("m2"), "vv");
}

// XR-1
TEST_F(Xa, AJoinWaitsForTheOtherThread) {
    const XID xid = xid_for("g");
    ASSERT_EQ(start(xid), XA_OK);
    std::atomic<bool> joined{false};
    std::thread other([&] {
        EXPECT_EQ(open(), XA_OK);
        EXPECT_EQ(start(xid), XAER_DUPID);
        EXPECT_EQ(start(xid, TMJOIN | TMNOWAIT), XA_RETRY);
        EXPECT_EQ(end(xid), XAER_PROTO);
        EXPECT_EQ(roll_back(xid), XAER_PROTO);
        EXPECT_EQ(start(xid, TMJOIN), XA_OK);
        joined = true;
        EXPECT_EQ(put("theirs"), 0);
        EXPECT_EQ(end(xid), XA_OK);
        EXPECT_EQ(close(), XA_OK);
    });
    std::this_thread::sleep_for(std::chrono::milliseconds(50));
    EXPECT_FALSE(joined);
    ASSERT_EQ(put("mine"), 0);
    ASSERT_EQ(end(xid), XA_OK);
    other.join();
    EXPECT_TRUE(joined);
    EXPECT_EQ(prepare(xid), XA_OK);
    EXPECT_EQ(commit(xid), XA_OK);
    EXPECT_EQ(get("mine") + get("theirs"), "vv");
}

// A failure that one thread reports reaches those that have the branch suspended or active.
TEST_F(Xa, AFailureReachesAllThreads) {
    const XID xid = xid_for("g");
    ASSERT_EQ(start(xid), XA_OK);
    ASSERT_EQ(put("k"), 0);
    ASSERT_EQ(end(xid, TMSUSPEND), XA_OK);
    on_another_thread([&] {
        EXPECT_EQ(start(xid, TMJOIN), XA_OK);
        EXPECT_EQ(end(xid, TMFAIL), XA_RBROLLBACK);
    });
    EXPECT_EQ(start(xid, TMRESUME), XA_RBROLLBACK);
    EXPECT_EQ(roll_back(xid), XAER_PROTO);  // still suspended here
    EXPECT_EQ(end(xid), XA_RBROLLBACK);
    EXPECT_EQ(roll_back(xid), XA_OK);

    ASSERT_EQ(start(xid), XA_OK);
    ASSERT_EQ(end(xid, TMSUSPEND), XA_OK);
    std::atomic<int> step{0};
    std::thread other([&] {
        EXPECT_EQ(open(), XA_OK);
        EXPECT_EQ(start(xid, TMJOIN), XA_OK);
        step = 1;
        step.notify_all();
        step.wait(1);
        EXPECT_EQ(end(xid), XA_RBROLLBACK);
        EXPECT_EQ(close(), XA_OK);
    });
    step.wait(0);
    EXPECT_EQ(end(xid, TMFAIL), XA_RBROLLBACK);
    EXPECT_EQ(roll_back(xid), XAER_PROTO);  // active there
    step = 2;
    step.notify_all();
    other.join();
    EXPECT_EQ(roll_back(xid), XA_OK);
}

TEST_F(Xa, AThreadThatDiesLeavesNothingBehind) {
    const XID active = xid_for("active"), suspended = xid_for("suspended");
    std::thread([&] {
        EXPECT_EQ(open(), XA_OK);
        EXPECT_EQ(start(suspended), XA_OK);
        EXPECT_EQ(end(suspended, TMSUSPEND), XA_OK);
        EXPECT_EQ(start(active), XA_OK);
        EXPECT_EQ(put("k"), 0);
    }).join();
    EXPECT_EQ(start(active, TMJOIN), XA_RBROLLBACK);
    EXPECT_EQ(roll_back(active), XA_OK);
    EXPECT_EQ(roll_back(suspended), XA_OK);
    EXPECT_EQ(get("k"), "-");
}

// What the engine will not commit is told by xa_end(), or by the prepare.
TEST_F(Xa, BranchesThatCannotCommit) {
    const XID xid = xid_for("g");
    lockstep_txn* txn = nullptr;
    ASSERT_EQ(start(xid), XA_OK);
    ASSERT_EQ(put("k"), 0);
    ASSERT_EQ(lockstep_xa_transaction(kRm, &txn), XA_OK);
    ASSERT_EQ(lockstep_end_transaction(store(), lockstep_txn_id(txn), &error), 0);
    EXPECT_EQ(end(xid), XA_RBROLLBACK);
    EXPECT_EQ(prepare(xid), XAER_PROTO);
    EXPECT_EQ(roll_back(xid), XA_OK);
    // The application has ended the branch by itself.
    ASSERT_EQ(start(xid), XA_OK);
    ASSERT_EQ(lockstep_xa_transaction(kRm, &txn), XA_OK);
    ASSERT_EQ(lockstep_abort(txn, &error), 0);
    EXPECT_EQ(end(xid), XA_RBPROTO);
    EXPECT_EQ(roll_back(xid), XA_RBPROTO);
    // An operator has ended it between xa_end() and the vote.
    for (const bool two : {true, false}) {
        make_idle(xid, "k");
        uint64_t id = 0;
        const auto each = [](void* arg, const lockstep_transaction_info* info) {
            if (!info->internal) *static_cast<uint64_t*>(arg) = info->id;
            return true;
        };
        ASSERT_EQ(lockstep_transactions(store(), each, &id, &error), 0);
        ASSERT_EQ(lockstep_end_transaction(store(), id, &error), 0);
        EXPECT_EQ(two ? prepare(xid) : commit(xid, TMONEPHASE), XA_RBROLLBACK);
        EXPECT_EQ(roll_back(xid), XAER_NOTA);
    }
    // A change of the schema cannot wait for a decision.
    ASSERT_EQ(start(xid), XA_OK);
    ASSERT_EQ(lockstep_xa_transaction(kRm, &txn), XA_OK);
    lockstep_index* made = nullptr;
    ASSERT_EQ(lockstep_create_index(txn, "new", nullptr, &made, &error), 0);
    ASSERT_EQ(end(xid), XA_OK);
    EXPECT_EQ(prepare(xid), XA_RBOTHER);
    EXPECT_EQ(state_of(xid), std::nullopt);
    // Locks of a prepared branch hold.
    const XID other = xid_for("other");
    make_idle(other, "k");
    ASSERT_EQ(prepare(other), XA_OK);
    EXPECT_EQ(get("k"), "-");
    EXPECT_EQ(commit(other), XA_OK);
    EXPECT_EQ(get("k"), "v");
}

TEST_F(Xa, RecoversAfterTheStoreWasClosed) {
    for (const char* name : {"one", "two", "three"}) {
        make_idle(xid_for(name), name);
        ASSERT_EQ(prepare(xid_for(name)), XA_OK);
    }
    make_idle(xid_for("idle"), "idle");
    // Prepared by another coordinator, under a name that is no XID.
    lockstep_txn* txn = nullptr;
    ASSERT_EQ(lockstep_begin(store(), nullptr, &txn, &error), 0);
    ASSERT_EQ(lockstep_put(txn, index, lockstep_text("x"), lockstep_text("v"), &error), 0);
    ASSERT_EQ(lockstep_prepare(txn, lockstep_text("XA but no XID"), nullptr, &error), 0);
    reopen();
    EXPECT_EQ(prepare(xid_for("idle")), XAER_NOTA);
    std::set<std::string> names;
    std::vector<XID> some(2);
    ASSERT_EQ(recover(some, TMSTARTRSCAN), 2);
    for (const XID& xid : some) names.insert(name_of(xid));
    ASSERT_EQ(recover(some, TMNOFLAGS), 1);
    names.insert(name_of(some[0]));
    EXPECT_EQ(names, (std::set<std::string>{"one", "two", "three"}));
    EXPECT_EQ(recover(some, TMENDRSCAN), 0);
    EXPECT_EQ(recover(some, TMNOFLAGS), XAER_INVAL);
    EXPECT_EQ(start(xid_for("one")), XAER_DUPID);
    EXPECT_EQ(commit(xid_for("one")), XA_OK);
    EXPECT_EQ(roll_back(xid_for("two")), XA_OK);
    on_another_thread([&] { EXPECT_EQ(commit(xid_for("three")), XA_OK); });
    EXPECT_EQ(commit(xid_for("one")), XAER_NOTA);
    EXPECT_EQ(recover(some, TMSTARTRSCAN | TMENDRSCAN), 0);
    EXPECT_EQ(get("one") + get("two") + get("three") + get("idle"), "v-v-");
    ASSERT_EQ(lockstep_rollback_prepared(store(), lockstep_text("XA but no XID"), nullptr, &error),
              0);
}

// The standard leaves it to a transaction manager to ignore what is not its own.
TEST_F(Xa, RecoversBranchesOfAllFormats) {
    std::set<std::string> expected;
    for (const long format : {0L, 1L, 42L, 0x7fffffffL, 0x7fffffffffffffffL}) {
        XID xid = xid_for("same", "branch");
        xid.formatID = format;
        make_idle(xid, "k" + std::to_string(format));
        ASSERT_EQ(prepare(xid), XA_OK);
        expected.insert(bytes_of(xid));
    }
    EXPECT_EQ(listed(), expected);
    reopen();
    EXPECT_EQ(listed(), expected);
    for (const std::string& bytes : expected) {
        XID xid;
        std::memcpy(&xid, bytes.data(), sizeof xid);
        EXPECT_EQ(roll_back(xid), XA_OK);
    }
    EXPECT_TRUE(listed().empty());
}

// Names of applications: none is listed as an XID, and no XID ends one.
TEST_F(Xa, NamesOfApplicationsStayTheirOwn) {
    const XID good = xid_for("g", "b");
    // What gid_of() would make of XIDs that the standard does not allow.
    std::vector<XID> broken(6, good);
    broken[0].formatID = -1;
    broken[1].formatID = -2;
    broken[2].gtrid_length = 0;
    broken[3].gtrid_length = MAXGTRIDSIZE + 1;
    broken[4].bqual_length = 0;
    broken[5].bqual_length = MAXBQUALSIZE + 1;
    std::vector<std::string> own = {"XA",
                                    "XA but no XID",
                                    "order 4711",
                                    "gb",
                                    "g",
                                    gid_of(good).substr(2),
                                    "X",
                                    "xa" + gid_of(good).substr(2),
                                    gid_of(good) + "x",
                                    gid_of(good).substr(0, 13),
                                    "XA" + std::string(LOCKSTEP_GID_BYTES_MAX - 2, '\0'),
                                    "XA" + std::string(LOCKSTEP_GID_BYTES_MAX - 2, '\xff')};
    for (const XID& xid : broken) own.push_back(gid_of(xid));
    for (const std::string& gid : own) prepare_outside(gid);
    make_idle(good, "branch");
    ASSERT_EQ(prepare(good), XA_OK);
    for (const bool again : {false, true}) {
        SCOPED_TRACE(again);
        if (again) reopen();
        EXPECT_EQ(listed(), (std::set<std::string>{bytes_of(good)}));
        for (const auto call : {start, end, prepare, commit, roll_back, forget})
            for (const XID& xid : broken)
                EXPECT_EQ(call(xid, call == end ? TMSUCCESS : TMNOFLAGS), XAER_INVAL);
        for (const std::string& gid : own) {
            if (gid.size() > MAXGTRIDSIZE) continue;
            for (const auto call : {prepare, commit, roll_back, forget})
                EXPECT_EQ(call(xid_for(gid, "own"), TMNOFLAGS), XAER_NOTA);
        }
        EXPECT_EQ(in_doubt().size(), own.size() + 1);
    }
    EXPECT_EQ(commit(good), XA_OK);
    for (const std::string& gid : own) {
        bool ended = false;
        EXPECT_EQ(lockstep_commit_prepared(store(), bytes(gid), &ended, &error), 0);
        EXPECT_TRUE(ended);
    }
    EXPECT_TRUE(in_doubt().empty());
}

// The application prepares a branch under a name of its own: the branch is lost to the transaction
// manager, and the transaction waits for whom the application has told the name.
TEST_F(Xa, ABranchThatItsApplicationHasPrepared) {
    const XID xid = xid_for("g");
    for (const std::string& gid : {std::string("own"), gid_of(xid)}) {
        lockstep_txn* txn = nullptr;
        ASSERT_EQ(start(xid), XA_OK);
        ASSERT_EQ(put("k", gid.substr(0, 3)), 0);
        ASSERT_EQ(lockstep_xa_transaction(kRm, &txn), XA_OK);
        ASSERT_EQ(lockstep_prepare(txn, bytes(gid), nullptr, &error), 0) << error.text;
        EXPECT_EQ(end(xid), XA_RBPROTO);
        EXPECT_TRUE(listed().empty());
        EXPECT_EQ(prepare(xid), XAER_PROTO);
        EXPECT_EQ(commit(xid), XAER_PROTO);
        EXPECT_EQ(roll_back(xid), XA_RBPROTO);
        EXPECT_EQ(commit(xid), XAER_NOTA);
        EXPECT_EQ(in_doubt(), (std::set<std::string>{gid}));
        bool ended = false;
        EXPECT_EQ(lockstep_commit_prepared(store(), bytes(gid), &ended, &error), 0);
        EXPECT_TRUE(ended);
        EXPECT_EQ(get("k"), gid.substr(0, 3));
    }
}

TEST_F(Xa, OneStoreUnderTwoNumbers) {
    ASSERT_EQ(open(8), XA_OK);
    const XID xid = xid_for("g");
    make_idle(xid, "k");
    XID copy = xid;
    EXPECT_EQ(lockstep_xa_switch.xa_prepare_entry(&copy, 8, TMNOFLAGS), XA_OK);
    EXPECT_EQ(commit(xid), XA_OK);
    EXPECT_EQ(get("k"), "v");
    EXPECT_EQ(close(8), XA_OK);
}

}  // namespace lockstep::xa::xa_test
