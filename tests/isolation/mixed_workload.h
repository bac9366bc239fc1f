// mixed_workload.h - random transactions over every way to read, to change and to run, for the
// checker of histories.
//
// Concepts   Processes are user threads. Each runs one transaction after the other: at a random
//            level, by a random vehicle (kVehicles), with a few operations of random ways (ways.h)
//            on few keys. Some roll back to a savepoint, some abort, some prepare and are decided
//            later. Deadlocks and lock timeouts end an attempt. An epoch is one history with keys
//            of its own: it begins with a transaction that loads, and ends with reads of
//            everything. The caller says how threads are run: on workers, or under the simulator.
#pragma once

#include <gtest/gtest.h>

#include <atomic>
#include <deque>
#include <functional>
#include <iterator>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include <lockstep/store.h>
#include <lockstep/sync.h>
#include "tests/isolation/mixed_operations.h"
#include "threads/base/rng.h"

namespace lockstep::isolation {

class MixedWorkload {
public:
    using Threads = std::vector<std::function<Result<void>()>>;
    // Runs each as a user thread of the store, and returns when all have ended.
    using RunAll = std::function<void(Threads)>;

    MixedWorkload(Store& store, const MixOptions& options, RunAll run_all)
        : store_(&store), options_(options), work_(options), run_all_(std::move(run_all)) {
        alone(
            [this] { return store_->run([this](Txn& txn) { return work_.make(*store_, txn); }); });
    }

    // A history of `count` transactions and three more.
    std::vector<Observed> epoch(uint64_t seed, uint64_t count) {
        load();
        run_all_(threads(seed, count));
        return finish();
    }
    // The same in parts, for a caller that cuts the power while the threads run. load() begins the
    // epoch. After a cut, resume() goes on with the store that was opened again. finish() reads
    // everything and gives the history.
    void load() {
        ++epoch_;
        clock_ = 1;
        histories_.assign(options_.processes + 1, {});
        doubts_.assign(options_.processes, {});
        retries_.assign(options_.processes, {});
        alone([this] { return load(histories_.back()); });
    }
    Threads threads(uint64_t seed, uint64_t count) {
        Threads threads;
        for (uint32_t p = 0; p < options_.processes; ++p)
            threads.push_back([this, p, seed, count]() -> Result<void> {
                Rng rng = Rng(seed).fork(p);
                while (histories_[p].size() < (count + p) / options_.processes)
                    TRY(transaction(p, rng));
                return {};
            });
        return threads;
    }
    uint64_t begun() const {
        uint64_t sum = 0;
        for (const auto& history : histories_) sum += history.size();
        return sum;
    }
    // Every commit must have been durable: what a reader saw may be lost otherwise. Decides what is
    // in doubt, as it was decided before the cut. What an unfinished or aborted transaction read
    // may have been lost.
    void resume(Store& store) {
        store_ = &store;
        alone([this] { return work_.find(*store_); });
        for (std::optional<Doubt>& doubt : doubts_) {
            if (!doubt) continue;
            const auto prepared = store_->prepared();
            const bool there = std::ranges::any_of(
                prepared, [&](const PreparedInfo& of) { return of.gid == doubt->gid; });
            EXPECT_TRUE(there || !doubt->voted || doubt->decided) << doubt->gid << " is lost";
            const bool commits = doubt->voted && doubt->commits;
            alone([&]() -> Result<void> {
                const bool ended = TRY(commits ? store_->commit_prepared(doubt->gid)
                                               : store_->rollback_prepared(doubt->gid));
                EXPECT_EQ(ended, there);
                return {};
            });
            end(*doubt->seen, commits ? Ended::committed : Ended::aborted);
        }
        // A rollback need not be durable. Should one of these have been committed, its changes will
        // be missing.
        for (const PreparedInfo& of : store_->prepared())
            alone([&]() -> Result<void> {
                EXPECT_TRUE(TRY(store_->rollback_prepared(of.gid)));
                return {};
            });
        for (History& history : histories_)
            for (Observed& seen : history)
                if (seen.ended != Ended::committed)
                    for (Operation& op : seen.operations)
                        if (op.kind == Operation::read)
                            op = {.kind = Operation::rollback, .from = SIZE_MAX};
    }
    std::vector<Observed> finish() {
        alone([this] { return read_everything(histories_.back()); });
        std::vector<Observed> all;
        for (auto& history : histories_) std::ranges::move(history, std::back_inserter(all));
        return all;
    }

private:
    // A transaction between its prepare and its end.
    struct Doubt {
        std::string gid;
        Observed* seen;
        bool commits;
        bool voted = false, decided = false;
    };
    using History = std::deque<Observed>;  // its elements stay where they are

    void alone(std::function<Result<void>()> fn) {
        Threads one;
        one.push_back(std::move(fn));
        run_all_(std::move(one));
    }
    // --- One transaction from its begin to its end.

    Observed& begin(uint32_t process, const TxnOptions& options, const char* way) {
        History& history = histories_[process];
        history.push_back({.process = process,
                           .began = clock_.fetch_add(1),
                           .ended_at = UINT64_MAX,
                           .level = options.isolation,
                           .ended = Ended::aborted,  // unknown from the commit on
                           .way = way});
        return history.back();
    }
    void end(Observed& seen, Ended ended) {
        seen.ended = ended;
        seen.ended_at = clock_.fetch_add(1);
    }
    static bool ends_attempt(const Error& error) {
        return error.code == ErrorCode::deadlock || error.code == ErrorCode::lock_timeout;
    }

    Result<void> transaction(uint32_t process, Rng& rng) {
        uint64_t sum = 0;
        for (const uint32_t odds : options_.levels) sum += odds;
        uint64_t drawn = rng.below(sum), level = 0;
        while (drawn >= options_.levels[level]) drawn -= options_.levels[level++];
        const TxnOptions options{
            .isolation = static_cast<Isolation>(level),
            .durability = rng.chance(options_.durable) ? Durability::durable : Durability::lazy,
            .lock_timeout = options_.lock_timeout,
            .retry = std::exchange(retries_[process], {})};
        using Vehicle = Result<void> (MixedWorkload::*)(uint32_t, const TxnOptions&, Rng&);
        static constexpr Vehicle kVehicles[] = {&MixedWorkload::by_hand, &MixedWorkload::by_hand,
                                                &MixedWorkload::by_run, &MixedWorkload::by_packet,
                                                &MixedWorkload::by_prepare};
        return (this->*kVehicles[rng.below(std::size(kVehicles))])(process, options, rng);
    }

    Result<void> by_hand(uint32_t process, const TxnOptions& options, Rng& rng) {
        return alone_by_hand(process, options, rng, "begin");
    }
    Result<void> alone_by_hand(uint32_t process, const TxnOptions& options, Rng& rng,
                               const char* way) {
        Observed& seen = begin(process, options, way);
        Txn txn = TRY(store_->begin(options));
        if (rng.chance(0.2)) work_.tell_needs(txn, rng);
        if (!TRY(act(txn, seen, rng)) || rng.chance(0.1)) return abort(txn, seen);
        seen.ended = Ended::unknown;
        TRY(txn.commit());
        end(seen, Ended::committed);
        return {};
    }
    Result<void> abort(Txn& txn, Observed& seen) {
        TRY(txn.abort());
        end(seen, Ended::aborted);
        return {};
    }
    // Store::run() repeats deadlock victims. Each attempt is a transaction of its own.
    Result<void> by_run(uint32_t process, const TxnOptions& options, Rng& rng) {
        Observed* seen = &begin(process, options, "run");
        bool again = false;
        const auto done = store_->run(
            [&](Txn& txn) -> Result<void> {
                if (again) seen = &begin(process, options, "run again");
                again = true;
                Result<void> acted = work_.operate(txn, *seen, rng);
                if (acted && rng.chance(0.1)) acted = fail(ErrorCode::rolled_back, "test");
                // The rollback comes behind this moment, but nothing is read there.
                if (!acted) end(*seen, Ended::aborted);
                else seen->ended = Ended::unknown;
                return acted;
            },
            options);
        if (done) end(*seen, Ended::committed);
        else if (done.error().code != ErrorCode::rolled_back && !ends_attempt(done.error()))
            return done;
        return {};
    }
    class OneShot final : public Packet {
    public:
        OneShot(MixedWorkload& of, uint32_t process, const TxnOptions& options, Rng& rng)
            : of_(of), process_(process), options_(options), rng_(rng) {}
        void announce(Announcement& to) override { of_.work_.announce(to); }
        void run() override {
            result = of_.alone_by_hand(process_, options_, rng_, "packet");
            over.set();
        }
        Event over;
        Result<void> result;

    private:
        MixedWorkload& of_;
        const uint32_t process_;
        const TxnOptions options_;
        Rng& rng_;
    };
    Result<void> by_packet(uint32_t process, const TxnOptions& options, Rng& rng) {
        OneShot packet(*this, process, options, rng);
        TRY(store_->submit(packet));
        TRY(packet.over.wait());
        return packet.result;
    }
    Result<void> by_prepare(uint32_t process, const TxnOptions& options, Rng& rng) {
        Observed& seen = begin(process, options, "prepare");
        Txn txn = TRY(store_->begin(options));
        if (!TRY(act(txn, seen, rng))) return abort(txn, seen);
        const std::string gid = "gid " + std::to_string(gids_.fetch_add(1));
        bool commits = rng.chance(0.7);
        std::optional<Doubt>& doubt = doubts_[process];
        doubt = {gid, &seen, commits};
        if (TRY(txn.prepare(gid)) == Vote::read_only) {
            commits = true;
        } else {
            doubt->voted = true;
            for (uint64_t pauses = rng.below(6); pauses > 0; --pauses) yield();
            if (rng.chance(0.5)) sleep_for(20 * kMicrosecond);
            doubt->decided = true;
            const bool ended =
                TRY(commits ? store_->commit_prepared(gid) : store_->rollback_prepared(gid));
            EXPECT_TRUE(ended) << gid;
        }
        doubt.reset();
        end(seen, commits ? Ended::committed : Ended::aborted);
        return {};
    }
    // False: the attempt was ended by a deadlock or a timeout.
    Result<bool> act(Txn& txn, Observed& seen, Rng& rng) {
        const auto done = work_.operate(txn, seen, rng);
        if (done) return true;
        if (!ends_attempt(done.error())) return std::unexpected(done.error());
        retries_[seen.process] = txn.retry();
        return false;
    }
    // --- Before and after.

    Result<void> load(History& history) {
        const auto process = static_cast<uint32_t>(histories_.size() - 1);
        sleep_for(options_.quiet);
        return store_->run([&](Txn& txn) -> Result<void> {
            history.clear();
            Observed& seen = begin(process, {}, "load");
            TRY(work_.load(txn, seen, epoch_));
            end(seen, Ended::committed);
            return {};
        });
    }
    // Serializable and in a snapshot, by each way that fits.
    Result<void> read_everything(History& history) {
        const auto process = static_cast<uint32_t>(histories_.size() - 1);
        for (const Isolation level : {Isolation::serializable, Isolation::snapshot}) {
            const TxnOptions options{.isolation = level};
            Txn txn = TRY(store_->begin(options));
            Observed& seen = begin(process, options, "everything");
            TRY(work_.read_everything(txn, seen));
            TRY(txn.commit());
            end(seen, Ended::committed);
        }
        EXPECT_EQ(history.size(), 3u);
        return {};
    }
    Store* store_;
    const MixOptions options_;
    MixedOperations work_;
    const RunAll run_all_;
    std::vector<History> histories_;  // by process; the last one loads and reads everything
    std::vector<std::optional<Doubt>> doubts_;  // by process
    std::vector<Retry> retries_;                // by process: of its last victim
    std::atomic<uint64_t> clock_{1}, gids_{1};
    uint32_t epoch_ = 0;
};

}  // namespace lockstep::isolation
