// labels: sim
// backup_crash_test.cc - power cuts at the I/O events of a backup, of a restore and of an update,
// during random transactions on the simulated disk.
//
// Concepts   At an event the disk gives an image of what a power cut would leave. In that image the
//            source must recover to a prefix of the commits with all that were acknowledged. The
//            backup must be refused as incomplete, or be complete and hold exactly the commits up
//            to its point.
// LOCKSTEP_SEED: first seed. LOCKSTEP_CRASH_SEEDS: number of seeds.
#include "sm/backup/backup_manifest.h"
#include "sm/backup/restore.h"
#include "sm/backup/update_backup.h"
#include "tests/code_of.h"
#include "tests/seed_of_run.h"
#include "tests/sim_store.h"
#include "tests/sm/index_content.h"
#include "tests/sm/test_util.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <vector>

namespace lockstep::backup_crash_test {

using Content = std::map<std::string, std::string>;
using threads::SimCrash;
using threads::SimDisk;
using threads::SimEvent;

constexpr const char* kBackup = "/backup";
constexpr const char* kNext = "/next";  // incremental
constexpr const char* kRestored = "/restored";

struct Commit {
    Content puts;
    Lsn point{};  // known once commit() has returned
};

struct Image {
    std::unique_ptr<SimDisk> disk;
    uint64_t event;
    Lsn acknowledged;  // of the newest commit that had returned
    bool backup_returned;
};

class BackupCrash {
public:
    explicit BackupCrash(uint64_t seed) : seed_(seed), rng_(seed), disk_({.seed = seed}) {}

    void run() {
        SimStore store(disk_, seed_, 1 + static_cast<uint32_t>(rng_.below(2)));
        store.options().checkpoint_log_bytes = 1 << 20;
        ASSERT_OK(store.open());
        store.on_thread([&] {
            ASSERT_OK(store->run([&](Txn& txn) -> Result<void> {
                TRY(store->create_index(txn, "i"));
                return {};
            }));
            for (int i = 0; i < 20; ++i) transaction(*store, rng_);
            ASSERT_OK(store->checkpoint());
        });
        disk_.observe([this](const SimEvent& event) { maybe_take_image(event); });
        running_ = 3;
        std::vector<Handle<void>> handles;
        for (uint64_t n = 0; n < 2; ++n)
            handles.push_back(store->start([&, n]() -> Result<void> {
                Rng own = Rng(seed_).fork(10 + n);
                for (int i = 0; i < 30 || !next_; ++i) {
                    transaction(*store, own);
                    if (own.chance(0.05)) {
                        EXPECT_TRUE(store->checkpoint());
                    }
                    if (::testing::Test::HasFailure()) break;
                }
                --running_;
                return {};
            }));
        handles.push_back(store->start([&]() -> Result<void> {
            auto info = store->backup(kBackup);
            EXPECT_TRUE(info) << info.error().text();
            if (info) info_ = *info;
            for (int i = 0; i < 5; ++i) transaction(*store, rng_);
            if (rng_.chance(0.5)) {
                EXPECT_TRUE(store->checkpoint());
            }
            BackupOptions how;
            how.since = &*info_;
            auto next = store->backup(kNext, how);
            EXPECT_TRUE(next) << next.error().text();
            if (next) next_ = *next;
            --running_;
            return {};
        }));
        ASSERT_TRUE(store.step_until([&] { return running_ == 0; })) << "hangs";
        disk_.observe(nullptr);
        ASSERT_OK(store.close());
        ASSERT_TRUE(info_ && next_);
        for (Image& image : images_) {
            SCOPED_TRACE("event " + std::to_string(image.event));
            check_image(image);
        }
        check_backup_of(disk_, true);
        check_restores();
        check_updates();
        EXPECT_EQ(store.errors(), "");
    }
    size_t incomplete() const { return incomplete_; }
    size_t complete() const { return complete_; }
    size_t next_cut_off() const { return next_cut_off_; }
    size_t next_whole() const { return next_whole_; }
    size_t updates_cut_off() const { return updates_cut_off_; }
    size_t updates_whole() const { return updates_whole_; }

private:
    void transaction(Store& store, Rng& rng) {
        auto begun = store.begin({.durability = Durability::durable});
        ASSERT_OK(begun);
        Txn txn = std::move(*begun);
        const auto index = store.index("i");
        ASSERT_OK(index);
        Commit commit;
        const uint64_t changes = 1 + rng.below(4);
        for (uint64_t i = 0; i < changes; ++i) {
            const std::string key = "key" + std::to_string(rng.below(200));
            const std::string value = random_text(rng, 1 + rng.below(700));
            const auto put = index->put(txn, key, value);
            if (!put) {  // a deadlock
                EXPECT_TRUE(txn.abort());
                return;
            }
            commit.puts[key] = value;
        }
        if (rng.chance(0.1)) {
            EXPECT_TRUE(txn.abort());
            return;
        }
        const size_t number = commits_.size();
        commits_.push_back(std::move(commit));
        const auto point = txn.commit();
        ASSERT_OK(point);
        commits_[number].point = *point;
        acknowledged_ = std::max(acknowledged_, *point);
    }

    void maybe_take_image(const SimEvent& event) {
        // The last steps are few, and they decide.
        const bool manifest = event.path.ends_with("/backup") || event.path == kBackup;
        const bool target = event.path.starts_with(kBackup) || event.path.starts_with(kNext);
        if (!rng_.chance(manifest ? 1.0 : target ? 0.15 : 0.01)) return;
        const SimCrash mode = threads::kSimCrashes[rng_.below(std::size(threads::kSimCrashes))];
        images_.push_back(
            {disk_.image(rng_.next(), mode), event.number, acknowledged_, info_.has_value()});
    }

    // True if `seen` is the state after a prefix of the commit records that holds all those up to
    // `least`. With STEPS on, the calls of commit() need not come in the order of the records.
    bool is_prefix(const Content& seen, Lsn least) const {
        std::vector<const Commit*> ordered;
        for (const Commit& commit : commits_) ordered.push_back(&commit);
        std::ranges::stable_sort(ordered, {}, [](const Commit* c) { return c->point.value; });
        Content state;
        for (size_t n = 0; n <= ordered.size(); ++n) {
            const bool all = n == ordered.size() || ordered[n]->point > least;
            if (all && state == seen) return true;
            if (n == ordered.size()) break;
            for (const auto& [key, value] : ordered[n]->puts) state[key] = value;
        }
        return false;
    }
    Content state_at(Lsn point) const {
        Content state;
        for (const Commit& commit : commits_)
            if (commit.point <= point)
                for (const auto& [key, value] : commit.puts) state[key] = value;
        return state;
    }

    void check_image(Image& image) {
        SimStore source(*image.disk, seed_ + 1);
        ASSERT_OK(source.open());
        Content seen;
        source.on_thread([&] { seen = index_content(*source, "i"); });
        EXPECT_TRUE(is_prefix(seen, image.acknowledged));
        ASSERT_OK(source.close());
        check_backup_of(*image.disk, image.backup_returned);
    }

    // Opens the backup as a store, if it says that it is complete.
    void check_backup_of(SimDisk& disk, bool must_be_complete) {
        // Nothing had reached the disk yet, so there is nothing to take for a store.
        if (!disk.exists(std::string(kBackup) + "/backup")) {
            EXPECT_FALSE(must_be_complete);
            EXPECT_FALSE(disk.exists(std::string(kBackup) + "/data"));
            return;
        }
        const auto manifest = sm::read_manifest(disk, kBackup);
        if (!manifest) {
            EXPECT_EQ(manifest.error().code, ErrorCode::bad_backup) << manifest.error().text();
            EXPECT_FALSE(must_be_complete);
            const auto opened = open_at(disk, kBackup);
            EXPECT_FALSE(opened);
            const std::string from[] = {kBackup};
            EXPECT_EQ(code_of(sm::restore_on(disk, from, kRestored)), ErrorCode::bad_backup);
            ++incomplete_;
            return;
        }
        ++complete_;
        check_incremental_of(disk);
        const std::string to[] = {kBackup};
        const auto restored = sm::restore_on(disk, to, kRestored);
        ASSERT_OK(restored);
        expect_state_of_backup(disk, kRestored, *restored);
    }
    // The same of the incremental backup.
    void check_incremental_of(SimDisk& disk) {
        if (!disk.exists(std::string(kNext) + "/backup")) return;
        const bool whole = sm::read_manifest(disk, kNext).has_value();
        const std::string chain[] = {kBackup, kNext}, both = "/both";
        const auto restored = sm::restore_on(disk, chain, both);
        EXPECT_EQ(restored.has_value(), whole);
        ++(whole ? next_whole_ : next_cut_off_);
        if (restored) expect_state_of_backup(disk, both.c_str(), *restored);
        else EXPECT_EQ(restored.error().code, ErrorCode::bad_backup) << restored.error().text();
    }
    void expect_state_of_backup(SimDisk& disk, const char* directory, const BackupInfo& info) {
        const auto seen = open_at(disk, directory);
        ASSERT_OK(seen);
        EXPECT_EQ(*seen, state_at(info.lsn)) << info.lsn.value;
    }
    // The content of the store in `directory`.
    Result<Content> open_at(SimDisk& disk, const char* directory) {
        SimStore store(disk, seed_ + 2);
        TRY(store.open(directory));
        Content content;
        store.on_thread([&] {
            content = index_content(*store, "i");
            const auto faults = store->verify();
            EXPECT_TRUE(faults && faults->empty());
        });
        TRY(store.close());
        return content;
    }

    // Power cuts during a restore; then it is started again.
    void check_restores() {
        std::vector<std::unique_ptr<SimDisk>> cut;
        const std::string from[] = {kBackup};
        const std::string to = "/again";
        disk_.observe([&](const SimEvent& event) {
            if (!event.path.starts_with(to) || !rng_.chance(0.3)) return;
            const SimCrash mode = threads::kSimCrashes[rng_.below(std::size(threads::kSimCrashes))];
            cut.push_back(disk_.image(rng_.next(), mode));
        });
        ASSERT_OK(sm::restore_on(disk_, from, to));
        disk_.observe(nullptr);
        for (auto& disk : cut) {
            const auto before = sm::read_manifest(*disk, to);
            if (!before) {
                EXPECT_EQ(before.error().code, ErrorCode::bad_backup);
                ASSERT_OK(sm::restore_on(*disk, from, to));
            }
            expect_state_of_backup(*disk, to.c_str(), *info_);
        }
    }

    // Power cuts during an update of the backup; then it is repeated.
    void check_updates() {
        std::vector<std::unique_ptr<SimDisk>> cut;
        disk_.observe([&](const SimEvent& event) {
            if (!event.path.starts_with(std::string(kBackup) + "/") || !rng_.chance(0.5)) return;
            const SimCrash mode = threads::kSimCrashes[rng_.below(std::size(threads::kSimCrashes))];
            cut.push_back(disk_.image(rng_.next(), mode));
        });
        ASSERT_OK(sm::update_on(disk_, kBackup, kNext));
        disk_.observe(nullptr);
        cut.push_back(disk_.image(1, SimCrash::drop_unsynced));
        for (auto& disk : cut) {
            const auto before = sm::read_manifest(*disk, kBackup);
            ++(before ? updates_whole_ : updates_cut_off_);
            if (!before) {
                EXPECT_EQ(before.error().code, ErrorCode::bad_backup);
                EXPECT_FALSE(open_at(*disk, kBackup));
            } else {
                const std::string from[] = {kBackup};
                ASSERT_OK(sm::restore_on(*disk, from, "/whole"));
                expect_state_of_backup(*disk, "/whole", before->info());
            }
            const auto updated = sm::update_on(*disk, kBackup, kNext);
            ASSERT_OK(updated);
            EXPECT_EQ(updated->lsn, next_->lsn);
            expect_state_of_backup(*disk, kBackup, *next_);
        }
    }

    const uint64_t seed_;
    Rng rng_;
    SimDisk disk_;
    std::vector<Commit> commits_;  // in the order of commit()
    Lsn acknowledged_{};           // of the newest commit that has returned
    int running_ = 0;
    std::optional<BackupInfo> info_, next_;
    std::vector<Image> images_;
    size_t incomplete_ = 0, complete_ = 0, next_cut_off_ = 0, next_whole_ = 0;
    size_t updates_cut_off_ = 0, updates_whole_ = 0;
};

TEST(BackupCrash, LeavesTheSourceAndIsCompleteOrRefused) {
    size_t incomplete = 0, complete = 0, next_cut_off = 0, next_whole = 0, updates_cut_off = 0,
           updates_whole = 0;
    const uint64_t first = seed_of_run(), seeds = number_from("LOCKSTEP_CRASH_SEEDS", 25);
    for (uint64_t seed = first; seed < first + seeds; ++seed) {
        SCOPED_TRACE("LOCKSTEP_SEED=" + std::to_string(seed));
        BackupCrash run(seed);
        run.run();
        incomplete += run.incomplete();
        complete += run.complete();
        next_cut_off += run.next_cut_off();
        next_whole += run.next_whole();
        updates_cut_off += run.updates_cut_off();
        updates_whole += run.updates_whole();
        if (::testing::Test::HasFailure()) return;
    }
    EXPECT_GT(incomplete, 10u);
    EXPECT_GT(complete, 2u);
    EXPECT_GT(next_cut_off, 10u);
    EXPECT_GT(next_whole, 10u);
    EXPECT_GT(updates_cut_off, 4 * seeds);
    EXPECT_GT(updates_whole, seeds);
}

}  // namespace lockstep::backup_crash_test
