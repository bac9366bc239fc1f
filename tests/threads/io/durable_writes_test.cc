// labels: unit
// durable_writes_test.cc - the decision whether a sync must follow a durable write.
#include "threads/io/durable_writes.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <linux/magic.h>
#include <unistd.h>

#include "tests/threads/io/io_test_util.h"

namespace lockstep::threads::durable_writes_test {

TEST(DurableWrites, KnownFileSystemsHonourThem) {
    for (const uint64_t magic : {0xEF53u, 0x58465342u, 0x9123683Eu, 0xF2F52010u, 0x01021994u})
        EXPECT_TRUE(honours_durable_writes(magic)) << std::hex << magic;
}

TEST(DurableWrites, AllOthersNeedASync) {
    constexpr uint64_t kFuse = 0x65735546;  // virtiofs has the same number
    for (const uint64_t magic : {kFuse, uint64_t{OVERLAYFS_SUPER_MAGIC}, uint64_t{NFS_SUPER_MAGIC},
                                 uint64_t{V9FS_MAGIC}, uint64_t{0}, uint64_t{0x2FC12FC1}})
        EXPECT_FALSE(honours_durable_writes(magic)) << std::hex << magic;
}

TEST(DurableWrites, AFileThatCannotBeAskedNeedsASync) { EXPECT_TRUE(durable_writes_need_sync(-1)); }

// The disk asks for each file that it opens.
TEST(DurableWrites, DiskSaysWhatItsQueuesDo) {
    Rig rig(RigKind::pool);
    EXPECT_FALSE(rig.disk->syncs_after_write());
    const FileId file = rig.open("f");
    EXPECT_EQ(rig.disk->syncs_after_write(), durable_writes_need_sync(file.value));
    rig.disk->close(file);
}

}  // namespace lockstep::threads::durable_writes_test
