// labels: unit
// sim_disk_move_test.cc - open files and directories of the simulated disk stay what they are when
// directories move, and so do their unsynced changes.
#include <gtest/gtest.h>

#include "threads/io/directory.h"
#include "threads/io/disk_file.h"
#include "threads/io/sim_disk.h"

namespace lockstep::threads::sim_disk_move_test {

using Names = std::vector<std::string>;

TEST(SimDiskMove, OpenDirectoryFollows) {
    SimDisk disk;
    for (const char* made : {"/a", "/b", "/a/db", "/b/db"}) ASSERT_TRUE(disk.make_directory(made));
    disk.change_directory("/a");
    const Directory own = *Directory::open(disk, "db");
    const FileId file = *disk.open(own / "x", Disk::kCreate);
    disk.move_directory("/a/db", "/a/old");
    disk.move_directory("/b/db", "/a/db");
    disk.change_directory("/b");
    ASSERT_TRUE(disk.write_now(file, 0, "one", 3));
    ASSERT_TRUE(disk.rename(own / "x", own / "y"));
    disk.close(*disk.open(own / "z", Disk::kCreate));
    EXPECT_EQ(own.path(), "/a/old");
    EXPECT_EQ(*disk.list("/a/old"), (Names{"y", "z"}));
    EXPECT_EQ(*disk.list(own.here()), (Names{"y", "z"}));
    EXPECT_EQ(*disk.list("/a/db"), Names{});
    ASSERT_TRUE(disk.unlink(own / "z"));
    EXPECT_FALSE(disk.exists("/a/old/z"));
    EXPECT_FALSE(Directory::open(disk, "db"));  // of /b, from where it has gone
    EXPECT_EQ(*disk.size(file), 3u);
    disk.close(file);
}

TEST(SimDiskMove, CrashKeepsWhatWasSynced) {
    SimDisk disk;
    ASSERT_TRUE(disk.make_directory("/db"));
    const Directory own = *Directory::open(disk, "/db");
    const DiskFile kept(disk, *disk.open(own / "kept", Disk::kCreate));
    ASSERT_TRUE(disk.write_now(kept.id(), 0, "one", 3) && disk.sync_now(kept.id()));
    disk.move_directory("/db", "/moved");
    ASSERT_TRUE(disk.sync_directory(own.here()));
    const DiskFile lost(disk, *disk.open(own / "lost", Disk::kCreate));
    disk.move_directory("/moved", "/last");
    const auto image = disk.image(1, SimCrash::drop_unsynced);
    EXPECT_EQ(*image->list("/last"), Names{"kept"});
    EXPECT_FALSE(image->exists("/db") || image->exists("/moved"));
    const auto all = disk.image(1, SimCrash::keep_all);
    EXPECT_EQ(*all->list("/last"), (Names{"kept", "lost"}));
}

}  // namespace lockstep::threads::sim_disk_move_test
