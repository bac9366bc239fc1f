// labels: unit
// memory_store_test.cc - a store at ":memory:": all that a store does, and no file.
#include <gtest/gtest.h>

#include <filesystem>
#include <map>
#include <string>

#include <lockstep/backup.h>
#include <lockstep/store.h>
#include "tests/seed_of_run.h"
#include "tests/sm/store_crash_util.h"
#include "threads/base/rng.h"

namespace lockstep::memory_store_test {

using Content = std::map<std::string, std::string>;

class MemoryStore : public StoreCrash {
protected:
    void SetUp() override {
        StoreCrash::SetUp();
        before_ = std::filesystem::current_path();
        std::filesystem::current_path(root_);
    }
    void TearDown() override {
        std::filesystem::current_path(before_);
        StoreCrash::TearDown();
    }
    static Options options(uint32_t workers = 1) {
        Options options = small_options(workers);
        options.pool_bytes = 4 << 20;
        options.log_bytes = 16 << 20;
        return options;
    }
    static Store open(const Options& options) {
        auto opened = Store::open(":memory:", options);
        EXPECT_TRUE(opened) << opened.error().text();
        return std::move(*opened);
    }
    static Index index_of(Store& store) {
        auto made = store.run([&](Txn& txn) { return store.open_or_create_index(txn, "i"); });
        EXPECT_TRUE(made) << made.error().text();
        return *made;
    }
    static Content content_of(Store& store) {
        Content content;
        const Index index = index_of(store);
        EXPECT_TRUE(store.run([&](Txn& txn) -> Result<void> {
            content.clear();
            Cursor cursor = index.scan(txn);
            while (TRY(cursor.next()))
                content.emplace(std::string(cursor.key()), std::string(cursor.value()));
            return {};
        }));
        return content;
    }
    size_t files_here() const {
        size_t files = 0;
        for ([[maybe_unused]] const auto& entry : std::filesystem::directory_iterator(root_))
            ++files;
        return files;
    }
    // Random changes in transactions of which some roll back, also of large values.
    static Content change(Store& store, const Index& index, int transactions) {
        Rng rng(seed_of_run());
        Content model;
        for (int n = 0; n < transactions; ++n) {
            Content changed = model;
            const bool aborts = rng.chance(0.2);
            const auto done = store.run([&](Txn& txn) -> Result<void> {
                changed = model;
                for (int i = 0; i < 20; ++i) {
                    const std::string key = "k" + std::to_string(rng.below(2000));
                    if (rng.chance(0.2)) {
                        EXPECT_EQ(TRY(index.erase(txn, key)), changed.erase(key) != 0);
                        continue;
                    }
                    std::string value = random_text(rng, rng.below(10) == 0 ? 40'000 : 700);
                    TRY(index.put(txn, key, value));
                    changed[key] = std::move(value);
                }
                if (aborts) return Error::user(7, "rolled back");
                return {};
            });
            EXPECT_EQ(done.has_value(), !aborts);
            if (!aborts) model = std::move(changed);
        }
        return model;
    }

    std::filesystem::path before_;
};

// Data exceed the pool, and what is logged exceeds the log many times.
TEST_F(MemoryStore, KeepsWhatItIsToldAndLeavesNoFile) {
    Store store = open(options(2));
    const Index index = index_of(store);
    const Content model = change(store, index, 250);
    EXPECT_EQ(content_of(store), model);
    EXPECT_GT(store.stats().log_bytes, 16u << 20);
    const auto faults = store.verify();
    ASSERT_OK(faults);
    EXPECT_TRUE(faults->empty()) << faults->front();
    ASSERT_OK(store.close());
    EXPECT_EQ(files_here(), 0u);
}

TEST_F(MemoryStore, EachOpenMakesAnother) {
    Store one = open(options()), other = open(options());
    const Index index = index_of(one);
    ASSERT_OK(index.put("k", "v"));
    EXPECT_EQ(content_of(one), (Content{{"k", "v"}}));
    EXPECT_TRUE(content_of(other).empty());
    ASSERT_OK(one.close());
    Store again = open(options());
    EXPECT_TRUE(content_of(again).empty());
}

TEST_F(MemoryStore, SecondaryIndexesAndHeaps) {
    Store store = open(options());
    const Index index = index_of(store);
    Content model = change(store, index, 300);
    SecondaryOptions secondary;
    secondary.of = index;
    secondary.key = [](Slice key, Slice value, SecondaryKeys& keys) {
        keys.add(std::string(value.substr(0, 3)) + std::string(key));
    };
    secondary.build_bytes = 1 << 20;  // less than the entries take: they are sorted in files
    const auto made = store.run([&](Txn& txn) { return store.create_index(txn, "s", secondary); });
    ASSERT_OK(made);
    ASSERT_OK(store.run([&](Txn& txn) -> Result<void> {
        for (const auto& [key, value] : model) {
            SecondaryRecord record;
            EXPECT_TRUE(TRY(get_by(txn, *made, value.substr(0, 3) + key, record)));
            EXPECT_EQ(record.value, value);
        }
        const Heap heap = TRY(store.create_heap(txn, "h"));
        const RecordId id = TRY(heap.insert(txn, "record"));
        std::string record;
        EXPECT_TRUE(TRY(heap.get(txn, id, record)));
        EXPECT_EQ(record, "record");
        return {};
    }));
    EXPECT_EQ(files_here(), 0u);
}

TEST_F(MemoryStore, ABackupOfItIsAStoreOfFiles) {
    Content model;
    {
        Store store = open(options());
        model = change(store, index_of(store), 100);
        ASSERT_OK(store.backup("copy"));
        ASSERT_OK(index_of(store).put("k", "later"));
    }
    EXPECT_EQ(std::filesystem::status("copy/data").permissions(),
              std::filesystem::perms::owner_read | std::filesystem::perms::owner_write);
    auto copy = Store::open("copy", options());
    ASSERT_OK(copy);
    EXPECT_EQ(content_of(*copy), model);
}

TEST_F(MemoryStore, AnArchiveOfItRestoresTheNewestState) {
    Content model;
    {
        Options archived = options();
        archived.archive = "archive";
        Store store = open(archived);
        ASSERT_OK(store.backup("copy"));
        model = change(store, index_of(store), 50);
        ASSERT_OK(store.close());
    }
    const std::string backups[] = {"copy"};
    ASSERT_OK(restore_backup(backups, "restored", {.archive = "archive"}));
    auto restored = Store::open("restored", options());
    ASSERT_OK(restored);
    EXPECT_EQ(content_of(*restored), model);
}

TEST_F(MemoryStore, RefusesWhatNeedsFiles) {
    Options wrong = options();
    wrong.control = true;
    const auto control = Store::open(":memory:", wrong);
    ASSERT_FALSE(control);
    EXPECT_EQ(control.error().code, ErrorCode::bad_option);
    EXPECT_NE(control.error().text().find("control"), std::string::npos) << control.error().text();
    for (bool Options::*option : {&Options::read_only, &Options::create}) {
        wrong = options();
        wrong.*option = !(wrong.*option);
        const auto refused = Store::open(":memory:", wrong);
        ASSERT_FALSE(refused);
        EXPECT_EQ(refused.error().code, ErrorCode::bad_path);
    }
    // What lasts does not go there.
    Store files = std::move(*Store::open("files", options()));
    ASSERT_OK(files.backup("copy"));
    for (const auto& refused :
         {files.backup(":memory:"), restore_backup(std::vector<std::string>{"copy"}, ":memory:")}) {
        ASSERT_FALSE(refused);
        EXPECT_EQ(refused.error().code, ErrorCode::bad_path) << refused.error().text();
    }
    EXPECT_FALSE(std::filesystem::exists(":memory:"));
    // A directory of that name is reached by another path.
    std::filesystem::create_directory(":memory:");
    ASSERT_OK(Store::open("./:memory:", options()));
    EXPECT_TRUE(std::filesystem::exists(":memory:/data"));
}

// Its commits are durable as far as the store lasts, so they return without an I/O.
TEST_F(MemoryStore, CommitsWaitForNothing) {
    Store store = open(options());
    const Index index = index_of(store);
    const uint64_t before = store.stats().durable_waits;
    for (int n = 0; n < 1000; ++n) ASSERT_OK(index.put("k" + std::to_string(n), "v"));
    std::string value;
    EXPECT_TRUE(*index.get("k999", value));
    EXPECT_EQ(store.stats().durable_waits, before);
    ASSERT_OK(store
                  .start([&]() -> Result<void> {
                      Txn txn = TRY(store.begin());
                      TRY(index.put(txn, "k", "in doubt"));
                      TRY(txn.prepare("g"));
                      return {};
                  })
                  .join());
    EXPECT_EQ(store.prepared().size(), 1u);
    EXPECT_TRUE(*store.commit_prepared("g"));
    EXPECT_TRUE(*index.get("k", value));
    EXPECT_EQ(value, "in doubt");
}

}  // namespace lockstep::memory_store_test
