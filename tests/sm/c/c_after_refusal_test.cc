// labels: unit
// c_after_refusal_test.cc - every call of the C interface on a transaction or a cursor, behind
// every kind of refusal.
//
// Concepts   A cell is a refusal with one call behind it, the probe. A transaction that may go on
//            must go on as if it had not been refused: the probe's result, the locks that others
//            meet, the cursor's further steps and what a second transaction sees after the commit
//            are those of the same probe without a refusal. Only the locks that the refusal says
//            it adds are more. One that must be rolled back refuses each probe, and leaves nothing.
//            Cells run in a session, and on a user thread.
#include <algorithm>
#include <map>
#include <tuple>

#include "tests/sm/c/c_worlds.h"

namespace lockstep::c_after_refusal_test {

// How a transaction stands behind a refusal.
enum class Then : uint8_t { goes_on, must_abort, ended };
struct Refusal {
    const char* name;
    Then then;
    int code;           // of each probe, unless it goes on
    const char* locks;  // what it adds at serializable, as locks_of() tells it
    std::function<void(World&)> make;
};
void expect(World& w, const char* what, const std::string& wanted, const std::string& got) {
    EXPECT_EQ(got, wanted) << what << ": " << w.error.text;
}
// Another transaction locks the record.
void lock(World& w, const char* key, size_t work = 0) {
    expect(w, "begin", "ok", word(lockstep_begin(w.store, nullptr, &w.other, &w.error)));
    expect(w, "put", "ok", word(lockstep_put(w.other, w.i, w.key(key), text("theirs"), &w.error)));
    // Of a deadlock the transaction with the least work is the victim.
    const std::string bytes(4000, 'w');
    for (size_t n = 0; n < work; ++n)
        expect(w, "put", "ok",
               word(lockstep_put(w.other, w.j, w.key("work"), w.kept(bytes), &w.error)));
}
void unlock(World& w) {
    expect(w, "abort", "ok", word(lockstep_abort(std::exchange(w.other, nullptr), &w.error)));
}
std::vector<Refusal> refusals_that_go_on() {
    const Then on = Then::goes_on;
    return {
        {"nothing", on, 0, "", [](World&) {}},
        {"lock_refused", on, 0, "",
         [](World& w) {
             lock(w, "f");
             for (int n = 0; n < 2; ++n) expect(w, "next", "lock_refused", step(w, true));
             expect(w, "read", "lock_refused", read(w, true, 256));
             expect(w, "get", "lock_refused", get(w, "f", LOCKSTEP_ACCESS_NO_WAIT));
             unlock(w);
         }},
        {"duplicate", on, 0, "bX ",
         [](World& w) { expect(w, "", "duplicate_key", insert(w, "b")); }},
        {"not found", on, 0, "",
         [](World& w) {
             bool found = true;
             expect(w, "", "ok none",
                    word(lockstep_update(w.txn, w.i, w.key("x"), {}, &found, &w.error), found));
         }},
        {"value too long", on, 0, "",
         [](World& w) {
             static const std::vector<char> value(LOCKSTEP_VALUE_BYTES_MAX + 1);
             expect(w, "", "value_too_long",
                    word(lockstep_put(w.txn, w.i, w.key("f"),
                                      lockstep_bytes(value.data(), value.size()), &w.error)));
         }},
        {"key too long", on, 0, "",
         [](World& w) {
             expect(w, "", "key_too_long", insert(w, std::string(1025, 'f').c_str()));
         }},
        {"part beyond the value", on, 0, "dX ",
         [](World& w) {
             bool found = false;
             expect(w, "", "bad_argument",
                    word(lockstep_cursor_patch(w.cursor, 100, text("x"), &found, &w.error)));
         }},
        {"no such object", on, 0, "",
         [](World& w) {
             lockstep_index* none = nullptr;
             expect(w, "", "no_such_object",
                    word(lockstep_find_index_in(w.txn, "none", &none, &w.error)));
         }},
        {"in a batch", on, 0, "bX ",
         [](World& w) {
             expect(w, "", "duplicate_key 1",
                    request(w, lockstep_batch, LOCKSTEP_END_COMMIT,
                            {operation(w, LOCKSTEP_OP_GET, "d", ""),
                             operation(w, LOCKSTEP_OP_INSERT, "b", ""),
                             operation(w, LOCKSTEP_OP_PUT, "d", "")}));
         }},
        {"prepare without a name", on, 0, "",
         [](World& w) {
             expect(w, "", "bad_argument", word(lockstep_prepare(w.txn, {}, nullptr, &w.error)));
         }},
        {"savepoint of another", on, 0, "",
         [](World& w) {
             const lockstep_savepoint wrong{w.savepoint.txn + 1, w.savepoint.number};
             expect(w, "", "bad_argument", word(lockstep_rollback_to(w.txn, &wrong, &w.error)));
         }},
        {"user error", on, 0, "",
         [](World& w) { EXPECT_EQ(lockstep_user_error(w.txn, 7, "no"), LOCKSTEP_USER_ERROR); }},
        {"rolled back to a savepoint", on, 0, "dX eX ",
         [](World& w) {
             lockstep_savepoint later = {};
             expect(w, "", "ok", put(w, "d", "changed"));
             expect(w, "", "ok", word(lockstep_set_savepoint(w.txn, &later, &w.error)));
             expect(w, "", "ok", insert(w, "e"));
             expect(w, "", "ok", word(lockstep_rollback_to(w.txn, &w.savepoint, &w.error)));
             expect(w, "", "bad_argument", word(lockstep_rollback_to(w.txn, &later, &w.error)));
         }},
        {"end of the range", on, 0, "e+ fS g+ hS l+ ",
         [](World& w) {
             expect(w, "", "f=of f", step(w, true));
             expect(w, "", "ok h", read(w, true, 256));
             for (int n = 0; n < 2; ++n) expect(w, "", "end", step(w, true));
             expect(w, "", "f=of f", step(w, false));
             expect(w, "", "d=of d", step(w, false));
         }},
        {"begin of the range", on, 0, "",
         [](World& w) {
             expect(w, "", "b=of b", step(w, false));
             for (int n = 0; n < 2; ++n) expect(w, "", "end", step(w, false));
             expect(w, "", "d=of d", step(w, true));
         }},
        {"no room", on, 0, "e+ fS ",
         [](World& w) {
             for (int n = 0; n < 2; ++n) expect(w, "", "ok waits", read(w, true, 1));
             expect(w, "", "bad_argument", step(w, false));
             expect(w, "", "f=of f", step(w, true));
             expect(w, "", "d=of d", step(w, false));
         }},
    };
}

// The other one, which holds f, waits for this one, which then asks for f.
void meet(World& w) {
    lock(w, "f", 5);
    w.helper = std::thread([&w] {
        EXPECT_EQ(lockstep_put(w.other, w.j, w.key("mine"), text("theirs"), nullptr), LOCKSTEP_OK);
    });
    const auto waits = [](void* arg, const lockstep_transaction_info* info) {
        *static_cast<bool*>(arg) |= std::string(info->state) == "lock_wait";
        return true;
    };
    for (bool there = false; !there;) {
        ASSERT_EQ(lockstep_transactions(w.store, waits, &there, nullptr), LOCKSTEP_OK);
        std::this_thread::yield();
    }
    expect(w, "put", "deadlock", put(w, "f", "x"));
}

// `here`: on a user thread, where the other transaction is of the same thread.
std::vector<Refusal> refusals_that_end(bool here) {
    const Then ab = Then::must_abort, ended = Then::ended;
    const int aborting = LOCKSTEP_TXN_ABORTING, gone = LOCKSTEP_TXN_ENDED;
    std::vector<Refusal> all = {
        {"time limit", ab, aborting, "",
         [](World& w) {
             lock(w, "f");
             const std::string code = put(w, "f", "x");
             expect(w, "put", w.here ? "self_deadlock" : "lock_timeout", code);
             unlock(w);
         }},
        {"cancelled", ab, LOCKSTEP_CANCELLED, "",
         [](World& w) {
             expect(w, "", "ok",
                    word(lockstep_cancel_transaction(w.store, w.savepoint.txn, &w.error)));
         }},
        {"ended by the operator", ab, LOCKSTEP_ENDED_BY_OPERATOR, "",
         [](World& w) {
             expect(w, "", "ok",
                    word(lockstep_end_transaction(w.store, w.savepoint.txn, &w.error)));
         }},
        {"committed", ended, gone, "",
         [](World& w) { expect(w, "", "ok", word(lockstep_commit(w.txn, nullptr, &w.error))); }},
        {"rolled back", ended, gone, "",
         [](World& w) { expect(w, "", "ok", word(lockstep_abort(w.txn, &w.error))); }},
        {"rolled back by a request", ended, gone, "",
         [](World& w) {
             expect(w, "", "ok ended", request(w, lockstep_batch, LOCKSTEP_END_ABORT, {}));
         }},
    };
    if (!here) all.push_back({"deadlock", ab, aborting, "", meet});
    return all;
}

// What a cell shows.
struct Seen {
    std::string result;                 // of the probe
    std::map<std::string, char> locks;  // that others meet: S, U, X; + for the gap below a key
    std::string steps;                  // that the cursor makes behind the probe
    std::string after;                  // what a second transaction sees at last
};

class CAfterRefusal : public CWorlds, public ::testing::WithParamInterface<std::tuple<int, bool>> {
protected:
    CAfterRefusal() { std::tie(isolation, here) = GetParam(); }

    Seen cell(const Refusal& refusal, const Probe* probe) {
        // Only where nobody lets the lock go: the length of the wait decides nothing.
        const bool in_vain = std::string(refusal.name) == "time limit";
        World w = make_world(in_vain ? 1 : LOCKSTEP_NEVER);
        refusal.make(w);
        Seen seen;
        if (probe != nullptr) seen.result = probe->make(w);
        const bool open = lockstep_txn_id(w.txn) != 0;
        if (refusal.then == Then::goes_on) {
            beside([&] { seen.locks = locks_of(w); });
            seen.steps = steps_of(w);
        }
        if (open && refusal.then == Then::goes_on) {
            EXPECT_C(lockstep_put(w.txn, j, w.key("later"), text("later"), &error));
            EXPECT_C(lockstep_commit(w.txn, nullptr, &error));
        } else if (open) {
            EXPECT_C(lockstep_abort(w.txn, &error));
        }
        EXPECT_EQ(lockstep_abort(w.txn, &error), LOCKSTEP_TXN_ENDED);
        EXPECT_EQ(step(w, true), "txn_ended");
        if (w.helper.joinable()) w.helper.join();
        if (w.other != nullptr) unlock(w);
        EXPECT_C(lockstep_commit_prepared(store, text("gid"), nullptr, &error));
        beside([&] { seen.after = found(w); });
        return seen;
    }
};

char stronger(char a, char b) {
    constexpr std::string_view order = "+SUX";
    return order.find(a) < order.find(b) ? b : a;
}
std::map<std::string, char> united(std::map<std::string, char> locks,
                                   const std::map<std::string, char>& more) {
    for (const auto& [key, lock] : more) {
        char& at = locks.try_emplace(key, lock).first->second;
        at = stronger(at, lock);
    }
    return locks;
}
std::map<std::string, char> without(std::map<std::string, char> locks,
                                    const std::map<std::string, char>& less) {
    std::erase_if(locks, [&](const auto& one) {
        const auto at = less.find(one.first);
        return at != less.end() && at->second == one.second;
    });
    return locks;
}
std::string told(const std::map<std::string, char>& locks) {
    std::string all;
    for (const auto& [key, lock] : locks) all += key + lock + " ";
    return all;
}
TEST_P(CAfterRefusal, ATransactionThatMayGoOnDoes) {
    run([&] {
        const std::vector<Refusal> refusals = refusals_that_go_on();
        const std::vector<Probe> probes = all_probes(here);
        const Seen untouched = cell(refusals[0], nullptr);
        std::vector<Seen> plain;
        for (const Probe& probe : probes) {
            SCOPED_TRACE(probe.call);
            plain.push_back(cell(refusals[0], &probe));
            EXPECT_EQ(plain.back().result, probe.result);
        }
        for (size_t r = 1; r < refusals.size() && !HasFailure(); ++r) {
            SCOPED_TRACE(refusals[r].name);
            const Seen refused = cell(refusals[r], nullptr);
            const auto added = without(refused.locks, untouched.locks);
            if (isolation == LOCKSTEP_SERIALIZABLE) {
                EXPECT_EQ(told(added), refusals[r].locks);
            }
            EXPECT_EQ(refused.steps, untouched.steps);
            EXPECT_EQ(refused.after, untouched.after);
            for (size_t p = 0; p < probes.size(); ++p) {
                SCOPED_TRACE(std::string(probes[p].call) + ": " + probes[p].result);
                const Seen seen = cell(refusals[r], &probes[p]);
                EXPECT_EQ(seen.result, plain[p].result);
                EXPECT_EQ(
                    told(seen.locks),
                    told(plain[p].locks.empty() ? plain[p].locks : united(plain[p].locks, added)));
                EXPECT_EQ(seen.steps, plain[p].steps);
                EXPECT_EQ(seen.after, plain[p].after);
            }
        }
    });
}

// What would have to wait waits, and is not refused at once, unless it asks for that. Nobody lets
// the lock go, so the length of the wait decides nothing.
TEST_P(CAfterRefusal, ATransactionThatMayGoOnWaits) {
    run([&] {
        for (const Refusal& refusal : refusals_that_go_on()) {
            SCOPED_TRACE(refusal.name);
            World w = make_world(1);
            refusal.make(w);
            lock(w, "z");
            EXPECT_C(lockstep_cursor_seek(w.cursor, w.key("y"), {}, &error));
            EXPECT_EQ(step(w, true), "lock_refused");
            const char* const code = here ? "self_deadlock" : "lock_timeout";
            EXPECT_EQ(put(w, "z", "x"), code);
            unlock(w);
            EXPECT_C(lockstep_abort(w.txn, &error));
        }
    });
}

TEST_P(CAfterRefusal, OneThatMustEndRefusesAndLeavesNothing) {
    run([&] {
        for (const Refusal& refusal : refusals_that_end(here)) {
            SCOPED_TRACE(refusal.name);
            const std::string after = cell(refusal, nullptr).after;
            const bool committed = std::string(refusal.name) == "committed";
            EXPECT_EQ(after.find("mine") != std::string::npos, committed) << after;
            for (const Probe& probe : all_probes(here)) {
                SCOPED_TRACE(std::string(probe.call) + ": " + probe.result);
                std::string wanted = word(refusal.code);
                if (refusal.then == Then::must_abort && probe.aborting == Aborting::works)
                    wanted = probe.result;
                if (refusal.then == Then::must_abort && probe.aborting == Aborting::later)
                    wanted = "ok " + wanted;
                const Seen seen = cell(refusal, &probe);
                EXPECT_EQ(seen.result, wanted);
                EXPECT_EQ(seen.after, after);
            }
        }
    });
}

std::string name_of(const testing::TestParamInfo<std::tuple<int, bool>>& info) {
    const auto [isolation, here] = info.param;
    return "Isolation" + std::to_string(isolation) + (here ? "OnAUserThread" : "InASession");
}
INSTANTIATE_TEST_SUITE_P(Each, CAfterRefusal,
                         testing::Values(std::tuple(int{LOCKSTEP_SERIALIZABLE}, false),
                                         std::tuple(int{LOCKSTEP_SERIALIZABLE}, true),
                                         std::tuple(int{LOCKSTEP_REPEATABLE_READ}, true),
                                         std::tuple(int{LOCKSTEP_READ_COMMITTED}, true)),
                         name_of);

}  // namespace lockstep::c_after_refusal_test
