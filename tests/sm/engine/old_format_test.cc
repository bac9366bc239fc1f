// labels: unit
// old_format_test.cc - a store that commit ac6d3df made, in format version 2: it opens, keeps its
// records and becomes a store of today. One of version 1 is refused, and the error says the way
// out.
#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <sstream>

#include <lockstep/store.h>
#include "sm/buffer/superblock.h"
#include "tests/own_directory.h"
#include "tests/sm/test_util.h"
#include "tests/steps_of_run.h"

namespace lockstep::old_format_test {

class OldFormat : public ::testing::Test {
protected:
    void SetUp() override {
        root_ = make_own_directory("old-format");
        ASSERT_EQ(std::system(("tar -C " + root_ +
                               " -xzf " LOCKSTEP_SOURCE_DIR "/tests/sm/engine/data/format_2.tgz")
                                  .c_str()),
                  0);
        store_ = root_ + "/store";
        ASSERT_EQ(version(), 2u);
    }
    void TearDown() override { std::filesystem::remove_all(root_); }

    Options options(bool read_only = false) const {
        Options o;
        o.create = false;
        o.read_only = read_only;
        o.log_bytes = 4 << 20;
        o.log_segment_bytes = 1 << 20;
        o.log_ring_bytes = 1 << 20;
        o.steps = steps_of_run();
        return o;
    }
    std::string data() const {
        std::ostringstream text;
        text << std::ifstream(store_ + "/data", std::ios::binary).rdbuf();
        return text.str();
    }
    sm::Superblock superblock() const {
        const auto disk = threads::make_disk(threads::IoBackend::pool);
        const auto file = disk->open(store_ + "/data", 0);
        EXPECT_TRUE(file);
        const auto block = sm::read_superblock(*disk, *file);
        EXPECT_TRUE(block) << block.error().text();
        disk->close(*file);
        return block.value();
    }
    uint32_t version() const { return superblock().version; }
    static std::string country(Store& store) {
        std::string value;
        EXPECT_TRUE(store.run([&](Txn& txn) -> Result<void> {
            EXPECT_TRUE(TRY(TRY(store.index("cities")).get(txn, "Lisbon", value)));
            return {};
        }));
        return value;
    }

    std::string root_, store_;
};

TEST_F(OldFormat, Version2IsReadAsItIs) {
    const std::string before = data();
    auto store = Store::open(store_, options(true));
    ASSERT_OK(store);
    EXPECT_EQ(country(*store), "Portugal");
    ASSERT_OK(store->close());
    EXPECT_EQ(data(), before);
}

TEST_F(OldFormat, Version2BecomesAStoreOfToday) {
    for (int round = 0; round < 2; ++round) {
        auto store = Store::open(store_, options());
        ASSERT_OK(store);
        EXPECT_EQ(country(*store), "Portugal");
        const auto faults = store->verify();
        ASSERT_OK(faults);
        EXPECT_TRUE(faults->empty());
        ASSERT_OK(store->run([&](Txn& txn) -> Result<void> {
            return TRY(store->index("cities")).put(txn, "Porto", "Portugal");
        }));
        ASSERT_OK(store->close());
        EXPECT_EQ(version(), sm::kFormatVersion);
        EXPECT_EQ(superblock().history, 0u);
    }
}

TEST_F(OldFormat, Version1IsRefusedWithAWayOut) {
    sm::Superblock block = superblock();
    {
        const auto disk = threads::make_disk(threads::IoBackend::pool);
        const auto file = disk->open(store_ + "/data", 0);
        ASSERT_OK(file);
        block.version = 1;
        ASSERT_OK(sm::write_superblock(*disk, *file, block));
        disk->close(*file);
    }
    const std::string before = data();
    for (const bool read_only : {false, true}) {
        const auto opened = Store::open(store_, options(read_only));
        ASSERT_FALSE(opened);
        EXPECT_EQ(opened.error().code, ErrorCode::bad_version);
        EXPECT_EQ(opened.error().a, 1u);
        EXPECT_EQ(opened.error().b, sm::kFormatVersion);
        const std::string text = opened.error().text();
        for (const char* said : {"format version 1", "lockstep dump", "new store"})
            EXPECT_NE(text.find(said), std::string::npos) << text;
    }
    EXPECT_EQ(data(), before);
}

}  // namespace lockstep::old_format_test
