// labels: unit
// c_forms_test.cc - the C interface in its forms: callbacks, sessions, batches, requests; and what
// each operation does in both.
#include <poll.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <atomic>
#include <functional>
#include <map>
#include <thread>
#include <vector>

#include <lockstep/key.h>
#include <lockstep/store.h>
#include "tests/sm/c/c_util.h"

namespace lockstep {
namespace {

class CForms : public CStore {
protected:
    // Calls fn(txn) in the callback form and in a session.
    void in_both(const std::function<void(lockstep_txn*)>& fn) {
        const auto body = [](lockstep_txn* txn, void* arg) {
            (*static_cast<const std::function<void(lockstep_txn*)>*>(arg))(txn);
            return -1;  // rolled back
        };
        auto copy = fn;
        EXPECT_EQ(lockstep_run(store, body, &copy, nullptr, &error), -1);
        EXPECT_EQ(error.code, -1);
        lockstep_txn* txn = nullptr;
        EXPECT_C(lockstep_begin(store, nullptr, &txn, &error));
        fn(txn);
        EXPECT_C(lockstep_abort(txn, &error));
        EXPECT_EQ(lockstep_abort(txn, &error), LOCKSTEP_TXN_ENDED);
    }
};

TEST_F(CForms, RecordsOfAnIndex) {
    lockstep_index* const index = make_index("i");
    EXPECT_NE(lockstep_index_id(index), 0u);
    in_both([&](lockstep_txn* txn) {
        EXPECT_NE(lockstep_txn_id(txn), 0u);
        EXPECT_C(lockstep_insert(txn, index, lockstep_text("a"), lockstep_text("one"), &error));
        EXPECT_EQ(lockstep_insert(txn, index, lockstep_text("a"), lockstep_text("two"), &error),
                  LOCKSTEP_DUPLICATE_KEY);
        EXPECT_NE(std::string(error.text).find("duplicate_key"), std::string::npos);
        EXPECT_EQ(value_of(txn, index, "a"), "one");
        bool found = false;
        EXPECT_C(
            lockstep_update(txn, index, lockstep_text("a"), lockstep_text("uno"), &found, &error));
        EXPECT_TRUE(found);
        EXPECT_C(
            lockstep_update(txn, index, lockstep_text("z"), lockstep_text("uno"), &found, &error));
        EXPECT_FALSE(found);
        lockstep_savepoint savepoint;
        EXPECT_C(lockstep_set_savepoint(txn, &savepoint, &error));
        EXPECT_C(lockstep_put(txn, index, lockstep_text("b"), lockstep_text("two"), &error));
        EXPECT_C(lockstep_patch(txn, index, lockstep_text("b"), 1, lockstep_text("oo"), nullptr,
                                &found, &error));
        EXPECT_EQ(value_of(txn, index, "b"), "too");
        EXPECT_C(lockstep_rollback_to(txn, &savepoint, &error));
        EXPECT_EQ(value_of(txn, index, "b"), "none");
        EXPECT_EQ(value_of(txn, index, "a"), "uno");
        // A buffer that is too small takes what fits.
        char two[2];
        size_t bytes = 0;
        EXPECT_C(lockstep_get(txn, index, lockstep_text("a"), LOCKSTEP_ACCESS_WRITE, two, 2, &bytes,
                              &found, &error));
        EXPECT_TRUE(found && bytes == 3 && two[0] == 'u' && two[1] == 'n');
        EXPECT_C(lockstep_erase(txn, index, lockstep_text("a"), &found, &error));
        EXPECT_TRUE(found);
        EXPECT_EQ(value_of(txn, index, "a"), "none");
    });
}

TEST_F(CForms, ManyRecords) {
    lockstep_index* const index = make_index("i");
    in_both([&](lockstep_txn* txn) {
        std::vector<std::string> keys;
        std::vector<lockstep_record> records;
        for (int n = 100; n < 300; ++n) keys.push_back("key " + std::to_string(n));
        for (const auto& key : keys)
            records.push_back({lockstep_text(key.c_str()), lockstep_text(key.c_str() + 4)});
        EXPECT_C(lockstep_insert_many(txn, index, records.data(), records.size(), &error));
        for (const size_t count : {size_t{3}, keys.size()}) {
            std::vector<lockstep_lookup> rows(count);
            std::vector<std::string> values(count, std::string(3, ' '));
            for (size_t i = 0; i < count; ++i)
                rows[i] = {records[i].key, values[i].data(), 3, 0, false, {}};
            rows[1].key = lockstep_text("none");
            size_t found = 0;
            EXPECT_C(lockstep_get_many(txn, index, rows.data(), count, LOCKSTEP_ACCESS_WRITE,
                                       &found, &error));
            EXPECT_EQ(found, count - 1);
            EXPECT_FALSE(rows[1].found);
            EXPECT_TRUE(rows[2].found && rows[2].bytes == 3 && values[2] == "102");
            bool there = false;
            EXPECT_C(lockstep_patch(txn, index, rows[2].key, 0, lockstep_text("x"), &rows[2].hint,
                                    &there, &error));
            EXPECT_TRUE(there);
            EXPECT_C(lockstep_patch(txn, index, rows[2].key, 0, lockstep_text("1"), nullptr, &there,
                                    &error));
        }
        const lockstep_need need{index, records[5].key, LOCKSTEP_ACCESS_READ, 0};
        bool walked = true;
        EXPECT_C(lockstep_will_need(txn, &need, 1, &walked, &error));
        EXPECT_EQ(walked, needs_on(steps_of_run().mode));
    });
}

TEST_F(CForms, Cursors) {
    lockstep_index* const index = make_index("i");
    in_both([&](lockstep_txn* txn) {
        for (const char* key : {"a", "b", "c", "d"})
            EXPECT_C(lockstep_put(txn, index, lockstep_text(key), lockstep_text(key), &error));
        lockstep_cursor* cursor = nullptr;
        const lockstep_slice none = {nullptr, 0};
        EXPECT_C(lockstep_scan(txn, index, lockstep_text("b"), none, LOCKSTEP_ACCESS_WRITE, &cursor,
                               &error));
        lockstep_slice key = {}, value = {}, secondary = {};
        bool found = false;
        EXPECT_C(lockstep_cursor_next(cursor, &key, &value, &secondary, &found, &error));
        EXPECT_TRUE(found && text_of(key) == "b" && text_of(value) == "b" && secondary.size == 0);
        EXPECT_C(lockstep_cursor_patch(cursor, 0, lockstep_text("B"), &found, &error));
        EXPECT_TRUE(found);
        EXPECT_EQ(value_of(txn, index, "b"), "B");
        EXPECT_C(lockstep_cursor_next(cursor, &key, nullptr, nullptr, &found, &error));
        EXPECT_EQ(text_of(key), "c");
        EXPECT_C(lockstep_cursor_prev(cursor, &key, nullptr, nullptr, &found, &error));
        EXPECT_EQ(text_of(key), "b");
        EXPECT_C(lockstep_cursor_seek(cursor, none, lockstep_text("c"), &error));
        EXPECT_C(lockstep_cursor_prev(cursor, &key, nullptr, nullptr, &found, &error));
        EXPECT_EQ(text_of(key), "b");

        // Two records of two bytes fit; the third waits.
        EXPECT_C(lockstep_cursor_seek(cursor, none, none, &error));
        lockstep_record rows[8];
        char memory[5];
        size_t count = 0, needed = 0;
        std::string seen;
        for (int n = 0; n < 2; ++n) {
            EXPECT_C(
                lockstep_cursor_read(cursor, true, rows, 8, memory, 5, &count, &needed, &error));
            for (size_t i = 0; i < count; ++i) seen += text_of(rows[i].key);
            EXPECT_EQ(count, 2u);
            EXPECT_EQ(needed, n == 0 ? 2u : 0u);
            if (n == 0) {
                EXPECT_EQ(lockstep_cursor_prev(cursor, &key, nullptr, nullptr, &found, &error),
                          LOCKSTEP_BAD_ARGUMENT);
            }
        }
        EXPECT_EQ(seen, "abcd");
        EXPECT_C(lockstep_cursor_close(cursor, &error));
        EXPECT_EQ(lockstep_cursor_close(cursor, &error), LOCKSTEP_TXN_ENDED);
        EXPECT_C(lockstep_scan(txn, index, none, none, LOCKSTEP_ACCESS_READ, &cursor, &error));
    });
}

TEST_F(CForms, BulkLoadCallsBack) {
    lockstep_index* const index = make_index("i");
    struct Source {
        int at = 0;
        std::string key;
        std::thread::id thread;
    };
    const auto next = [](void* arg, lockstep_record* record) {
        auto& source = *static_cast<Source*>(arg);
        source.thread = std::this_thread::get_id();
        if (source.at == 20000) return false;
        source.key = std::to_string(100000 + source.at++);
        record->key = record->value = lockstep_text(source.key.c_str());
        return true;
    };
    in_both([&](lockstep_txn* txn) {
        Source source;
        EXPECT_C(lockstep_bulk_load(txn, index, next, &source, 90, &error));
        EXPECT_EQ(source.at, 20000);
        EXPECT_EQ(source.thread, std::this_thread::get_id());
        EXPECT_EQ(value_of(txn, index, "119999"), "119999");
    });
}

TEST_F(CForms, Heaps) {
    lockstep_heap* const heap = make_heap("h");
    EXPECT_NE(lockstep_heap_id(heap), 0u);
    struct Seen {
        int records = 0;
        size_t bytes = 0;
        int most = 1 << 30;
    };
    const auto each = [](void* arg, lockstep_record_id, lockstep_slice record) {
        auto& seen = *static_cast<Seen*>(arg);
        seen.bytes += record.size;
        return ++seen.records < seen.most;
    };
    in_both([&](lockstep_txn* txn) {
        lockstep_record_id id = {};
        const std::string record(1000, 'r');
        for (int n = 0; n < 200; ++n)
            EXPECT_C(lockstep_heap_insert(txn, heap, lockstep_text(record.c_str()), &id, &error));
        bool found = false;
        char buffer[8];
        size_t bytes = 0;
        EXPECT_C(lockstep_heap_get(txn, heap, id, LOCKSTEP_ACCESS_READ, buffer, 8, &bytes, &found,
                                   &error));
        EXPECT_TRUE(found && bytes == 1000);
        Seen all, some;
        some.most = 7;
        EXPECT_C(lockstep_heap_scan(txn, heap, each, &all, &error));
        EXPECT_TRUE(all.records == 200 && all.bytes == 200000);
        EXPECT_C(lockstep_heap_scan(txn, heap, each, &some, &error));
        EXPECT_EQ(some.records, 7);
        EXPECT_C(lockstep_heap_update(txn, heap, id, lockstep_text("x"), &found, &error));
        EXPECT_C(lockstep_heap_erase(txn, heap, id, &found, &error));
        EXPECT_TRUE(found);
        EXPECT_C(lockstep_heap_erase(txn, heap, id, &found, &error));
        EXPECT_FALSE(found);
    });
}

TEST_F(CForms, SecondaryIndexes) {
    lockstep_secondary_options options;
    lockstep_secondary_options_init(&options, sizeof options);
    options.of = make_index("people");
    options.key = [](void*, lockstep_slice, lockstep_slice value, lockstep_keys* keys) {
        lockstep_keys_add(keys, value);
    };
    uint64_t pages = 0;
    options.progress = [](void* arg, uint64_t read, uint64_t) {
        *static_cast<uint64_t*>(arg) = read;
    };
    options.progress_arg = &pages;
    lockstep_txn* txn = nullptr;
    lockstep_index* by_city = nullptr;
    ASSERT_C(lockstep_begin(store, nullptr, &txn, &error));
    EXPECT_C(lockstep_put(txn, options.of, lockstep_text("Ana"), lockstep_text("Porto"), &error));
    EXPECT_C(lockstep_put(txn, options.of, lockstep_text("Rui"), lockstep_text("Lagos"), &error));
    EXPECT_C(lockstep_create_index(txn, "by city", &options, &by_city, &error));
    EXPECT_C(lockstep_commit(txn, nullptr, &error));
    EXPECT_C(lockstep_attach_key(store, "by city", options.key, nullptr, &error));
    EXPECT_EQ(lockstep_attach_key(store, "people", options.key, nullptr, &error),
              LOCKSTEP_WRONG_KIND);
    in_both([&](lockstep_txn* t) {
        EXPECT_C(lockstep_put(t, options.of, lockstep_text("Eva"), lockstep_text("Porto"), &error));
        lockstep_cursor* cursor = nullptr;
        EXPECT_C(lockstep_scan_by(t, by_city, lockstep_text("Porto"), {}, true,
                                  LOCKSTEP_ACCESS_READ, &cursor, &error));
        std::string seen;
        lockstep_slice key = {}, value = {}, city = {};
        bool found = false;
        EXPECT_C(lockstep_cursor_next(cursor, &key, &value, &city, &found, &error));
        while (found) {
            seen += text_of(key) + " in " + text_of(city) + ", ";
            EXPECT_C(lockstep_cursor_next(cursor, &key, &value, &city, &found, &error));
        }
        EXPECT_EQ(seen, "Ana in Porto, Eva in Porto, ");
        EXPECT_EQ(lockstep_cursor_patch(cursor, 0, lockstep_text("x"), &found, &error),
                  LOCKSTEP_UNSUPPORTED);
    });
}

// One of two callbacks is a deadlock victim, and is repeated.
TEST_F(CForms, RunRepeatsVictims) {
    lockstep_index* const index = make_index("i");
    struct Both {
        lockstep_index* index;
        std::atomic<int> begun{0}, calls{0};
    } both{index};
    struct One {
        Both& both;
        const char *first, *second;
    };
    const auto body = [](lockstep_txn* txn, void* arg) {
        const One& one = *static_cast<One*>(arg);
        const bool again = one.both.calls.fetch_add(1) >= 2;
        int code = lockstep_put(txn, one.both.index, lockstep_text(one.first), {}, nullptr);
        if (!again) {
            one.both.begun.fetch_add(1);
            while (one.both.begun.load() < 2) lockstep_sleep_for(kMillisecond);
        }
        if (code == 0)
            code = lockstep_put(txn, one.both.index, lockstep_text(one.second), {}, nullptr);
        return code;
    };
    One ab{both, "a", "b"}, ba{both, "b", "a"};
    std::thread other(
        [&] { EXPECT_EQ(lockstep_run(store, body, &ba, nullptr, nullptr), LOCKSTEP_OK); });
    EXPECT_EQ(lockstep_run(store, body, &ab, nullptr, nullptr), LOCKSTEP_OK);
    other.join();
    EXPECT_EQ(both.calls.load(), 3);
    lockstep_stats stats = {};
    stats.size = sizeof stats;
    EXPECT_C(lockstep_get_stats(store, &stats, &error));
    EXPECT_EQ(stats.deadlock_retries, 1u);
}

TEST_F(CForms, ErrorsOfAFunctionAreThoseOfRun) {
    lockstep_index* const index = make_index("i");
    const auto twice = [](lockstep_txn* txn, void* arg) {
        auto* const i = static_cast<lockstep_index*>(arg);
        const int code = lockstep_insert(txn, i, lockstep_text("k"), {}, nullptr);
        return code != 0 ? code : lockstep_insert(txn, i, lockstep_text("k"), {}, nullptr);
    };
    EXPECT_EQ(lockstep_run(store, twice, index, nullptr, &error), LOCKSTEP_DUPLICATE_KEY);
    EXPECT_EQ(error.code, LOCKSTEP_DUPLICATE_KEY);
    const auto unknown = [](lockstep_txn*, void*) { return 12345; };
    EXPECT_EQ(lockstep_run(store, unknown, nullptr, nullptr, &error), LOCKSTEP_BAD_ARGUMENT);
    // A transaction that the function itself begins and ends, and one that it forgets.
    const auto own = [](lockstep_txn* txn, void* arg) {
        lockstep_txn *other = nullptr, *forgotten = nullptr;
        int code = lockstep_begin(static_cast<lockstep_store*>(arg), nullptr, &other, nullptr);
        if (code == 0) code = lockstep_commit(other, nullptr, nullptr);
        if (code == 0)
            code = lockstep_begin(static_cast<lockstep_store*>(arg), nullptr, &forgotten, nullptr);
        if (code == 0) code = lockstep_commit(txn, nullptr, nullptr);
        return code == 0 && lockstep_commit(txn, nullptr, nullptr) == LOCKSTEP_TXN_ENDED ? 0 : -7;
    };
    EXPECT_EQ(lockstep_run(store, own, store, nullptr, &error), LOCKSTEP_OK);
    const auto close = [](lockstep_txn*, void* arg) {
        return lockstep_close(static_cast<lockstep_store*>(arg), nullptr);
    };
    EXPECT_EQ(lockstep_run(store, close, store, nullptr, &error), LOCKSTEP_WRONG_THREAD);
}

// Kernel threads with sessions of their own, beside each other and beyond the executors.
TEST_F(CForms, SessionsOfManyThreads) {
    lockstep_index* const index = make_index("i");
    constexpr int kThreads = 40, kTransfers = 10;
    std::vector<std::thread> threads;
    for (int n = 0; n < kThreads; ++n)
        threads.emplace_back([&, n] {
            const std::string key = "thread " + std::to_string(n);
            for (int i = 0; i < kTransfers; ++i) {
                lockstep_txn* txn = nullptr;
                ASSERT_EQ(lockstep_begin(store, nullptr, &txn, nullptr), LOCKSTEP_OK);
                bool found = false;
                int value = 0;
                ASSERT_EQ(
                    lockstep_get(txn, index, lockstep_text(key.c_str()), LOCKSTEP_ACCESS_WRITE,
                                 &value, sizeof value, nullptr, &found, nullptr),
                    LOCKSTEP_OK);
                ++value;
                ASSERT_EQ(lockstep_put(txn, index, lockstep_text(key.c_str()),
                                       lockstep_bytes(&value, sizeof value), nullptr),
                          LOCKSTEP_OK);
                ASSERT_EQ(lockstep_commit(txn, nullptr, nullptr), LOCKSTEP_OK);
            }
        });
    for (auto& thread : threads) thread.join();
    lockstep_txn* txn = nullptr;
    ASSERT_C(lockstep_begin(store, nullptr, &txn, &error));
    lockstep_cursor* cursor = nullptr;
    ASSERT_C(lockstep_scan(txn, index, {}, {}, LOCKSTEP_ACCESS_READ, &cursor, &error));
    lockstep_slice value = {};
    bool found = true;
    int records = 0;
    for (;; ++records) {
        ASSERT_C(lockstep_cursor_next(cursor, nullptr, &value, nullptr, &found, &error));
        if (!found) break;
        EXPECT_EQ(*static_cast<const int*>(value.data), kTransfers);
    }
    EXPECT_EQ(records, kThreads);
    // close() rolls the session back that is open.
    ASSERT_C(lockstep_close(store, &error));
    EXPECT_EQ(lockstep_commit(txn, nullptr, &error), LOCKSTEP_TXN_ENDED);
    EXPECT_EQ(lockstep_close(store, &error), LOCKSTEP_STORE_CLOSED);
    store = nullptr;
}

TEST_F(CForms, OneCallOfASessionAtATime) {
    lockstep_index* const index = make_index("i");
    lockstep_txn *holder = nullptr, *waiter = nullptr;
    ASSERT_C(lockstep_begin(store, nullptr, &holder, &error));
    ASSERT_C(lockstep_begin(store, nullptr, &waiter, &error));
    ASSERT_C(lockstep_put(holder, index, lockstep_text("k"), {}, &error));
    std::thread blocked([&] {
        EXPECT_EQ(lockstep_put(waiter, index, lockstep_text("k"), {}, nullptr), LOCKSTEP_OK);
    });
    const auto waits = [](void* arg, const lockstep_transaction_info* info) {
        if (std::string(info->state) == "lock_wait") *static_cast<uint64_t*>(arg) = info->id;
        return true;
    };
    uint64_t id = 0;
    while (id == 0) ASSERT_C(lockstep_transactions(store, waits, &id, &error));
    EXPECT_EQ(lockstep_abort(waiter, &error), LOCKSTEP_WRONG_THREAD);
    ASSERT_C(lockstep_commit(holder, nullptr, &error));
    blocked.join();
    ASSERT_C(lockstep_commit(waiter, nullptr, &error));
}

// An operation on an index, or on a heap if `index` is null.
lockstep_operation operation(int kind, lockstep_index* index, const char* key = nullptr,
                             const char* value = nullptr) {
    lockstep_operation o = {};
    o.kind = kind;
    o.index = index;
    o.key = lockstep_text(key);
    o.value = lockstep_text(value);
    return o;
}

TEST_F(CForms, Batches) {
    lockstep_index* const index = make_index("i");
    lockstep_heap* const heap = make_heap("h");
    char value[8] = {};
    lockstep_operation ops[6] = {};
    ops[0] = operation(LOCKSTEP_OP_INSERT, index, "k", "abc");
    ops[1] = operation(LOCKSTEP_OP_PATCH, index, "k", "B");
    ops[1].offset = 1;
    ops[2] = operation(LOCKSTEP_OP_GET, index, "k");
    ops[2].buffer = value;
    ops[2].room = sizeof value;
    ops[3] = operation(LOCKSTEP_OP_HEAP_INSERT, nullptr, nullptr, "record");
    ops[3].heap = heap;
    ops[4] = operation(LOCKSTEP_OP_UPDATE, index, "none");
    ops[5] = operation(LOCKSTEP_OP_ERASE, index, "none");
    lockstep_request request;
    lockstep_request_init(&request, sizeof request);
    request.store = store;
    request.operations = ops;
    request.count = 6;
    request.end = LOCKSTEP_END_COMMIT;
    request.error = &error;
    ASSERT_C(lockstep_batch(&request));
    EXPECT_EQ(request.performed, 6u);
    EXPECT_NE(request.lsn, 0u);
    EXPECT_STREQ(value, "aBc");
    EXPECT_TRUE(ops[2].found && ops[2].bytes == 3 && !ops[4].found && !ops[5].found);

    // The first error ends it, and rolls a whole transaction back.
    lockstep_operation more[2] = {};
    more[0] = operation(LOCKSTEP_OP_PUT, index, "lost");
    more[1] = ops[0];
    request.operations = more;
    request.count = 2;
    EXPECT_EQ(lockstep_batch(&request), LOCKSTEP_DUPLICATE_KEY);
    EXPECT_TRUE(request.performed == 1 && more[1].code == LOCKSTEP_DUPLICATE_KEY);

    // Begin with operations, go on, commit.
    more[0] = operation(LOCKSTEP_OP_HEAP_GET, nullptr);
    more[0].heap = heap;
    more[0].id = ops[3].id;
    more[0].buffer = value;
    more[0].room = sizeof value;
    request.count = 1;
    request.end = LOCKSTEP_END_KEEP;
    ASSERT_C(lockstep_batch(&request));
    ASSERT_NE(request.txn, nullptr);
    EXPECT_EQ(std::string(value, 6), "record");
    EXPECT_EQ(value_of(request.txn, index, "lost"), "none");
    more[0].kind = LOCKSTEP_OP_HEAP_UPDATE;
    more[1] = more[0];
    more[1].kind = LOCKSTEP_OP_HEAP_ERASE;
    request.count = 2;
    request.end = LOCKSTEP_END_ABORT;
    ASSERT_C(lockstep_batch(&request));
    EXPECT_EQ(request.txn, nullptr);
    more[0].kind = 99;
    EXPECT_EQ(lockstep_batch(&request), LOCKSTEP_BAD_ARGUMENT);
}

// A value that does not fit ends the request before what follows is done.
TEST_F(CForms, GetsOfWholeValues) {
    lockstep_index* const index = make_index("i");
    lockstep_heap* const heap = make_heap("h");
    char value[8] = {};
    lockstep_operation ops[3] = {};
    ops[0] = operation(LOCKSTEP_OP_PUT, index, "k", "four");
    ops[1] = operation(LOCKSTEP_OP_HEAP_INSERT, nullptr, nullptr, "record");
    ops[1].heap = heap;
    lockstep_request request;
    lockstep_request_init(&request, sizeof request);
    request.store = store;
    request.operations = ops;
    request.count = 2;
    request.end = LOCKSTEP_END_COMMIT;
    request.error = &error;
    ASSERT_C(lockstep_batch(&request));

    lockstep_operation gets[4] = {};
    gets[0] = operation(LOCKSTEP_OP_GET_WHOLE, index, "none");
    gets[1] = operation(LOCKSTEP_OP_GET_WHOLE, index, "k");
    gets[2] = operation(LOCKSTEP_OP_HEAP_GET_WHOLE, nullptr);
    gets[2].heap = heap;
    gets[2].id = ops[1].id;
    gets[3] = operation(LOCKSTEP_OP_PUT, index, "behind", "v");
    request.operations = gets;
    request.count = 4;
    EXPECT_EQ(lockstep_batch(&request), LOCKSTEP_VALUE_TOO_LONG);
    EXPECT_TRUE(request.performed == 1 && gets[1].found && gets[1].bytes == 4);
    for (lockstep_operation* get : {&gets[1], &gets[2]}) {
        get->buffer = value;
        get->room = 4;
    }
    EXPECT_EQ(lockstep_batch(&request), LOCKSTEP_VALUE_TOO_LONG);
    EXPECT_TRUE(request.performed == 2 && gets[2].found && gets[2].bytes == 6);
    gets[2].room = sizeof value;
    ASSERT_C(lockstep_batch(&request));
    EXPECT_EQ(std::string(value, 6), "record");
    EXPECT_FALSE(gets[0].found);

    // In an open transaction the operations before the refused one stay.
    gets[2].room = 1;
    request.end = LOCKSTEP_END_KEEP;
    lockstep_txn* txn = nullptr;
    ASSERT_C(lockstep_begin(store, nullptr, &txn, &error));
    request.txn = txn;
    request.store = nullptr;
    EXPECT_EQ(lockstep_batch(&request), LOCKSTEP_VALUE_TOO_LONG);
    gets[2].room = sizeof value;
    request.operations = gets + 2;
    request.count = 2;
    ASSERT_C(lockstep_batch(&request));
    ASSERT_C(lockstep_commit(txn, nullptr, &error));
}

// An event loop: requests are told through an eventfd, or by a callback that submits the next one.
TEST_F(CForms, SubmittedRequests) {
    lockstep_index* const index = make_index("i");
    constexpr size_t kRequests = 64;
    const int fd = eventfd(0, EFD_CLOEXEC);
    std::vector<std::string> keys(kRequests);
    std::vector<lockstep_operation> ops(kRequests);
    std::vector<lockstep_request> requests(kRequests);
    for (size_t n = 0; n < kRequests; ++n) {
        keys[n] = "key " + std::to_string(n);
        ops[n] = operation(LOCKSTEP_OP_PUT, index, keys[n].c_str());
        lockstep_request_init(&requests[n], sizeof requests[n]);
        requests[n].store = store;
        requests[n].operations = &ops[n];
        requests[n].count = 1;
        requests[n].end = LOCKSTEP_END_COMMIT;
        requests[n].event_fd = fd;
        ASSERT_EQ(lockstep_submit(&requests[n]), LOCKSTEP_OK);
    }
    for (uint64_t done = 0; done < kRequests;) {
        uint64_t more = 0;
        ASSERT_EQ(read(fd, &more, sizeof more), static_cast<ssize_t>(sizeof more));
        done += more;
    }
    for (const auto& request : requests)
        EXPECT_TRUE(lockstep_request_done(&request) && request.code == 0);
    close(fd);

    // begin, five operations one after the other, and a commit, without a thread that waits.
    struct Chain {
        lockstep_operation op;
        std::atomic<int> left{6}, failed{0};
        std::atomic<bool> over{false};
    } chain;
    chain.op = operation(LOCKSTEP_OP_PUT, index, "chain");
    lockstep_request request;
    lockstep_request_init(&request, sizeof request);
    request.store = store;
    request.operations = &chain.op;
    request.count = 1;
    request.done_arg = &chain;
    request.done = [](void* arg, lockstep_request* r) {
        auto& c = *static_cast<Chain*>(arg);
        if (r->code != 0) c.failed = r->code;
        const int left = --c.left;
        if (left < 0 || r->code != 0) {
            c.over = true;
            return;
        }
        r->end = left == 0 ? LOCKSTEP_END_COMMIT : LOCKSTEP_END_KEEP;
        if (const int code = lockstep_submit(r)) c.failed = code, c.over = true;
    };
    ASSERT_EQ(lockstep_submit(&request), LOCKSTEP_OK);
    while (!chain.over) sleep_for(kMillisecond);
    EXPECT_EQ(chain.failed, 0);
    EXPECT_EQ(request.txn, nullptr);
    EXPECT_NE(request.lsn, 0u);
}

}  // namespace
}  // namespace lockstep
