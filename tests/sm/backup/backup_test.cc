// labels: unit
// backup_test.cc - backups of a running store: what they hold, and what they refuse.
#include <lockstep/backup.h>

#include <atomic>

#include "sm/api/engine_of.h"
#include "sm/backup/backup_manifest.h"
#include "tests/code_of.h"
#include "tests/sm/backup/backup_test_util.h"

namespace lockstep::backup_test {

namespace fs = std::filesystem;

class BackupTest : public BackupFixture {
protected:
    // Changes one byte of a file.
    void damage(const std::string& file, uint64_t offset) {
        std::fstream f(path(file), std::ios::in | std::ios::out | std::ios::binary);
        f.seekg(static_cast<std::streamoff>(offset));
        const char old = static_cast<char>(f.get());
        f.seekp(static_cast<std::streamoff>(offset));
        f.put(static_cast<char>(old ^ 0x55));
        ASSERT_TRUE(f.good());
    }
    // Whether the data file has so long a text in the page.
    bool has_text(PageId id, char letter) const {
        std::ifstream file(path("s") + "/data", std::ios::binary);
        file.seekg(static_cast<std::streamoff>(uint64_t{id.value} * kPageBytes));
        std::string page(kPageBytes, '\0');
        file.read(page.data(), kPageBytes);
        return page.find(std::string(200, letter)) != std::string::npos;
    }
};

TEST_F(BackupTest, HoldsTheStateOfItsEnd) {
    Store store = filled("s");
    ASSERT_OK(put(store, 100, 200, 'b'));  // not on the volume yet
    const auto info = store.backup(path("b"));
    ASSERT_OK(info);
    const Content then = index_content(store, "i");
    ASSERT_OK(put(store, 0, 500, 'c'));
    expect_whole("b");
    EXPECT_EQ(restored("b"), then);
    const auto read = read_backup(path("b"));
    ASSERT_OK(read);
    EXPECT_EQ(read->lsn, info->lsn);
    EXPECT_EQ(read->pages, info->pages);
    EXPECT_EQ(read->pages_copied, info->pages);
    uint64_t bytes = 0;
    for (const auto& file : fs::directory_iterator(path("b"))) bytes += file.file_size();
    EXPECT_GE(bytes, info->bytes);  // the first segment of the log begins with a hole
    ASSERT_OK(store.close());
}

TEST_F(BackupTest, TransactionsGoOnAndTheOpenOneIsNotInIt) {
    Store store = filled("s");
    on_thread(store, [&] {
        auto open = store.begin();
        ASSERT_OK(open);
        const Index index = *store.index("i");
        ASSERT_OK(index.put(*open, "open", "must not be there"));
        // Older than the checkpoint that the backup begins with, by more than a block.
        ASSERT_OK(put(store, 400, 450, 'x', 1000));
        ASSERT_OK(store.checkpoint());
        ASSERT_OK(put(store, 0, 50, 'd'));
        const auto info = store.backup(path("b"));
        ASSERT_OK(info);
        ASSERT_OK(open->commit());
        ASSERT_OK(put(store, 0, 50, 'e'));
    });
    expect_whole("b");
    const Content seen = restored("b");
    EXPECT_EQ(seen.count("open"), 0u);
    EXPECT_EQ(seen.at(key(7)), std::string(300, 'd'));
    EXPECT_EQ(seen.size(), 500u);
    ASSERT_OK(store.close());
}

// Writers and checkpoints beside a slow backup, on several workers: what committed up to the
// returned point is there, and nothing else.
TEST_F(BackupTest, OfABusyStore) {
    Options options = small_options(2);
    options.checkpoint_log_bytes = 1 << 20;
    Store store = open("s", options);
    make(store, "i", "h");
    ASSERT_OK(put(store, 0, 2000, 'a'));
    ASSERT_OK(store.checkpoint());
    std::atomic<bool> stop{false};
    constexpr int kWriters = 4;
    std::vector<std::vector<Lsn>> points(kWriters);
    std::vector<Handle<void>> writers;
    for (int w = 0; w < kWriters; ++w)
        writers.push_back(store.start([&, w]() -> Result<void> {
            for (int n = 0; !stop; ++n) {
                Txn txn = TRY(store.begin({.durability = Durability::lazy}));
                const Index index = TRY(store.index("i"));
                const std::string value = std::to_string(n) + std::string(200, 'w');
                TRY(index.put(txn, "writer" + std::to_string(w), value));
                TRY(index.put(txn, key((n * 37 + w * 500) % 2000), value));
                points[static_cast<size_t>(w)].push_back(TRY(txn.commit()));
                yield();
            }
            return {};
        }));
    uint64_t calls = 0, checkpoints = 0;
    Lsn began{};
    BackupOptions how;
    how.progress = [&](const BackupProgress& p) {
        EXPECT_LE(p.pages, p.pages_total);
        if (calls == 0) began = sm::engine_of(store).log->tail();
        if (++calls % 2 == 0) checkpoints += store.checkpoint().has_value();
    };
    how.bytes_per_second = 20 << 20;
    const auto info = store.backup(path("b"), how);
    stop = true;
    for (auto& writer : writers) ASSERT_OK(writer.join());
    ASSERT_OK(info);
    EXPECT_GT(calls, 0u);
    EXPECT_GT(checkpoints, 0u);
    expect_whole("b");
    const Content seen = restored("b");
    for (size_t w = 0; w < kWriters; ++w) {
        const auto& all = points[w];
        const auto in =
            std::count_if(all.begin(), all.end(), [&](Lsn point) { return point <= info->lsn; });
        const auto found = seen.find("writer" + std::to_string(w));
        const auto before =
            std::count_if(all.begin(), all.end(), [&](Lsn point) { return point <= began; });
        EXPECT_GT(in, before) << "a writer waited for the backup";
        ASSERT_EQ(found != seen.end(), in > 0);
        if (in > 0) {
            EXPECT_EQ(std::stoll(found->second), in - 1);
        }
    }
    ASSERT_OK(store.close());
}

TEST_F(BackupTest, GoesToAFunctionAsWell) {
    Store store = filled("s");
    std::vector<std::string> names;
    fs::create_directory(path("b"));
    const auto info =
        store.backup([&](std::string_view file, uint64_t offset, Slice bytes) -> Result<void> {
            names.emplace_back(file);
            std::fstream f;
            const std::string to = path("b") + "/" + std::string(file);
            if (!fs::exists(to)) std::ofstream create(to);
            f.open(to, std::ios::in | std::ios::out | std::ios::binary);
            f.seekp(static_cast<std::streamoff>(offset));
            f.write(bytes.data(), static_cast<std::streamsize>(bytes.size()));
            return {};
        });
    ASSERT_OK(info);
    EXPECT_EQ(names.front(), "backup");
    EXPECT_EQ(names.back(), "backup");
    expect_whole("b");
    EXPECT_EQ(restored("b"), index_content(store, "i"));
    // An error of the function ends it.
    int calls = 0;
    const auto failed = store.backup([&](std::string_view, uint64_t, Slice) -> Result<void> {
        return ++calls < 3 ? Result<void>{} : fail(ErrorCode::no_space, "tape");
    });
    EXPECT_EQ(code_of(failed), ErrorCode::no_space);
    ASSERT_OK(store.close());
}

TEST_F(BackupTest, RefusesBadTargets) {
    Store store = filled("s");
    fs::create_directory(path("full"));
    std::ofstream(path("full") + "/mine") << "keep";
    EXPECT_EQ(code_of(store.backup(path("full"))), ErrorCode::bad_path);
    EXPECT_TRUE(fs::exists(path("full") + "/mine"));
    EXPECT_EQ(code_of(store.backup(path("s"))), ErrorCode::bad_path);  // onto itself
    EXPECT_EQ(code_of(store.backup(path("no/such/place"))), ErrorCode::bad_path);
    EXPECT_EQ(code_of(store.backup("")), ErrorCode::bad_path);
    ASSERT_OK(store.backup(path("b")));
    EXPECT_EQ(code_of(store.backup(path("b"))), ErrorCode::bad_path);
    expect_whole("b");
    ASSERT_OK(store.close());
    EXPECT_EQ(code_of(store.backup(path("c"))), ErrorCode::store_closed);
    Options reader = small_options();
    reader.read_only = true;
    Store closed = open("s", reader);
    EXPECT_EQ(code_of(closed.backup(path("c"))), ErrorCode::read_only);
    EXPECT_FALSE(fs::exists(path("c")));
}

TEST_F(BackupTest, OpenedItIsAStoreAndNoBackup) {
    Store store = filled("s");
    ASSERT_OK(store.backup(path("b")));
    ASSERT_OK(store.close());
    {
        Store other = open("b");
        ASSERT_OK(put(other, 0, 10, 'z'));
        EXPECT_EQ(code_of(read_backup(path("b"))), ErrorCode::bad_backup);
        ASSERT_OK(other.close());
    }
    Store again = open("b");
    EXPECT_EQ(index_content(again, "i").at(key(3)), std::string(300, 'z'));
    expect_sound(again);
    ASSERT_OK(again.backup(path("c")));
    ASSERT_OK(again.close());
    EXPECT_EQ(code_of(read_backup(path("s"))), ErrorCode::bad_backup);
}

TEST_F(BackupTest, AnIncompleteOneIsNotOpened) {
    Store store = filled("s");
    ASSERT_OK(store.backup(path("b")));
    ASSERT_OK(store.close());
    Options reader = small_options();
    reader.read_only = true;
    const auto refused = [&](const char* what) {
        EXPECT_EQ(code_of(Store::open(path("b"), small_options())), ErrorCode::bad_backup) << what;
        EXPECT_EQ(code_of(Store::open(path("b"), reader)), ErrorCode::bad_backup) << what;
        EXPECT_EQ(code_of(verify_backup(path("b"))), ErrorCode::bad_backup) << what;
    };
    const std::string manifest = path("b") + "/backup";
    fs::copy(manifest, path("kept"));
    fs::resize_file(manifest, 0);
    refused("empty");
    fs::remove(manifest);
    fs::copy(path("kept"), manifest);
    fs::resize_file(manifest, 100);
    refused("cut off");
    fs::remove(manifest);
    fs::copy(path("kept"), manifest);
    damage("b/backup", 105);
    refused("damaged");
    fs::remove(manifest);
    fs::copy(path("kept"), manifest);
    EXPECT_EQ(restored("b").size(), 500u);
}

TEST_F(BackupTest, VerifyNamesEveryDamage) {
    Store store = filled("s");
    ASSERT_OK(put(store, 0, 100, 'q'));
    const auto info = store.backup(path("b"));
    ASSERT_OK(info);
    ASSERT_OK(store.close());
    const auto faults = [&] { return *verify_backup(path("c")); };
    const auto fresh = [&] {
        fs::remove_all(path("c"));
        copy("b", "c");
    };
    fresh();
    EXPECT_EQ(faults(), std::vector<std::string>{});
    damage("c/data", 5 * kPageBytes + 100);
    EXPECT_EQ(faults(),
              std::vector<std::string>{"data: page 5: has a wrong checksum; bring the file from a "
                                       "copy of the backup, or use another backup"});
    fresh();
    fs::resize_file(path("c/data"), 7 * kPageBytes);
    ASSERT_EQ(faults().size(), 1u);
    EXPECT_NE(faults()[0].find("data: the file ends at"), std::string::npos);
    fresh();
    const uint64_t segment = *small_options().log_segment_bytes;
    damage("c/log.00000000", (info->redo_from.value + info->lsn.value) / 2 % segment);
    ASSERT_EQ(faults().size(), 1u);
    EXPECT_NE(faults()[0].find("log.00000000: no valid record at"), std::string::npos);
    fresh();
    fs::remove(path("c/log.mark"));
    EXPECT_EQ(faults().size(), 1u);
    fresh();
    damage("c/data.lsn", 200);
    EXPECT_EQ(faults().size(), 1u);
}

// A page that the device has damaged since the checkpoint is repaired from the log on its way; one
// that the log cannot rebuild is named, unless it is free.
TEST_F(BackupTest, RepairsOrNamesDamagedPages) {
    Options options = small_options();
    options.pool_bytes = 4 << 20;
    uint32_t victim = 0;
    {
        Store store = open("s", options);
        make(store, "i", "h");
        ASSERT_OK(put(store, 0, 3000, 'a'));
        victim = static_cast<uint32_t>(store.stats().pages_total / 4);
        ASSERT_OK(store.close());
    }
    damage("s/data", uint64_t{victim} * kPageBytes + 500);
    Store store = open("s", options);
    const auto info = store.backup(path("b"));
    ASSERT_OK(info);  // the log still has the page
    EXPECT_GE(store.stats().page_repairs, 1u);
    expect_whole("b");
    EXPECT_EQ(restored("b").size(), 3000u);
    ASSERT_OK(store.close());
}

TEST_F(BackupTest, NamesAPageThatNothingCanRebuild) {
    uint32_t victim = 0;
    {
        Options options = small_options();
        options.log_bytes = 4 << 20;
        options.log_segment_bytes = options.log_ring_bytes = 1 << 20;
        Store store = open("s", options);
        make(store, "i", "h");
        ASSERT_OK(put(store, 0, 1000, 'a'));
        victim = static_cast<uint32_t>(store.stats().pages_total / 8);
        for (int round = 0; round < 40; ++round) {  // push its images out of the log
            ASSERT_OK(put(store, 900, 1000, static_cast<char>('a' + round % 20), 2000));
            ASSERT_OK(store.checkpoint());
        }
        ASSERT_OK(store.close());
    }
    damage("s/data", uint64_t{victim} * kPageBytes + 500);
    Store store = open("s");
    const auto failed = store.backup(path("b"));
    ASSERT_FALSE(failed);
    EXPECT_EQ(failed.error().code, ErrorCode::corrupt_page);
    EXPECT_EQ(failed.error().a, victim);
    EXPECT_TRUE(fs::is_empty(path("b")));  // nothing is left that could be taken for a backup
    ASSERT_OK(store.close());
}

// The same of a free page: the backup has zeros in its place, and the store it makes uses it.
TEST_F(BackupTest, CopiesAFreePageThatIsDamagedAsZeros) {
    uint64_t victim = 0;
    {
        Options options = small_options();
        options.log_bytes = 4 << 20;
        options.log_segment_bytes = options.log_ring_bytes = 1 << 20;
        options.pool_bytes = 4 << 20;
        Store store = open("s", options);
        make(store, "i", "h");
        make(store, "dropped", "h2");
        ASSERT_OK(put(store, 0, 400, 'a'));
        for (int first = 0; first < 600; first += 100)
            ASSERT_OK(store.run([&](Txn& txn) -> Result<void> {
                const Index index = TRY(store.index("dropped"));
                for (int i = first; i < first + 100; ++i)
                    TRY(index.put(txn, key(i), std::string(1500, 'd')));
                return {};
            }));
        ASSERT_OK(store.checkpoint());
        const auto used = [&] {
            uint64_t pages = 0;
            on_thread(store, [&] { pages = sm::engine_of(store).space->pages_used(); });
            return pages;
        };
        const uint64_t before = used();
        ASSERT_OK(store.run([&](Txn& txn) { return store.drop(txn, "dropped"); }));
        while (used() + 50 > before) sleep_for(kMillisecond);
        for (int round = 0; round < 40; ++round) {  // push its images out of the log
            ASSERT_OK(put(store, 0, 400, static_cast<char>('e' + round % 20)));
            ASSERT_OK(store.checkpoint());
        }
        on_thread(store, [&] {
            const sm::Engine& engine = sm::engine_of(store);
            for (victim = engine.space->pages_total() - 1; victim > 0; --victim) {
                const PageId id{static_cast<uint32_t>(victim)};
                if (!*engine.space->is_used(id) && has_text(id, 'd')) break;
            }
        });
        ASSERT_GT(victim, 0u);
        ASSERT_OK(store.close());
    }
    damage("s/data", victim * kPageBytes + 500);
    Store store = open("s");
    const auto info = store.backup(path("b"));
    ASSERT_OK(info);
    EXPECT_EQ(info->pages_zeroed, 1u);
    ASSERT_OK(store.close());
    expect_whole("b");
    std::ifstream copy(path("b") + "/data", std::ios::binary);
    copy.seekg(static_cast<std::streamoff>(victim * kPageBytes));
    std::string page(kPageBytes, 'x');
    copy.read(page.data(), kPageBytes);
    EXPECT_EQ(page, std::string(kPageBytes, '\0'));
    EXPECT_EQ(restored("b").size(), 400u);
}

TEST_F(BackupTest, BesideGivingBackSpace) {
    Store store = filled("s", 4000);
    ASSERT_OK(store.run([&](Txn& txn) -> Result<void> {
        const Index index = TRY(store.index("i"));
        for (int i = 100; i < 4000; ++i) TRY(index.erase(txn, key(i)));
        return {};
    }));
    BackupOptions how;
    int calls = 0;
    uint64_t cut = 0;
    how.progress = [&](const BackupProgress&) {
        if (++calls == 1) cut = store.give_back_space().value_or(0);
    };
    ASSERT_OK(store.backup(path("b"), how));
    EXPECT_GT(cut, 0u);
    expect_whole("b");
    EXPECT_EQ(restored("b"), index_content(store, "i"));
    ASSERT_OK(store.close());
}

}  // namespace lockstep::backup_test
