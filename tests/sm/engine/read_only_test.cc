// labels: unit
// read_only_test.cc - Options::read_only: a closed store is read and no byte of it changes, also
// where the file system refuses writes; a store that was not closed is refused.
#include <sched.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/wait.h>

#include "sm/catalog/catalog.h"
#include "tests/code_of.h"
#include "tests/end_child.h"
#include "tests/sim_store.h"
#include "tests/sm/store_crash_util.h"

namespace lockstep::read_only_test {

class ReadOnly : public StoreCrash {
protected:
    static Options reading(uint32_t workers = 1) {
        Options o = small_options(workers);
        o.read_only = true;
        return o;
    }
    // Name -> bytes and times of a file, and the directory's own time.
    std::map<std::string, std::string> state_of(const std::string& name) const {
        std::map<std::string, std::string> state;
        const auto add = [&](const std::string& file, std::string bytes) {
            struct stat status {};
            EXPECT_EQ(::stat(file.c_str(), &status), 0);
            state[file] = std::move(bytes) + " " + std::to_string(status.st_mtim.tv_sec) + "." +
                          std::to_string(status.st_mtim.tv_nsec) + " " +
                          std::to_string(status.st_ctim.tv_nsec);
        };
        add(path(name), "");
        for (const auto& entry : std::filesystem::directory_iterator(path(name))) {
            std::ifstream file(entry.path(), std::ios::binary);
            add(entry.path(), std::string(std::istreambuf_iterator<char>(file), {}));
        }
        return state;
    }
    static void fill(Store& store, int rows = 500) {
        make(store, "i", "h");
        ASSERT_OK(store.run([&](Txn& txn) -> Result<void> {
            for (int i = 0; i < rows; ++i) {
                TRY(TRY(store.index("i")).insert(txn, std::to_string(1000 + i), "value"));
                TRY(TRY(store.heap("h")).insert(txn, "record"));
            }
            // A value of several pages, and a ghost.
            TRY(TRY(store.index("i")).insert(txn, "large", std::string(50'000, 'l')));
            TRY(TRY(store.index("i")).erase(txn, "1000"));
            return {};
        }));
    }
    void make_closed(const std::string& name) {
        Store store = open(name);
        fill(store);
        ASSERT_OK(store.close());
    }
    static void expect_content(Store& store) {
        const auto index = index_content(store, "i");
        EXPECT_EQ(index.size(), 500u);
        EXPECT_EQ(index.at("1001"), "value");
        EXPECT_EQ(index.at("large"), std::string(50'000, 'l'));
        EXPECT_EQ(heap_content(store, "h").size(), 500u);
    }
};

TEST_F(ReadOnly, ReadsAtEveryIsolationAndChangesNothing) {
    make_closed("s");
    const auto before = state_of("s");
    {
        Store store = open("s", reading(2));
        EXPECT_EQ(store.list().size(), 2u);
        for (const Isolation isolation :
             {Isolation::serializable, Isolation::repeatable_read, Isolation::read_committed})
            for (const Durability durability : {Durability::durable, Durability::lazy})
                ASSERT_OK(store.run(
                    [&](Txn& txn) -> Result<void> {
                        const Index index = TRY(store.index(txn, "i"));
                        std::string value;
                        EXPECT_TRUE(TRY(index.get(txn, "1001", value)));
                        EXPECT_FALSE(TRY(index.get(txn, "1000", value)));
                        uint64_t n = 0;
                        for (Cursor c = index.scan(txn); TRY(c.next());) ++n;
                        EXPECT_EQ(n, 500u);
                        return {};
                    },
                    {.isolation = isolation, .durability = durability}));
        expect_content(store);
        expect_sound(store);
        ASSERT_OK(store.wait_durable(Lsn{1}));
        EXPECT_FALSE(store.failure());
        ASSERT_OK(store.close());
    }
    EXPECT_EQ(state_of("s"), before);
    Store writer = open("s");
    expect_content(writer);
    expect_sound(writer);
}

TEST_F(ReadOnly, EveryWriteIsRefused) {
    make_closed("s");
    const auto before = state_of("s");
    Store store = open("s", reading());
    const auto body = [&](Txn& txn) -> Result<void> {
        const Index index = TRY(store.index(txn, "i"));
        const Heap heap = TRY(store.heap(txn, "h"));
        EXPECT_EQ(code_of(index.insert(txn, "new", "1")), ErrorCode::read_only);
        EXPECT_EQ(code_of(index.put(txn, "1001", "1")), ErrorCode::read_only);
        EXPECT_EQ(code_of(index.update(txn, "1001", "1")), ErrorCode::read_only);
        EXPECT_EQ(code_of(index.patch(txn, "1001", 0, "1")), ErrorCode::read_only);
        EXPECT_EQ(code_of(index.modify(txn, "1001", {}, [](auto) { return ByteRange{}; })),
                  ErrorCode::read_only);
        EXPECT_EQ(code_of(index.modify_many(txn, {}, [](size_t, auto) { return ByteRange{}; })),
                  ErrorCode::read_only);
        EXPECT_EQ(code_of(index.erase(txn, "1001")), ErrorCode::read_only);
        EXPECT_EQ(code_of(heap.insert(txn, "1")), ErrorCode::read_only);
        EXPECT_EQ(code_of(store.create_index(txn, "j")), ErrorCode::read_only);
        EXPECT_EQ(code_of(store.create_heap(txn, "j")), ErrorCode::read_only);
        EXPECT_EQ(code_of(store.open_or_create_index(txn, "i")), ErrorCode::read_only);
        EXPECT_EQ(code_of(store.drop(txn, "i")), ErrorCode::read_only);
        EXPECT_EQ(code_of(store.bulk_load(txn, index, [](Slice&, Slice&) { return false; })),
                  ErrorCode::read_only);
        const auto refused = index.insert(txn, "new", "1");
        EXPECT_NE(refused.error().text().find("store opened read-only"), std::string::npos)
            << refused.error().text();
        std::string value;
        EXPECT_TRUE(TRY(index.get(txn, "1001", value)));  // the transaction goes on
        return {};
    };
    ASSERT_OK(store.run(body));
    ASSERT_OK(store.run(body, {.read_only = true}));
    on_thread(store, [&] {
        auto txn = store.begin();
        ASSERT_OK(txn);
        EXPECT_EQ(code_of(store.create_index(*txn, "j")), ErrorCode::read_only);
        ASSERT_OK(txn->abort());
    });
    EXPECT_EQ(code_of(store.checkpoint()), ErrorCode::read_only);
    EXPECT_EQ(code_of(store.give_back_space()), ErrorCode::read_only);
    ASSERT_OK(store.close());
    EXPECT_EQ(state_of("s"), before);
}

// Also a store that was closed once and killed after it was opened again: its superblock still says
// that it was closed.
TEST_F(ReadOnly, AStoreThatWasNotClosedIsRefused) {
    {
        Store store = open("s");
        fill(store);
        on_thread(store, [&] { copy("s", "killed"); });
        ASSERT_OK(store.close());
        copy("s", "closed");
    }
    {
        Store store = open("s");
        ASSERT_OK(store.run(
            [&](Txn& txn) { return store.index("i")->insert(txn, "after the close", "1"); }));
        on_thread(store, [&] { copy("s", "killed later"); });
        ASSERT_OK(store.close());
    }
    for (const char* which : {"killed", "killed later"}) {
        SCOPED_TRACE(which);
        const auto before = state_of(which);
        const auto refused = Store::open(path(which), reading());
        EXPECT_EQ(code_of(refused), ErrorCode::not_closed);
        EXPECT_NE(refused.error().text().find("open it for writing once"), std::string::npos);
        EXPECT_EQ(state_of(which), before);
        ASSERT_OK(open(which).close());
        Store store = open(which, reading());
        EXPECT_EQ(heap_content(store, "h").size(), 500u);
    }
    Store store = open("closed", reading());
    expect_content(store);
    // Opened and closed without a change: nothing to recover.
    ASSERT_OK(open("s").close());
    Store again = open("s", reading());
    EXPECT_EQ(index_content(again, "i").size(), 501u);
}

// The mark of the close proves nothing if the log behind it is gone.
TEST_F(ReadOnly, AStoreWithoutItsLogIsRefused) {
    make_closed("s");
    for (const auto& entry : std::filesystem::directory_iterator(path("s")))
        if (entry.path().filename().string().starts_with("log."))
            std::filesystem::remove(entry.path());
    const auto opened = Store::open(path("s"), reading());
    ASSERT_FALSE(opened);
    EXPECT_EQ(opened.error().code, ErrorCode::not_closed) << opened.error().text();
}

TEST_F(ReadOnly, ReadersShareAndWritersExclude) {
    make_closed("s");
    int opened[2], over[2];
    ASSERT_EQ(pipe(opened) | pipe(over), 0);
    // Another process, begun before this one has threads.
    const pid_t child = fork();
    ASSERT_GE(child, 0);
    if (child == 0) {
        ::close(opened[0]);
        ::close(over[1]);
        char byte = 0;
        auto store = Store::open(path("s"), reading());
        bool good = store && index_content(*store, "i").size() == 500;
        good = good && write(opened[1], "x", 1) == 1 && read(over[0], &byte, 1) == 0;
        good = good && store->close();
        end_child(good ? 0 : 1);
    }
    ::close(opened[1]);
    ::close(over[0]);
    char byte = 0;
    EXPECT_EQ(read(opened[0], &byte, 1), 1);
    {
        Store one = open("s", reading()), two = open("s", reading());
        expect_content(one);
        expect_content(two);
        EXPECT_EQ(code_of(Store::open(path("s"), small_options())), ErrorCode::store_locked);
    }
    // The child still reads.
    EXPECT_EQ(code_of(Store::open(path("s"), small_options())), ErrorCode::store_locked);
    ::close(over[1]);
    int status = 0;
    ASSERT_EQ(waitpid(child, &status, 0), child);
    EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 0);
    ::close(opened[0]);
    Store writer = open("s");
    EXPECT_EQ(code_of(Store::open(path("s"), reading())), ErrorCode::store_locked);
}

// The file system refuses every write: a bind mount in a name space of its own.
TEST_F(ReadOnly, OnAReadOnlyMount) {
    make_closed("s");
    constexpr int kNoMounts = 77;
    const pid_t child = fork();
    ASSERT_GE(child, 0);
    if (child == 0) {
        const char* at = root_.c_str();
        if (unshare(CLONE_NEWNS) != 0 ||
            mount("none", "/", nullptr, MS_REC | MS_PRIVATE, nullptr) ||
            mount(at, at, nullptr, MS_BIND, nullptr) ||
            mount("none", at, nullptr, MS_REMOUNT | MS_BIND | MS_RDONLY, nullptr))
            end_child(kNoMounts);
        const auto writer = Store::open(path("s"), small_options());
        if (writer || writer.error().os != EROFS) end_child(2);
        auto store = Store::open(path("s"), reading());
        if (!store) std::fprintf(stderr, "%s\n", store.error().text().c_str()), end_child(3);
        if (index_content(*store, "i").size() != 500) end_child(4);
        auto faults = store->verify();
        if (!faults || !faults->empty()) end_child(5);
        end_child(store->close() ? 0 : 6);
    }
    int status = 0;
    ASSERT_EQ(waitpid(child, &status, 0), child);
    ASSERT_TRUE(WIFEXITED(status));
    if (WEXITSTATUS(status) == kNoMounts) GTEST_SKIP() << "needs the right to mount (root)";
    EXPECT_EQ(WEXITSTATUS(status), 0);
}

// Files that a copy may lack. Nothing is made in their place.
TEST_F(ReadOnly, ACopyWithoutSideFiles) {
    make_closed("s");
    std::filesystem::remove(path("s") + "/lock");
    std::filesystem::remove(path("s") + "/data.lsn");
    const auto before = state_of("s");
    {
        Store store = open("s", reading());
        expect_content(store);
        expect_sound(store);
    }
    EXPECT_EQ(state_of("s"), before);
}

TEST_F(ReadOnly, WhereThereIsNoStoreNoneIsMade) {
    EXPECT_EQ(code_of(Store::open(path("none"), reading())), ErrorCode::bad_path);
    EXPECT_FALSE(std::filesystem::exists(path("none")));
}

// A damaged page is an error that names it; nothing is rebuilt.
TEST_F(ReadOnly, ADamagedPageIsAnError) {
    make_closed("s");
    const uint32_t root = [&] {
        Store store = open("s", reading());
        return sm::engine_of(store).catalog->find(store.index("i")->id())->root.value;
    }();
    {
        std::fstream file(path("s") + "/data", std::ios::in | std::ios::out | std::ios::binary);
        file.seekp(static_cast<std::streamoff>(root) * kPageBytes + 5000);
        file.write("damage", 6);
    }
    const auto before = state_of("s");
    {
        Store store = open("s", reading());
        const auto read = store.run([&](Txn& txn) -> Result<void> {
            std::string value;
            TRY(TRY(store.index("i")).get(txn, "1001", value));
            return {};
        });
        EXPECT_EQ(code_of(read), ErrorCode::corrupt_page);
        EXPECT_EQ(heap_content(store, "h").size(), 500u);
    }
    EXPECT_EQ(state_of("s"), before);
}

// On the simulated disk every request and every change of a name or length is seen.
TEST(ReadOnlySim, NoRequestWrites) {
    threads::SimDisk disk({.seed = 7});
    SimStore store(disk);
    ASSERT_OK(store.open());
    store.on_thread([&] {
        ASSERT_OK(store->run([&](Txn& txn) -> Result<void> {
            const Index index = TRY(store->create_index(txn, "i"));
            for (int i = 0; i < 3000; ++i)
                TRY(index.insert(txn, std::to_string(1000 + i), std::string(1500, 'v')));
            return {};
        }));
    });
    ASSERT_OK(store.close());
    disk.close_all();
    const uint64_t digest = disk.digest();
    uint64_t writes = 0, reads = 0;
    disk.observe([&](const threads::SimEvent& event) {
        if (event.kind == threads::SimEvent::renamed || event.io != threads::IoKind::read) ++writes;
        else ++reads;
    });
    store.options().read_only = true;
    ASSERT_OK(store.open());
    store.on_thread([&] {
        ASSERT_OK(store->run([&](Txn& txn) -> Result<void> {
            uint64_t n = 0;
            for (Cursor c = TRY(store->index("i")).scan(txn); TRY(c.next());) ++n;
            EXPECT_EQ(n, 3000u);
            return {};
        }));
    });
    ASSERT_OK(store.close());
    disk.observe(nullptr);
    EXPECT_GT(reads, 100u);  // the whole index; neighbours are read together
    EXPECT_EQ(writes, 0u);
    EXPECT_EQ(disk.digest(), digest);
}

}  // namespace lockstep::read_only_test
