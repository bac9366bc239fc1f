// labels: unit
// c_forms_test.cc - the C interface in its two forms, callbacks and sessions: what each operation
// does in both.
#include <sys/eventfd.h>

#include <atomic>
#include <functional>
#include <thread>
#include <vector>

#include <lockstep/key.h>
#include <lockstep/store.h>
#include "tests/sm/c/c_util.h"

namespace lockstep::c_forms_test {

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

TEST_F(CForms, Ranges) {
    lockstep_index* const index = make_index("i");
    const auto text = [](const char* key) { return lockstep_text(key); };
    in_both([&](lockstep_txn* txn) {
        for (const char* key : {"a", "b", "c", "d"})
            EXPECT_C(lockstep_put(txn, index, text(key), text("v"), &error));
        size_t count = 0;
        EXPECT_C(lockstep_erase_range(txn, index, text("b"), text("d"), &count, &error));
        EXPECT_EQ(count, 2u);
        EXPECT_EQ(value_of(txn, index, "b"), "none");
        EXPECT_EQ(value_of(txn, index, "d"), "v");
        EXPECT_C(lockstep_erase_range(txn, index, {}, {}, nullptr, &error));
        EXPECT_EQ(value_of(txn, index, "a"), "none");
    });
    for (const char* key : {"a", "b", "c"})
        EXPECT_C(lockstep_put_once(store, index, text(key), text("v"), nullptr, &error));
    uint64_t size = 0, records = 0;
    EXPECT_C(lockstep_approximate_size(store, index, {}, {}, &size, &records, &error));
    EXPECT_EQ(records, 3u);
    EXPECT_GT(size, 0u);
    size_t count = 0;
    EXPECT_C(lockstep_erase_range_once(store, index, {}, text("c"), &count, nullptr, &error));
    EXPECT_EQ(count, 2u);
    EXPECT_C(lockstep_count_once(store, index, {}, {}, &count, &error));
    EXPECT_EQ(count, 1u);
}

// Beside a session that has locked a record.
TEST_F(CForms, ReadsThatDoNotWait) {
    lockstep_index* const index = make_index("i");
    for (const char* key : {"a", "b", "c"})
        EXPECT_C(lockstep_put_once(store, index, lockstep_text(key), lockstep_text("v"), nullptr,
                                   &error));
    lockstep_txn* other = nullptr;
    ASSERT_C(lockstep_begin(store, nullptr, &other, &error));
    EXPECT_C(lockstep_put(other, index, lockstep_text("b"), lockstep_text("w"), &error));
    in_both([&](lockstep_txn* txn) {
        bool found = true;
        const auto get = [&](int access) {
            return lockstep_get(txn, index, lockstep_text("b"), access, nullptr, 0, nullptr, &found,
                                &error);
        };
        EXPECT_EQ(get(LOCKSTEP_ACCESS_UPDATE | LOCKSTEP_ACCESS_NO_WAIT), LOCKSTEP_LOCK_REFUSED);
        EXPECT_NE(std::string(error.text).find("\"b\""), std::string::npos) << error.text;
        EXPECT_C(get(LOCKSTEP_ACCESS_READ | LOCKSTEP_ACCESS_SKIP_LOCKED));
        EXPECT_FALSE(found);
        EXPECT_EQ(get(LOCKSTEP_ACCESS_NO_WAIT | LOCKSTEP_ACCESS_SKIP_LOCKED),
                  LOCKSTEP_BAD_ARGUMENT);
        EXPECT_EQ(get(3 | LOCKSTEP_ACCESS_NO_WAIT), LOCKSTEP_BAD_ARGUMENT);
        lockstep_lookup rows[2] = {};
        rows[0].key = lockstep_text("a");
        rows[1].key = lockstep_text("b");
        size_t count = 0;
        EXPECT_C(
            lockstep_get_many(txn, index, rows, 2, LOCKSTEP_ACCESS_SKIP_LOCKED, &count, &error));
        EXPECT_EQ(count, 1u);
        lockstep_cursor* cursor = nullptr;
        EXPECT_C(lockstep_scan(txn, index, {}, {},
                               LOCKSTEP_ACCESS_UPDATE | LOCKSTEP_ACCESS_SKIP_LOCKED, &cursor,
                               &error));
        lockstep_record read[4];
        char memory[64];
        EXPECT_C(lockstep_cursor_read(cursor, true, read, 4, memory, sizeof memory, &count, nullptr,
                                      &error));
        EXPECT_EQ(count, 2u);
    });
    EXPECT_C(lockstep_abort(other, &error));
}

// It comes out as it was made, and nothing is repeated.
TEST_F(CForms, AnErrorOfTheApplication) {
    int calls = 0;
    const auto body = [](lockstep_txn* txn, void* arg) {
        ++*static_cast<int*>(arg);
        return lockstep_user_error(txn, 1234567890123, "no such account");
    };
    EXPECT_EQ(lockstep_run(store, body, &calls, nullptr, &error), LOCKSTEP_USER_ERROR);
    EXPECT_EQ(error.code, LOCKSTEP_USER_ERROR);
    EXPECT_EQ(error.a, 1234567890123u);
    EXPECT_NE(std::string(error.text).find("no such account"), std::string::npos);
    EXPECT_EQ(calls, 1);
    EXPECT_STREQ(lockstep_error_name(LOCKSTEP_USER_ERROR), "user_error");
}

// On this thread, and on a user thread within a transaction that stays apart.
TEST_F(CForms, CallsWithoutATransaction) {
    lockstep_index* const index = make_index("i");
    lockstep_txn_options lazy;
    lockstep_txn_options_init(&lazy, sizeof lazy);
    lazy.durability = LOCKSTEP_LAZY;
    const std::function<void()> calls = [&] {
        char room[8] = "";
        size_t bytes = 0;
        bool found = false;
        const auto get = [&](const char* key) {
            EXPECT_C(lockstep_get_once(store, index, lockstep_text(key), room, sizeof room, &bytes,
                                       &found, nullptr, &error));
        };
        EXPECT_C(lockstep_insert_once(store, index, lockstep_text("a"), lockstep_text("one"), &lazy,
                                      &error));
        EXPECT_EQ(lockstep_insert_once(store, index, lockstep_text("a"), lockstep_text("two"),
                                       nullptr, &error),
                  LOCKSTEP_DUPLICATE_KEY);
        get("a");
        EXPECT_TRUE(found);
        EXPECT_EQ(std::string(room, bytes), "one");
        EXPECT_C(lockstep_put_once(store, index, lockstep_text("n"),
                                   lockstep_bytes("\0\0\0\0\0\0\0", 8), nullptr, &error));
        int64_t sum = 0;
        EXPECT_C(lockstep_add_once(store, index, lockstep_text("n"), 0, -7, &sum, &found, &lazy,
                                   &error));
        EXPECT_EQ(sum, -7);
        EXPECT_EQ(lockstep_add_once(store, index, lockstep_text("n"), 1, 1, &sum, &found, nullptr,
                                    &error),
                  LOCKSTEP_BAD_ARGUMENT);
        size_t count = 0;
        EXPECT_C(lockstep_count_once(store, index, {}, {}, &count, &error));
        EXPECT_EQ(count, 2u);
        for (const char* key : {"a", "n"})
            EXPECT_C(
                lockstep_erase_once(store, index, lockstep_text(key), &found, nullptr, &error));
        EXPECT_TRUE(found);
        get("a");
        EXPECT_FALSE(found);
    };
    calls();
    const auto body = [](lockstep_txn*, void* arg) {
        (*static_cast<const std::function<void()>*>(arg))();
        return 0;
    };
    auto copy = calls;
    EXPECT_C(lockstep_run(store, body, &copy, nullptr, &error));

    lockstep_txn* txn = nullptr;
    ASSERT_C(lockstep_begin(store, nullptr, &txn, &error));
    ASSERT_C(lockstep_put(txn, index, lockstep_text("open"), lockstep_text("v"), &error));
    bool found = true;
    lazy.lock_timeout = 5 * kMillisecond;
    EXPECT_EQ(lockstep_get_once(store, index, lockstep_text("open"), nullptr, 0, nullptr, &found,
                                &lazy, &error),
              LOCKSTEP_LOCK_TIMEOUT);
    int64_t sum = 0;
    EXPECT_C(lockstep_add(txn, index, lockstep_text("none"), 0, 1, &sum, &found, &error));
    EXPECT_FALSE(found);
    ASSERT_C(lockstep_commit(txn, nullptr, &error));
    EXPECT_C(lockstep_get_once(store, index, lockstep_text("open"), nullptr, 0, nullptr, &found,
                               &lazy, &error));
    EXPECT_TRUE(found);
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

// No page has such a slot. Cut to 16 bits, the number would be that of a record.
TEST_F(CForms, SlotsThatNoPageHas) {
    lockstep_heap* const heap = make_heap("h");
    in_both([&](lockstep_txn* txn) {
        lockstep_record_id id = {};
        EXPECT_C(lockstep_heap_insert(txn, heap, lockstep_text("r"), &id, &error));
        const lockstep_record_id wrong = {id.page, id.slot + 65536};
        bool found = true;
        EXPECT_EQ(lockstep_heap_get(txn, heap, wrong, LOCKSTEP_ACCESS_READ, nullptr, 0, nullptr,
                                    &found, &error),
                  LOCKSTEP_BAD_ARGUMENT);
        EXPECT_NE(std::string(error.text).find("slot"), std::string::npos) << error.text;
        EXPECT_EQ(lockstep_heap_update(txn, heap, wrong, lockstep_text("x"), &found, &error),
                  LOCKSTEP_BAD_ARGUMENT);
        EXPECT_EQ(lockstep_heap_erase(txn, heap, wrong, &found, &error), LOCKSTEP_BAD_ARGUMENT);
        for (const int kind :
             {LOCKSTEP_OP_HEAP_GET, LOCKSTEP_OP_HEAP_UPDATE, LOCKSTEP_OP_HEAP_ERASE}) {
            lockstep_operation o = {};
            o.kind = kind;
            o.heap = heap;
            o.id = wrong;
            lockstep_request r;
            lockstep_request_init(&r, sizeof r);
            r.txn = txn;
            r.operations = &o;
            r.count = 1;
            r.error = &error;
            EXPECT_EQ(lockstep_batch(&r), LOCKSTEP_BAD_ARGUMENT);
        }
        size_t bytes = 0;
        char buffer[8];
        EXPECT_C(lockstep_heap_get(txn, heap, id, LOCKSTEP_ACCESS_READ, buffer, sizeof buffer,
                                   &bytes, &found, &error));
        EXPECT_EQ(std::string(buffer, bytes), "r");
    });
}

TEST_F(CForms, SavepointsOfNoTransaction) {
    in_both([&](lockstep_txn* txn) {
        lockstep_savepoint savepoint;
        EXPECT_C(lockstep_set_savepoint(txn, &savepoint, &error));
        lockstep_savepoint wrong = savepoint;
        wrong.number += uint64_t{1} << 32;
        EXPECT_EQ(lockstep_rollback_to(txn, &wrong, &error), LOCKSTEP_BAD_ARGUMENT);
        EXPECT_C(lockstep_rollback_to(txn, &savepoint, &error));
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

}  // namespace lockstep::c_forms_test
