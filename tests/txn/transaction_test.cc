// labels: unit
// transaction_test.cc - begin, commit, abort, admission, ids, and what checkpoints are told.
#include "txn/transaction.h"

#include <algorithm>
#include <atomic>
#include <map>
#include <set>

#include "tests/txn/log/log_test_util.h"
#include "threads/base/check.h"
#include "threads/thread/thread.h"

namespace lockstep::txn::test::transaction_test {

struct TxnBench : Bench {
    explicit TxnBench(const std::string& directory, uint32_t workers = 1, uint32_t slots = 128)
        : Bench(options_for(directory), workers) {
        create();
        locks = std::make_unique<LockManager>(LockOptions{.buckets_log2 = 10, .owners_max = 1024});
        table = std::make_unique<TransactionTable>(*log, *locks, slots);
    }
    ~TxnBench() { table.reset(); }
    static LogOptions options_for(const std::string& directory) {
        LogOptions options = small_options(directory);
        options.capacity_bytes = 64 << 20;
        options.lazy_flush_interval = 1000 * kSecond;  // nothing becomes durable by itself
        return options;
    }
    // A record of the transaction.
    Lsn write(Transaction& txn, uint64_t number = 0) {
        CHECK(log->reserve_undo(txn.undo, 72, 72));
        const LogSpace space = log->reserve(72);
        LogRecordHeader* header = space.header();
        header->prev = TransactionTable::chain(txn, space.lsn).value;
        header->txn = txn.id.value;
        header->kind = kTestKind;
        header->flags = kLogUndoable;
        header->parts = 0;
        header->object = 40;
        fill_payload(space.payload(), 40, txn.id.value, number);
        log->publish(space);
        return space.lsn;
    }
    std::unique_ptr<LockManager> locks;
    std::unique_ptr<TransactionTable> table;
};

struct Seen {
    Lsn lsn;
    uint64_t txn, prev;
    uint16_t kind;
};
std::vector<Seen> all_records(Bench& bench) {
    std::vector<Seen> seen;
    LogReader reader(*bench.disk, bench.options);
    LogRecordView record;
    while (*reader.next(record))
        seen.push_back({record.lsn, record.header->txn, record.header->prev, record.header->kind});
    return seen;
}

constexpr uint16_t kCommitKind = static_cast<uint16_t>(TxnLogKind::commit),
                   kEndKind = static_cast<uint16_t>(TxnLogKind::end);

TEST(Transactions, CommitAndAbortLeaveTheirRecords) {
    TempDirectory directory;
    TxnBench bench(directory.path());
    bench.run([&] {
        Transaction* a = *bench.table->begin({});
        EXPECT_EQ(bench.table->oldest_first_lsn(), kLsnMax);
        const Lsn first = bench.write(*a), second = bench.write(*a);
        EXPECT_EQ(a->first_lsn.load(), first.value);
        EXPECT_EQ(a->last_lsn, second);
        EXPECT_EQ(bench.table->oldest_first_lsn(), first);
        const auto end = bench.table->commit(*a);
        ASSERT_TRUE(end);
        EXPECT_GE(bench.log->durable(), *end);

        Transaction* b = *bench.table->begin({});
        bench.write(*b);
        b->state = TxnState::aborting;
        bench.table->finish_abort(*b, true);
        Transaction* c = *bench.table->begin({});  // writes nothing, leaves nothing
        const auto nothing = bench.table->commit(*c);
        ASSERT_TRUE(nothing);
        EXPECT_EQ(*nothing, kLsnNone);
        bench.table->finish_abort(**bench.table->begin({}), true);
        EXPECT_EQ(bench.table->active(), 0u);
        EXPECT_EQ(bench.log->undo_reserved_bytes(), 0u);
    });
    bench.log->stop_flusher();
    const auto seen = all_records(bench);
    ASSERT_EQ(seen.size(), 5u);
    EXPECT_EQ(seen[0].prev, 0u);
    EXPECT_EQ(seen[1].prev, seen[0].lsn.value);
    EXPECT_EQ(seen[2].kind, kCommitKind);
    EXPECT_EQ(seen[2].prev, seen[1].lsn.value);
    EXPECT_EQ(seen[4].kind, kEndKind);
    EXPECT_EQ(seen[4].prev, seen[3].lsn.value);
}

// TX-3: what a durable reader may have read from is durable before it is told so; lazy ones, and
// readers of other things, wait for nothing.
TEST(Transactions, DurableReadersWaitForWhatTheyMayHaveRead) {
    TempDirectory directory;
    TxnBench bench(directory.path(), 2);
    const LockName name{1}, other{(1 << 7) | 1};  // in two buckets
    Lsn end{};
    bench.run([&] {
        Transaction* writer = *bench.table->begin({.durability = Durability::lazy});
        ASSERT_TRUE(bench.locks->lock(writer->locks, name, LockMode::X));
        bench.write(*writer);
        end = *bench.table->commit(*writer);
        EXPECT_LT(bench.log->durable(), end);
        Transaction* lazy =
            *bench.table->begin({.durability = Durability::lazy, .read_only = true});
        ASSERT_TRUE(bench.locks->lock(lazy->locks, name, LockMode::S));
        ASSERT_TRUE(bench.table->commit(*lazy));
        EXPECT_LT(bench.log->durable(), end);
        Transaction* reader = *bench.table->begin({.read_only = true});
        ASSERT_TRUE(bench.locks->lock(reader->locks, other, LockMode::S));
        ASSERT_TRUE(bench.table->commit(*reader));
        EXPECT_LT(bench.log->durable(), end);
    });
    bench.run(
        [&] {
            Transaction* reader = *bench.table->begin({.read_only = true});
            ASSERT_TRUE(bench.locks->lock(reader->locks, name, LockMode::S));
            ASSERT_TRUE(bench.table->commit(*reader));
            EXPECT_GE(bench.log->durable(), end);
        },
        1);
}

// Locks are free before the commit is durable.
TEST(Transactions, LocksAreReleasedEarly) {
    TempDirectory directory;
    TxnBench bench(directory.path());
    const LockName name{12345};
    std::atomic<bool> granted_early{false};
    threads::Completion done;
    bench.run([&] {
        Transaction* a = *bench.table->begin({});
        ASSERT_TRUE(bench.locks->lock(a->locks, name, LockMode::X));
        bench.write(*a);
        ASSERT_TRUE(bench.runtime->spawn(0, "second", [&] {
            Transaction* b = *bench.table->begin({});
            ASSERT_TRUE(bench.locks->lock(b->locks, name, LockMode::X));
            granted_early = bench.log->durable() < bench.log->tail();
            ASSERT_TRUE(bench.table->commit(*b));
            EXPECT_EQ(bench.log->durable(), bench.log->tail());
            done.set();
        }));
        threads::yield();
        ASSERT_TRUE(bench.table->commit(*a));
    });
    done.wait();
    EXPECT_TRUE(granted_early);
}

// A durable snapshot that ends waits for the newest commit record, whichever worker wrote it.
TEST(Transactions, TheNewestCommitOfAnyWorkerIsWaitedFor) {
    TempDirectory directory;
    TxnBench bench(directory.path(), 3);
    for (uint32_t writer = 0; writer < 3; ++writer)
        for (uint32_t reader = 0; reader < 3; ++reader) {
            Lsn committed{};
            bench.run(
                [&] {
                    Transaction* txn = *bench.table->begin({.durability = Durability::lazy});
                    bench.write(*txn);
                    committed = *bench.table->commit(*txn);
                },
                writer);
            EXPECT_LT(bench.log->durable(), committed);
            EXPECT_EQ(bench.table->newest_commit(), committed);
            bench.run(
                [&] {
                    Transaction* txn = *bench.table->begin({});
                    txn->isolation = Isolation::snapshot;
                    txn->sees = bench.log->tail();
                    ASSERT_TRUE(bench.table->commit(*txn));
                    EXPECT_GE(bench.log->durable(), committed);
                },
                reader);
        }
}

TEST(Transactions, BeginWaitsForASlotInOrder) {
    TempDirectory directory;
    TxnBench bench(directory.path(), 1, 3);
    std::vector<int> order;
    threads::Completion done;
    bench.run([&] {
        std::vector<Transaction*> taken;
        for (int i = 0; i < 3; ++i) taken.push_back(*bench.table->begin({}));
        for (int i = 0; i < 5; ++i)
            ASSERT_TRUE(bench.runtime->spawn(0, "waits", [&, i] {
                Transaction* txn = *bench.table->begin({});
                order.push_back(i);
                threads::yield();
                ASSERT_TRUE(bench.table->commit(*txn));
                if (order.size() == 5 && i == 4) done.set();
            }));
        for (int i = 0; i < 10; ++i) threads::yield();
        EXPECT_TRUE(order.empty());
        EXPECT_EQ(bench.table->active(), 3u);
        EXPECT_EQ(bench.table->waiting(), 5u);
        for (Transaction* txn : taken) ASSERT_TRUE(bench.table->commit(*txn));
    });
    done.wait();
    EXPECT_EQ(order, (std::vector<int>{0, 1, 2, 3, 4}));
}

TEST(Transactions, FewSlotsServeManyThreadsOnSeveralWorkers) {
    TempDirectory directory;
    TxnBench bench(directory.path(), 3, 5);
    constexpr uint32_t kThreads = 60, kEach = 100;
    std::atomic<uint32_t> left{kThreads}, live{0}, most{0};
    std::vector<std::vector<uint64_t>> ids(kThreads);
    threads::Completion done;
    for (uint32_t t = 0; t < kThreads; ++t)
        ASSERT_TRUE(bench.runtime->spawn(t, "works", [&, t] {
            for (uint32_t n = 0; n < kEach; ++n) {
                Transaction* txn = *bench.table->begin({.durability = Durability::lazy});
                const uint32_t now_live = live.fetch_add(1) + 1;
                for (uint32_t m = most; m < now_live && !most.compare_exchange_weak(m, now_live);) {
                }
                ids[t].push_back(txn->id.value);
                if (n % 3 == 0) bench.write(*txn);
                if (n % 5 == 0) threads::yield();
                live.fetch_sub(1);
                if (n % 7 == 0) bench.table->finish_abort(*txn, true);
                else ASSERT_TRUE(bench.table->commit(*txn));
            }
            if (left.fetch_sub(1) == 1) done.set();
        }));
    done.wait();
    EXPECT_LE(most.load(), 5u);
    EXPECT_EQ(bench.table->active(), 0u);
    std::set<uint64_t> distinct;
    for (const auto& list : ids) distinct.insert(list.begin(), list.end());
    EXPECT_EQ(distinct.size(), kThreads * kEach);
    EXPECT_GT(bench.table->next_id().value, *distinct.rbegin());
}

TEST(Transactions, IdsContinueWhereTheyAreTold) {
    TempDirectory directory;
    TxnBench bench(directory.path());
    bench.run([&] {
        Transaction* a = *bench.table->begin({});
        const uint64_t generation = a->generation;
        ASSERT_TRUE(bench.table->commit(*a));
        bench.table->set_next_id(TxnId{5000});
        Transaction* b = *bench.table->begin({});
        EXPECT_EQ(b->id.value, 5000u);
        EXPECT_EQ(a, b);
        EXPECT_GT(b->generation, generation);
        const Lsn first = bench.write(*b), last = bench.write(*b);
        ASSERT_TRUE(bench.table->commit(*b));
        Transaction* loser = *bench.table->adopt(TxnId{90000}, first, last);
        EXPECT_EQ(loser->id.value, 90000u);
        EXPECT_EQ(loser->state, TxnState::aborting);
        EXPECT_EQ(loser->undo_next, last);
        EXPECT_EQ(bench.table->oldest_first_lsn(), first);
        bench.table->finish_abort(*loser, true);
        Transaction* c = *bench.table->begin({});
        EXPECT_GT(c->id.value, 90000u);
        ASSERT_TRUE(bench.table->commit(*c));
    });
}

TEST(Transactions, CloseSendsWaitersAwayAndWaitsForTheLiving) {
    TempDirectory directory;
    TxnBench bench(directory.path(), 2, 1);
    std::atomic<int> sent_away{0};
    std::atomic<bool> ended{false};
    threads::Completion begun;
    ASSERT_TRUE(bench.runtime->spawn(0, "lives", [&] {
        Transaction* txn = *bench.table->begin({});
        for (int i = 0; i < 3; ++i)
            ASSERT_TRUE(bench.runtime->spawn(1, "waits", [&] {
                const auto none = bench.table->begin({});
                ASSERT_FALSE(none);
                EXPECT_EQ(none.error().code, ErrorCode::store_closed);
                sent_away.fetch_add(1);
            }));
        begun.set();
        threads::sleep_until(threads::now() + 30 * kMillisecond);
        bench.write(*txn);
        ended = true;
        ASSERT_TRUE(bench.table->commit(*txn));
    }));
    begun.wait();
    bench.table->close();
    EXPECT_TRUE(ended);
    EXPECT_EQ(bench.table->active(), 0u);
    bench.run([&] { EXPECT_EQ(bench.table->begin({}).error().code, ErrorCode::store_closed); });
    for (int i = 0; i < 1000 && sent_away < 3; ++i)
        bench.run([] { threads::sleep_until(threads::now() + kMillisecond); });
    EXPECT_EQ(sent_away, 3);
}

TEST(Transactions, AFailedStoreAcknowledgesNothing) {
    TempDirectory directory;
    TxnBench bench(directory.path());
    bench.run([&] {
        Transaction* durable = *bench.table->begin({});
        Transaction* lazy = *bench.table->begin({.durability = Durability::lazy});
        Transaction* aborts = *bench.table->begin({});
        for (Transaction* txn : {durable, lazy, aborts}) bench.write(*txn);
        bench.log->fail_store({.what = "test", .cause = {.code = ErrorCode::io_error, .os = EIO}});
        EXPECT_EQ(bench.table->commit(*durable).error().code, ErrorCode::store_failed);
        EXPECT_EQ(bench.table->commit(*lazy).error().code, ErrorCode::store_failed);
        bench.table->finish_abort(*aborts, true);
        EXPECT_EQ(bench.table->begin({}).error().code, ErrorCode::store_failed);
        EXPECT_EQ(bench.table->active(), 0u);
    });
}

// TX-4, on several workers: take a begin LSN, ask who lives, and compare with the log as it turns
// out.
TEST(Transactions, CheckpointsMissNobodyAndListNoCommitted) {
    TempDirectory directory;
    TxnBench bench(directory.path(), 3);
    struct Asked {
        Lsn begin, end, oldest;
        std::map<uint64_t, Lsn> live;
    };
    std::vector<Asked> asked;
    std::atomic<bool> stop{false};
    std::atomic<uint32_t> left{6}, ended{0};
    threads::Completion done;
    for (uint32_t t = 0; t < 6; ++t)
        ASSERT_TRUE(bench.runtime->spawn(1 + t % 2, "works", [&, t] {
            Rng rng(t);
            while (!stop) {
                Transaction* txn = *bench.table->begin({.durability = Durability::lazy});
                for (uint64_t n = rng.below(4); n > 0; --n) {
                    bench.write(*txn);
                    if (rng.chance(0.3)) threads::yield();
                }
                if (rng.chance(0.2)) bench.table->finish_abort(*txn, true);
                else ASSERT_TRUE(bench.table->commit(*txn));
                ++ended;
                threads::yield();
            }
            if (left.fetch_sub(1) == 1) done.set();
        }));
    bench.run([&] {
        for (int i = 0; (i < 300 || ended < 400) && bench.log->tail().value < 40u << 20; ++i) {
            Asked a;
            a.begin = append(*bench.log, 0, 0, 8);
            a.oldest = bench.table->oldest_first_lsn();
            for (const auto& live : bench.table->live()) a.live[live.id.value] = live.first;
            a.end = bench.log->tail();
            asked.push_back(std::move(a));
            threads::sleep_until(threads::now() + 100 * kMicrosecond);
        }
    });
    stop = true;
    done.wait();
    bench.log->stop_flusher();
    struct Life {
        uint64_t txn;
        Lsn first, last;  // first record; commit or end record
    };
    std::map<uint64_t, Life> lives;
    for (const Seen& s : all_records(bench)) {
        if (s.txn == 0) continue;
        Life& life = lives.try_emplace(s.txn, Life{s.txn, s.lsn, kLsnNone}).first->second;
        if (s.kind == kCommitKind || s.kind == kEndKind) life.last = s.lsn;
    }
    EXPECT_GT(lives.size(), 100u);
    // Each question is compared with each transaction.
    std::vector<Life> all;
    for (const auto& [txn, life] : lives) {
        ASSERT_NE(life.last, kLsnNone);
        all.push_back(life);
    }
    for (const Asked& a : asked) {
        for (const auto& [txn, lsn] : a.live) {
            EXPECT_EQ(lives.at(txn).first, lsn);
            EXPECT_GT(lives.at(txn).last, a.begin)
                << "listed although it had ended before the checkpoint began";
        }
        for (const Life& life : all) {
            if (life.first >= a.begin || life.last < a.end) continue;
            EXPECT_TRUE(a.live.contains(life.txn)) << "missed";
            EXPECT_LE(a.oldest, life.first);
        }
    }
}

}  // namespace lockstep::txn::test::transaction_test
