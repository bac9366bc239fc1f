// labels: sim
// moved_directory_sim_test.cc - at random moments another store takes the name of an open one, and
// the process changes its directory. A crash then loses nothing, and the other store is untouched.
#include <gtest/gtest.h>

#include "tests/seed_of_run.h"
#include "tests/sim_store.h"
#include "threads/base/rng.h"
#include "threads/io/disk_file.h"
#include "threads/io/sim_content.h"

namespace lockstep::moved_directory_sim_test {

using threads::SimCrash;
using threads::SimDisk;

Result<void> put(Store& store, const std::string& key) {
    return store.run([&](Txn& txn) -> Result<void> {
        const Index rows = TRY(store.open_or_create_index(txn, "rows"));
        return rows.put(txn, key, std::string(20'000, 'v'));
    });
}

uint64_t digest_of(SimDisk& disk, const std::string& directory) {
    uint64_t digest = 0;
    const std::vector<std::string> names = *disk.list(directory);
    for (const std::string& name : names) {
        const threads::DiskFile file(disk, *disk.open(directory + "/" + name, 0));
        std::string bytes(*disk.size(file.id()), '\0');
        EXPECT_EQ(*disk.read_now(file.id(), 0, bytes.data(), bytes.size()), bytes.size());
        digest = threads::sim_hash(digest, name.data(), name.size());
        digest = threads::sim_hash(digest, bytes.data(), bytes.size());
    }
    return digest;
}

class MovedOnSimDisk {
public:
    explicit MovedOnSimDisk(uint64_t seed) : rng_(seed), disk_({.seed = seed}) {}
    void run();

private:
    void make_both();
    void swap();
    void recover(SimDisk& disk);

    Rng rng_;
    SimDisk disk_;
    std::string own_ = "/a/db", other_ = "/b/db";
    int acknowledged_ = 0;
};

void MovedOnSimDisk::make_both() {
    for (const char* at : {"/a/db", "/b/db"}) {
        ASSERT_TRUE(disk_.make_directory(at));
        SimStore made(disk_);
        ASSERT_TRUE(made.open(at));
        made.on_thread([&] { EXPECT_TRUE(put(*made, "first")); });
        ASSERT_TRUE(made.close());
    }
}

// The stores change names, and the process its directory.
void MovedOnSimDisk::swap() {
    disk_.move_directory(own_, "/between");
    disk_.move_directory(other_, own_);
    disk_.move_directory("/between", other_);
    std::swap(own_, other_);
    disk_.change_directory(rng_.below(2) == 0 ? "/a" : "/b");
}

void MovedOnSimDisk::run() {
    make_both();
    const uint64_t before = digest_of(disk_, other_);
    disk_.change_directory("/a");
    SimStore store(disk_, rng_.next());
    store.options().log_bytes = 4 << 20;
    ASSERT_TRUE(store.open("db"));
    store.after_step([&] {
        if (rng_.below(200) == 0) swap();
    });
    const auto crash_at = static_cast<int>(rng_.below(400));
    store.on_thread([&] {
        for (; acknowledged_ < crash_at; ++acknowledged_) {
            const auto done = put(*store, std::to_string(acknowledged_ % 50));
            ASSERT_TRUE(done) << done.error().text();
        }
    });
    if (rng_.below(2) == 0) {
        store.abandon();
        disk_.close_all();
        const auto image = disk_.image(rng_.next(), SimCrash::drop_unsynced);
        recover(*image);
    } else {
        EXPECT_TRUE(store.close());
        recover(disk_);
    }
    EXPECT_TRUE(digest_of(disk_, other_) == before) << "the other store was changed";
}

void MovedOnSimDisk::recover(SimDisk& disk) {
    SimStore again(disk);
    const auto opened = again.open(own_);
    ASSERT_TRUE(opened) << opened.error().text();
    again.on_thread([&] {
        for (int n = 0; n < std::min(acknowledged_, 50); ++n) {
            const auto found = again->run([&](Txn& txn) -> Result<void> {
                const Index rows = TRY(again->index("rows"));
                std::string value;
                EXPECT_TRUE(TRY(rows.get(txn, std::to_string(n), value))) << n;
                return {};
            });
            EXPECT_TRUE(found) << found.error().text();
        }
    });
    const auto faults = again->verify();
    ASSERT_TRUE(faults) << faults.error().text();
    EXPECT_TRUE(faults->empty()) << faults->front();
    EXPECT_TRUE(again.close());
}

TEST(MovedDirectorySim, NothingIsLostAndNothingElseIsTouched) {
    const uint64_t first = seed_of_run();
    for (uint64_t seed = first; seed < first + 20 && !::testing::Test::HasFailure(); ++seed) {
        SCOPED_TRACE("seed " + std::to_string(seed));
        MovedOnSimDisk(seed).run();
    }
}

}  // namespace lockstep::moved_directory_sim_test
