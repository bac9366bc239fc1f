// labels: sim
// crash_recovery_test.cc - power cuts at I/O events of seeded runs, also during
// recovery: what was acknowledged is there, the rest is all or nothing.
//
// LOCKSTEP_SEED: first seed. LOCKSTEP_CRASH_SEEDS: number of seeds.
#include "sm/api/engine_of.h"
#include "tests/sim/crash_harness.h"

namespace lockstep::sim::crash_recovery_test {

using threads::SimCrash;
using threads::SimDisk;
using threads::SimEvent;

// One seed: a run, its images, their recoveries.
class CrashRun {
public:
    CrashRun(uint64_t seed, double image_odds, int transactions)
        : seed_(seed),
          crash_(Rng(seed).fork(2)),
          disk_({.seed = seed}),
          image_odds_(image_odds),
          transactions_(transactions) {}

    void run() {
        Rng configuration = Rng(seed_).fork(3);
        SimStore store(disk_, seed_, 1 + static_cast<uint32_t>(configuration.below(2)));
        store.options().checkpoint_log_bytes = configuration.chance(0.5) ? 1 << 20 : 8 << 20;
        value_max_ = configuration.chance(0.3) || large_values_ ? 3500 : 200;
        keys_ = 20 + configuration.below(300);
        checkpoint_odds_ = configuration.chance(0.5) ? 0.03 : 0.15;
        disk_.observe([this](const SimEvent& event) { maybe_take_image(event); });
        ASSERT_TRUE(check(store.open(), "open"));
        store.on_thread([&] {
            auto made = store->run([&](Txn& txn) -> Result<void> {
                TRY(store->create_index(txn, "i"));
                TRY(store->create_heap(txn, "h"));
                return {};
            });
            check(made, "create");
            oracle_.made = true;
        });
        const int threads = 3;
        running_ = threads;
        std::vector<Handle<void>> handles;
        for (int n = 0; n < threads; ++n)
            handles.push_back(store->start([&, n]() -> Result<void> {
                transactions(*store, Rng(seed_).fork(10 + static_cast<uint64_t>(n)), transactions_);
                --running_;
                return {};
            }));
        const auto ended = [&] {
            recover_images();
            return running_ == 0 || ::testing::Test::HasFailure();
        };
        ASSERT_TRUE(store.step_until(ended)) << "hangs";
        // A failure: no more images, but an orderly end.
        if (running_ > 0) {
            disk_.observe(nullptr);
            ASSERT_TRUE(store.step_until([&] { return running_ == 0; })) << "hangs";
        }
        log_start_ = sm::engine_of(*store).log->start().value;
        ASSERT_TRUE(check(store.close(), "close"));
        disk_.observe(nullptr);
        recover_images();
        EXPECT_EQ(store.errors(), "");
    }
    void use_large_values() { large_values_ = true; }
    size_t recoveries() const { return recoveries_; }
    uint64_t log_start() const { return log_start_; }  // at the end of the run

private:
    bool check(const Result<void>& result, const char* what) {
        EXPECT_TRUE(result) << what << ": " << result.error().text();
        return result.has_value();
    }

    void maybe_take_image(const SimEvent& event) {
        // Page writes are few, and tearing them is what the page images are for.
        const bool page_write = event.io == threads::IoKind::write &&
                                event.kind != SimEvent::renamed && event.path.ends_with("data");
        if (!crash_.chance(page_write ? std::min(1.0, image_odds_ * 8) : image_odds_)) return;
        const SimCrash mode = threads::kSimCrashes[crash_.below(std::size(threads::kSimCrashes))];
        images_.push_back({disk_.image(crash_.next(), mode), event.number, mode,
                           oracle_.acknowledged, oracle_.commits.size(), oracle_.made});
    }

    // --- the workload
    void transactions(Store& store, Rng rng, int count) {
        for (int i = 0; i < count && !::testing::Test::HasFailure(); ++i) {
            if (rng.chance(checkpoint_odds_)) check(store.checkpoint(), "checkpoint");
            const bool durable = rng.chance(0.6);
            auto begun =
                store.begin({.durability = durable ? Durability::durable : Durability::lazy});
            ASSERT_TRUE(begun) << begun.error().text();
            Txn txn = std::move(*begun);
            Effects effects;
            Seen seen;
            auto done = operations(store, txn, effects, seen, rng);
            if (!done || rng.chance(0.2)) {
                if (!done) {
                    const ErrorCode code = done.error().code;
                    EXPECT_TRUE(code == ErrorCode::deadlock || code == ErrorCode::lock_timeout)
                        << done.error().text();
                }
                check(txn.abort(), "abort");
                continue;
            }
            oracle_.commits.push_back(std::move(effects));
            const size_t position = oracle_.commits.size();
            auto committed = txn.commit();
            ASSERT_TRUE(committed) << committed.error().text();
            if (durable)
                oracle_.acknowledged =
                    std::max(oracle_.acknowledged, seen.wrote ? position : newest_commit_of(seen));
        }
    }

    // What a transaction that changes nothing has learnt: that these are missing.
    struct Seen {
        bool wrote = false;
        std::vector<std::string> keys;
        std::vector<RecordId> records;
    };

    // How many commits there are up to the newest one that touched any of this: a durable reader
    // waits for that commit, and for no later one.
    size_t newest_commit_of(const Seen& seen) const {
        const auto touched = [&](const Effects& effects) {
            return std::ranges::any_of(seen.keys,
                                       [&](const auto& k) { return effects.keys.contains(k); }) ||
                   std::ranges::any_of(
                       seen.records, [&](const auto& id) { return effects.records.contains(id); });
        };
        for (size_t n = oracle_.commits.size() - 1; n > 0; --n)  // the last one is its own
            if (touched(oracle_.commits[n - 1])) return n;
        return 0;
    }

    Result<void> operations(Store& store, Txn& txn, Effects& effects, Seen& seen, Rng& rng) {
        const Index index = TRY(store.index("i"));
        const Heap heap = TRY(store.heap("h"));
        std::optional<std::pair<Savepoint, Effects>> point;
        for (uint64_t n = 1 + rng.below(10); n > 0; --n) {
            const std::string key = "key" + std::to_string(rng.below(keys_));
            const std::string value = random_text(rng, rng.below(value_max_));
            switch (rng.below(7)) {
                case 0:
                    if (TRY(index.erase(txn, key))) {
                        effects.keys[key] = std::nullopt;
                        seen.wrote = true;
                    } else {
                        seen.keys.push_back(key);
                    }
                    break;
                case 1:
                case 2:
                    TRY(index.put(txn, key, value));
                    effects.keys[key] = value;
                    seen.wrote = true;
                    break;
                case 3: {
                    const RecordId id = TRY(heap.insert(txn, value));
                    effects.records[id] = value;
                    ids_.push_back(id);
                    seen.wrote = true;
                    break;
                }
                case 4:
                case 5: {
                    if (ids_.empty()) break;
                    const RecordId id = ids_[rng.below(ids_.size())];
                    const bool erase = rng.chance(0.3);
                    if (TRY(erase ? heap.erase(txn, id) : heap.update(txn, id, value))) {
                        effects.records[id] = erase ? std::nullopt : std::optional(value);
                        seen.wrote = true;
                    } else {
                        seen.records.push_back(id);
                    }
                    break;
                }
                default:
                    if (!point || rng.chance(0.5)) {
                        point.emplace(TRY(txn.savepoint()), effects);
                    } else {
                        TRY(txn.rollback_to(point->first));
                        effects = point->second;
                    }
            }
        }
        return {};
    }

    // --- recovery
    void recover_images() {
        while (!images_.empty() && !::testing::Test::HasFailure()) {
            CrashImage image = std::move(images_.back());
            images_.pop_back();
            recover(image, 1);
        }
    }

    void recover(CrashImage& image, int depth) {
        SCOPED_TRACE("crash at event " + std::to_string(image.event) + ", mode " +
                     std::to_string(static_cast<int>(image.mode)) + ", depth " +
                     std::to_string(depth));
        ++recoveries_;
        std::unique_ptr<SimDisk> twin;
        if (depth == 1 && image.made && crash_.chance(0.2))
            twin = image.disk->image(crash_.next(), SimCrash::keep_all);
        std::vector<CrashImage> deeper;
        if (depth < 3)
            image.disk->observe([&](const SimEvent& event) {
                if (!crash_.chance(depth == 1 ? 0.01 : 0.02) || deeper.size() >= 2) return;
                const SimCrash mode =
                    threads::kSimCrashes[crash_.below(std::size(threads::kSimCrashes))];
                deeper.push_back({image.disk->image(crash_.next(), mode), event.number, mode,
                                  image.acknowledged, image.called, image.made});
            });
        const uint64_t digest = open_and_check(*image.disk, image);
        image.disk->observe(nullptr);
        if (twin && !::testing::Test::HasFailure()) {
            EXPECT_EQ(open_and_check(*twin, image), digest)
                << "RC-4: two recoveries of one image differ";
        }
        for (CrashImage& next : deeper)
            if (!::testing::Test::HasFailure()) recover(next, depth + 1);
    }

    // Of all pages but the superblocks, which count the recoveries.
    static uint64_t pages_digest(SimDisk& disk) {
        auto file = disk.open("/store/data", 0);
        EXPECT_TRUE(file);
        const uint64_t size = *disk.size(*file);
        std::string bytes(size, 0);
        EXPECT_TRUE(disk.read_now(*file, 0, bytes.data(), size));
        disk.close(*file);
        return std::hash<std::string_view>{}(std::string_view(bytes).substr(2 * kPageBytes));
    }

    // Opens and compares with the oracle; a digest of the pages as recovery left them.
    uint64_t open_and_check(SimDisk& disk, const CrashImage& image) {
        SimStore store(disk, 1, 1);
        auto opened = store.open();
        if (!opened) {
            // Before the store was complete nothing had been promised.
            EXPECT_FALSE(image.made) << "open: " << opened.error().text();
            return 0;
        }
        const uint64_t digest = pages_digest(disk);
        auto seen = read_all(store);
        EXPECT_TRUE(seen) << seen.error().text();
        if (seen) {
            EXPECT_TRUE(*seen || !image.made) << "index or heap are gone";
            if (*seen) {
                EXPECT_TRUE(oracle_.explains(**seen, image.acknowledged, image.called))
                    << (*seen)->keys.size() << " keys, " << (*seen)->records.size() << " records, "
                    << image.acknowledged << " acknowledged of " << image.called;
            }
        }
        auto faults = store->verify();
        EXPECT_TRUE(faults) << faults.error().text();
        if (faults)
            for (const auto& fault : *faults) ADD_FAILURE() << fault;
        check(store.close(), "close after recovery");
        EXPECT_EQ(store.errors(), "");
        return digest;
    }

    const uint64_t seed_;
    Rng crash_;
    SimDisk disk_;
    const double image_odds_;
    const int transactions_;  // of each thread
    uint64_t value_max_ = 200, keys_ = 100;
    double checkpoint_odds_ = 0;
    bool large_values_ = false;
    uint64_t log_start_ = 0;
    Oracle oracle_;
    // Ever inserted, also by those that were rolled back.
    std::vector<RecordId> ids_;
    std::vector<CrashImage> images_;
    int running_ = 0;
    size_t recoveries_ = 0;
};

TEST(CrashRecovery, PowerCutAtAnyEvent) {
    const uint64_t first = number_from("LOCKSTEP_SEED", 1),
                   seeds = number_from("LOCKSTEP_CRASH_SEEDS", 12);
    size_t recoveries = 0;
    for (uint64_t seed = first; seed < first + seeds && !HasFailure(); ++seed) {
        SCOPED_TRACE("LOCKSTEP_SEED=" + std::to_string(seed));
        CrashRun run(seed, 0.04, 25);
        run.run();
        recoveries += run.recoveries();
    }
    EXPECT_GT(recoveries, seeds);
    std::printf("%zu recoveries\n", recoveries);
}

// Long enough for the log to go through several segments: what lies below the checkpoint is gone,
// and cannot help.
TEST(CrashRecovery, PowerCutAfterTheLogWasRecycled) {
    const uint64_t first = number_from("LOCKSTEP_SEED", 1),
                   seeds = number_from("LOCKSTEP_CRASH_SEEDS", 12) / 4;
    for (uint64_t seed = first; seed < first + seeds && !HasFailure(); ++seed) {
        SCOPED_TRACE("LOCKSTEP_SEED=" + std::to_string(seed));
        CrashRun run(seed, 0.004, 200);
        run.use_large_values();
        run.run();
        EXPECT_GT(run.log_start(), 1u << 20);
        std::printf("%zu recoveries\n", run.recoveries());
    }
}

TEST(CrashRecovery, PowerCutAtEveryEventOfAShortRun) {
    const uint64_t seed = number_from("LOCKSTEP_SEED", 1);
    SCOPED_TRACE("LOCKSTEP_SEED=" + std::to_string(seed));
    CrashRun run(seed, 1.0, 4);
    run.run();
    EXPECT_GT(run.recoveries(), 100u);
    std::printf("%zu recoveries\n", run.recoveries());
}

}  // namespace lockstep::sim::crash_recovery_test
