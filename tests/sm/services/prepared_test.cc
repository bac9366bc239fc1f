// labels: unit sim
// prepared_test.cc - prepared transactions while the store stays open: votes, names, locks, the
// second phase from any thread.
#include <algorithm>
#include <vector>

#include <lockstep/secondary.h>
#include "sm/engine/engine.h"
#include "tests/sm/services/prepared_test_util.h"

namespace lockstep::prepared_test {

using Prepared = PreparedTest;

TEST_F(Prepared, CommitsWhenItIsTold) {
    ASSERT_OK(put_now("k", "before"));
    must_prepare("global 7", put("k", "after"));
    EXPECT_EQ(get("k"), "locked");
    expect_ended(store().commit_prepared("global 7"));
    EXPECT_EQ(get("k"), "after");
    EXPECT_TRUE(store().prepared().empty());
}

TEST_F(Prepared, RollsBackWhenItIsTold) {
    ASSERT_OK(put_now("k", "before"));
    must_prepare("global 7", [&](Txn& txn) -> Result<void> {
        TRY(index().put(txn, "k", "after"));
        TRY(index().put(txn, "new", "value"));
        TRY(heap().insert(txn, "record"));
        return {};
    });
    expect_ended(store().rollback_prepared("global 7"));
    EXPECT_EQ(get("k"), "before");
    EXPECT_EQ(get("new"), "-");
    EXPECT_TRUE(store().prepared().empty());
}

TEST_F(Prepared, ARepeatedSecondPhaseFindsNothing) {
    expect_ended(store().commit_prepared("unknown"), false);
    expect_ended(store().rollback_prepared("unknown"), false);
    must_prepare("g", put("k", "v"));
    expect_ended(store().commit_prepared("g"));
    expect_ended(store().commit_prepared("g"), false);
    expect_ended(store().rollback_prepared("g"), false);
    EXPECT_EQ(get("k"), "v");
    must_prepare("g", put("k", "w"));  // the name is free again
    expect_ended(store().rollback_prepared("g"));
    EXPECT_EQ(get("k"), "v");
}

TEST_F(Prepared, IsListed) {
    must_prepare("first", put("a", "1"));
    sim().on_thread([] { sleep_for(kSecond); });
    must_prepare("second", put("b", "1"), {}, 1);
    const auto all = store().prepared();
    ASSERT_EQ(all.size(), 2u);
    EXPECT_EQ(all[0].gid, "first");
    EXPECT_EQ(all[1].gid, "second");
    EXPECT_GE(all[0].age, all[1].age + kSecond);
    size_t found = 0;
    for (const TransactionInfo& of : store().transactions())
        for (const PreparedInfo& prepared : all) {
            if (of.id != prepared.id) continue;
            ++found;
            EXPECT_EQ(of.state, TransactionState::prepared);
            EXPECT_STREQ(transaction_state_name(of.state), "prepared");
            EXPECT_EQ(of.gid, prepared.gid);
            EXPECT_GT(of.locks, 0u);
            EXPECT_GE(prepared.locks, of.locks);
            EXPECT_GT(of.log_pinned_bytes, 0u);
        }
    EXPECT_EQ(found, 2u);
}

TEST_F(Prepared, IsCounted) {
    EXPECT_EQ(store().stats().prepared_open + store().stats().prepared_oldest_nanos, 0u);
    must_prepare("first", put("a", "1"));
    sim().on_thread([] { sleep_for(3 * kSecond); });
    must_prepare("second", put("b", "1"), {}, 1);
    EXPECT_EQ(store().stats().prepared_open, 2u);
    EXPECT_GE(store().stats().prepared_oldest_nanos, 3 * kSecond);
    EXPECT_LT(store().stats().prepared_oldest_nanos, 4 * kSecond);
    EXPECT_NE(store().metrics().find("\nlockstep_prepared_open 2\n"), std::string::npos);
    reopen();
    EXPECT_EQ(store().stats().prepared_open, 2u);
    expect_ended(store().commit_prepared("first"));
    EXPECT_EQ(store().stats().prepared_open, 1u);
    EXPECT_LT(store().stats().prepared_oldest_nanos, 3 * kSecond);
    expect_ended(store().rollback_prepared("second"));
    EXPECT_EQ(store().stats().prepared_open + store().stats().prepared_oldest_nanos, 0u);
}

TEST_F(Prepared, ALockErrorNamesTheHolder) {
    must_prepare(std::string("g\x01", 2), put("k", "v"));
    const auto refused = put_now("k", "other");
    ASSERT_EQ(code_of(refused), ErrorCode::lock_timeout);
    EXPECT_NE(refused.error().text().find("prepared as \"g\\x01\""), std::string::npos)
        << refused.error().text();
}

// Its thread goes on, and may even wait for it: that is no deadlock of one thread.
TEST_F(Prepared, BelongsToNoThread) {
    sim().on_thread([&] {
        auto txn = store().begin();
        ASSERT_OK(txn);
        ASSERT_OK(index().put(*txn, "k", "v"));
        ASSERT_OK(txn->prepare("g"));
        EXPECT_FALSE(txn->live());
        EXPECT_EQ(txn->id(), kTxnNone);
        EXPECT_EQ(code_of(txn->commit()), ErrorCode::txn_ended);
        EXPECT_EQ(code_of(txn->abort()), ErrorCode::txn_ended);
        auto next = store().begin();
        ASSERT_OK(next);
        std::string value;
        EXPECT_EQ(code_of(index().get(*next, "k", value)), ErrorCode::lock_timeout);
        ASSERT_OK(next->abort());
        expect_ended(store().commit_prepared("g"));
    });
    EXPECT_EQ(get("k"), "v");
}

// Its vote is in the log when the store fails, so only the next open knows what became of it.
TEST_F(Prepared, AFlushThatFailsEndsTheHandle) {
    const auto keep = [this](int, std::string_view text) { log += text; };
    configure = [keep](Options& options) { options.logger = keep; };
    reopen();
    ASSERT_OK(put_now("k", "before"));
    auto handle = store().start(
        [&]() -> Result<void> {
            Txn txn = TRY(store().begin());
            TRY(index().put(txn, "k", "after"));
            const auto vote = txn.prepare("g");
            EXPECT_EQ(code_of(vote), ErrorCode::store_failed);
            EXPECT_FALSE(txn.live());
            EXPECT_EQ(txn.id(), kTxnNone);
            EXPECT_EQ(code_of(txn.abort()), ErrorCode::txn_ended);
            return {};
        },
        0);
    ASSERT_TRUE(sim().step_until([&] {
        return std::ranges::any_of(engine().txns->seen(), [](const auto& seen) {
            return seen.state == txn::TxnState::prepared;
        });
    }));
    ASSERT_FALSE(handle.ready());
    engine().log->fail_store({.what = "test", .cause = {.code = ErrorCode::io_error, .os = EIO}});
    ASSERT_TRUE(sim().step_until([&] { return handle.ready(); }));
    sim().on_thread([&] { ASSERT_OK(handle.join()); });
    crash();
    for (const PreparedInfo& of : store().prepared()) EXPECT_EQ(of.gid, "g");
}

TEST_F(Prepared, EndsOnAnyThread) {
    for (const int begun : {0, 1})
        for (const int ended : {-1, 0, 1}) {
            SCOPED_TRACE(std::to_string(begun) + " " + std::to_string(ended));
            must_prepare("g", put("k", std::to_string(begun) + std::to_string(ended)), {}, begun);
            if (ended < 0) {
                expect_ended(store().commit_prepared("g"));
            } else {
                auto handle = store().start([&] { return store().commit_prepared("g"); }, ended);
                ASSERT_TRUE(sim().step_until([&] { return handle.ready(); }));
                sim().on_thread([&] { expect_ended(handle.join()); });
            }
            EXPECT_EQ(get("k"), std::to_string(begun) + std::to_string(ended));
        }
}

// PT-2
TEST_F(Prepared, OfTwoCallsAtOnceTheSecondWaits) {
    must_prepare("g", put("k", "v"), {}, 1);
    std::vector<bool> answers;
    bool listed = false;
    std::vector<Handle<void>> handles;
    for (int i = 0; i < 4; ++i)
        handles.push_back(store().start(
            [&]() -> Result<void> {
                const bool ended = TRY(store().commit_prepared("g"));
                listed = listed || !store().prepared().empty();
                answers.push_back(ended);
                return {};
            },
            i % 2));
    ASSERT_TRUE(sim().step_until([&] { return answers.size() == 4; }));
    EXPECT_FALSE(listed);
    EXPECT_EQ(std::ranges::count(answers, true), 1);
    EXPECT_EQ(get("k"), "v");
}

TEST_F(Prepared, AReaderHasNothingToDecide) {
    ASSERT_OK(put_now("k", "v"));
    const auto vote = prepare("g", [&](Txn& txn) -> Result<void> {
        std::string value;
        TRY(index().get(txn, "k", value));
        return {};
    });
    ASSERT_OK(vote);
    EXPECT_EQ(*vote, Vote::read_only);
    EXPECT_TRUE(store().prepared().empty());
    EXPECT_TRUE(store().transactions().empty());
    ASSERT_OK(put_now("k", "w"));
    expect_ended(store().commit_prepared("g"), false);
    const auto snapshot =
        prepare("g", [](Txn&) -> Result<void> { return {}; }, {.isolation = Isolation::snapshot});
    ASSERT_OK(snapshot);
    EXPECT_EQ(*snapshot, Vote::read_only);
}

TEST_F(Prepared, NamesAreChecked) {
    const std::string longest = std::string(kGidBytesMax - 1, 'x') + '\0';
    for (const std::string& gid : {std::string(), longest + "y"}) {
        EXPECT_EQ(code_of(prepare(gid, put("k", "v"))), ErrorCode::bad_argument);
        EXPECT_EQ(get("k"), "-");  // the handle has rolled it back
    }
    must_prepare(longest, put("k", "v"));
    const auto twice = prepare(longest, put("other", "v"));
    ASSERT_EQ(code_of(twice), ErrorCode::already_exists);
    EXPECT_NE(twice.error().text().find("xxx"), std::string::npos) << twice.error().text();
    must_prepare(longest.substr(1), put("third", "v"));
    EXPECT_EQ(store().prepared().size(), 2u);
    expect_ended(store().commit_prepared(longest));
    EXPECT_EQ(get("k"), "v");
    EXPECT_EQ(get("third"), "locked");
}

// The refused prepare has changed nothing: the transaction may commit by itself.
TEST_F(Prepared, ARefusedOneGoesOn) {
    must_prepare("g", put("a", "1"));
    sim().on_thread([&] {
        auto txn = store().begin();
        ASSERT_OK(txn);
        ASSERT_OK(index().put(*txn, "b", "2"));
        EXPECT_EQ(code_of(txn->prepare("g")), ErrorCode::already_exists);
        EXPECT_EQ(code_of(txn->prepare("")), ErrorCode::bad_argument);
        ASSERT_OK(index().put(*txn, "c", "3"));
        ASSERT_OK(txn->commit());
    });
    EXPECT_EQ(get("b"), "2");
    EXPECT_EQ(get("c"), "3");
}

// What must follow the end of such a transaction is in memory only (change/deferred.h).
TEST_F(Prepared, ChangesOfTheSchemaAreRefused) {
    SecondaryOptions second;
    second.of = index();
    second.key = [](Slice, Slice value, SecondaryKeys& keys) { keys.add(value.substr(0, 1)); };
    const std::vector<std::pair<const char*, Work>> changes = {
        {"create_index",
         [&](Txn& txn) -> Result<void> {
             TRY(store().create_index(txn, "new"));
             return {};
         }},
        {"create_heap",
         [&](Txn& txn) -> Result<void> {
             TRY(store().create_heap(txn, "new heap"));
             return {};
         }},
        {"secondary index",
         [&](Txn& txn) -> Result<void> {
             TRY(store().create_index(txn, "second", second));
             return {};
         }},
        {"bulk_load",
         [&](Txn& txn) {
             int left = 100;
             std::string key;
             return store().bulk_load(txn, *store().index("new"), [&](Slice& k, Slice& v) {
                 key = key_of(100 - left);
                 k = key, v = "v";
                 return left-- > 0;
             });
         }},
        {"undone to a savepoint",
         [&](Txn& txn) -> Result<void> {
             const Savepoint here = TRY(txn.savepoint());
             TRY(store().create_index(txn, "undone"));
             TRY(txn.rollback_to(here));
             return index().put(txn, "k", "v");
         }},
        {"drop", [&](Txn& txn) { return store().drop(txn, "new"); }},
    };
    for (const auto& [name, work] : changes) {
        SCOPED_TRACE(name);
        EXPECT_EQ(code_of(prepare("g", work)), ErrorCode::unsupported);  // and is rolled back
        sim().on_thread([&] {
            auto txn = store().begin();
            ASSERT_OK(txn);
            ASSERT_OK(work(*txn));
            const auto vote = txn->prepare("g");
            ASSERT_EQ(code_of(vote), ErrorCode::unsupported);
            const std::string text = vote.error().text();
            for (const char* part : {"changed the schema", "created, dropped or bulk-loaded",
                                     "commit() it alone", "a transaction of their own"})
                EXPECT_NE(text.find(part), std::string::npos) << text;
            ASSERT_OK(index().put(*txn, name, "goes on"));
            ASSERT_OK(txn->commit());
        });
        EXPECT_EQ(get(name), "goes on");
        EXPECT_TRUE(store().prepared().empty());
    }
    EXPECT_TRUE(store().heap("new heap") && store().index("second"));
    EXPECT_FALSE(store().index("new"));
    // To find what is there changes nothing.
    must_prepare("g", [&](Txn& txn) -> Result<void> {
        return TRY(store().open_or_create_index(txn, "i")).put(txn, "k", "w");
    });
    expect_ended(store().commit_prepared("g"));
    EXPECT_EQ(get("k"), "w");
}

TEST_F(Prepared, RollsBackToSavepointsBefore) {
    must_prepare("g", [&](Txn& txn) -> Result<void> {
        TRY(index().put(txn, "a", "1"));
        const Savepoint here = TRY(txn.savepoint());
        TRY(index().put(txn, "b", "2"));
        TRY(txn.rollback_to(here));
        return index().put(txn, "c", "3");
    });
    expect_ended(store().commit_prepared("g"));
    EXPECT_EQ(get("a") + get("b") + get("c"), "1-3");
}

TEST_F(Prepared, SnapshotsSeeItWhenItIsCommitted) {
    ASSERT_OK(put_now("k", "before"));
    sim().on_thread([&] {
        std::string value;
        const auto read = [&](Txn& txn) {
            EXPECT_TRUE(index().get(txn, "k", value).has_value());
            return value;
        };
        auto early = store().begin({.isolation = Isolation::snapshot});
        ASSERT_OK(early);
        auto txn = store().begin();
        ASSERT_OK(txn);
        ASSERT_OK(index().put(*txn, "k", "after"));
        ASSERT_OK(txn->prepare("g"));
        auto between = store().begin({.isolation = Isolation::snapshot});
        ASSERT_OK(between);
        EXPECT_EQ(read(*early), "before");
        EXPECT_EQ(read(*between), "before");
        expect_ended(store().commit_prepared("g"));
        EXPECT_EQ(read(*between), "before");
        ASSERT_OK(early->commit());
        ASSERT_OK(between->commit());
    });
    EXPECT_EQ(seen_by_snapshot("k"), "after");
}

TEST_F(Prepared, AnOperatorEndsItByItsGidOnly) {
    must_prepare("g", put("k", "v"));
    const auto all = store().prepared();
    ASSERT_EQ(all.size(), 1u);
    EXPECT_EQ(code_of(store().end_transaction(all[0].id)), ErrorCode::bad_argument);
    EXPECT_EQ(get("k"), "locked");
    sim().on_thread([] { sleep_for(10 * kSecond); });
    EXPECT_EQ(store().prepared().size(), 1u);
}

// Not even the age that ends others.
TEST_F(Prepared, DoesNotGrowTooOld) {
    configure = [](Options& o) { o.transaction_age_max = kSecond; };
    reopen();
    must_prepare("g", put("k", "v"));
    sim().on_thread([] { sleep_for(10 * kSecond); });
    expect_ended(store().commit_prepared("g"));
    EXPECT_EQ(get("k"), "v");
}

TEST_F(Prepared, HalfOfTheSlotsStayFree) {
    configure = [](Options& o) { o.transactions_max = 16; };
    reopen();
    for (int i = 0; i < 8; ++i) must_prepare(key_of(i), put(key_of(i), "v"));
    EXPECT_EQ(code_of(prepare("one more", put("k", "v"))), ErrorCode::too_many);
    EXPECT_EQ(get("k"), "-");
    expect_ended(store().commit_prepared(key_of(2)));
    must_prepare("one more", put("k", "v"));
}

TEST_F(Prepared, CloseLeavesItInDoubt) {
    must_prepare("g", put("k", "v"));
    ASSERT_OK(sim().close());
    EXPECT_NE(log.find("1 transactions stay in doubt"), std::string::npos) << log;
    open();
    EXPECT_EQ(get("k"), "locked");
    expect_ended(store().commit_prepared("g"));
    EXPECT_EQ(get("k"), "v");
}

TEST_F(Prepared, TheLocksStayAsTheyWere) {
    ASSERT_OK(put_now("read", "1"));
    ASSERT_OK(put_now("z", "1"));
    must_prepare("g", [&](Txn& txn) -> Result<void> {
        std::string value;
        TRY(index().get(txn, "read", value));
        TRY(index().get(txn, "absent", value));
        return index().put(txn, "z", "2");
    });
    EXPECT_EQ(get("read"), "1");
    EXPECT_EQ(code_of(put_now("read", "2")), ErrorCode::lock_timeout);
    EXPECT_EQ(code_of(put_now("absent", "2")), ErrorCode::lock_timeout);
    EXPECT_EQ(engine().locks->verify(), "");
    expect_ended(store().rollback_prepared("g"));
    ASSERT_OK(put_now("read", "2"));
    EXPECT_EQ(engine().locks->verify(), "");
}

}  // namespace lockstep::prepared_test
