// labels: unit
// fork_test.cc - fork() while a store is open: in the child every call returns `forked` at once and
// destructors do nothing; the parent goes on, and its files are its own.
#include <gtest/gtest.h>

#include <sys/wait.h>
#include <unistd.h>

#include <fstream>

#include "tests/code_of.h"
#include "tests/end_child.h"
#include "tests/sm/store_crash_util.h"
#include "threads/base/sanitized.h"

namespace lockstep::fork_test {

// Ends the child with the line of the first call that was not refused.
#define EXPECT_FORKED(...)                                                            \
    do {                                                                              \
        if (const ErrorCode code = code_of(__VA_ARGS__); code != ErrorCode::forked) { \
            std::fprintf(stderr, "line %d: %s\n", __LINE__, error_name(code));        \
            end_child(1);                                                             \
        }                                                                             \
    } while (0)
#define EXPECT_IN_CHILD(...)                                               \
    do {                                                                   \
        if (!(__VA_ARGS__)) {                                              \
            std::fprintf(stderr, "line %d: " #__VA_ARGS__ "\n", __LINE__); \
            end_child(1);                                                  \
        }                                                                  \
    } while (0)

constexpr unsigned kLimitSeconds = 20;  // a child that hangs is killed

class Fork : public StoreCrash {
protected:
    void SetUp() override {
        if (kAddressSanitizer) GTEST_SKIP() << "a child may inherit a lock of its allocator";
        StoreCrash::SetUp();
    }
    // Runs `child` in a child process. Empty if it ended with 0.
    template <class Body>
    static std::string in_child(Body child) {
        const pid_t pid = fork();
        if (pid == 0) {
            alarm(kLimitSeconds);
            child();
            end_child(0);
        }
        int status = 0;
        if (waitpid(pid, &status, 0) != pid) return "no child";
        if (WIFSIGNALED(status))
            return WTERMSIG(status) == SIGALRM ? "hangs" : strsignal(WTERMSIG(status));
        return WEXITSTATUS(status) == 0 ? "" : "a call was not refused";
    }
    // All calls that need no transaction.
    static void call_store(Store& store) {
        EXPECT_FORKED(store.run([](Txn&) -> Result<void> { return {}; }));
        EXPECT_FORKED(store.spawn([](Txn&) -> Result<int> { return 1; }).join());
        auto handle = store.start([]() -> Result<int> { return 1; });
        EXPECT_FORKED(handle.started());
        EXPECT_FORKED(handle.join());
        EXPECT_FORKED(store.begin());
        EXPECT_FORKED(store.index("i"));
        EXPECT_FORKED(store.heap("h"));
        EXPECT_FORKED(store.wait_durable(kLsnNone));
        EXPECT_FORKED(store.wait_durable(Lsn{4096}));
        EXPECT_FORKED(store.checkpoint());
        EXPECT_FORKED(store.verify());
        EXPECT_FORKED(store.set_steps(StepsOptions{}));
        EXPECT_FORKED(store.close());
        EXPECT_FORKED(store.close());
        EXPECT_IN_CHILD(store.list().empty());
        EXPECT_IN_CHILD(store.stats().commits == 0);
        EXPECT_IN_CHILD(store.steps_stats().teams.empty());
        EXPECT_IN_CHILD(!store.failure());
        EXPECT_IN_CHILD(store.options().workers > 0);
        const Nanos before = now();
        yield();
        sleep_for(kMillisecond);
        EXPECT_IN_CHILD(now() - before >= kMillisecond);
        EXPECT_IN_CHILD(thread_waits().log == 0);
    }
    static void call_txn(Store& store, Txn& txn, Cursor& cursor, const Index& index,
                         const Heap& heap, RecordId record, const Savepoint& savepoint) {
        std::string value;
        std::byte room[8];
        Lookup rows[1] = {{.key = "k", .buffer = {}}};
        const NewRecord records[1] = {{"new", "v"}};
        EXPECT_FORKED(index.get(txn, "k", value));
        EXPECT_FORKED(index.get(txn, "k", std::span(room)));
        EXPECT_FORKED(index.get_many(txn, rows));
        EXPECT_FORKED(index.insert(txn, "new", "v"));
        EXPECT_FORKED(index.insert_many(txn, records));
        EXPECT_FORKED(index.update(txn, "k", "w"));
        EXPECT_FORKED(index.put(txn, "k", "w"));
        EXPECT_FORKED(index.patch(txn, "k", 0, "w"));
        EXPECT_FORKED(index.patch(txn, "k", 0, "w", RecordHint{}));
        EXPECT_FORKED(index.modify(txn, "k", {}, [](auto) { return ByteRange{}; }));
        EXPECT_FORKED(index.modify_many(txn, rows, [](size_t, auto) { return ByteRange{}; }));
        EXPECT_FORKED(index.erase(txn, "k"));
        EXPECT_FORKED(index.scan(txn).next());
        EXPECT_FORKED(cursor.next());
        EXPECT_FORKED(cursor.prev());
        EXPECT_FORKED(cursor.patch(0, "w"));
        EXPECT_FORKED(heap.get(txn, record, value));
        EXPECT_FORKED(heap.insert(txn, "s"));
        EXPECT_FORKED(heap.update(txn, record, "s"));
        EXPECT_FORKED(heap.erase(txn, record));
        EXPECT_FORKED(heap.scan(txn, [](RecordId, Slice) { return true; }));
        EXPECT_FORKED(store.create_index(txn, "new"));
        EXPECT_FORKED(store.create_heap(txn, "new"));
        EXPECT_FORKED(store.drop(txn, "i"));
        EXPECT_FORKED(store.bulk_load(txn, index, [](Slice&, Slice&) { return false; }));
        EXPECT_FORKED(txn.savepoint());
        EXPECT_FORKED(txn.rollback_to(savepoint));
        EXPECT_FORKED(txn.abort());
        EXPECT_FORKED(txn.commit());
    }
    // Names and bytes of all files.
    std::string files_of(const std::string& name) const {
        std::map<std::string, std::string> all;
        for (const auto& entry : std::filesystem::directory_iterator(path(name))) {
            std::ifstream in(entry.path(), std::ios::binary);
            all[entry.path()] = {std::istreambuf_iterator<char>(in), {}};
        }
        std::string together;
        for (const auto& [file, bytes] : all) together += file + bytes;
        return together;
    }
    static void put(Store& store, const std::string& key) {
        ASSERT_OK(store.run(
            [&](Txn& txn) -> Result<void> { return TRY(store.index("i")).put(txn, key, "v"); }));
    }
};

TEST_F(Fork, EveryCallInTheChildIsRefused) {
    Store store = open("db", small_options(2));
    make(store, "i", "h");
    put(store, "before");
    ASSERT_OK(store.checkpoint());
    // The parent flushes what is lazy and prepares its log; then it is idle.
    std::string files = files_of("db"), before;
    do {
        before = std::move(files);
        sleep_for(200 * kMillisecond);
        files = files_of("db");
    } while (files != before);
    EXPECT_EQ(in_child([&] {
                  call_store(store);
                  Store moved = std::move(store);  // and its destructor runs
              }),
              "");
    EXPECT_TRUE(files_of("db") == files);
    put(store, "after");
    expect_sound(store);
    ASSERT_OK(store.close());
    Store again = open("db");
    EXPECT_EQ(index_content(again, "i").size(), 2u);
    ASSERT_OK(again.close());
}

TEST_F(Fork, DestructorsInTheChildDoNothing) {
    auto store = std::make_unique<Store>(open("db"));
    make(*store, "i", "h");
    EXPECT_EQ(in_child([&] {
                  store.reset();
                  Store other = std::move(*Store::open(path("other"), small_options()));
                  EXPECT_IN_CHILD(other.close().has_value());
              }),
              "");
    EXPECT_EQ(in_child([&] { *store = Store(std::move(*store)); }), "");
    put(*store, "after");
    ASSERT_OK(store->close());
}

// On a user thread the child inherits a running transaction, too.
TEST_F(Fork, OnAUserThread) {
    Store store = open("db");
    make(store, "i", "h");
    std::string outcome = "not run";
    ASSERT_OK(store.run([&](Txn& txn) -> Result<void> {
        const Index index = TRY(store.index("i"));
        const Heap heap = TRY(store.heap("h"));
        TRY(index.put(txn, "k", "v"));
        const RecordId record = TRY(heap.insert(txn, "r"));
        const Savepoint savepoint = TRY(txn.savepoint());
        Cursor cursor = index.scan(txn);
        TRY(cursor.next());
        outcome = in_child([&] {
            call_txn(store, txn, cursor, index, heap, record, savepoint);
            call_store(store);
            Txn moved = std::move(txn);
            Store gone = std::move(store);
        });
        std::string value;
        EXPECT_TRUE(TRY(index.get(txn, "k", value)));
        return {};
    }));
    EXPECT_EQ(outcome, "");
    EXPECT_EQ(index_content(store, "i").size(), 1u);
    ASSERT_OK(store.close());
}

TEST_F(Fork, AHandleOfTheParentIsNotWaitedFor) {
    Store store = open("db");
    std::atomic<bool> go{false};
    auto running = store.start([&]() -> Result<int> {
        while (!go.load()) sleep_for(kMillisecond);
        return 1;
    });
    auto ended = store.start([]() -> Result<int> { return 2; });
    while (store.stats().threads_live == 0) yield();
    on_thread(store, [] {});
    EXPECT_EQ(in_child([&] {
                  EXPECT_FORKED(running.join());
                  EXPECT_IN_CHILD(ended.join().value_or(0) == 2);
              }),
              "");
    go.store(true);
    EXPECT_EQ(running.join().value_or(0), 1);
    ASSERT_OK(store.close());
}

// The child has copies of the descriptors. They do not keep the store locked.
TEST_F(Fork, ALivingChildDoesNotKeepTheStoreLocked) {
    Store store = open("db");
    int ends[2];
    ASSERT_EQ(pipe(ends), 0);
    const pid_t pid = fork();
    if (pid == 0) {
        alarm(kLimitSeconds);
        char byte;
        ::close(ends[1]);
        (void)!::read(ends[0], &byte, 1);
        end_child(0);
    }
    EXPECT_EQ(in_child([&] {
                  EXPECT_IN_CHILD(code_of(Store::open(path("db"), small_options())) ==
                                  ErrorCode::store_locked);
              }),
              "");
    ASSERT_OK(store.close());
    auto again = Store::open(path("db"), small_options());
    EXPECT_TRUE(again) << again.error().text();
    ::close(ends[1]);
    ::close(ends[0]);
    EXPECT_EQ(waitpid(pid, nullptr, 0), pid);
    if (again) ASSERT_OK(again->close());
}

// In a child the parent works on, whatever it was doing when it forked.
TEST_F(Fork, WhileTheParentWorks) {
    Store store = open("db", small_options(2));
    make(store, "i", "h");
    std::atomic<bool> stop{false};
    std::vector<Handle<int>> writers;
    for (int w = 0; w < 4; ++w)
        writers.push_back(store.start([&, w]() -> Result<int> {
            int n = 0;
            for (; !stop.load(); ++n)
                TRY(store.run([&](Txn& txn) -> Result<void> {
                    return TRY(store.index("i"))
                        .put(txn, Key().u32(static_cast<uint32_t>(w)).u32(static_cast<uint32_t>(n)),
                             "v");
                }));
            return n;
        }));
    for (int n = 0; n < 20; ++n) EXPECT_EQ(in_child([&] { call_store(store); }), "");
    stop.store(true);
    size_t written = 0;
    for (auto& writer : writers) {
        auto n = writer.join();
        ASSERT_OK(n);
        written += static_cast<size_t>(*n);
    }
    EXPECT_EQ(index_content(store, "i").size(), written);
    expect_sound(store);
    ASSERT_OK(store.close());
}

}  // namespace lockstep::fork_test
