// labels: unit sim
// prepared_restart_test.cc - transactions in doubt across power cuts and closes: they keep their
// changes, their locks, their log and their place in every later restart.
#include "sm/engine/engine.h"
#include "sm/recovery/recovery.h"
#include "tests/sm/services/prepared_test_util.h"

namespace lockstep::prepared_restart_test {

using PreparedRestart = PreparedTest;

constexpr auto kDrop = threads::SimCrash::drop_unsynced;

TEST_F(PreparedRestart, StaysInDoubtAfterEveryCrash) {
    ASSERT_OK(put_now("k", "before"));
    int round = 0;
    for (const threads::SimCrash mode : threads::kSimCrashes)
        for (const bool commits : {true, false}) {
            SCOPED_TRACE(std::to_string(static_cast<int>(mode)) + (commits ? " commits" : ""));
            const std::string before = get("k"), after = "v" + std::to_string(++round);
            must_prepare("g", put("k", after), {.durability = Durability::lazy});
            crash(mode);
            EXPECT_NE(log.find("1 transaction is in doubt and keeps"), std::string::npos) << log;
            ASSERT_EQ(store().prepared().size(), 1u);
            EXPECT_EQ(store().prepared()[0].gid, "g");
            EXPECT_GT(store().prepared()[0].locks, 0u);
            EXPECT_EQ(get("k"), "locked");
            crash(mode);  // and once more
            EXPECT_EQ(get("k"), "locked");
            if (commits) expect_ended(store().commit_prepared("g"));
            else expect_ended(store().rollback_prepared("g"));
            EXPECT_EQ(get("k"), commits ? after : before);
            if (!commits) ASSERT_OK(put_now("other", after));  // makes the rollback durable
            crash(mode);
            EXPECT_TRUE(store().prepared().empty());
            EXPECT_EQ(get("k"), commits ? after : before);
            expect_ended(store().commit_prepared("g"), false);
        }
}

TEST_F(PreparedRestart, WhatIsNotPreparedIsRolledBack) {
    must_prepare("g", put("a", "1"));
    bool written = false;
    auto handle = store().start([&]() -> Result<void> {
        Txn txn = TRY(store().begin());
        TRY(index().put(txn, "b", "1"));
        written = true;
        sleep_for(3600 * kSecond);
        return {};
    });
    ASSERT_TRUE(sim().step_until([&] { return written; }));
    ASSERT_OK(put_now("c", "1"));
    crash(threads::SimCrash::keep_all);
    EXPECT_EQ(get("a") + get("b") + get("c"), "locked-1");
    expect_ended(store().commit_prepared("g"));
    EXPECT_EQ(get("a"), "1");
}

// The list of a checkpoint is all that a restart sees of it.
TEST_F(PreparedRestart, CheckpointsListIt) {
    must_prepare("g", put("k", "v"));
    for (int i = 0; i < 3; ++i) {
        ASSERT_OK(store().checkpoint());
        ASSERT_OK(put_now("other", std::to_string(i)));
        crash();
        EXPECT_EQ(get("k"), "locked");
    }
    ASSERT_OK(store().checkpoint());
    expect_ended(store().commit_prepared("g"));
    crash();
    EXPECT_EQ(get("k"), "v");
}

TEST_F(PreparedRestart, ACleanCloseKeepsIt) {
    must_prepare("g", put("k", "v"));
    for (int i = 0; i < 3; ++i) {
        reopen();
        ASSERT_EQ(store().prepared().size(), 1u);
        EXPECT_EQ(get("k"), "locked");
        EXPECT_EQ(seen_by_snapshot("k"), "-");
        ASSERT_OK(put_now("other", std::to_string(i)));
    }
    expect_ended(store().rollback_prepared("g"));
    reopen();
    EXPECT_EQ(get("k"), "-");
}

// Without it a reader would take its changes for committed.
TEST_F(PreparedRestart, AReadOnlyOpenIsRefused) {
    must_prepare("g", put("k", "v"));
    close();
    configure = [](Options& o) { o.read_only = true; };
    const auto opened = try_open();
    EXPECT_EQ(code_of(opened), ErrorCode::not_closed);
    const std::string text = opened ? "" : opened.error().text();
    EXPECT_NE(text.find("in doubt"), std::string::npos) << text;
    configure = {};
    open();
    expect_ended(store().commit_prepared("g"));
    close();
    configure = [](Options& o) { o.read_only = true; };
    open();
    EXPECT_EQ(get("k"), "v");
}

// PP-1: a snapshot must not see a later writer of what it has read, and not its own changes.
TEST_F(PreparedRestart, ReadLocksComeBack) {
    for (const char* key : {"a", "c", "e"}) ASSERT_OK(put_now(key, "1"));
    must_prepare("g", [&](Txn& txn) -> Result<void> {
        std::string value;
        TRY(index().get(txn, "e", value));
        Cursor cursor = index().scan(txn, "a", "d");
        while (TRY(cursor.next())) {}
        return index().put(txn, "z", "1");
    });
    crash();
    for (const char* key : {"a", "c", "e"}) EXPECT_EQ(get(key), "1");
    for (const char* key : {"a", "c", "e", "b", "z"})
        EXPECT_EQ(code_of(put_now(key, "2")), ErrorCode::lock_timeout) << key;
    ASSERT_OK(put_now("f", "2"));
    EXPECT_EQ(engine().locks->verify(), "");
    expect_ended(store().commit_prepared("g"));
    ASSERT_OK(put_now("b", "2"));
    EXPECT_EQ(engine().locks->verify(), "");
}

// U may join an S, and S may not join a U. So some orders of their requests would be refused.
TEST_F(PreparedRestart, AReaderAndAnUpdateReaderOfOneRecordComeBack) {
    const std::string gids[] = {"reader", "updater"};
    for (const char* key : {"k", "reader", "updater"}) ASSERT_OK(put_now(key, "1"));
    RecordId record{};
    ASSERT_OK(change([&](Txn& txn) -> Result<void> {
        record = TRY(heap().insert(txn, "1"));
        return {};
    }));
    bool has_read[2], may_prepare[2];
    int changes = 1;
    const auto start = [&](size_t n, Access access) {
        has_read[n] = may_prepare[n] = false;
        auto handle = store().start([&, n, access]() -> Result<void> {
            Txn txn = TRY(store().begin());
            std::string value;
            TRY(index().get(txn, "k", value, access));
            TRY(heap().get(txn, record, value, access));
            TRY(index().put(txn, gids[n], std::to_string(++changes)));
            has_read[n] = true;
            while (!may_prepare[n]) sleep_for(kMillisecond);
            TRY(txn.prepare(gids[n]));
            return {};
        });
        EXPECT_TRUE(sim().step_until([&] { return has_read[n]; }));
        return handle;
    };
    const auto update_now = [&] {
        return code_of(change([&](Txn& txn) -> Result<void> {
            TRY(heap().update(txn, record, "2"));
            return {};
        }));
    };
    for (const size_t first : {0, 1})
        for (const bool by_crash : {true, false}) {
            SCOPED_TRACE(gids[first] + (by_crash ? " first, crash" : " first, close"));
            auto reader = start(0, Access::read), updater = start(1, Access::update);
            for (const size_t n : {first, 1 - first}) {
                may_prepare[n] = true;
                auto& handle = n == 0 ? reader : updater;
                ASSERT_TRUE(sim().step_until([&] { return handle.ready(); }));
            }
            ASSERT_EQ(store().prepared().size(), 2u);
            if (by_crash) crash();
            else reopen();
            ASSERT_EQ(store().prepared().size(), 2u);
            EXPECT_EQ(engine().locks->verify(), "");
            EXPECT_EQ(get("k"), "1");
            for (const std::string& gid : gids) {
                EXPECT_EQ(code_of(put_now("k", "2")), ErrorCode::lock_timeout) << gid;
                EXPECT_EQ(update_now(), ErrorCode::lock_timeout) << gid;
                expect_ended(store().commit_prepared(gid));
            }
            ASSERT_OK(put_now("k", "1"));
            EXPECT_EQ(update_now(), ErrorCode::none);
        }
}

TEST_F(PreparedRestart, LocksOfObjectsComeBack) {
    configure = [](Options& o) { o.escalate_at = 10; };
    reopen();
    ASSERT_OK(change([&](Txn& txn) -> Result<void> {
        TRY(heap().insert(txn, "first"));
        return index().put(txn, "k", "v");
    }));
    must_prepare("g", [&](Txn& txn) -> Result<void> {
        for (int i = 0; i < 50; ++i) TRY(index().put(txn, key_of(i), "v"));
        return heap().scan(txn, [](RecordId, Slice) { return true; });
    });
    crash();
    EXPECT_EQ(get("k"), "locked");
    EXPECT_EQ(code_of(change([&](Txn& txn) -> Result<void> {
                  TRY(heap().insert(txn, "second"));
                  return {};
              })),
              ErrorCode::lock_timeout);
    expect_ended(store().commit_prepared("g"));
    EXPECT_EQ(get("k") + get(key_of(49)), "vv");
    EXPECT_EQ(engine().locks->verify(), "");
}

// More objects than an owner has room for in its short list.
TEST_F(PreparedRestart, LocksOfManyObjectsComeBack) {
    constexpr int kObjects = 40;
    for (int i = 0; i < kObjects; ++i)
        ASSERT_OK(change([&](Txn& txn) -> Result<void> {
            const Index made = TRY(store().create_index(txn, key_of(i)));
            return made.put(txn, "k", "v");
        }));
    const auto all = [&](Txn& txn, int from) -> Result<void> {
        for (int i = from; i < kObjects; ++i) TRY(TRY(store().index(key_of(i))).put(txn, "k", "w"));
        return {};
    };
    must_prepare("g", [&](Txn& txn) { return all(txn, 0); });
    crash();
    for (const int i : {0, 31, 32, kObjects - 1}) {
        EXPECT_EQ(code_of(change([&](Txn& txn) { return store().drop(txn, key_of(i)); })),
                  ErrorCode::lock_timeout);
        EXPECT_EQ(code_of(change([&](Txn& txn) -> Result<void> {
                      return TRY(store().index(key_of(i))).put(txn, "k", "x");
                  })),
                  ErrorCode::lock_timeout);
    }
    expect_ended(store().commit_prepared("g"));
    ASSERT_OK(change([&](Txn& txn) { return all(txn, 0); }));
    EXPECT_EQ(engine().locks->verify(), "");
}

// They take two records.
TEST_F(PreparedRestart, ManyLocksComeBack) {
    constexpr int kKeys = 17000;
    configure = [](Options& o) {
        o.escalate_at = std::nullopt;
        o.log_bytes = 256 << 20;
    };
    reopen();
    must_prepare("g", [&](Txn& txn) -> Result<void> {
        for (int i = 0; i < kKeys; ++i) TRY(index().put(txn, key_of(i), "v"));
        return {};
    });
    crash();
    ASSERT_EQ(store().prepared().size(), 1u);
    EXPECT_GE(store().prepared()[0].locks, uint64_t{kKeys});
    for (const int i : {0, 1, kKeys / 2, kKeys - 1}) EXPECT_EQ(get(key_of(i)), "locked");
    expect_ended(store().commit_prepared("g"));
    EXPECT_EQ(get(key_of(kKeys - 1)), "v");
}

TEST_F(PreparedRestart, PinsItsLog) {
    configure = [](Options& o) {
        o.log_bytes = 16 << 20;
        o.checkpoint_log_bytes = 1 << 20;
    };
    reopen();
    ASSERT_OK(put_now("k", "before"));
    must_prepare("g", put("k", "after"));
    const auto write = [&](int i) {
        return put_now(key_of(i % 50), std::string(1000, static_cast<char>('a' + i / 50 % 26)));
    };
    for (int i = 0; i < 4000; ++i) ASSERT_OK(write(i));
    EXPECT_GT(engine().checkpointer->completed(), 1u);
    crash();
    EXPECT_EQ(get("k"), "locked");
    expect_ended(store().rollback_prepared("g"));
    EXPECT_EQ(get("k"), "before");
    for (int i = 0; i < 4000; ++i) ASSERT_OK(write(i));
    EXPECT_LT(engine().log->used_bytes(), 12u << 20);
}

// LOG-3 after a restart, too.
TEST_F(PreparedRestart, TheLogKeepsSpaceForItsRollback) {
    ASSERT_OK(change([&](Txn& txn) -> Result<void> {
        for (int i = 0; i < 500; ++i) TRY(index().put(txn, key_of(i), std::string(1000, 'a')));
        return {};
    }));
    must_prepare("g", [&](Txn& txn) -> Result<void> {
        for (int i = 0; i < 500; ++i) TRY(index().put(txn, key_of(i), std::string(1000, 'b')));
        return {};
    });
    const uint64_t promised = engine().log->undo_reserved_bytes();
    EXPECT_GT(promised, 500u * 1000);
    for (int i = 0; i < 2; ++i) {
        crash();
        EXPECT_GE(engine().log->undo_reserved_bytes(), promised / 10 * 9);
    }
    expect_ended(store().rollback_prepared("g"));
    EXPECT_EQ(get(key_of(499)), std::string(1000, 'a'));
    EXPECT_LT(engine().log->undo_reserved_bytes(), promised / 10);
}

TEST_F(PreparedRestart, SnapshotsDoNotSeeIt) {
    ASSERT_OK(put_now("k", "before"));
    ASSERT_OK(put_now("gone", "before"));
    must_prepare("g", [&](Txn& txn) -> Result<void> {
        TRY(index().put(txn, "k", "after"));
        TRY(index().put(txn, "new", "after"));
        EXPECT_TRUE(TRY(index().erase(txn, "gone")));
        return {};
    });
    crash();
    const auto seen = [&] {
        return seen_by_snapshot("k") + seen_by_snapshot("new") + seen_by_snapshot("gone");
    };
    EXPECT_EQ(seen(), "before-before");
    sim().on_thread([&] {
        auto early = store().begin({.isolation = Isolation::snapshot});
        ASSERT_OK(early);
        expect_ended(store().commit_prepared("g"));
        std::string value;
        ASSERT_OK(index().get(*early, "k", value));
        EXPECT_EQ(value, "before");
        ASSERT_OK(early->commit());
    });
    EXPECT_EQ(seen(), "afterafter-");
}

// A leaf is full of keys. One transaction erases half of them and prepares, another one fills the
// leaf and is rolled back by the restart: that must not take the ghosts.
TEST_F(PreparedRestart, GhostsStayForItsRollback) {
    const std::string text(60, 'x');
    ASSERT_OK(change([&](Txn& txn) -> Result<void> {
        for (int i = 0; i < 400; ++i) TRY(index().put(txn, key_of(i), text));
        return {};
    }));
    must_prepare("g", [&](Txn& txn) -> Result<void> {
        for (int i = 0; i < 400; i += 2) TRY(index().erase(txn, key_of(i)));
        return {};
    });
    bool written = false;
    auto handle = store().start([&]() -> Result<void> {
        Txn txn = TRY(store().begin());
        for (int i = 1; i < 400; i += 2) TRY(index().put(txn, key_of(i), "short"));
        written = true;
        sleep_for(3600 * kSecond);
        return {};
    });
    ASSERT_TRUE(sim().step_until([&] { return written; }));
    ASSERT_OK(put_now("other", "v"));
    crash(threads::SimCrash::keep_all);
    for (int i = 1; i < 400; i += 2) EXPECT_EQ(get(key_of(i)), text);
    sim().on_thread([] { sleep_for(10 * kSecond); });  // the ghost cleaner has its time
    for (int i = 0; i < 100; ++i) ASSERT_OK(put_now(key_of(1 + 2 * i), text + text));
    expect_ended(store().rollback_prepared("g"));
    for (int i = 0; i < 400; i += 2) EXPECT_EQ(get(key_of(i)), text);
}

TEST_F(PreparedRestart, ReplacedLargeValuesStayForItsRollback) {
    const std::string old(30000, 'a'), fresh(40000, 'b');
    for (const bool commits : {false, true}) {
        ASSERT_OK(put_now("k", old));
        ASSERT_OK(put_now("gone", old));
        must_prepare("g", [&](Txn& txn) -> Result<void> {
            TRY(index().put(txn, "k", fresh));
            TRY(index().erase(txn, "gone"));
            return index().put(txn, "new", fresh);
        });
        crash();
        reopen();
        sim().on_thread([] { sleep_for(10 * kSecond); });
        if (commits) expect_ended(store().commit_prepared("g"));
        else expect_ended(store().rollback_prepared("g"));
        EXPECT_EQ(get("k"), commits ? fresh : old);
        EXPECT_EQ(get("gone"), commits ? "-" : old);
        EXPECT_EQ(get("new"), commits ? fresh : "-");
        expect_sound();
        reopen();
        expect_sound();
        EXPECT_EQ(get("k"), commits ? fresh : old);
    }
}

TEST_F(PreparedRestart, HeapRecordsComeBack) {
    RecordId kept{}, gone{};
    ASSERT_OK(change([&](Txn& txn) -> Result<void> {
        kept = TRY(heap().insert(txn, "kept"));
        gone = TRY(heap().insert(txn, "gone"));
        return {};
    }));
    must_prepare("g", [&](Txn& txn) -> Result<void> {
        TRY(heap().update(txn, kept, "changed"));
        TRY(heap().erase(txn, gone));
        TRY(heap().insert(txn, "new"));
        return {};
    });
    crash();
    for (int i = 0; i < 20; ++i)
        ASSERT_OK(change([&](Txn& txn) -> Result<void> {
            TRY(heap().insert(txn, "other"));
            return {};
        }));
    expect_ended(store().rollback_prepared("g"));
    std::string value;
    ASSERT_OK(change([&](Txn& txn) -> Result<void> {
        EXPECT_TRUE(TRY(heap().get(txn, kept, value)));
        EXPECT_EQ(value, "kept");
        EXPECT_TRUE(TRY(heap().get(txn, gone, value)));
        EXPECT_EQ(value, "gone");
        return {};
    }));
}

// The first half of a rollback is on the disk: the next restart does the rest.
TEST_F(PreparedRestart, ARollbackThatACrashCutsIsFinished) {
    ASSERT_OK(change([&](Txn& txn) -> Result<void> {
        for (int i = 0; i < 300; ++i) TRY(index().put(txn, key_of(i), "before"));
        return {};
    }));
    must_prepare("g", [&](Txn& txn) -> Result<void> {
        for (int i = 0; i < 300; ++i) TRY(index().put(txn, key_of(i), "after!"));
        return {};
    });
    std::optional<Result<bool>> ended;
    auto handle = store().start([&]() -> Result<void> {
        ended = store().rollback_prepared("g");
        return {};
    });
    const Lsn before = engine().log->tail();
    ASSERT_TRUE(sim().step_until([&] { return ended || engine().log->tail() > before + 4000; }));
    ASSERT_OK(put_now("other", "v"));
    crash(kDrop);
    EXPECT_TRUE(store().prepared().empty());
    for (int i = 0; i < 300; ++i) EXPECT_EQ(get(key_of(i)), "before");
}

TEST_F(PreparedRestart, WhatAReaderVotedForIsDurable) {
    ASSERT_OK(store().run([&](Txn& txn) { return index().put(txn, "k", "v"); },
                          {.durability = Durability::lazy}));
    const auto vote = prepare("g",
                              [&](Txn& txn) -> Result<void> {
                                  std::string value;
                                  EXPECT_TRUE(TRY(index().get(txn, "k", value)));
                                  return {};
                              },
                              {.durability = Durability::lazy});
    ASSERT_OK(vote);
    EXPECT_EQ(*vote, Vote::read_only);
    crash(kDrop);
    EXPECT_EQ(get("k"), "v");
}

TEST_F(PreparedRestart, TooFewSlotsAreNamed) {
    for (int i = 0; i < 20; ++i) must_prepare(key_of(i), put(key_of(i), "v"));
    cut();
    configure = [](Options& o) { o.transactions_max = 16; };
    const auto refused = try_open();
    ASSERT_EQ(code_of(refused), ErrorCode::too_many);
    EXPECT_NE(refused.error().text().find("transactions_max"), std::string::npos)
        << refused.error().text();
    configure = {};
    open();
    EXPECT_EQ(store().prepared().size(), 20u);
}

TEST_F(PreparedRestart, ABackupHasItInDoubt) {
    ASSERT_OK(put_now("k", "before"));
    must_prepare("g", put("k", "after"));
    ASSERT_OK(store().checkpoint());
    ASSERT_OK(store().backup("/copy"));
    expect_ended(store().commit_prepared("g"));
    EXPECT_EQ(get("k"), "after");
    close();
    SimStore& copy = open_at("/copy");
    ASSERT_EQ(copy->prepared().size(), 1u);
    EXPECT_EQ(copy->prepared()[0].gid, "g");
    EXPECT_EQ(get("k"), "locked");
    expect_ended(copy->rollback_prepared("g"));
    EXPECT_EQ(get("k"), "before");
}

}  // namespace lockstep::prepared_restart_test
