// labels: unit
// backup_incremental_test.cc - incremental backups, and restores that put them together.
#include "sm/api/engine_of.h"
#include "sm/backup/backup_manifest.h"
#include "sm/buffer/superblock.h"
#include "sm/space/space_map.h"
#include "tests/code_of.h"
#include "tests/sm/backup/backup_test_util.h"
#include "threads/io/disk_file.h"

namespace lockstep::backup_incremental_test {

namespace fs = std::filesystem;

class BackupIncremental : public BackupFixture {
protected:
    Content opened(const std::string& name) {
        Store store = open(name);
        expect_sound(store);
        Content content = index_content(store, "i");
        EXPECT_TRUE(store.close());
        return content;
    }
    // A full backup of records, with the name `full`.
    BackupInfo make_full(Store& store) {
        make(store, "i", "h");
        EXPECT_TRUE(put(store, 0, 100, 'a'));
        const auto full = store.backup(path("full"));
        EXPECT_TRUE(full) << full.error().text();
        return *full;
    }
    Result<BackupInfo> restore(std::vector<std::string> names, const std::string& to) {
        for (std::string& name : names) name = path(name);
        fs::remove_all(path(to));
        return restore_backup(names, path(to));
    }
};

// What a page was when it became free is not written as a rule, so the first two backups have it as
// it was in use. A restart from an older checkpoint may write it later, and the third one reads it.
TEST_F(BackupIncremental, AFreePageMayBeOfAnyTime) {
    BackupOptions how;
    uint32_t freed = 0;
    BackupInfo one;
    {
        Store store = open("s");
        make(store, "gone", "other");
        ASSERT_OK(store.run([&](Txn& txn) -> Result<void> {
            const Index index = TRY(store.index("gone"));
            for (int n = 0; n < 500; ++n)
                TRY(index.put(txn, std::to_string(n), std::string(900, 'g')));
            return {};
        }));
        ASSERT_OK(store.checkpoint());
        const BackupInfo full = make_full(store);
        ASSERT_OK(store.run([&](Txn& txn) { return store.drop(txn, "gone"); }));
        ASSERT_OK(store.checkpoint());
        how.since = &full;
        const auto made = store.backup(path("one"), how);
        ASSERT_OK(made);
        one = *made;
        on_thread(store, [&] {
            sm::SpaceMap& space = *sm::engine_of(store).space;
            for (uint32_t p = 3; p < space.pages_total() && freed == 0; ++p)
                if (!space.is_used(PageId{p}).value_or(true)) freed = p;
        });
        ASSERT_OK(store.close());
    }
    ASSERT_NE(freed, 0u);
    {
        const auto page = std::make_unique<sm::Page>();
        sm::format_page(*page, PageId{freed}, ObjectId{0}, sm::PageKind::free);
        page->header.lsn = one.redo_from.value;
        page->header.checksum = sm::page_checksum(*page, PageId{freed});
        std::fstream data(path("s") + "/data", std::ios::in | std::ios::out | std::ios::binary);
        data.seekp(static_cast<std::streamoff>(freed * kPageBytes));
        data.write(reinterpret_cast<const char*>(page->bytes()), kPageBytes);
    }
    Store store = open("s");
    ASSERT_OK(put(store, 0, 10, 'b'));
    how.since = &one;
    ASSERT_OK(store.backup(path("two"), how));
    const Content then = index_content(store, "i");
    ASSERT_OK(store.close());
    ASSERT_OK(restore({"full", "one", "two"}, "r"));
    EXPECT_EQ(opened("r"), then);
}

TEST_F(BackupIncremental, HoldsOnlyWhatHasChanged) {
    Store store = open("s");
    make(store, "i", "h");
    ASSERT_OK(put(store, 0, 4000, 'a'));
    ASSERT_OK(store.checkpoint());
    const auto full = store.backup(path("full"));
    ASSERT_OK(full);
    const Content at_full = index_content(store, "i");
    ASSERT_OK(put(store, 10, 20, 'b'));
    ASSERT_OK(store.checkpoint());
    BackupOptions how;
    how.since = &*full;
    const auto first = store.backup(path("one"), how);
    ASSERT_OK(first);
    EXPECT_LT(first->pages_copied, full->pages_copied / 4);
    EXPECT_EQ(first->since, full->lsn);
    const Content at_first = index_content(store, "i");
    ASSERT_OK(put(store, 3000, 9000, 'c'));  // the volume grows
    ASSERT_OK(store.checkpoint());
    ASSERT_OK(put(store, 0, 5, 'd'));
    how.since = &*first;
    ASSERT_OK(store.backup(path("two"), how));
    const Content at_second = index_content(store, "i");
    ASSERT_OK(put(store, 0, 9000, 'e'));
    for (const char* name : {"full", "one", "two"}) expect_whole(name);

    const auto alone = restore({"full"}, "r");
    ASSERT_OK(alone);
    EXPECT_EQ(alone->bytes, full->bytes);
    EXPECT_EQ(opened("r"), at_full);
    ASSERT_OK(restore({"full", "one"}, "r"));
    expect_whole("r");
    EXPECT_EQ(opened("r"), at_first);
    ASSERT_OK(restore({"full", "one", "two"}, "r"));
    expect_whole("r");
    EXPECT_EQ(opened("r"), at_second);
    EXPECT_EQ(code_of(Store::open(path("one"), small_options())), ErrorCode::bad_backup);
    ASSERT_OK(store.close());
}

TEST_F(BackupIncremental, MayHoldNothing) {
    Content before;
    {
        Store store = open("s");
        make(store, "i", "h");
        ASSERT_OK(put(store, 0, 50, 'a'));
        before = index_content(store, "i");
        ASSERT_OK(store.close());
    }
    // Opening, backing up and closing change no page.
    BackupInfo last{};
    for (const char* name : {"full", "one"}) {
        Store store = open("s");
        BackupOptions how;
        if (last.pages != 0) how.since = &last;
        const auto made = store.backup(path(name), how);
        ASSERT_OK(made);
        last = *made;
        ASSERT_OK(store.close());
    }
    EXPECT_LE(last.pages_copied, 2u);  // the superblocks
    ASSERT_OK(restore({"full", "one"}, "r"));
    expect_whole("r");
    EXPECT_EQ(opened("r"), before);
}

// An earlier backup has a map with pages in use. Then the file is cut before that map and grows
// past it again, with zeros where the map was. `look`: what happens before the next backup.
void with_a_map_that_went(Store& store, const std::function<void()>& back_up,
                          const std::function<void()>& look) {
    sm::Engine& engine = sm::engine_of(store);
    sm::SpaceMap& space = *engine.space;
    const PageId last{sm::kPagesPerMap + 50};
    const auto change = [&](sm::PageAction action) -> Result<void> {
        uint32_t run[] = {sm::kPagesPerMap + 1, 40};
        sm::PageReservation r = TRY(space.prepare_free(last));  // holds the second map
        sm::ChangePart part{
            .page = &r.map,
            .action = action,
            .flags = 0,
            .pieces = {Slice(reinterpret_cast<const char*>(run), sizeof run), {}, {}, {}}};
        TRY(sm::change_pages(engine, nullptr, sm::ChangeRole::system, sm::LogKind::space_grow,
                             ObjectId{0}, {&part, 1}));
        return {};
    };
    const auto on_thread = [&](std::function<Result<void>()> fn) {
        ASSERT_OK(store.start(std::move(fn), 0).join());
    };
    on_thread([&]() -> Result<void> {
        TRY(space.ensure_size(last));
        return change(sm::PageAction::space_set);
    });
    ASSERT_OK(store.checkpoint());
    back_up();
    on_thread([&] { return change(sm::PageAction::space_clear); });
    EXPECT_GT(*store.give_back_space(), 500u << 20);
    on_thread([&] { return space.ensure_size(last); });
    look();
    ASSERT_OK(store.checkpoint());
}

TEST_F(BackupIncremental, AMapThatWasCutOffDoesNotComeBack) {
    for (const bool in_memory : {false, true}) {
        SCOPED_TRACE(in_memory);
        const std::string name = in_memory ? "t" : "s", one = name + "one", two = name + "two";
        Store store = open(name);
        make(store, "i", "h");
        ASSERT_OK(put(store, 0, 100, 'a'));
        BackupInfo last = *store.backup(path(name + "full"));
        const auto back_up = [&](const std::string& to) {
            BackupOptions how;
            how.since = &last;
            const auto made = store.backup(path(to), how);
            ASSERT_OK(made);
            last = *made;
        };
        with_a_map_that_went(
            store, [&] { back_up(one); },
            [&] {
                if (in_memory) expect_sound(store);  // reads the map's zeros
            });
        back_up(two);
        expect_whole(two);
        ASSERT_OK(store.close());
        ASSERT_OK(restore({name + "full", one, two}, "r"));
        expect_whole("r");
        EXPECT_EQ(opened("r").size(), 100u);
    }
}

// Changes and checkpoints during the first backup: the second one must have what the first one
// copied too early.
TEST_F(BackupIncremental, HasWhatChangedDuringTheEarlierOne) {
    Store store = open("s");
    const BackupInfo full = full_with_early_copies(store);
    ASSERT_OK(put(store, 0, 3, 'c'));
    ASSERT_OK(store.checkpoint());
    BackupOptions later;
    later.since = &full;
    ASSERT_OK(store.backup(path("one"), later));
    ASSERT_OK(restore({"full", "one"}, "r"));
    expect_whole("r");
    EXPECT_EQ(opened("r"), index_content(store, "i"));
    ASSERT_OK(store.close());
}

// Nothing is logged between the two, so both end at the same LSN. Only the second one has the pages
// as they are: of the first one, the log repairs them.
TEST_F(BackupIncremental, MayEndWhereTheEarlierOneEnded) {
    Store store = open("s");
    const BackupInfo full = full_with_early_copies(store);
    BackupOptions how;
    how.since = &full;
    const auto one = store.backup(path("one"), how);
    ASSERT_OK(one);
    ASSERT_EQ(one->lsn, full.lsn);
    ASSERT_GT(one->redo_from, full.redo_from);
    ASSERT_OK(put(store, 0, 1, 'c'));
    how.since = &*one;
    ASSERT_OK(store.backup(path("two"), how));
    const Content content = index_content(store, "i");
    ASSERT_OK(store.close());
    ASSERT_OK(restore({"full", "one", "two"}, "r"));
    expect_whole("r");
    EXPECT_EQ(opened("r"), content);
    const auto gap = restore({"full", "two"}, "r");
    ASSERT_FALSE(gap);
    EXPECT_EQ(code_of(gap), ErrorCode::bad_backup);
    EXPECT_NE(gap.error().text().find("does not follow"), std::string::npos) << gap.error().text();
}

TEST_F(BackupIncremental, RefusesWhatDoesNotFit) {
    Store store = open("s");
    const BackupInfo full = make_full(store);
    BackupOptions how;
    how.since = &full;
    ASSERT_OK(put(store, 0, 10, 'b'));  // else they would be the same state
    const auto one = store.backup(path("one"), how);
    ASSERT_OK(one);
    how.since = &*one;
    ASSERT_OK(put(store, 0, 10, 'c'));
    ASSERT_OK(store.backup(path("two"), how));
    Store other = open("t");
    make(other, "i", "h");
    EXPECT_EQ(code_of(other.backup(path("x"), how)), ErrorCode::bad_backup);
    BackupInfo future = full;
    future.lsn = future.lsn + (1ull << 40);
    how.since = &future;
    EXPECT_EQ(code_of(store.backup(path("x"), how)), ErrorCode::bad_backup);
    ASSERT_OK(other.backup(path("of_other")));
    ASSERT_OK(other.close());
    ASSERT_OK(store.close());

    EXPECT_EQ(code_of(restore({}, "r")), ErrorCode::bad_backup);
    EXPECT_EQ(code_of(restore({"one"}, "r")), ErrorCode::bad_backup);
    EXPECT_EQ(code_of(restore({"full", "two"}, "r")), ErrorCode::bad_backup);
    EXPECT_EQ(code_of(restore({"full", "full"}, "r")), ErrorCode::bad_backup);
    EXPECT_EQ(code_of(restore({"of_other", "one"}, "r")), ErrorCode::bad_backup);
    EXPECT_EQ(code_of(restore({"s"}, "r")), ErrorCode::bad_backup);
    EXPECT_EQ(code_of(restore({"no"}, "r")), ErrorCode::bad_backup);
    EXPECT_FALSE(fs::exists(path("r")));
    fs::create_directory(path("full_of_mine"));
    std::ofstream(path("full_of_mine") + "/mine") << "keep";
    const std::string from[] = {path("full")};
    EXPECT_EQ(code_of(restore_backup(from, path("full_of_mine"))), ErrorCode::bad_path);
    EXPECT_EQ(code_of(restore_backup(from, path("full"))), ErrorCode::bad_path);
    EXPECT_EQ(code_of(restore_backup(from, path("one"))), ErrorCode::bad_path);
    EXPECT_TRUE(fs::exists(path("full_of_mine") + "/mine"));
    for (const char* name : {"full", "one", "two"}) expect_whole(name);
}

// What an earlier run changed is looked for in the pages, since data.lsn may know less (LW-4).
TEST_F(BackupIncremental, HasWhatAnEarlierRunHasChanged) {
    BackupInfo full;
    Content then;
    {
        Store store = open("s");
        make(store, "i", "h");
        ASSERT_OK(put(store, 0, 4000, 'a'));
        ASSERT_OK(store.checkpoint());
        const auto made = store.backup(path("full"));
        ASSERT_OK(made);
        full = *made;
        ASSERT_OK(put(store, 0, 4000, 'b'));
        then = index_content(store, "i");
        ASSERT_OK(store.close());
    }
    fs::remove(path("s") + "/data.lsn");
    Store store = open("s");
    BackupOptions how;
    how.since = &full;
    ASSERT_OK(store.backup(path("one"), how));
    ASSERT_OK(store.close());
    ASSERT_OK(restore({"full", "one"}, "r"));
    EXPECT_EQ(opened("r"), then);
}

// A store larger than its pool: pages that have changed are in memory, were written and dropped, or
// were read again.
TEST_F(BackupIncremental, ReadsOnlyWhatMayHaveChanged) {
    Options options = small_options();
    options.pool_bytes = 4 << 20;
    auto opened_store = Store::open(path("s"), options);
    ASSERT_OK(opened_store);
    Store store = std::move(*opened_store);
    make(store, "i", "h");
    constexpr int kRows = 40'000;
    for (int row = 0; row < kRows; row += 1000) ASSERT_OK(put(store, row, row + 1000, 'a'));
    ASSERT_OK(store.checkpoint());
    auto last = store.backup(path("full"));
    ASSERT_OK(last);
    EXPECT_GT(last->pages * kPageBytes, 3 * options.pool_bytes);
    std::vector<std::string> chain = {"full"};
    Rng rng(1);
    for (int round = 0; round < 4; ++round) {
        for (int n = 0; n < 20; ++n) {
            const int row = static_cast<int>(rng.below(kRows));
            ASSERT_OK(put(store, row, row + 3, static_cast<char>('b' + round)));
            // Drops what has changed from memory.
            if (n % 10 == 9) {
                (void)index_content(store, "i");
            }
        }
        ASSERT_OK(store.checkpoint());
        BackupOptions how;
        how.since = &*last;
        const uint64_t reads = store.stats().page_reads;
        chain.push_back("step" + std::to_string(round));
        const auto made = store.backup(path(chain.back()), how);
        ASSERT_OK(made);
        EXPECT_LT(store.stats().page_reads - reads, last->pages / 4) << "round " << round;
        EXPECT_LT(made->pages_copied, last->pages / 4);
        last = made;
    }
    const Content content = index_content(store, "i");
    ASSERT_OK(store.close());
    ASSERT_OK(restore(chain, "r"));
    expect_whole("r");
    EXPECT_EQ(opened("r"), content);
}

// A store went on from `full` to `later`. A second one, restored from `full`, has passed the same
// LSNs with other changes.
TEST_F(BackupIncremental, RefusesABackupThatItsStoreHasNeverBeen) {
    Store store = open("s");
    const BackupInfo full = make_full(store);
    ASSERT_OK(put(store, 0, 50, 'b'));
    BackupOptions how;
    how.since = &full;
    const auto later = store.backup(path("later"), how);
    ASSERT_OK(later);
    ASSERT_OK(store.close());

    ASSERT_OK(restore({"full"}, "r"));
    Store restored = open("r");
    for (int round = 0; round < 10; ++round) ASSERT_OK(put(restored, 50, 100, 'c'));
    ASSERT_OK(restored.checkpoint());
    BackupInfo claimed = *later;
    how.since = &claimed;
    const auto refused = restored.backup(path("x"), how);
    ASSERT_FALSE(refused);
    EXPECT_EQ(code_of(refused), ErrorCode::bad_backup);
    EXPECT_NE(refused.error().text().find("make a full backup"), std::string::npos);
    // The one that it was restored from is an earlier state of it, and so is its own next one.
    how.since = &full;
    const auto own = restored.backup(path("own"), how);
    ASSERT_OK(own);
    ASSERT_OK(put(restored, 0, 10, 'd'));
    how.since = &*own;
    ASSERT_OK(restored.backup(path("next"), how));
    const Content content = index_content(restored, "i");
    // Made in spite of it, it does not fit.
    claimed.history = own->history;
    how.since = &claimed;
    ASSERT_OK(restored.backup(path("forged"), how));
    ASSERT_OK(restored.close());
    const auto mixed = restore({"full", "later", "forged"}, "x2");
    ASSERT_FALSE(mixed);
    EXPECT_EQ(code_of(mixed), ErrorCode::bad_backup);
    EXPECT_NE(mixed.error().text().find("of another history"), std::string::npos);
    ASSERT_OK(restore({"full", "own", "next"}, "r2"));
    EXPECT_EQ(opened("r2"), content);
}

// A crash in the first open of a restored store, before it has forgotten that it was a backup.
TEST_F(BackupIncremental, ARestoredStoreComesFromTheBackupAlsoIfItsFirstOpenWasCutOff) {
    Store store = open("s");
    const BackupInfo full = make_full(store);
    ASSERT_OK(store.close());
    ASSERT_OK(restore({"full"}, "r"));
    {
        const auto disk = threads::make_disk(threads::IoBackend::pool);
        const auto file =
            threads::DiskFile::open(*disk, path("r") + "/data", threads::Disk::kDirect);
        ASSERT_OK(file);
        auto block = sm::read_superblock(*disk, file->id());
        ASSERT_OK(block);
        block->history_parent = block->history;
        block->history_begin = full.lsn.value;
        block->history = 4711;
        ASSERT_OK(sm::write_superblock(*disk, file->id(), *block));
    }
    Store restored = open("r");
    ASSERT_OK(put(restored, 0, 50, 'b'));
    BackupOptions how;
    how.since = &full;
    ASSERT_OK(restored.backup(path("own"), how));
    const Content content = index_content(restored, "i");
    ASSERT_OK(restored.close());
    ASSERT_OK(restore({"full", "own"}, "r2"));
    EXPECT_EQ(opened("r2"), content);
}

TEST_F(BackupIncremental, ADamagedPageIsNamedUnlessALaterBackupHasIt) {
    Store store = open("s");
    make(store, "i", "h");
    ASSERT_OK(put(store, 0, 1000, 'a'));
    ASSERT_OK(store.checkpoint());
    const auto full = store.backup(path("full"));
    ASSERT_OK(full);
    ASSERT_OK(put(store, 0, 1000, 'b'));
    ASSERT_OK(store.checkpoint());
    BackupOptions how;
    how.since = &*full;
    ASSERT_OK(store.backup(path("one"), how));
    const Content then = index_content(store, "i");
    ASSERT_OK(store.close());
    // A page that the second one has as well.
    uint32_t number = 0;
    {
        std::ifstream pages(path("one") + "/pages", std::ios::binary);
        pages.seekg(5 * kPageBytes + 16);
        pages.read(reinterpret_cast<char*>(&number), sizeof number);
    }
    {
        std::fstream data(path("full") + "/data", std::ios::in | std::ios::out | std::ios::binary);
        data.seekp(static_cast<std::streamoff>(number * kPageBytes + 4000));
        data.write("garbage", 7);
    }
    const auto alone = restore({"full"}, "r");
    EXPECT_EQ(code_of(alone), ErrorCode::bad_backup);
    const std::string named = "page " + std::to_string(number) + ": has a wrong checksum";
    EXPECT_NE(alone.error().text().find(named), std::string::npos) << alone.error().text();
    EXPECT_EQ(code_of(Store::open(path("r"), small_options())), ErrorCode::bad_backup);
    ASSERT_OK(restore({"full", "one"}, "r"));
    EXPECT_EQ(opened("r"), then);
}

}  // namespace lockstep::backup_incremental_test
