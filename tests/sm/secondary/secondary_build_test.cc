// labels: unit
// secondary_build_test.cc - building a secondary index over many records: beside the store's work,
// with files for sorting, with errors in the middle, and a crash after it.
#include <dirent.h>
#include <atomic>

#include "sm/api/engine_of.h"
#include "sm/services/ghost_cleaner.h"
#include "tests/seed_of_run.h"
#include "tests/sm/secondary/secondary_util.h"
#include "threads/base/rng.h"

namespace lockstep::secondary_build_test {

constexpr int kRows = 60'000;

class SecondaryBuild : public SecondaryStore {
protected:
    void SetUp() override {
        SecondaryStore::SetUp();
        store_.emplace(open("a"));
        ASSERT_OK(make_primary(*store_));
        Rng rng(seed_of_run(4));
        ASSERT_OK(store_->run([&](Txn& txn) -> Result<void> {
            int n = 0;
            std::string k, v;
            const auto rows = [&](Slice& key, Slice& value) {
                k = Key().u64(static_cast<uint64_t>(n));
                v = "f" + std::to_string(rng.below(kRows)) + "|" + std::string(40, 'x');
                if (n % 5000 == 7) v += std::string(9000, 'y');
                if (n % 9 == 0) v = "," + v;  // the empty key, too
                key = k, value = v;
                return n++ < kRows;
            };
            const Index i = TRY(store_->index("i"));
            TRY(store_->bulk_load(txn, i, rows));
            return {};
        }));
        ASSERT_OK(store_->run([&](Txn& txn) -> Result<void> {
            const Index i = TRY(store_->index("i"));
            for (int n = 0; n < kRows; n += 13)
                EXPECT_TRUE(TRY(i.erase(txn, Key().u64(static_cast<uint64_t>(n)))));
            return {};
        }));
    }
    void TearDown() override {
        store_.reset();
        SecondaryStore::TearDown();
    }
    static int files_without_name() {
        int found = 0;
        DIR* const directory = opendir("/proc/self/fd");
        while (const dirent* entry = readdir(directory)) {
            char target[4096];
            const std::string link = std::string("/proc/self/fd/") + entry->d_name;
            const ssize_t n = readlink(link.c_str(), target, sizeof target);
            found += n > 0 && Slice(target, static_cast<size_t>(n)).ends_with("(deleted)");
        }
        closedir(directory);
        return found;
    }
    std::optional<Store> store_;
};

TEST_F(SecondaryBuild, AllRecordsInMemoryAndInFiles) {
    const int before = files_without_name();
    // The first build meets ghosts: the cleaner waits until it has read all leaves.
    sm::GhostCleaner& cleaner = *sm::engine_of(*store_).ghosts;
    on_thread(*store_, [&] { cleaner.hold(); });
    ASSERT_OK(store_->run([&](Txn& txn) -> Result<void> {
        const Index i = TRY(store_->index("i"));
        for (uint64_t n = 1; n < 20; ++n) EXPECT_EQ(TRY(i.erase(txn, Key().u64(n))), n % 13 != 0);
        return {};
    }));
    for (const uint64_t memory : {uint64_t{1} << 20, uint64_t{1} << 28}) {
        uint64_t pages = 0, entries = 0, calls = 0;
        int files = 0;
        ASSERT_OK(store_->run([&](Txn& txn) -> Result<void> {
            const auto progress = [&](const BuildProgress& state) {
                EXPECT_GE(state.pages_read, pages);
                EXPECT_GE(state.entries_loaded, entries);
                pages = state.pages_read, entries = state.entries_loaded;
                files = std::max(files, files_without_name());
                ++calls;
            };
            TRY(store_->create_index(txn, "s",
                                     {.of = TRY(store_->index("i")),
                                      .key = first_field,
                                      .build_bytes = memory,
                                      .progress = progress}));
            return {};
        }));
        if (memory == 1 << 20) on_thread(*store_, [&] { cleaner.resume(); });
        EXPECT_GT(calls, 10u);
        EXPECT_GT(pages, 300u);
        EXPECT_EQ(files > before, memory == 1 << 20);
        EXPECT_EQ(files_without_name(), before);
        expect_sound(*store_);
        EXPECT_EQ(pairs_of(*store_).size(), entries);
        EXPECT_GT(entries, static_cast<uint64_t>(kRows) * 12 / 13 - 20);
        ASSERT_OK(store_->run([&](Txn& txn) { return store_->drop(txn, "s"); }));
    }
}

// Readers go on; a writer waits until the creator's end and then keeps the index up.
TEST_F(SecondaryBuild, BesideReadersAndAWriter) {
    on_thread(*store_, [&] {
        std::atomic<bool> built = false;
        int reads = 0;
        auto writer = store_->start([&]() -> Result<void> {
            sleep_for(2 * kMillisecond);
            return store_->run(
                [&](Txn& txn) { return store_->index("i")->put(txn, Key().u64(1), "written|"); });
        });
        auto reader = store_->start([&]() -> Result<void> {
            while (!built) {
                TRY(store_->run([&](Txn& txn) -> Result<void> {
                    std::string value;
                    EXPECT_TRUE(TRY(store_->index("i")->get(txn, Key().u64(2), value)));
                    return {};
                }));
                reads += !built;
                yield();
            }
            return {};
        });
        const auto made = store_->run([&](Txn& txn) -> Result<void> {
            TRY(make_secondary(*store_, txn));
            built = true;
            return {};
        });
        ASSERT_OK(made);
        ASSERT_OK(writer.join());
        ASSERT_OK(reader.join());
        EXPECT_GT(reads, 3);
    });
    expect_sound(*store_);
    ASSERT_OK(store_->run([&](Txn& txn) -> Result<void> {
        SecondaryRecord record;
        EXPECT_TRUE(TRY(get_by(txn, TRY(store_->index("s")), "written", record)));
        return {};
    }));
}

TEST_F(SecondaryBuild, ErrorsInTheMiddleLeaveNothing) {
    const auto build = [&](KeyFunction function, bool unique) {
        return store_->run([&](Txn& txn) -> Result<void> {
            const auto made = store_->create_index(
                txn, "s", {.of = TRY(store_->index("i")), .key = function, .unique = unique});
            EXPECT_EQ(code_of(store_->index(txn, "s")), ErrorCode::no_such_object);
            return made ? Result<void>{} : Unexpected(made.error());
        });
    };
    EXPECT_EQ(code_of(build(first_field, true)), ErrorCode::duplicate_key);
    const auto long_one = [](Slice key, Slice, SecondaryKeys& keys) {
        keys.add(key == Slice(Key().u64(kRows / 2 + 2)) ? std::string(2000, 'k') : "k");
    };
    const auto too_long = build(long_one, false);
    EXPECT_EQ(code_of(too_long), ErrorCode::key_too_long);
    EXPECT_NE(too_long.error().text().find("\"s\""), std::string::npos);
    EXPECT_EQ(store_->list().size(), 1u);
    expect_sound(*store_);
}

// What a kill leaves right after the creator's commit, and in the middle of its transaction.
TEST_F(SecondaryBuild, AfterACrash) {
    on_thread(*store_, [&] {
        Txn txn = std::move(*store_->begin());
        ASSERT_OK(make_secondary(*store_, txn));
        ASSERT_OK(store_->run([&](Txn& other) -> Result<void> {  // makes the log durable
            TRY(store_->create_index(other, "mark"));
            return {};
        }));
        copy("a", "before");
        ASSERT_OK(txn.commit());
        copy("a", "after");
    });
    const Pairs pairs = pairs_of(*store_);
    store_.emplace(open("before"));
    EXPECT_EQ(store_->list().size(), 2u);
    expect_sound(*store_);
    store_.emplace(open("after"));
    ASSERT_OK(store_->attach_key("s", first_field));
    EXPECT_EQ(pairs_of(*store_), pairs);
    expect_sound(*store_);
}

}  // namespace lockstep::secondary_build_test
