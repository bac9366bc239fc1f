// labels: unit
// xa_states_test.cc - the state tables of the XA standard: each call in each state of a branch and
// of a thread's association, its code, and the state behind it.
#include <functional>
#include <map>
#include <vector>

#include "tests/tools/xa_test_util.h"

namespace lockstep::xa::xa_states_test {

enum S { S0, S1, S2, S3, S4, S5 };
constexpr const char* kNames[] = {"S0", "S1", "S2", "S3", "S4", "S5"};

class XaStates : public XaStore {
protected:
    S state(const XID& xid) {
        const auto found = state_of(xid);
        return found ? static_cast<S>(1 + static_cast<int>(*found)) : S0;
    }
    // A branch in that state. This thread is associated with it in S1 only.
    void bring_to(const XID& xid, S wanted, const std::string& key) {
        if (wanted == S0) return;
        ASSERT_EQ(start(xid), XA_OK);
        ASSERT_EQ(put(key), 0) << error.text;
        if (wanted == S1) return;
        ASSERT_EQ(end(xid, wanted == S4 ? TMFAIL : TMSUCCESS),
                  wanted == S4 ? XA_RBROLLBACK : XA_OK);
        if (wanted == S2 || wanted == S4) return;
        ASSERT_EQ(prepare(xid), XA_OK);
        if (wanted == S3) return;
        end_behind_its_back(xid);
        ASSERT_EQ(commit(xid), XA_HEURHAZ);
    }
    // Whatever state it is in.
    void clear(const XID& xid) {
        if (state(xid) == S1) (void)end(xid);
        if (state(xid) == S5) {
            EXPECT_EQ(forget(xid), XA_OK);
        } else if (state(xid) != S0) {
            EXPECT_EQ(roll_back(xid), XA_OK);
        }
        EXPECT_EQ(state(xid), S0);
    }
};

struct Row {
    const char* name;
    std::function<int(const XID&)> call;
    // By state S0 to S5: code and next state.
    std::pair<int, S> expected[6];
};

// Table 6-4, with the codes of the calls' pages for what it leaves empty.
TEST_F(XaStates, OfABranch) {
    const std::vector<Row> rows = {
        {"start",
         [](const XID& x) { return start(x); },
         {{XA_OK, S1},
          {XAER_PROTO, S1},
          {XAER_DUPID, S2},
          {XAER_DUPID, S3},
          {XAER_DUPID, S4},
          {XAER_DUPID, S5}}},
        {"start(TMJOIN)",
         [](const XID& x) { return start(x, TMJOIN); },
         {{XAER_NOTA, S0},
          {XAER_PROTO, S1},
          {XA_OK, S1},
          {XAER_PROTO, S3},
          {XA_RBROLLBACK, S4},
          {XAER_PROTO, S5}}},
        {"start(TMRESUME)",  // by a thread that has not suspended it
         [](const XID& x) { return start(x, TMRESUME); },
         {{XAER_NOTA, S0},
          {XAER_PROTO, S1},
          {XAER_PROTO, S2},
          {XAER_PROTO, S3},
          {XAER_PROTO, S4},
          {XAER_PROTO, S5}}},
        {"end(TMSUCCESS)",
         [](const XID& x) { return end(x, TMSUCCESS); },
         {{XAER_NOTA, S0},
          {XA_OK, S2},
          {XAER_PROTO, S2},
          {XAER_PROTO, S3},
          {XAER_PROTO, S4},
          {XAER_PROTO, S5}}},
        {"end(TMFAIL)",
         [](const XID& x) { return end(x, TMFAIL); },
         {{XAER_NOTA, S0},
          {XA_RBROLLBACK, S4},
          {XAER_PROTO, S2},
          {XAER_PROTO, S3},
          {XAER_PROTO, S4},
          {XAER_PROTO, S5}}},
        {"prepare",
         [](const XID& x) { return prepare(x); },
         {{XAER_NOTA, S0},
          {XAER_PROTO, S1},
          {XA_OK, S3},
          {XAER_PROTO, S3},
          {XAER_PROTO, S4},
          {XAER_PROTO, S5}}},
        {"commit",
         [](const XID& x) { return commit(x); },
         {{XAER_NOTA, S0},
          {XAER_PROTO, S1},
          {XAER_PROTO, S2},
          {XA_OK, S0},
          {XAER_PROTO, S4},
          {XA_HEURHAZ, S5}}},
        {"commit(TMONEPHASE)",
         [](const XID& x) { return commit(x, TMONEPHASE); },
         {{XAER_NOTA, S0},
          {XAER_PROTO, S1},
          {XA_OK, S0},
          {XAER_PROTO, S3},
          {XAER_PROTO, S4},
          {XA_HEURHAZ, S5}}},
        {"rollback",
         [](const XID& x) { return roll_back(x); },
         {{XAER_NOTA, S0},
          {XAER_PROTO, S1},
          {XA_OK, S0},
          {XA_OK, S0},
          {XA_OK, S0},
          {XA_HEURHAZ, S5}}},
        {"forget",
         [](const XID& x) { return forget(x); },
         {{XAER_NOTA, S0},
          {XAER_PROTO, S1},
          {XAER_PROTO, S2},
          {XAER_PROTO, S3},
          {XAER_PROTO, S4},
          {XA_OK, S0}}},
    };
    int number = 0;
    for (const Row& row : rows)
        for (const S from : {S0, S1, S2, S3, S4, S5}) {
            SCOPED_TRACE(std::string(row.name) + " in " + kNames[from]);
            const std::string key = "k" + std::to_string(++number);
            const XID xid = xid_for(key);
            bring_to(xid, from, key);
            ASSERT_EQ(state(xid), from);
            const auto& [code, next] = row.expected[from];
            EXPECT_EQ(row.call(xid), code);
            EXPECT_STREQ(kNames[state(xid)], kNames[next]);
            // Nothing shows before a commit, and all of it behind one.
            const bool committed =
                from == S5 ||
                (next == S0 && std::string(row.name).starts_with("commit") && code == XA_OK);
            EXPECT_EQ(get(key), committed ? "v" : "-");
            clear(xid);
        }
}

enum T { T0, T1, T2 };

// Table 6-2: of this thread and one branch.
TEST_F(XaStates, OfAnAssociation) {
    struct TRow {
        const char* name;
        std::function<int(const XID&)> call;
        std::pair<int, T> expected[3];
    };
    const std::vector<TRow> rows = {
        {"open", [&](const XID&) { return open(); }, {{XA_OK, T0}, {XA_OK, T1}, {XA_OK, T2}}},
        {"start",
         [](const XID& x) { return start(x); },
         {{XAER_DUPID, T0}, {XAER_PROTO, T1}, {XAER_DUPID, T2}}},
        {"start(TMJOIN)",
         [](const XID& x) { return start(x, TMJOIN); },
         {{XA_OK, T1}, {XAER_PROTO, T1}, {XAER_PROTO, T2}}},
        {"start(TMRESUME)",
         [](const XID& x) { return start(x, TMRESUME); },
         {{XAER_PROTO, T0}, {XAER_PROTO, T1}, {XA_OK, T1}}},
        {"start of another",
         [](const XID&) {
             const XID other = xid_for("other");
             const int code = start(other);
             if (code == XA_OK) {
                 EXPECT_EQ(end(other), XA_OK);
                 EXPECT_EQ(roll_back(other), XA_OK);
             }
             return code;
         },
         {{XA_OK, T0}, {XAER_PROTO, T1}, {XA_OK, T2}}},
        {"end(TMSUSPEND)",
         [](const XID& x) { return end(x, TMSUSPEND); },
         {{XAER_PROTO, T0}, {XA_OK, T2}, {XAER_PROTO, T2}}},
        {"end(TMSUCCESS)",
         [](const XID& x) { return end(x, TMSUCCESS); },
         {{XAER_PROTO, T0}, {XA_OK, T0}, {XA_OK, T0}}},
        {"end(TMFAIL)",
         [](const XID& x) { return end(x, TMFAIL); },
         {{XAER_PROTO, T0}, {XA_RBROLLBACK, T0}, {XA_RBROLLBACK, T0}}},
        {"end(TMSUSPEND | TMMIGRATE)",
         [](const XID& x) {
             const int code = end(x, TMSUSPEND | TMMIGRATE);
             if (code == XA_OK) {  // it has left the thread; any may resume it
                 EXPECT_EQ(end(x, TMSUCCESS), XAER_PROTO);
                 EXPECT_EQ(start(x, TMRESUME), XA_OK);
                 EXPECT_EQ(end(x, TMSUCCESS), XA_OK);
             }
             return code;
         },
         {{XAER_PROTO, T0}, {XA_OK, T0}, {XAER_PROTO, T2}}},
        {"prepare",
         [](const XID& x) { return prepare(x); },
         {{XA_OK, T0}, {XAER_PROTO, T1}, {XAER_PROTO, T2}}},
        {"commit(TMONEPHASE)",
         [](const XID& x) { return commit(x, TMONEPHASE); },
         {{XA_OK, T0}, {XAER_PROTO, T1}, {XAER_PROTO, T2}}},
        {"rollback",
         [](const XID& x) { return roll_back(x); },
         {{XA_OK, T0}, {XAER_PROTO, T1}, {XAER_PROTO, T2}}},
        {"close",
         [&](const XID&) {
             const int code = close();
             if (code == XA_OK) {
                 EXPECT_EQ(open(), XA_OK);
             }
             return code;
         },
         {{XA_OK, T0}, {XAER_PROTO, T1}, {XAER_PROTO, T2}}},
    };
    // Another thread keeps the store open, and so the branch, while this one closes it.
    int number = 0;
    int kept = XA_OK;
    auto keeper = Resource::open(root + "/db", kept);
    for (const TRow& row : rows)
        for (const T from : {T0, T1, T2}) {
            SCOPED_TRACE(std::string(row.name) + " in T" + std::to_string(from));
            const std::string key = "k" + std::to_string(++number);
            const XID xid = xid_for(key);
            ASSERT_EQ(start(xid), XA_OK);
            ASSERT_EQ(put(key), 0);
            if (from != T1) {
                ASSERT_EQ(end(xid, from == T0 ? TMSUCCESS : TMSUSPEND), XA_OK);
            }
            const auto& [code, next] = row.expected[from];
            EXPECT_EQ(row.call(xid), code);
            // In T2 a resume succeeds, in T1 an end; in T0 neither.
            const bool exists = state(xid) != S0, failed = state(xid) == S4;
            if (next == T2) {
                EXPECT_EQ(start(xid, TMRESUME), XA_OK);
            }
            if (next == T2 || next == T1) {
                EXPECT_EQ(end(xid), XA_OK);
            }
            EXPECT_EQ(end(xid), exists ? XAER_PROTO : XAER_NOTA);
            EXPECT_EQ(state(xid) == S4, failed);
            clear(xid);
        }
    EXPECT_EQ(Resource::close(std::move(keeper)), XA_OK);
}

// Table 6-1: before xa_open() and behind xa_close().
TEST_F(XaStates, OfAResourceManagerThatIsNotOpen) {
    const XID xid = xid_for("g");
    ASSERT_EQ(close(), XA_OK);
    EXPECT_EQ(close(), XA_OK);
    EXPECT_EQ(start(xid), XAER_PROTO);
    EXPECT_EQ(end(xid), XAER_PROTO);
    EXPECT_EQ(prepare(xid), XAER_PROTO);
    EXPECT_EQ(commit(xid), XAER_PROTO);
    EXPECT_EQ(roll_back(xid), XAER_PROTO);
    EXPECT_EQ(forget(xid), XAER_PROTO);
    XID found[1];
    EXPECT_EQ(lockstep_xa_switch.xa_recover_entry(found, 1, kRm, TMSTARTRSCAN), XAER_PROTO);
    lockstep_store* none = nullptr;
    lockstep_txn* txn = nullptr;
    EXPECT_EQ(lockstep_xa_store(kRm, &none), XAER_PROTO);
    EXPECT_EQ(lockstep_xa_transaction(kRm, &txn), XAER_PROTO);
    EXPECT_EQ(lockstep_xa_begin_outside(kRm, nullptr, &txn, nullptr), XAER_PROTO);
    ASSERT_EQ(open(), XA_OK);
    EXPECT_EQ(open(), XA_OK);
}

}  // namespace lockstep::xa::xa_states_test
