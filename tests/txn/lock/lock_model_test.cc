// labels: model tsan
// lock_model_test.cc - many user threads lock and release at random; a table of
// holders says whether two ever conflict.
//
// Concepts   The model notes a right after the lock manager granted it and forgets it before it is
//            given back, so what it holds is always held. Every right that a thread obtains is
//            compared with those of all others: on the record, and between an object's lock and the
//            intentions of others. Each thread also compares the table with what it has asked for:
//            after any request, also a refused or an instant one, it has these rights and no other.
//            Deadlock and timeout make a thread release everything, as a transaction would. Some of
//            the others commit: whoever then reads what they had locked in X learns of the commit
//            (LM-8).
#include <algorithm>
#include <atomic>
#include <map>

#include "tests/seed_of_run.h"
#include "tests/txn/lock/lock_test_util.h"
#include "threads/base/rng.h"
#include "threads/base/sanitized.h"

namespace lockstep::txn::lock_model_test {

using enum LockMode;

struct Shape {
    uint32_t workers = 1;
    bool caller_driven = false;
    uint32_t threads = 16;
    uint32_t rounds = 60;
    uint32_t names = 12;  // per object: few, so that they conflict
    uint32_t objects = 3;
    uint32_t escalate_at = 4;
    Nanos timeout = kNever;
    uint32_t strong = 6;  // percent of the requests that are for a whole object
    bool canceller = false;
    Nanos cancel_every = 50 * kMicrosecond;
    LockStageOptions stage = {};
    // The table changes its size all the time: transactions are long and short in turn.
    bool resizes = false;
};

class Model {
public:
    explicit Model(uint32_t owners, uint32_t things)
        : held_(owners, std::vector<LockMode>(things, none)), seen_(owners), committed_(things) {}

    // What `owner` now has on `thing`, besides what it had.
    void got(uint32_t owner, uint32_t thing, LockMode mode) {
        const SpinGuard guard(latch_);
        for (uint32_t other = 0; other < held_.size(); ++other) {
            if (other == owner) continue;
            const LockMode theirs = held_[other][thing], ours = held_[owner][thing] | mode;
            if (!compatible(ours, theirs) && !compatible(theirs, ours)) ++conflicts_;
        }
        held_[owner][thing] = held_[owner][thing] | mode;
        // Beside another mode, a commit may be noted later.
        if (!compatible(mode, X)) seen_[owner] = std::max(seen_[owner], committed_[thing]);
        ++grants_;
    }
    // Before the locks are released: `owner` has committed.
    void commits(uint32_t owner, Lsn end) {
        const SpinGuard guard(latch_);
        for (uint32_t thing = 0; thing < committed_.size(); ++thing)
            if ((held_[owner][thing] & X) != none)
                committed_[thing] = std::max(committed_[thing], end);
    }
    // The newest commit that `owner` may have read from.
    Lsn seen(uint32_t owner) const { return seen_[owner]; }
    LockMode of(uint32_t owner, uint32_t thing) const { return held_[owner][thing]; }
    void lost(uint32_t owner, uint32_t thing, LockMode rights) {
        const SpinGuard guard(latch_);
        held_[owner][thing] = static_cast<LockMode>(static_cast<uint8_t>(held_[owner][thing]) &
                                                    ~static_cast<uint8_t>(rights));
    }
    void lost_all(uint32_t owner) {
        const SpinGuard guard(latch_);
        std::fill(held_[owner].begin(), held_[owner].end(), none);
        seen_[owner] = kLsnNone;
    }
    uint64_t conflicts() const { return conflicts_; }
    uint64_t grants() const { return grants_; }

private:
    SpinLock latch_;
    std::vector<std::vector<LockMode>> held_;
    std::vector<Lsn> seen_;       // by owner
    std::vector<Lsn> committed_;  // by thing
    uint64_t conflicts_ = 0, grants_ = 0;
};

class Trial {
public:
    Trial(const Shape& shape, uint64_t seed)
        : shape_(shape),
          seed_(seed),
          objects_(shape.objects),
          locks_({.buckets_log2 = shape.resizes ? 10u : 4u,
                  .buckets_min_log2 = shape.resizes ? 1u : 4u,
                  .look_every = shape.resizes ? 2u : 8u,
                  .quiet_rounds = shape.resizes ? 1u : 16u,
                  .owners_max = shape.threads,
                  .timeout = shape.timeout,
                  .escalate_at = shape.escalate_at,
                  .stage = shape.stage}),
          owners_(locks_, shape.threads),
          model_(shape.threads, shape.objects * (shape.names + 1)) {
        nobody_.slot = UINT32_MAX;
        for (uint32_t i = 0; i < shape.objects; ++i) objects_[i].id = ObjectId{i + 1};
    }

    void run() {
        threads::RuntimeOptions options{
            .workers = shape_.workers, .caller_driven = shape_.caller_driven, .seed = seed_};
        if (shape_.caller_driven) options.clock = &clock_;
        options.policy = [this](uint32_t worker) {
            return threads::make_random_policy(seed_ + worker);
        };
        auto runtime = *threads::Runtime::start(options);
        for (uint32_t t = 0; t < shape_.threads; ++t)
            ASSERT_TRUE(runtime->spawn(t, "locker", [this, t] { body(t); }));
        if (shape_.canceller) {
            ASSERT_TRUE(runtime->spawn(0, "canceller", [this] { cancel_now_and_then(); }));
        }
        if (shape_.caller_driven) drive(*runtime);
        runtime->stop();
        EXPECT_EQ(running_.load(), 0u) << "hang";
        EXPECT_EQ(model_.conflicts(), 0u);
        EXPECT_EQ(locks_.verify(), "");
        check_stage();
        for (ObjectLock& object : objects_) EXPECT_EQ(object.strong.load(), 0u);
        for (uint32_t object = 0; object < shape_.objects; ++object) {
            EXPECT_TRUE(
                locks_.grantable(nobody_, page_lock_name(objects_[object].id, kPageNone), X));
            for (uint32_t i = 0; i < shape_.names; ++i)
                EXPECT_TRUE(locks_.grantable(nobody_, name(object, i), X | gap_insert));
        }
        EXPECT_GT(model_.grants(), 0u);
        EXPECT_GT(compared_.load(), 0u);
        EXPECT_GT(read_.load(), 0u);
    }
    LockManager::Stats stats() const { return locks_.stats(); }
    StageStats stage_stats() const { return locks_.stage_stats(); }
    uint64_t grown() const { return grown_; }
    uint64_t shrunk() const { return shrunk_; }

private:
    // Every request that waited was granted or taken out, and nobody was overtaken too often.
    void check_stage() const {
        const StageStats stage = locks_.stage_stats();
        const LockManager::Stats all = locks_.stats();
        EXPECT_TRUE(stage.conserved());
        EXPECT_EQ(stage.queued + stage.in_service, 0u);
        EXPECT_EQ(stage.entered, all.waits);
        EXPECT_GE(stage.cancelled, all.deadlocks + all.timeouts);
        if (!shape_.canceller) {
            EXPECT_EQ(stage.cancelled, all.deadlocks + all.timeouts);
        }
        EXPECT_LE(stage.bypassed_max, shape_.stage.bypass_max);
    }

    void drive(threads::Runtime& runtime) {
        uint64_t steps = 0;
        while (running_.load() > 0) {
            if (++steps % 97 == 0) {
                ASSERT_EQ(locks_.verify(), "");
            }
            if (runtime.step()) continue;
            const Nanos next = runtime.next_deadline();
            ASSERT_NE(next, kNever) << "everybody waits: a deadlock was missed";
            clock_.advance(next - std::min(next, clock_.now()) + 1);
        }
    }

    LockName name(uint32_t object, uint32_t i) const {
        // Some share a bucket.
        return i % 3 == 0 ? LockName{object * 100 + i + 1}
                          : LockName{mix64(object * 100 + i + 1) | 1};
    }
    uint32_t thing(uint32_t object, uint32_t i) const { return object * (shape_.names + 1) + i; }
    uint32_t thing(uint32_t object) const { return thing(object, shape_.names); }

    void body(uint32_t me) {
        Rng rng(seed_ * 1000003 + me);
        LockOwner& owner = owners_[me];
        for (uint32_t round = 0; round < shape_.rounds; ++round) {
            owner.work = rng.below(100);
            owner.operations = static_cast<uint32_t>(rng.below(9));
            owner.priority = static_cast<uint32_t>(rng.below(4));
            const bool brief = shape_.resizes && round / 16 % 2 == 1;
            const uint64_t longest = shape_.resizes ? 40 : 8;
            bool goes_on = true;
            for (uint64_t n = 1 + rng.below(brief ? 1 : longest); n > 0; --n) {
                goes_on = one(rng, owner, me);
                if (rng.chance(0.25)) check_rights(owner, me);
                if (!goes_on) break;
                if (rng.chance(0.5)) threads::yield();
            }
            note_size();
            check_rights(owner, me);
            end(rng, owner, me, goes_on);
            EXPECT_EQ(locks_.list(owner).size(), 0u);
            std::ranges::fill(asked_[me], none);
        }
        --running_;
    }

    void end(Rng& rng, LockOwner& owner, uint32_t me, bool may_commit) {
        if (!std::exchange(wrote_[me], false) && rng.chance(0.4)) {
            const Lsn seen = model_.seen(me);
            model_.lost_all(me);
            EXPECT_GE(locks_.release_all_of_reader(owner), seen);
            if (seen != kLsnNone) ++read_;
            return;
        }
        const bool commits = may_commit && rng.chance(0.8);
        const Lsn at = commits ? Lsn{8 * ++commits_} : kLsnNone;
        if (commits) model_.commits(me, at);
        model_.lost_all(me);
        locks_.release_all(owner, at);
    }

    // What another lock of the object makes superfluous on its records.
    static LockMode covered_by(LockMode object) {
        if (covers(object, X)) return IS | IX | S | U | X | gap_read | gap_insert;
        return covers(object, S) ? IS | S | gap_read : none;
    }
    // By the owner's own thread, so nothing of it changes meanwhile.
    void check_rights(LockOwner& owner, uint32_t me) {
        const LockList list = locks_.list(owner);
        std::map<uint64_t, LockMode> real, objects;
        for (const auto& of : list.names) real[of.name.value] = real[of.name.value] | of.mode;
        for (const auto& of : list.objects)
            objects[of.object.value] = objects[of.object.value] | of.mode;
        for (uint32_t object = 0; object < shape_.objects; ++object) {
            const LockMode whole = objects[object + 1], wanted = model_.of(me, thing(object));
            // A record's refused request may leave the intention, and escalation takes S or X.
            const LockMode may = wanted | asked_[me][object] | (shape_.escalate_at ? S | X : none);
            EXPECT_TRUE(covers(whole, wanted)) << lock_mode_name(whole);
            EXPECT_EQ(without(whole, may), none) << lock_mode_name(wanted);
            for (uint32_t i = 0; i < shape_.names; ++i) {
                const LockMode has = real[name(object, i).value],
                               needs = model_.of(me, thing(object, i));
                EXPECT_TRUE(covers(has, without(needs, covered_by(whole))))
                    << lock_mode_name(needs) << " is " << lock_mode_name(has);
                EXPECT_EQ(without(has, needs), none)
                    << lock_mode_name(has) << " beyond " << lock_mode_name(needs);
                ++compared_;
            }
        }
    }

    void note_size() {
        const uint64_t now = locks_.buckets(), before = size_.exchange(now);
        if (now > before) ++grown_;
        if (now < before) ++shrunk_;
    }

    static Result<bool> yes(Result<void> done) {
        if (!done) return std::unexpected(done.error());
        return true;
    }

    // False after an error: the transaction gives up.
    bool one(Rng& rng, LockOwner& owner, uint32_t me) {
        constexpr LockMode kRecord[] = {S, S,        S,          U,        X,
                                        X, gap_read, gap_insert, key_scan, key_insert};
        const uint32_t object = static_cast<uint32_t>(rng.below(shape_.objects)),
                       i = static_cast<uint32_t>(rng.below(shape_.names));
        const uint64_t what = rng.below(100);
        if (what < shape_.strong) {
            constexpr LockMode kStore[] = {S, X, SIX, U, IX, IS};
            const LockMode mode = kStore[rng.below(6)];
            const bool attempt = rng.chance(0.3);
            Result<bool> got = attempt ? locks_.try_lock_object(owner, objects_[object], mode)
                                       : yes(locks_.lock_object(owner, objects_[object], mode));
            if (got.has_value() && *got) model_.got(me, thing(object), mode);
            return got.has_value();
        }
        if (what < shape_.strong + 6) {
            model_.lost(me, thing(object, i), kReads);
            locks_.unlock(owner, name(object, i), kReads);
            return true;
        }
        if (what < shape_.strong + 8) {
            for (uint32_t s = 0; s < shape_.objects; ++s)
                for (uint32_t k = 0; k <= shape_.names; ++k) model_.lost(me, thing(s, k), kReads);
            locks_.release_shared(owner);
            wrote_[me] = true;
            return true;
        }
        if (what < shape_.strong + 12)
            return locks_.wait_until_grantable(owner, name(object, i), gap_insert).has_value();
        const LockMode mode = kRecord[rng.below(std::size(kRecord))];
        asked_[me][object] = asked_[me][object] | ((mode & (U | X | gap_insert)) != none ? IX : IS);
        Result<bool> got =
            rng.chance(0.2)
                ? locks_.try_lock_record(owner, objects_[object], name(object, i), mode)
                : yes(locks_.lock_record(owner, objects_[object], name(object, i), mode));
        if (!got.has_value() || !*got) return got.has_value();
        const bool writes = (mode & (U | X | gap_insert)) != none;
        model_.got(me, thing(object), writes ? IX : IS);
        model_.got(me, thing(object, i), mode);
        return true;
    }

    void cancel_now_and_then() {
        Rng rng(seed_ + 77);
        while (running_.load() > 0) {
            locks_.cancel(owners_[rng.below(owners_.size())]);
            shape_.cancel_every ? threads::sleep_until(threads::now() + shape_.cancel_every)
                                : threads::yield();
        }
    }

    static constexpr LockMode kReads = IS | S | U | gap_read;
    const Shape shape_;
    const uint64_t seed_;
    ManualClock clock_;
    std::vector<ObjectLock> objects_;  // outlive the owners, who release them
    LockManager locks_;
    Owners owners_;
    Model model_;
    LockOwner nobody_;
    // By thread and object: intentions that records have asked for.
    std::vector<std::vector<LockMode>> asked_{shape_.threads,
                                              std::vector<LockMode>(shape_.objects, none)};
    // By thread: it has released its shared locks, as only a writer does.
    std::vector<char> wrote_ = std::vector<char>(shape_.threads);
    std::atomic<uint64_t> compared_{0}, commits_{0}, read_{0};
    std::atomic<uint32_t> running_{shape_.threads};
    std::atomic<uint64_t> size_{locks_.buckets()}, grown_{0}, shrunk_{0};
};

void try_many(Shape shape, uint64_t trials, uint64_t fallback_seed) {
    if (kAddressSanitizer) trials = (trials + 1) / 2;  // for its time
    const uint64_t seed = seed_of_run(fallback_seed);
    LockManager::Stats sum;
    uint64_t bypasses = 0, grown = 0, shrunk = 0;
    for (uint64_t i = 0; i < trials; ++i) {
        Trial trial(shape, seed + i);
        trial.run();
        const auto stats = trial.stats();
        sum.waits += stats.waits;
        bypasses += trial.stage_stats().bypasses;
        grown += trial.grown();
        shrunk += trial.shrunk();
        sum.deadlocks += stats.deadlocks;
        sum.escalations += stats.escalations;
        sum.timeouts += stats.timeouts;
        if (testing::Test::HasFailure()) FAIL() << "replay with LOCKSTEP_SEED=" << seed + i;
    }
    std::printf("waits %lu deadlocks %lu escalations %lu timeouts %lu bypasses %lu\n", sum.waits,
                sum.deadlocks, sum.escalations, sum.timeouts, bypasses);
    const bool can_overtake = shape.stage.policy != LockPolicy::fifo &&
                              shape.stage.bypass_max > 0 &&
                              (shape.stage.policy != LockPolicy::local_first || shape.workers > 1);
    EXPECT_EQ(bypasses > 0, can_overtake);
    EXPECT_EQ(grown > 0, shape.resizes);
    EXPECT_EQ(shrunk > 0, shape.resizes);
    EXPECT_GT(sum.waits, 0u);
    EXPECT_GT(sum.deadlocks, 0u);
    // Where times are real, all transactions may run out of time before one has so many locks.
    if (shape.names > 4 && !shape.resizes && (shape.caller_driven || shape.timeout == kNever)) {
        EXPECT_GT(sum.escalations, 0u);
    }
}

TEST(LockModel, OneDrivenWorker) { try_many({.caller_driven = true}, 40, 1); }
TEST(LockModel, TwoDrivenWorkers) {
    try_many({.workers = 2, .caller_driven = true, .timeout = 5 * kMillisecond}, 20, 100);
}
TEST(LockModel, RecordsOnly) {
    try_many({.caller_driven = true, .threads = 24, .objects = 1, .escalate_at = 3, .strong = 0},
             20, 200);
}
TEST(LockModel, TwoWorkers) { try_many({.workers = 2, .rounds = 400}, 5, 300); }
TEST(LockModel, FourWorkersWithTimeoutsAndCancels) {
    try_many(
        {.workers = 4, .threads = 32, .rounds = 200, .timeout = kMillisecond, .canceller = true}, 5,
        400);
}

// The table grows and shrinks under locks, waits, searches and cancellations.
TEST(LockModel, ResizingOnOneDrivenWorker) {
    try_many({.caller_driven = true, .names = 60, .escalate_at = 30, .resizes = true}, 10, 1300);
}
TEST(LockModel, ResizingOnTwoDrivenWorkers) {
    try_many({.workers = 2,
              .caller_driven = true,
              .names = 60,
              .escalate_at = 30,
              .timeout = 5 * kMillisecond,
              .resizes = true},
             10, 1400);
}
TEST(LockModel, ResizingOnTwoWorkers) {
    try_many({.workers = 2, .rounds = 320, .names = 60, .escalate_at = 30, .resizes = true}, 4,
             1500);
}
TEST(LockModel, ResizingOnFourWorkersWithTimeoutsAndCancels) {
    try_many({.workers = 4,
              .threads = 32,
              .rounds = 160,
              .names = 60,
              .escalate_at = 30,
              .timeout = kMillisecond,
              .canceller = true,
              .resizes = true},
             4, 1600);
}

// The same under each policy.
TEST(LockModel, ShortFirst) {
    try_many(
        {.caller_driven = true, .threads = 24, .names = 4, .stage = {LockPolicy::short_first, 3}},
        20, 600);
}
TEST(LockModel, Priority) {
    try_many({.workers = 2,
              .caller_driven = true,
              .threads = 24,
              .names = 4,
              .timeout = 5 * kMillisecond,
              .stage = {LockPolicy::priority, 2}},
             20, 700);
}
TEST(LockModel, ShortFirstWithoutAnyOvertaking) {
    try_many({.caller_driven = true, .names = 4, .stage = {LockPolicy::short_first, 0}}, 10, 800);
}
TEST(LockModel, ShortFirstOnFourWorkers) {
    try_many({.workers = 4,
              .threads = 32,
              .rounds = 200,
              .names = 4,
              .timeout = kMillisecond,
              .canceller = true,
              .stage = {LockPolicy::short_first, 5}},
             4, 900);
}
TEST(LockModel, PriorityOnFourWorkers) {
    try_many({.workers = 4,
              .threads = 32,
              .rounds = 200,
              .names = 4,
              .stage = {LockPolicy::priority, 1}},
             4, 1000);
}

TEST(LockModel, LocalFirst) {
    try_many({.workers = 2,
              .caller_driven = true,
              .threads = 24,
              .names = 4,
              .stage = {LockPolicy::local_first, 3}},
             20, 1100);
}
TEST(LockModel, LocalFirstOnFourWorkers) {
    try_many({.workers = 4,
              .threads = 32,
              .rounds = 200,
              .names = 4,
              .timeout = kMillisecond,
              .canceller = true,
              .stage = {LockPolicy::local_first, 5}},
             4, 1200);
}

// Notes of intentions race with scans for them, cancellations and searches with requests that come
// and go.
TEST(LockModel, StoresUnderContention) {
    try_many({.workers = 4,
              .threads = 16,
              .rounds = 1500,
              .names = 2,
              .objects = 1,
              .strong = 70,
              .canceller = true,
              .cancel_every = 0},
             3, 500);
}

}  // namespace lockstep::txn::lock_model_test
