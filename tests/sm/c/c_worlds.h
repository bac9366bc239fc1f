// c_worlds.h - makes the transactions on which c_probes.h makes its calls, and tells what others
// see of them.
#pragma once

#include <functional>
#include <map>
#include <string>

#include "tests/sm/c/c_probes.h"
#include "tests/sm/c/c_util.h"

namespace lockstep {

class CWorlds : public CStore {
protected:
    void SetUp() override {
        root = make_own_directory("c");
        lockstep_steps_options steps;
        lockstep_options options = small_options(steps);
        options.logger = [](void*, int, const char*, size_t) {};
        ASSERT_C(lockstep_open((root + "/db").c_str(), &options, &store, &error));
        i = make_index("i");
        j = make_index("j");
        heap = make_heap("h");
        by = make_secondary("s", i);
    }
    // The secondary index agrees with its primary, and so on.
    void TearDown() override {
        size_t faults = 0;
        const auto print = [](void*, const char* fault) { ADD_FAILURE() << fault; };
        EXPECT_C(lockstep_verify(store, 1, print, nullptr, &faults, &error));
        CStore::TearDown();
    }
    lockstep_index* make_secondary(const char* name, lockstep_index* of) {
        lockstep_secondary_options options = {};
        options.size = sizeof options;
        options.of = of;
        options.build_bytes = 1 << 20;
        options.key = [](void*, lockstep_slice, lockstep_slice value, lockstep_keys* keys) {
            lockstep_keys_add(keys, value);
        };
        lockstep_index* made = nullptr;
        lockstep_txn* txn = nullptr;
        EXPECT_C(lockstep_begin(store, nullptr, &txn, &error));
        EXPECT_C(lockstep_create_index(txn, name, &options, &made, &error));
        EXPECT_C(lockstep_commit(txn, nullptr, &error));
        return made;
    }
    lockstep_txn* begin(int isolation, uint64_t lock_timeout) {
        lockstep_txn_options options;
        lockstep_txn_options_init(&options, sizeof options);
        options.isolation = isolation;
        options.durability = LOCKSTEP_LAZY;
        options.lock_timeout = lock_timeout;
        lockstep_txn* txn = nullptr;
        EXPECT_C(lockstep_begin(store, &options, &txn, &error));
        return txn;
    }
    // Runs it where the transactions of the test belong.
    void run(const std::function<void()>& fn) { here ? on_user_thread(fn) : fn(); }
    // What other transactions do: a session would be a hand-over for each call.
    void beside(const std::function<void()>& fn) { here ? fn() : on_user_thread(fn); }
    void on_user_thread(const std::function<void()>& fn) {
        const auto body = [](lockstep_txn*, void* arg) {
            (*static_cast<const std::function<void()>*>(arg))();
            return 0;
        };
        EXPECT_C(
            lockstep_run(store, body, const_cast<std::function<void()>*>(&fn), nullptr, &error));
    }

    void insert_records(World& w) {
        lockstep_txn* txn = begin(LOCKSTEP_SERIALIZABLE, LOCKSTEP_NEVER);
        for (const char* key : {"b", "d", "f", "h", "z"})
            EXPECT_C(lockstep_insert(txn, i, w.key(key), w.value(key), &error));
        EXPECT_C(lockstep_insert(txn, i, w.key("n"), text("00000000"), &error));
        EXPECT_C(lockstep_insert(txn, j, w.key("z"), {}, &error));
        EXPECT_C(lockstep_heap_insert(txn, heap, text("old"), &w.record, &error));
        EXPECT_C(lockstep_commit(txn, nullptr, &error));
    }
    World make_world(uint64_t lock_timeout) {
        char number[16];
        snprintf(number, sizeof number, "%05d", ++worlds);
        World w{.store = store,
                .number = number,
                .here = here,
                .i = i,
                .j = j,
                .by = by,
                .heap = heap,
                .record = {}};
        beside([&] { insert_records(w); });
        w.txn = begin(isolation, lock_timeout);
        EXPECT_C(lockstep_put(w.txn, j, w.key("mine"), text("mine"), &error));
        EXPECT_C(lockstep_set_savepoint(w.txn, &w.savepoint, &error));
        EXPECT_C(lockstep_scan(w.txn, i, w.key("b"), w.key("i"),
                               LOCKSTEP_ACCESS_READ | LOCKSTEP_ACCESS_NO_WAIT, &w.cursor, &error));
        EXPECT_EQ(step(w, true), "b=of b");
        EXPECT_EQ(step(w, true), "d=of d");
        return w;
    }

    // By another transaction, which begins anew behind each lock that it meets.
    std::map<std::string, char> locks_of(World& w) {
        std::map<std::string, char> locks;
        lockstep_txn* txn = begin(LOCKSTEP_SERIALIZABLE, 1);
        const auto meets = [&](int code) {
            if (code == LOCKSTEP_OK || code == LOCKSTEP_DUPLICATE_KEY) return false;
            EXPECT_TRUE(code == LOCKSTEP_LOCK_REFUSED || code == LOCKSTEP_LOCK_TIMEOUT ||
                        code == LOCKSTEP_SELF_DEADLOCK)
                << word(code);
            EXPECT_C(lockstep_abort(txn, &error));
            txn = begin(LOCKSTEP_SERIALIZABLE, 1);
            return true;
        };
        const auto look = [&](lockstep_index* index, const char* key) {
            const auto locked = [&](int access) {
                return meets(lockstep_get(txn, index, w.key(key), access | LOCKSTEP_ACCESS_NO_WAIT,
                                          nullptr, 0, nullptr, nullptr, nullptr));
            };
            if (locked(LOCKSTEP_ACCESS_READ)) locks[key] = 'X';
            else if (locked(LOCKSTEP_ACCESS_UPDATE)) locks[key] = 'U';
            else if (locked(LOCKSTEP_ACCESS_WRITE)) locks[key] = 'S';
            else if (meets(lockstep_insert(txn, index, w.key(key), {}, nullptr))) locks[key] = '+';
        };
        for (const char* key : {"a", "b", "c", "d", "e", "f", "g", "h", "l", "n", "y", "z"})
            look(i, key);
        look(j, "mine");
        const auto record = [&](int access) {
            return meets(lockstep_heap_get(txn, heap, w.record, access, nullptr, 0, nullptr,
                                           nullptr, nullptr));
        };
        if (record(LOCKSTEP_ACCESS_READ)) locks["record"] = 'X';
        else if (record(LOCKSTEP_ACCESS_UPDATE)) locks["record"] = 'U';
        else if (record(LOCKSTEP_ACCESS_WRITE)) locks["record"] = 'S';
        EXPECT_C(lockstep_abort(txn, &error));
        return locks;
    }
    static std::string steps_of(World& w) {
        std::string all;
        for (const bool forward : {true, false})
            for (int n = 0; n < 10; ++n) {
                const std::string one = step(w, forward);
                all += one + " ";
                if (one.find('=') == std::string::npos) break;
            }
        return all;
    }
    // What a new transaction finds.
    std::string found(World& w) {
        World reader{.store = store,
                     .number = w.number,
                     .here = here,
                     .i = i,
                     .j = j,
                     .by = by,
                     .heap = heap,
                     .record = w.record};
        reader.txn = begin(LOCKSTEP_SERIALIZABLE, 1);
        std::string all;
        for (lockstep_index* index : {i, j}) {
            lockstep_cursor* cursor = nullptr;
            EXPECT_C(lockstep_scan(reader.txn, index, w.key(""), w.key("z"), LOCKSTEP_ACCESS_READ,
                                   &cursor, &error));
            for (std::string one; one.empty() || one.find('=') != std::string::npos;)
                all += (one = step(reader, true, cursor)) + " ";
        }
        char record[16] = {};
        size_t bytes = 0;
        bool there = false;
        all += word(lockstep_heap_get(reader.txn, heap, w.record, LOCKSTEP_ACCESS_READ, record, 15,
                                      &bytes, &there, &error),
                    there) +
               record;
        lockstep_index* made = nullptr;
        all += word(lockstep_find_index_in(reader.txn, w.number.c_str(), &made, &error));
        EXPECT_C(lockstep_abort(reader.txn, &error));
        return all;
    }

    // Set before SetUp(): of the transactions, and whether they are a user thread's.
    int isolation = LOCKSTEP_SERIALIZABLE;
    bool here = false;
    lockstep_index *i = nullptr, *j = nullptr, *by = nullptr;
    lockstep_heap* heap = nullptr;
    int worlds = 0;
};

}  // namespace lockstep
