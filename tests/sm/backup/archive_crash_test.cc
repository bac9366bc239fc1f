// labels: sim
// archive_crash_test.cc - power cuts while the log is archived and while a restore takes it back;
// archives that lose writes.
//
// Concepts   In an image of the disk after a power cut, the archive must have whole pieces without
//            a gap, and a restore to any point of it must equal the model. The store goes on in
//            the image and archives the rest: then nothing that was acknowledged is missing.
// LOCKSTEP_SEED: first seed. LOCKSTEP_CRASH_SEEDS: number of seeds. LOCKSTEP_RESTORE_POINTS: random
// points of each image. By default about 5,000 with STEPS off, and as many with STEPS on; 700 seeds
// have 300,000 each.
#include "sm/backup/archiver.h"
#include "sm/backup/backup_manifest.h"
#include "tests/seed_of_run.h"
#include "tests/sm/backup/archive_test_util.h"
#include "threads/base/sanitized.h"

namespace lockstep::archive_crash_test {

using threads::SimCrash;
using threads::SimDisk;
using threads::SimEvent;
using threads::SimFault;

const uint64_t kPoints = number_from("LOCKSTEP_RESTORE_POINTS", kAddressSanitizer ? 2 : 16);

SimCrash any_crash(Rng& rng) {
    return threads::kSimCrashes[rng.below(std::size(threads::kSimCrashes))];
}

void lose_newest_superblock(SimDisk& disk, const std::string& path) {
    const auto file = disk.open(path, 0);
    ASSERT_OK(file);
    const auto newest = sm::read_superblock(disk, *file);
    ASSERT_OK(newest);
    const sm::Page nothing{};
    ASSERT_OK(disk.write_now(*file, newest->sequence % 2 * kPageBytes, &nothing, kPageBytes));
    disk.close(*file);
}

class ArchiveCrash {
public:
    explicit ArchiveCrash(uint64_t seed) : seed_(seed), rng_(seed), disk_({.seed = seed}) {}

    void run() {
        SimStore store(disk_, seed_, 1 + static_cast<uint32_t>(rng_.below(2)));
        archive_options(store.options());
        store.options().archive_interval = 100 * kMillisecond;  // many pieces
        ASSERT_OK(store.open());
        store.on_thread([&] {
            Commits::make_index(*store);
            commits_.many(*store, rng_, 10);
            ASSERT_OK(store->backup("/backup"));
        });
        disk_.observe([this](const SimEvent& event) { maybe_take_image(event); });
        store.on_thread([&] {
            for (int i = 0; i < 40; ++i) {
                commits_.many(*store, rng_, 1 + static_cast<int>(rng_.below(20)), 3000);
                acknowledged_ = commits_.newest();
                if (rng_.chance(0.3)) threads::sleep_until(threads::now() + 50 * kMillisecond);
            }
        });
        disk_.observe(nullptr);
        ASSERT_OK(store.close());
        for (Image& image : images_) check(image);
        check_restores();
    }
    size_t images() const { return images_.size(); }
    size_t points() const { return points_; }

private:
    struct Image {
        std::unique_ptr<SimDisk> disk;
        Lsn acknowledged;
    };
    void maybe_take_image(const SimEvent& event) {
        const bool archive = event.path.starts_with(kArchive);
        if (images_.size() > 30 || !rng_.chance(archive ? 0.25 : 0.006)) return;
        images_.push_back({disk_.image(rng_.next(), any_crash(rng_)), acknowledged_});
    }
    // To the end of what the archive has, and to random points of it.
    void check_points(SimDisk& disk) {
        const auto whole = restore_to(disk, "/backup", {});
        ASSERT_OK(whole);
        EXPECT_EQ(opened(disk, "/restored"), commits_.at(whole->lsn));
        const auto backup = sm::read_manifest(disk, "/backup");
        ASSERT_OK(backup);
        const uint64_t range = whole->lsn.value - backup->end + 1;
        for (uint64_t n = 0; n < kPoints && !::testing::Test::HasFailure(); ++n) {
            const Lsn until{backup->end + rng_.below(range)};
            const auto some = restore_to(disk, "/backup", {.until = until});
            ASSERT_OK(some);
            EXPECT_LE(some->lsn, until);
            EXPECT_EQ(opened(disk, "/restored", n == 0), commits_.at(some->lsn));
        }
        points_ += 1 + kPoints;
    }
    void check(Image& image) {
        check_points(*image.disk);
        SimStore store(*image.disk, seed_ + 1);
        archive_options(store.options());
        ASSERT_OK(store.open());
        EXPECT_EQ(store->stats().archive_gaps, 0u);
        Content content;
        store.on_thread([&] { content = content_of(*store); });
        ASSERT_OK(store.close());
        const auto whole = restore_to(*image.disk, "/backup", {});
        ASSERT_OK(whole);
        EXPECT_GE(whole->lsn, image.acknowledged);
        EXPECT_EQ(opened(*image.disk, "/restored"), content);
        ++points_;
    }
    // Power cuts during a restore; then it is started again.
    void check_restores() {
        std::vector<std::unique_ptr<SimDisk>> cut;
        disk_.observe([&](const SimEvent& event) {
            if (event.path.starts_with("/restored") && cut.size() < 6 && rng_.chance(0.1))
                cut.push_back(disk_.image(rng_.next(), any_crash(rng_)));
        });
        const std::string from[] = {"/backup"};
        RestoreOptions options;
        options.archive = kArchive;
        options.until = commits_.all()[commits_.all().size() / 2].point;
        ASSERT_OK(sm::restore_on(disk_, from, "/restored", options));
        disk_.observe(nullptr);
        for (auto& disk : cut) {
            if (!sm::read_manifest(*disk, "/restored")) {
                ASSERT_OK(sm::restore_on(*disk, from, "/restored", options));
            }
            EXPECT_EQ(opened(*disk, "/restored"), commits_.at(*options.until));
            ++points_;
        }
    }

    const uint64_t seed_;
    Rng rng_;
    SimDisk disk_;
    Commits commits_;
    Lsn acknowledged_{};
    std::vector<Image> images_;
    size_t points_ = 0;
};

TEST(ArchiveCrash, EachRestoredStateEqualsTheModel) {
    size_t images = 0, points = 0;
    const uint64_t first = seed_of_run(),
                   seeds = number_from("LOCKSTEP_CRASH_SEEDS", kAddressSanitizer ? 6 : 12);
    for (uint64_t seed = first; seed < first + seeds; ++seed) {
        SCOPED_TRACE("LOCKSTEP_SEED=" + std::to_string(seed));
        ArchiveCrash run(seed);
        run.run();
        images += run.images();
        points += run.points();
        if (::testing::Test::HasFailure()) return;
    }
    std::printf("%zu power cuts, %zu restored states\n", images, points);
    EXPECT_GT(images, 5 * seeds);
    EXPECT_GT(points, 10 * kPoints * seeds);
}

// RC-5: power cuts while a restored store is opened for the first time, with transactions to roll
// back that have changed many pages.
TEST(ArchiveCrash, TheFirstOpenOfARestoredStoreMayBeCutOff) {
    size_t cuts = 0, refused = 0;
    const uint64_t first = seed_of_run();
    for (uint64_t seed = first; seed < first + 6 && !::testing::Test::HasFailure(); ++seed) {
        SCOPED_TRACE("LOCKSTEP_SEED=" + std::to_string(seed));
        SimDisk disk({.seed = seed});
        SimStore store(disk, seed);
        archive_options(store.options());
        ASSERT_OK(store.open());
        Rng rng(seed);
        Commits commits;
        store.on_thread([&] {
            Commits::make_index(*store);
            commits.many(*store, rng, 20);
            ASSERT_OK(store->backup("/backup"));
            auto loser = store->begin();
            ASSERT_OK(loser);
            const auto index = store->index("i");
            ASSERT_OK(index);
            for (int i = 0; i < 60; ++i) {
                const std::string key = "loser" + std::to_string(i);
                ASSERT_OK(index->put(*loser, key, random_text(rng, 2000)));
                if (i % 8 == 0) commits.many(*store, rng, 1);
            }
            commits.many(*store, rng, 3);
            ASSERT_OK(loser->abort());
        });
        const Lsn until = commits.newest();
        ASSERT_OK(store.close());
        ASSERT_OK(restore_to(disk, "/backup", {.until = until}));
        std::vector<std::unique_ptr<SimDisk>> images, damaged;
        disk.observe([&](const SimEvent& event) {
            if (!event.path.starts_with("/restored")) return;
            images.push_back(disk.image(rng.next(), any_crash(rng)));
            damaged.push_back(disk.image(rng.next(), threads::SimCrash::keep_all));
        });
        SimStore again(disk, seed + 1);
        again.options().log_bytes = 8 << 20;
        ASSERT_OK(again.open("/restored"));
        again.on_thread([&] { ASSERT_OK(again->checkpoint()); });
        disk.observe(nullptr);
        ASSERT_OK(again.close());
        for (auto& image : images) {
            EXPECT_EQ(opened(*image, "/restored"), commits.at(until));
            if (::testing::Test::HasFailure()) break;
            ++cuts;
        }
        // Without the newest superblock, the one before leads to the same state, or to an error.
        for (auto& image : damaged) {
            lose_newest_superblock(*image, "/restored/data");
            SimStore other(*image, seed + 2);
            other.options().log_bytes = 8 << 20;
            const auto open = other.open("/restored");
            refused += !open;
            if (!open) {
                EXPECT_EQ(open.error().code, ErrorCode::corrupt_superblock) << text_of(open);
                continue;
            }
            Content content;
            other.on_thread([&] { content = content_of(*other); });
            EXPECT_EQ(content, commits.at(until));
            ASSERT_OK(other.close());
            if (::testing::Test::HasFailure()) break;
        }
    }
    EXPECT_GT(cuts, 60u) << "too few to judge";
    EXPECT_GT(refused, 0u);
}

// AR-5: power cuts as soon as a piece has its name. The last records below the durable end may be
// the begin of a record that the restart does not find.
TEST(ArchiveCrash, ARestartFindsTheLogThatAPieceHas) {
    size_t cuts = 0;
    for (uint64_t seed = 1; seed <= 8 && !::testing::Test::HasFailure(); ++seed) {
        SCOPED_TRACE(seed);
        SimDisk disk({.seed = seed});
        SimStore store(disk, seed);
        archive_options(store.options());
        store.options().archive_interval = 100 * kMillisecond;
        ASSERT_OK(store.open());
        Rng rng(seed);
        store.on_thread([&] {
            Commits::make_index(*store);
            ASSERT_OK(store->backup("/backup"));
        });
        // Lazily: the log becomes durable in pieces that end in the middle of records.
        const auto put = [&](Store& to) {
            return to.run(
                [&](Txn& txn) -> Result<void> {
                    const Index index = TRY(to.index("i"));
                    const std::string key = "key" + std::to_string(rng.below(20));
                    return index.put(txn, key, random_text(rng, 1 + rng.below(60'000)));
                },
                {.durability = Durability::lazy});
        };
        std::vector<std::unique_ptr<SimDisk>> images;
        disk.observe([&](const SimEvent& event) {
            if (event.path.starts_with(kArchive) && event.path.ends_with(".log"))
                images.push_back(disk.image(seed, images.size() % 2 == 0
                                                      ? threads::SimCrash::keep_all
                                                      : threads::SimCrash::drop_unsynced));
        });
        store.on_thread([&] {
            for (int i = 0; i < 200; ++i) {
                ASSERT_OK(put(*store));
                threads::sleep_until(threads::now() + rng.below(8) * kMillisecond);
            }
        });
        disk.observe(nullptr);
        ASSERT_OK(store.close());
        for (auto& image : images) {
            SimStore again(*image, seed + 1);
            archive_options(again.options());
            ASSERT_OK(again.open());
            Content content;
            again.on_thread([&] {
                ASSERT_OK(put(*again));
                content = content_of(*again);
            });
            ASSERT_OK(again.close());
            ASSERT_OK(restore_to(*image, "/backup", {}));
            EXPECT_EQ(opened(*image, "/restored"), content);
            ++cuts;
        }
    }
    EXPECT_GT(cuts, 20u) << "too few to judge";
}

// A creation that was cut off is made again, and the new store has another number. The archive must
// not know the first one.
TEST(ArchiveCrash, AStoreMayBeMadeAgain) {
    SimDisk disk({.seed = 1});
    SimStore store(disk);
    archive_options(store.options());
    std::vector<std::unique_ptr<SimDisk>> images;
    disk.observe([&](const SimEvent&) {
        for (const SimCrash mode : {SimCrash::keep_all, SimCrash::drop_unsynced})
            images.push_back(disk.image(images.size(), mode));
    });
    ASSERT_OK(store.open());
    disk.observe(nullptr);
    ASSERT_OK(store.close());
    size_t begun = 0;
    for (const auto& image : images) {
        begun += image->exists("/store/creating");
        SimStore again(*image);
        again.clock().advance(kSecond);  // the number comes from the clock
        archive_options(again.options());
        const auto opened = again.open();
        EXPECT_TRUE(opened) << opened.error().text();
        if (opened) {
            ASSERT_OK(again.close());
        }
    }
    EXPECT_GT(begun, 20u) << "too few to judge";
}

// A write that the archive's device acknowledges and loses, or puts elsewhere: the restore names a
// file, or it gives the right state.
TEST(ArchiveFault, NoRestoreIsWrong) {
    size_t refused = 0;
    for (const SimFault fault : {SimFault::lost_write, SimFault::misdirected_write}) {
        for (uint64_t n = 1; n <= 24 && !::testing::Test::HasFailure(); ++n) {
            SCOPED_TRACE(std::string(threads::sim_fault_name(fault)) + " " + std::to_string(n));
            SimDisk disk({.seed = n});
            SimStore store(disk, n);
            archive_options(store.options());
            store.options().archive_interval = 100 * kMillisecond;
            ASSERT_OK(store.open());
            Rng rng(n);
            Commits commits;
            disk.faults().only_paths_with(fault, kArchive);
            disk.faults().fail_nth(fault, n);
            store.on_thread([&] {
                Commits::make_index(*store);
                ASSERT_OK(store->backup("/backup"));
                for (int i = 0; i < 20; ++i) {
                    commits.many(*store, rng, 20, 3000);
                    threads::sleep_until(threads::now() + 120 * kMillisecond);
                }
            });
            ASSERT_OK(store.close());
            const bool struck = disk.faults().count(fault) > 0;
            const auto done = restore_to(disk, "/backup", {});
            if (done) {
                EXPECT_EQ(opened(disk, "/restored"), commits.at(done->lsn));
                continue;
            }
            EXPECT_EQ(done.error().code, ErrorCode::bad_archive) << done.error().text();
            EXPECT_TRUE(struck);
            ++refused;
        }
    }
    EXPECT_GT(refused, 10u);
}

}  // namespace lockstep::archive_crash_test
