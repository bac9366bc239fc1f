// labels: unit
// entry_sort_test.cc - the sort of entries: in memory, and with runs in files.
#include "sm/secondary/entry_sort.h"

#include <algorithm>
#include <filesystem>

#include "tests/own_directory.h"
#include "tests/sm/test_util.h"

namespace lockstep::sm::entry_sort_test {

using Entries = std::vector<std::pair<std::string, std::string>>;

class EntrySort : public ::testing::Test {
protected:
    void SetUp() override { directory_ = make_own_directory("entry-sort"); }
    void TearDown() override {
        EXPECT_TRUE(std::filesystem::is_empty(directory_)) << "a file for sorting is left";
        std::filesystem::remove_all(directory_);
    }
    static Entries random_entries(Rng& rng, size_t count) {
        Entries entries;
        for (size_t n = 0; n < count; ++n) {
            std::string key(rng.below(rng.chance(0.1) ? 900 : 20), '\0');
            for (char& c : key) c = static_cast<char>(rng.below(3) * 100);
            entries.emplace_back(key, std::string(rng.below(12), 'v'));
        }
        return entries;
    }
    // Sorts in blocks of 500 entries; the number of runs.
    size_t check(Entries entries, size_t memory, bool parallel) {
        EntrySorter sorter(*disk_, directory_, memory, parallel);
        for (size_t at = 0; at < entries.size();) {
            auto block = std::make_unique<EntryBlock>();
            for (size_t n = 0; n < 500 && at < entries.size(); ++n, ++at)
                block->add(entries[at].first, entries[at].second);
            block->finish();
            EXPECT_TRUE(sorter.add(std::move(block)));
        }
        const Result<EntrySource*> source = sorter.sort();
        EXPECT_TRUE(source) << source.error().text();
        Entries sorted;
        for (Slice key, value; *(*source)->next(key, value);) sorted.emplace_back(key, value);
        EXPECT_TRUE(std::ranges::is_sorted(sorted, {}, [](const auto& e) { return e.first; }));
        std::ranges::sort(sorted);
        std::ranges::sort(entries);
        EXPECT_EQ(sorted, entries);
        return sorter.runs();
    }
    std::string directory_;
    std::unique_ptr<threads::Disk> disk_ = threads::make_disk(threads::IoBackend::pool);
};

TEST_F(EntrySort, InMemoryAndInRuns) {
    const uint64_t seed = seed_of_run(2);
    SCOPED_TRACE("LOCKSTEP_SEED=" + std::to_string(seed));
    Rng rng(seed);
    EXPECT_EQ(check({}, SIZE_MAX, false), 0u);
    EXPECT_EQ(check(random_entries(rng, 3000), SIZE_MAX, false), 0u);
    EXPECT_EQ(check(random_entries(rng, 30'000), SIZE_MAX, true), 0u);
    EXPECT_EQ(check(random_entries(rng, 150'000), SIZE_MAX, true), 0u);
    EXPECT_EQ(check(Entries(120'000, {"same", "v"}), SIZE_MAX, true), 0u);
    EXPECT_GT(check(random_entries(rng, 30'000), 200'000, true), 5u);
    EXPECT_GT(check(random_entries(rng, 3000), 1, false), 5u);
}

TEST_F(EntrySort, AMissingDirectoryIsAnError) {
    EntrySorter sorter(*disk_, directory_ + "/none", 0, false);
    auto block = std::make_unique<EntryBlock>();
    block->add("k", "v");
    block->finish();
    const auto added = sorter.add(std::move(block));
    ASSERT_FALSE(added);
    EXPECT_EQ(added.error().code, ErrorCode::bad_path);
    EXPECT_EQ(added.error().os, ENOENT);
}

}  // namespace lockstep::sm::entry_sort_test
