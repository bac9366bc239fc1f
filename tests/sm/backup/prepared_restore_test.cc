// labels: sim
// prepared_restore_test.cc - restores to points before a prepare, between prepare and decision, and
// behind the decision: what is in doubt at the point is in doubt in the restored store.
#include <array>

#include "sm/engine/engine.h"
#include "tests/sm/backup/archive_test_util.h"
#include "tests/sm/services/prepared_test_util.h"

namespace lockstep::prepared_restore_test {

enum class Phase : uint8_t { gone, in_doubt, ended };

class PreparedRestore : public PreparedTest {
protected:
    void SetUp() override {
        configure = [this](Options& o) {
            archive_options(o);
            if (!archives_) o.archive.reset();
        };
        PreparedTest::SetUp();
        for (const char* key : {"k", "read", "gone"}) ASSERT_OK(put_now(key, "before"));
    }
    // Writes, reads and erases.
    Work work() {
        return [this](Txn& txn) -> Result<void> {
            std::string value;
            TRY(index().get(txn, "read", value));
            TRY(index().put(txn, "k", "after"));
            TRY(index().erase(txn, "gone"));
            return {};
        };
    }
    void other_work(int count = 5) {
        for (int i = 0; i < count; ++i) ASSERT_OK(put_now(key_of(i), random_text(rng_, 300)));
    }
    // More than a segment of the log.
    void much_work() {
        for (int i = 0; i < 60; ++i) ASSERT_OK(put_now("much", random_text(rng_, 40'000)));
    }
    Lsn end() { return engine().log->tail(); }
    void decide(bool commits, bool expected = true) {
        expect_ended(commits ? store().commit_prepared("g") : store().rollback_prepared("g"),
                     expected);
    }
    // Closes the open store. The restored one is open then. The point reached.
    Lsn restore(const RestoreOptions& options,
                const std::vector<std::string>& backups = {"/backup"}) {
        if (sim().is_open()) close();
        remove_directory(disk(), "/restored");
        RestoreOptions all = options;
        all.archive = kArchive;
        const auto info = sm::restore_on(disk(), backups, "/restored", all);
        EXPECT_TRUE(info) << info.error().text();
        archives_ = false;
        (void)open_at("/restored");
        return info ? info->lsn : kLsnNone;
    }
    void reopen_restored() {
        close();
        (void)open_at("/restored");
    }
    std::string content() { return get("k") + " " + get("gone"); }
    static std::string content_if(bool committed) {
        return committed ? "after -" : "before before";
    }
    // Of the restored store.
    Phase phase(bool decision_commits) {
        if (!store().prepared().empty()) return Phase::in_doubt;
        return content() == content_if(true) && decision_commits ? Phase::ended : Phase::gone;
    }
    void expect_in_doubt() {
        const auto all = store().prepared();
        ASSERT_EQ(all.size(), 1u);
        EXPECT_EQ(all[0].gid, "g");
        EXPECT_EQ(all[0].locks, locks_);
        EXPECT_EQ(content(), "locked locked");
        EXPECT_EQ(seen_by_snapshot("k") + " " + seen_by_snapshot("gone"), content_if(false));
        EXPECT_EQ(get("read"), "before");
        EXPECT_EQ(code_of(put_now("read", "x")), ErrorCode::lock_timeout);
        EXPECT_EQ(engine().locks->verify(), "");
    }
    // Ends it in the restored store, one way or the other.
    void expect_can_end(bool commits) {
        decide(commits);
        EXPECT_EQ(content(), content_if(commits));
        ASSERT_OK(put_now("read", "x"));
        expect_sound();
        reopen_restored();
        EXPECT_TRUE(store().prepared().empty());
        EXPECT_EQ(content(), content_if(commits));
        decide(commits, false);
    }
    // A store with a transaction that is prepared, and then ended. The log's ends around both.
    struct Points {
        Lsn begin, prepared, undecided, decided;
    };
    Points make(bool commits) {
        Points points;
        EXPECT_TRUE(store().backup("/backup"));
        other_work();
        points.begin = end();
        must_prepare("g", work(), {.durability = Durability::lazy});
        points.prepared = end();
        locks_ = store().prepared()[0].locks;
        other_work();
        points.undecided = end();
        decide(commits);
        points.decided = end();
        other_work();
        return points;
    }

    void go_back(bool commits);

    Rng rng_{seed_of_run()};
    bool archives_ = true;
    uint64_t locks_ = 0;
};

// From record to record, from the decision to the transaction's begin.
void PreparedRestore::go_back(bool commits) {
    const Points points = make(commits);
    std::array<int, 3> count{};
    Phase later = Phase::ended;
    Lsn at = points.decided;
    for (int n = 0; at > points.begin && !HasFailure(); ++n) {
        at = restore({.until = at});
        SCOPED_TRACE("LSN " + std::to_string(at.value));
        const Phase now = phase(commits);
        ++count[static_cast<size_t>(now)];
        if (commits) {
            EXPECT_LE(now, later);
        }
        if (at <= points.begin) {
            EXPECT_EQ(now, Phase::gone);
        } else if (at >= points.prepared && at <= points.undecided) {
            EXPECT_EQ(now, Phase::in_doubt);
        } else if (at == points.decided) {
            EXPECT_EQ(now, commits ? Phase::ended : Phase::gone);
        }
        if (now == Phase::in_doubt) {
            expect_in_doubt();
            expect_can_end(n % 2 == 0);
        } else {
            EXPECT_EQ(content(), content_if(now == Phase::ended));
            decide(true, false);
            expect_sound();
        }
        later = now;
        at = Lsn{at.value - 1};
    }
    EXPECT_GT(count[static_cast<size_t>(Phase::gone)], 2);  // its changes have records
    EXPECT_GT(count[static_cast<size_t>(Phase::in_doubt)], 5);
}

TEST_F(PreparedRestore, EachPointHasItsPhaseIfItCommits) { go_back(true); }
TEST_F(PreparedRestore, EachPointHasItsPhaseIfItIsRolledBack) { go_back(false); }

TEST_F(PreparedRestore, StaysInDoubtAfterCrashes) {
    const Points points = make(true);
    (void)restore({.until = points.undecided});
    for (const threads::SimCrash mode : threads::kSimCrashes) {
        other_work();
        cut(mode);
        (void)open_at("/restored");
        expect_in_doubt();
    }
    expect_can_end(false);
}

// Its prepare record lies below the backups, and checkpoints only list it.
TEST_F(PreparedRestore, BackupsThatWereMadeInDoubt) {
    must_prepare("g", work());
    locks_ = store().prepared()[0].locks;
    ASSERT_OK(store().checkpoint());
    much_work();
    ASSERT_OK(store().checkpoint());
    const auto full = store().backup("/full");
    ASSERT_OK(full);
    other_work();
    BackupOptions how;
    how.since = &*full;
    const auto next = store().backup("/next", how);
    ASSERT_OK(next);
    other_work();
    const Lsn undecided = end();
    decide(true);
    other_work();
    const std::vector<std::string> one = {"/full"}, both = {"/full", "/next"};
    int n = 0;
    for (const auto& [backups, until] : {std::pair{one, full->lsn}, std::pair{both, next->lsn},
                                         std::pair{one, undecided}, std::pair{both, undecided}}) {
        SCOPED_TRACE(until.value);
        (void)restore({.until = until}, backups);
        expect_in_doubt();
        expect_can_end(++n % 2 == 0);
    }
    for (const auto& backups : {one, both}) {
        (void)restore({}, backups);
        EXPECT_TRUE(store().prepared().empty());
        EXPECT_EQ(content(), content_if(true));
    }
}

TEST_F(PreparedRestore, ToATime) {
    const auto pause = [&] { sim().on_thread([] { sleep_for(kSecond); }); };
    ASSERT_OK(store().backup("/backup"));
    std::array<Nanos, 3> times{};
    const auto note = [&](int n) {
        other_work();
        pause();
        times[n] = sim().clock().now();
        pause();
        other_work();
    };
    note(0);
    must_prepare("g", work());
    locks_ = store().prepared()[0].locks;
    note(1);
    decide(true);
    note(2);
    (void)restore({.until_time = times[0]});
    EXPECT_TRUE(store().prepared().empty());
    EXPECT_EQ(content(), content_if(false));
    (void)restore({.until_time = times[1]});
    expect_in_doubt();
    expect_can_end(true);
    (void)restore({.until_time = times[2]});
    EXPECT_TRUE(store().prepared().empty());
    EXPECT_EQ(content(), content_if(true));
}

// The first store commits, the restored one rolls back: the archive has both.
TEST_F(PreparedRestore, HistoriesDecideForThemselves) {
    const Points points = make(true);
    (void)restore({.until = points.undecided});
    close();
    archives_ = true;
    (void)open_at("/restored");
    const uint64_t history = engine().superblock.history;
    decide(false);
    other_work();
    (void)restore({});
    EXPECT_EQ(content(), content_if(true));
    (void)restore({.history = history});
    EXPECT_TRUE(store().prepared().empty());
    EXPECT_EQ(content(), content_if(false));
}

// A point between the two records of one prepare is a point before it.
TEST_F(PreparedRestore, HalfOfAPrepareIsNone) {
    constexpr int kKeys = 17000;
    configure = [this](Options& o) {
        archive_options(o);
        if (!archives_) o.archive.reset();
        o.escalate_at = std::nullopt;
        o.log_bytes = 128 << 20;
        o.checkpoint_log_bytes = 64 << 20;
    };
    reopen();
    ASSERT_OK(store().backup("/backup"));
    must_prepare("g", [&](Txn& txn) -> Result<void> {
        for (int i = 0; i < kKeys; ++i) TRY(index().put(txn, key_of(i), "v"));
        return {};
    });
    locks_ = store().prepared()[0].locks;
    EXPECT_GE(locks_, uint64_t{kKeys});
    Lsn at = end();
    bool was_in_doubt = false, is_gone = false;
    for (int n = 0; n < 20 && !(was_in_doubt && is_gone) && !HasFailure(); ++n) {
        at = restore({.until = at});
        is_gone = store().prepared().empty();
        if (is_gone) {
            for (const int i : {0, kKeys / 2, kKeys - 1}) EXPECT_EQ(get(key_of(i)), "-");
            expect_sound();
        } else {
            was_in_doubt = true;
            EXPECT_EQ(store().prepared()[0].locks, locks_);
            for (const int i : {0, kKeys / 2, kKeys - 1}) EXPECT_EQ(get(key_of(i)), "locked");
        }
        at = Lsn{at.value - 1};
    }
    EXPECT_TRUE(was_in_doubt && is_gone);
}

}  // namespace lockstep::prepared_restore_test
