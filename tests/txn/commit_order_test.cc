// labels: unit
// commit_order_test.cc - TX-6: newest_commit() covers each commit that a snapshot can see.
#include <atomic>
#include <thread>

#include "tests/txn/log/log_test_util.h"
#include "threads/base/check.h"
#include "threads/base/hints.h"
#include "threads/io/sim_disk.h"
#include "threads/thread/thread.h"
#include "txn/transaction.h"

namespace lockstep::txn::test::commit_order_test {

// A writer on worker 0 commits again and again. An observer on worker 1 looks at the outcome of the
// transaction that commits, as a snapshot does.
struct Race {
    // `spins`: the observer keeps its worker while it waits.
    Race(threads::Runtime& runtime, Log& log, bool spins)
        : runtime_(runtime),
          log_(log),
          spins_(spins),
          locks_(LockOptions{.buckets_log2 = 10, .owners_max = 256}),
          table_(log, locks_, 64) {}

    void start(uint64_t rounds) {
        CHECK(runtime_.spawn(0, "writer", [this, rounds] {
            for (uint64_t n = 0; n < rounds; ++n) commit_one();
            stop_.store(true);
            end_one();
        }));
        CHECK(runtime_.spawn(1, "observer", [this] {
            while (!stop_.load()) observe();
            end_one();
        }));
    }
    bool ended() const { return ended_.load() == 2; }
    void wait() {
        for (uint32_t n; (n = ended_.load()) != 2;) ended_.wait(n);
    }
    uint64_t missed() const { return missed_.load(); }

private:
    static constexpr uint32_t kLooks = 4096;  // some 100 us

    void end_one() {
        ++ended_;
        ended_.notify_all();
    }
    // Also to the other worker, if the two share a CPU.
    void give_way() {
        threads::yield();
        if (spins_) std::this_thread::yield();
    }
    void commit_one() {
        Transaction& txn = **table_.begin({.durability = Durability::lazy});
        CHECK(log_.reserve_undo(txn.undo, sizeof(LogRecordHeader), sizeof(LogRecordHeader)));
        const LogSpace space = log_.reserve(sizeof(LogRecordHeader));
        *space.header() = {.bytes = 0,
                           .checksum = 0,
                           .prev = TransactionTable::chain(txn, space.lsn).value,
                           .txn = txn.id.value,
                           .kind = kTestKind,
                           .flags = 0,
                           .parts = 0,
                           .object = 0};
        log_.publish(space);
        txn.outcome = outcomes_.make(txn.id);
        CHECK(txn.outcome != nullptr);
        txn.outcome->add_use();
        watched_.store(txn.outcome);
        Outcome* const outcome = txn.outcome;
        CHECK(table_.commit(txn));
        while (watched_.load() != nullptr) give_way();
        Outcome::drop(outcome);
    }
    void observe() {
        Outcome* const outcome = watched_.load();
        if (outcome == nullptr) return give_way();
        for (uint32_t looks = 1; outcome->committed_below(kLsnMax) != Outcome::Below::yes; ++looks)
            spins_&& looks % kLooks != 0 ? cpu_relax() : give_way();
        // Its record begins below the end that is noted.
        if (outcome->committed_below(table_.newest_commit()) != Outcome::Below::yes) ++missed_;
        watched_.store(nullptr);
    }

    threads::Runtime& runtime_;
    Log& log_;
    const bool spins_;
    LockManager locks_;
    TransactionTable table_;
    OutcomeSource outcomes_;
    std::atomic<Outcome*> watched_{nullptr};
    std::atomic<bool> stop_{false};
    std::atomic<uint32_t> ended_{0};
    std::atomic<uint64_t> missed_{0};
};

TEST(CommitOrder, TheEndIsNotedBeforeTheCommitIsSeen) {
    TempDirectory directory;
    Bench bench(small_options(directory.path()), 2);
    bench.create();
    Race race(*bench.runtime, *bench.log, true);
    race.start(20'000);
    race.wait();
    EXPECT_EQ(race.missed(), 0u);
}

// The same with virtual workers, which a build with simulation points interrupts anywhere.
TEST(CommitOrder, TheEndIsNotedBeforeTheCommitIsSeenInEverySchedule) {
    for (uint64_t seed = seed_of_run(20261127), last = seed + 50; seed < last; ++seed) {
        threads::SimDisk disk({.seed = seed});
        ManualClock clock;
        LogOptions options = small_options("/store");
        options.first_bytes = options.segment_bytes;  // no keeper makes more
        ASSERT_TRUE(disk.make_directory(options.directory.here()));
        auto runtime = *threads::Runtime::start({.workers = 2,
                                                 .caller_driven = true,
                                                 .seed = seed,
                                                 .interrupt_one_in = 4,
                                                 .clock = &clock,
                                                 .disk = &disk});
        auto log = *Log::create(*runtime, options);
        Race race(*runtime, *log, false);
        race.start(20);
        while (!race.ended()) runtime->step();
        EXPECT_EQ(race.missed(), 0u) << "seed " << seed;
        runtime->stop();
    }
}

}  // namespace lockstep::txn::test::commit_order_test
