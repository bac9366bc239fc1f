// labels: unit
// c_elsewhere_test.cc - every call of the C interface on a transaction or a cursor, made from a
// thread that the transaction does not belong to, with a dropped index, and behind the close of the
// store.
#include <fstream>
#include <regex>
#include <set>

#include "tests/sm/c/c_worlds.h"

namespace lockstep::c_elsewhere_test {

class CElsewhere : public CWorlds {
protected:
    // On a user thread that is not the transaction's, or on a foreign thread.
    std::string elsewhere(World& w, const Probe& probe) {
        std::string result;
        const auto make = [&] { result = probe.make(w); };
        if (!here) {
            on_user_thread(make);
            return result;
        }
        const std::function<void()> fn = make;
        const auto call = [](void* arg) {
            (*static_cast<const std::function<void()>*>(arg))();
            return 0;
        };
        EXPECT_C(lockstep_offload(call, const_cast<std::function<void()>*>(&fn), &error));
        return result;
    }
    // What the transaction shows at last, when it has committed.
    std::string shown(World& w) {
        std::string all;
        beside([&] {
            for (const auto& [key, lock] : locks_of(w)) all += key + lock + " ";
        });
        all += steps_of(w);
        EXPECT_C(lockstep_commit(w.txn, nullptr, &error));
        beside([&] { all += found(w); });
        return all;
    }
    void expect_refusals() {
        World untouched = make_world(LOCKSTEP_NEVER);
        const std::string wanted = shown(untouched);
        for (const Probe& probe : all_probes(here)) {
            SCOPED_TRACE(std::string(probe.call) + ": " + probe.result);
            const std::string call = probe.call;
            if (call == "lockstep_submit" && !here) continue;  // any thread may
            World w = make_world(LOCKSTEP_NEVER);
            const bool any_thread = call == "lockstep_txn_id";
            EXPECT_EQ(elsewhere(w, probe), any_thread ? probe.result : "wrong_thread");
            EXPECT_EQ(shown(w), wanted);
        }
    }
    // Calls that do not look at the index, and the patch of no record.
    static bool without_index(const Probe& probe) {
        const std::string call = probe.call, result = probe.result;
        if (call == "lockstep_run_in" || result.find_first_of("12") < result.size()) return false;
        for (const auto& part : {object_probes(), txn_probes()})
            for (const Probe& one : part)
                if (call == one.call) return true;
        return call.find("heap") != std::string::npos || call == "lockstep_cursor_close";
    }
    void drop_index(lockstep_txn* txn) {
        EXPECT_C(lockstep_drop(txn, "s", &error));
        EXPECT_C(lockstep_drop(txn, "i", &error));
    }
    void make_indexes() {
        i = make_index("i");
        by = make_secondary("s", i);
    }
};

TEST_F(CElsewhere, ASessionOfUserThreads) { expect_refusals(); }
TEST_F(CElsewhere, ATransactionOfAUserThread) {
    here = true;
    run([&] { expect_refusals(); });
}

// The cursor has made no step yet. Then the transaction may go on, and others drop what it has not
// locked.
TEST_F(CElsewhere, AnIndexThatWasDropped) {
    for (const Probe& probe : all_probes(here)) {
        SCOPED_TRACE(std::string(probe.call) + ": " + probe.result);
        World w = make_world(LOCKSTEP_NEVER);
        EXPECT_C(lockstep_abort(w.txn, &error));
        w.txn = begin(LOCKSTEP_SERIALIZABLE, LOCKSTEP_NEVER);
        EXPECT_C(lockstep_put(w.txn, j, w.key("mine"), text("mine"), &error));
        EXPECT_C(lockstep_set_savepoint(w.txn, &w.savepoint, &error));
        EXPECT_C(lockstep_scan(w.txn, i, w.key("b"), w.key("i"), LOCKSTEP_ACCESS_READ, &w.cursor,
                               &error));
        lockstep_txn* const other = begin(LOCKSTEP_SERIALIZABLE, LOCKSTEP_NEVER);
        drop_index(other);
        EXPECT_C(lockstep_commit(other, nullptr, &error));
        const std::string result = probe.make(w);
        if (without_index(probe)) EXPECT_EQ(result, probe.result);
        else if (result == "ok none") EXPECT_STREQ(probe.call, "lockstep_cursor_patch");
        else EXPECT_TRUE(result.starts_with("no_such_object") || result == "ok no_such_object");
        if (lockstep_txn_id(w.txn) != 0) EXPECT_C(lockstep_commit(w.txn, nullptr, &error));
        EXPECT_C(lockstep_commit_prepared(store, text("gid"), nullptr, &error));
        make_indexes();
    }
}

// The transaction has dropped it itself: it is there until the commit.
TEST_F(CElsewhere, AnIndexThatTheTransactionHasDropped) {
    for (const Probe& probe : all_probes(here)) {
        SCOPED_TRACE(std::string(probe.call) + ": " + probe.result);
        World w = make_world(LOCKSTEP_NEVER);
        drop_index(w.txn);
        const bool prepares = std::string(probe.call) == "lockstep_prepare";
        EXPECT_EQ(probe.make(w), prepares ? "unsupported" : probe.result);
        if (lockstep_txn_id(w.txn) != 0) EXPECT_C(lockstep_abort(w.txn, &error));
        lockstep_index* there = nullptr;
        const int code = lockstep_find_index(store, "i", &there, &error);
        const bool commits = probe.ends && probe.aborting != Aborting::works && !prepares;
        EXPECT_EQ(code, commits ? LOCKSTEP_NO_SUCH_OBJECT : LOCKSTEP_OK);
        if (commits) make_indexes();
        else
            EXPECT_EQ(found(w),
                      "b=of b d=of d f=of f h=of h n=00000000 end end ok foundoldno_such_object");
    }
}

TEST_F(CElsewhere, BehindTheClose) {
    World w = make_world(LOCKSTEP_NEVER);
    ASSERT_C(lockstep_close(store, &error));
    store = nullptr;
    for (const Probe& probe : all_probes(here)) {
        SCOPED_TRACE(std::string(probe.call) + ": " + probe.result);
        EXPECT_EQ(probe.make(w), "txn_ended");
    }
    open("db");
    lockstep_txn* const txn = begin(LOCKSTEP_SERIALIZABLE, LOCKSTEP_NEVER);
    ASSERT_C(lockstep_find_index_in(txn, "j", &j, &error));
    EXPECT_EQ(value_of(txn, j, (w.number + "mine").c_str()), "none");
    EXPECT_C(lockstep_commit(txn, nullptr, &error));
}

// No call is forgotten.
TEST_F(CElsewhere, TheTableHasEachCall) {
    std::set<std::string> declared, called;
    const std::regex function(R"(^\w+ (lockstep_\w+)\(lockstep_(txn|cursor)\* (txn|cursor),)");
    for (const auto& file :
         std::filesystem::directory_iterator(LOCKSTEP_SOURCE_DIR "/sm/include/lockstep/c")) {
        std::ifstream in(file.path());
        for (std::string line; std::getline(in, line);)
            if (std::smatch match; std::regex_search(line, match, function))
                declared.insert(match[1]);
    }
    for (const Probe& probe : all_probes(here)) called.insert(probe.call);
    for (const char* whole : {"lockstep_batch", "lockstep_submit", "lockstep_txn_id"})
        called.erase(whole);
    EXPECT_EQ(declared, called);
}

}  // namespace lockstep::c_elsewhere_test
