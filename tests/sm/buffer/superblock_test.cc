// labels: unit
// superblock_test.cc - choosing between the two copies, damage, unknown versions, and
// writing them in turn on a real file.
#include "sm/buffer/superblock.h"
#include "tests/own_directory.h"

#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>
#include <memory>

namespace lockstep::sm::superblock_test {

Superblock example() {
    Superblock block{};
    std::memcpy(block.magic, "LOCKSTEP", 8);
    block.version = kFormatVersion;
    block.page_bytes = kPageBytes;
    block.checkpoint_lsn = 4096;
    block.log_segment_bytes = 1 << 20;
    block.catalog_root = 3;
    return block;
}

class SuperblockFile : public ::testing::Test {
protected:
    void SetUp() override {
        directory_ = make_own_directory("superblock");
        disk_ = threads::make_disk();
        file_ = *disk_->open(directory_ + "/data", threads::Disk::kCreate);
        ASSERT_TRUE(disk_->allocate(file_, 4 * kPageBytes));
    }
    void TearDown() override {
        disk_->close(file_);
        std::filesystem::remove_all(directory_);
    }
    // Overwrites `bytes` bytes of a copy at `offset` within it.
    void damage(uint32_t copy, uint64_t offset, size_t bytes) {
        Page page;
        ASSERT_TRUE(disk_->read_now(file_, copy * kPageBytes, &page, kPageBytes));
        for (size_t i = 0; i < bytes; ++i) page.bytes()[offset + i] ^= std::byte{0x5a};
        ASSERT_TRUE(disk_->write_now(file_, copy * kPageBytes, &page, kPageBytes));
    }
    Result<Superblock> read() { return read_superblock(*disk_, file_); }
    void write(Superblock& block) { ASSERT_TRUE(write_superblock(*disk_, file_, block)); }

    std::string directory_;
    std::unique_ptr<threads::Disk> disk_;
    threads::FileId file_{-1};
};

TEST_F(SuperblockFile, NewestCopyCounts) {  // SB-1
    Superblock block = example();
    for (uint64_t lsn = 5000; lsn < 5010; ++lsn) {
        block.checkpoint_lsn = lsn;
        write(block);
        auto got = read();
        ASSERT_TRUE(got);
        EXPECT_EQ(got->checkpoint_lsn, lsn);
        EXPECT_EQ(got->sequence, lsn - 4999);
    }
}

TEST_F(SuperblockFile, DamagedNewestFallsBackToTheOneBefore) {
    Superblock block = example();
    write(block);
    block.checkpoint_lsn = 9000;
    write(block);  // sequence 2: copy 0
    damage(0, 3000, 1);
    auto got = read();
    ASSERT_TRUE(got);
    EXPECT_EQ(got->checkpoint_lsn, 4096u);
    EXPECT_EQ(got->sequence, 1u);
    // The next write must not touch the copy that still counts.
    Superblock next = *got;
    next.checkpoint_lsn = 9999;
    write(next);
    damage(1, 40, 4);
    got = read();
    ASSERT_TRUE(got);
    EXPECT_EQ(got->checkpoint_lsn, 9999u);
}

TEST_F(SuperblockFile, EveryDamagedByteOfACopyIsNoticed) {
    Superblock block = example();
    write(block);
    for (uint64_t at = 0; at < kPageBytes; at += 37) {
        damage(1, at, 1);
        auto got = read();
        ASSERT_FALSE(got) << "byte " << at;
        EXPECT_EQ(got.error().code, ErrorCode::corrupt_superblock);
        damage(1, at, 1);  // back again
        ASSERT_TRUE(read());
    }
}

TEST_F(SuperblockFile, BothDamagedIsAnError) {
    Superblock block = example();
    write(block);
    write(block);
    damage(0, 100, 8);
    damage(1, 100, 8);
    auto got = read();
    ASSERT_FALSE(got);
    EXPECT_EQ(got.error().code, ErrorCode::corrupt_superblock);
}

TEST_F(SuperblockFile, EmptyFileIsAnError) {
    auto got = read();
    ASSERT_FALSE(got);
    EXPECT_EQ(got.error().code, ErrorCode::corrupt_superblock);
}

TEST_F(SuperblockFile, UnknownVersionIsNoGuess) {  // SB-2
    Superblock block = example();
    write(block);
    block.version = kFormatVersion + 1;
    write(block);
    auto got = read();
    ASSERT_FALSE(got);
    EXPECT_EQ(got.error().code, ErrorCode::bad_version);
    EXPECT_EQ(got.error().a, kFormatVersion + 1);
    block.version = kFormatVersion;
    block.page_bytes = 4096;
    write(block);
    got = read();
    ASSERT_FALSE(got);
    EXPECT_EQ(got.error().code, ErrorCode::bad_version);
}

TEST_F(SuperblockFile, CopyInTheWrongPlaceDoesNotCount) {
    Superblock block = example();
    write(block);  // copy 1
    Page page;
    ASSERT_TRUE(disk_->read_now(file_, kPageBytes, &page, kPageBytes));
    damage(1, 0, 8);
    ASSERT_TRUE(disk_->write_now(file_, 0, &page, kPageBytes));  // misdirected
    EXPECT_FALSE(read());
}

}  // namespace lockstep::sm::superblock_test
