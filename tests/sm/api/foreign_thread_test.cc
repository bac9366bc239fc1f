// labels: unit
// foreign_thread_test.cc - every public function from a kernel thread that is no worker: it works,
// or the error says wrong_thread; it never crashes.
#include <gtest/gtest.h>

#include <thread>

#include "tests/code_of.h"
#include "tests/sm/store_crash_util.h"

namespace lockstep::foreign_thread_test {

class ForeignThread : public StoreCrash {
protected:
    // A kernel thread that the store has never seen.
    static void elsewhere(const std::function<void()>& fn) { std::thread(fn).join(); }
};

// store.h: the functions that need no store.
TEST_F(ForeignThread, FreeFunctions) {
    elsewhere([] {
        const Nanos before = now();
        EXPECT_EQ(before / kSecond / 10, MonotonicClock().now() / kSecond / 10);
        yield();
        sleep_for(2 * kMillisecond);
        sleep_for(0);
        EXPECT_GE(now() - before, 2 * kMillisecond);
        const ThreadWaits waits = thread_waits();
        EXPECT_EQ(waits.lock + waits.page + waits.log, 0u);
        EXPECT_EQ((waits - waits).log, 0u);
        EXPECT_TRUE(ctx_points_from("manual"));
        EXPECT_TRUE(check_options(Options{}));
        EXPECT_TRUE(check_steps_options(StepsOptions{}));
        EXPECT_TRUE(teams_on(StepsMode::on) && ctx_on(StepsMode::on) &&
                    prefetch_on(StepsMode::on) && operations_in_teams(StepsMode::on));
        EXPECT_STREQ(error_name(ErrorCode::wrong_thread), "wrong_thread");
        EXPECT_NE(error_meaning(ErrorCode::wrong_thread), nullptr);
        EXPECT_FALSE(fail(ErrorCode::wrong_thread).error().text().empty());
        EXPECT_FALSE(fail_os(ErrorCode::io_error, EIO).error().text().empty());
        EXPECT_FALSE(
            (StoreFailure{.what = "read", .cause = {.code = ErrorCode::io_error}}).text().empty());
        ManualClock clock;
        clock.advance(kSecond);
        EXPECT_GT(clock.now(), kSecond);
        EXPECT_FALSE(clock.moves_by_itself());
        EXPECT_EQ(Slice(Key().u32(7).text("x")).size(), 7u);
    });
}

// Some of them wait: from a foreign thread that blocks it.
TEST_F(ForeignThread, Store) {
    elsewhere([&] {
        Store store = open("db");
        ASSERT_OK(store.run([&](Txn& txn) -> Result<void> {
            TRY(store.create_index(txn, "i"));
            TRY(store.create_heap(txn, "h"));
            return {};
        }));
        EXPECT_EQ(store.spawn([](Txn&) -> Result<int> { return 7; }).join().value_or(0), 7);
        auto handle = store.start([]() -> Result<int> { return 8; });
        ASSERT_OK(handle.started());
        EXPECT_EQ(handle.join().value_or(0), 8);
        EXPECT_EQ(code_of(handle.join()), ErrorCode::bad_argument);
        EXPECT_EQ(code_of(store.begin()), ErrorCode::wrong_thread);
        EXPECT_TRUE(store.index("i") && store.heap("h"));
        EXPECT_NE(store.index("i")->id(), ObjectId{});
        EXPECT_NE(store.heap("h")->id(), ObjectId{});
        EXPECT_EQ(store.list().size(), 2u);
        ASSERT_OK(store.wait_durable(kLsnNone));
        ASSERT_OK(store.wait_durable(Lsn{4096}));
        ASSERT_OK(store.checkpoint());
        expect_sound(store);
        EXPECT_GT(store.stats().commits, 0u);
        (void)store.steps_stats();
        EXPECT_FALSE(store.failure());
        StepsOptions steps = store.steps_options();
        ASSERT_OK(store.set_steps(steps));
        Store moved = std::move(store);
        store = std::move(moved);
        ASSERT_OK(store.close());
        ASSERT_OK(store.close());
        EXPECT_EQ(code_of(store.run([](Txn&) -> Result<void> { return {}; })),
                  ErrorCode::store_closed);
    });
}

// The transaction belongs to a user thread: others are told so, and it goes on as if nothing had
// happened. So is what belongs to the transaction.
TEST_F(ForeignThread, TransactionOfAUserThread) {
    Store store = open("db");
    make(store, "i", "h");
    on_thread(store, [&] {
        Txn txn = std::move(*store.begin());
        const Index index = *store.index("i");
        const Heap heap = *store.heap("h");
        ASSERT_OK(index.put(txn, "k", "v"));
        const RecordId record = heap.insert(txn, "r").value();
        const Savepoint savepoint = txn.savepoint().value();
        Cursor cursor = index.scan(txn);
        EXPECT_TRUE(cursor.next().value_or(false));
        elsewhere([&] {
            const auto wrong = [](const auto& result) {
                EXPECT_EQ(code_of(result), ErrorCode::wrong_thread);
            };
            std::string value;
            std::byte room[8];
            Lookup rows[1] = {{.key = "k", .buffer = {}}};
            const NewRecord records[1] = {{"new", "v"}};
            wrong(index.get(txn, "k", value));
            wrong(index.get(txn, "k", std::span(room)));
            wrong(index.get_many(txn, rows));
            wrong(index.insert(txn, "new", "v"));
            wrong(index.insert_many(txn, records));
            wrong(index.update(txn, "k", "w"));
            wrong(index.put(txn, "k", "w"));
            wrong(index.patch(txn, "k", 0, "w"));
            wrong(index.patch(txn, "k", 0, "w", RecordHint{}));
            wrong(index.modify(txn, "k", {}, [](auto) { return ByteRange{}; }));
            wrong(index.modify_many(txn, rows, [](size_t, auto) { return ByteRange{}; }));
            wrong(index.erase(txn, "k"));
            wrong(index.scan(txn).next());
            wrong(index.scan(txn).prev());
            wrong(cursor.next());
            wrong(cursor.prev());
            wrong(cursor.patch(0, "w"));
            EXPECT_EQ(cursor.key(), "k");
            EXPECT_EQ(cursor.value(), "v");
            wrong(heap.get(txn, record, value));
            wrong(heap.insert(txn, "s"));
            wrong(heap.update(txn, record, "s"));
            wrong(heap.erase(txn, record));
            wrong(heap.scan(txn, [](RecordId, Slice) { return true; }));
            wrong(store.create_index(txn, "new"));
            wrong(store.create_heap(txn, "new"));
            wrong(store.drop(txn, "i"));
            wrong(store.bulk_load(txn, index, [](Slice&, Slice&) { return false; }));
            wrong(store.begin());
            wrong(txn.savepoint());
            wrong(txn.rollback_to(savepoint));
            wrong(txn.abort());
            wrong(txn.commit());
            EXPECT_TRUE(txn.live());
            EXPECT_NE(txn.id(), kTxnNone);
        });
        std::string value;
        EXPECT_TRUE(index.get(txn, "k", value).value_or(false));
        EXPECT_EQ(value, "v");
        EXPECT_TRUE(txn.commit());
    });
    ASSERT_OK(store.close());
}

// A user thread of one store is a foreign thread of the other: it suspends there.
TEST_F(ForeignThread, UserThreadOfAnotherStore) {
    Store here = open("here"), there = open("there");
    on_thread(there, [&] {
        EXPECT_EQ(code_of(here.begin()), ErrorCode::wrong_thread);
        ASSERT_OK(here.run([&](Txn& txn) -> Result<void> {
            TRY(here.create_index(txn, "i"));
            return {};
        }));
        EXPECT_TRUE(here.index("i"));
        ASSERT_OK(here.checkpoint());
        ASSERT_OK(here.set_steps(here.steps_options()));
        EXPECT_EQ(here.start([]() -> Result<int> { return 8; }).join().value_or(0), 8);
        expect_sound(here);
        const Nanos before = now();
        sleep_for(kMillisecond);
        yield();
        EXPECT_GE(now() - before, kMillisecond);
    });
    ASSERT_OK(here.close());
    ASSERT_OK(there.close());
}

// No callback may call into the store, but what needs no store works in every callback.
TEST_F(ForeignThread, FreeFunctionsInCallbacks) {
    Options options = small_options();
    std::atomic<int> called{0};
    alignas(Txn) std::byte left_open[sizeof(Txn)];
    options.logger = [&](int, std::string_view) { called += now() > 0; };
    {
        Store store = open("db", options);
        on_thread(store, [&] { new (left_open) Txn(std::move(*store.begin())); });
        ASSERT_OK(store.close());
    }
    EXPECT_GT(called.load(), 0);
}

}  // namespace lockstep::foreign_thread_test
