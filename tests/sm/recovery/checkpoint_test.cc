// labels: unit
// checkpoint_test.cc - the image rule, the bound on the log, transactions that live
// through checkpoints.
#include <set>

#include "sm/api/engine_of.h"
#include "tests/sm/store_crash_util.h"

namespace lockstep::checkpoint_test {

class CheckpointTest : public StoreCrash {};

struct LogWalk {
    uint64_t begins = 0, ends = 0, images = 0, bare = 0;
};

// From each checkpoint's begin record on, the first part of every page must bring the page with it
// (PC-3).
void check_images(const std::string& directory, uint64_t segment_bytes, Lsn from, LogWalk& walk) {
    auto disk = threads::make_disk();
    txn::LogReader reader(*disk, {.directory = directory, .segment_bytes = segment_bytes});
    reader.seek(from);
    std::set<uint32_t> seen;
    for (txn::LogRecordView record; *reader.next(record);) {
        if (record.header->kind == static_cast<uint16_t>(txn::TxnLogKind::checkpoint_begin)) {
            ++walk.begins;
            seen.clear();
        }
        walk.ends += record.header->kind == static_cast<uint16_t>(txn::TxnLogKind::checkpoint_end);
        if (record.header->kind < txn::kSmLogKindFirst) continue;
        uint32_t cursor = 0;
        for (sm::PartView part; *sm::next_part(record, cursor, part);) {
            const bool brings = (part.flags & sm::kPartFresh) || !part.image.empty();
            if (walk.begins > 0 && seen.insert(part.page.value).second) {
                EXPECT_TRUE(brings) << "page " << part.page.value << " at " << record.lsn.value;
            }
            (brings ? walk.images : walk.bare)++;
        }
    }
}

// PC-3, under load on two workers.
TEST_F(CheckpointTest, FirstChangeAfterACheckpointBringsThePage) {
    Options options = small_options(2);
    options.log_bytes = 1ull << 30;
    options.checkpoint_log_bytes = 512 << 20;  // only when asked
    Store store = open("a", options);
    make(store, "i", "h");
    const Lsn from{sm::engine_of(store).superblock.checkpoint_lsn};
    std::atomic<bool> stop{false};
    std::vector<Handle<void>> handles;
    for (int n = 0; n < 4; ++n)
        handles.push_back(store.start(
            [&, n]() -> Result<void> {
                Rng rng(seed_of_run() + static_cast<uint64_t>(n));
                while (!stop.load()) {
                    TRY(store.run(
                        [&](Txn& txn) -> Result<void> {
                            for (int i = 0; i < 4; ++i)
                                TRY(TRY(store.index("i"))
                                        .put(txn, std::to_string(n) + random_text(rng, 2),
                                             random_text(rng, 50)));
                            TRY(TRY(store.heap("h")).insert(txn, random_text(rng, 80)));
                            return {};
                        },
                        {.durability = txn::Durability::lazy}));
                    yield();
                }
                return {};
            },
            n % 2));
    for (int i = 0; i < 8; ++i) ASSERT_OK(store.checkpoint());
    stop = true;
    for (auto& handle : handles) ASSERT_OK(handle.join());
    ASSERT_OK(store.wait_durable(sm::engine_of(store).log->tail()));
    LogWalk walk;
    check_images(path("a"), *options.log_segment_bytes,
                 std::max(from, sm::engine_of(store).log->start()), walk);
    EXPECT_GT(walk.begins, 0u);
    EXPECT_GT(walk.images, 0u);
    EXPECT_GT(walk.bare, walk.begins);
    expect_sound(store);
    ASSERT_OK(store.close());
}

// The same at the edge: nothing is in the log between the change, the checkpoint and the next
// change of that page, on a running store and behind a restart.
TEST_F(CheckpointTest, ThePageThatChangedLastBeforeACheckpointBringsItself) {
    Options options = small_options();
    options.checkpoint_log_bytes = 512 << 20;
    options.log_bytes = 1ull << 30;
    Lsn from;
    {
        Store store = open("a", options);
        make(store, "i", "h");
        from = Lsn{sm::engine_of(store).superblock.checkpoint_lsn};
        on_thread(store, [&] {
            const Index index = *store.index("i");
            auto txn = store.begin();
            ASSERT_OK(txn);
            for (int i = 0; i < 20; ++i) {
                ASSERT_OK(index.put(*txn, "key", "value " + std::to_string(i)));
                ASSERT_OK(store.checkpoint());
            }
            ASSERT_OK(txn->commit());
            copy("a", "b");
        });
        LogWalk walk;
        check_images(path("a"), *options.log_segment_bytes,
                     std::max(from, sm::engine_of(store).log->start()), walk);
        EXPECT_GE(walk.begins, 19u);
        ASSERT_OK(store.close());
    }
    Store again = open("b", options);
    const Lsn start{sm::engine_of(again).superblock.checkpoint_lsn};
    on_thread(again, [&] {
        auto txn = again.begin();
        ASSERT_OK(txn);
        ASSERT_OK(again.index("i")->put(*txn, "key", "value behind the restart"));
        ASSERT_OK(txn->commit());
    });
    ASSERT_OK(again.close());
    LogWalk walk;
    check_images(path("b"), *options.log_segment_bytes, start, walk);
    EXPECT_GT(walk.images, 0u);
}

TEST_F(CheckpointTest, LogStaysBoundedAndRestartShort) {
    Options options = small_options();
    options.log_segment_bytes = 1 << 20;
    options.log_ring_bytes = 1 << 20;
    options.checkpoint_log_bytes = 4 << 20;
    options.sync = false;
    Store store = open("a", options);
    make(store, "i", "h");
    on_thread(store, [&] {
        Rng rng(seed_of_run());
        const Index index = *store.index("i");
        uint64_t most = 0;
        for (int i = 0; i < 40'000 && !HasFatalFailure(); ++i) {
            auto txn = store.begin({.durability = txn::Durability::lazy});
            ASSERT_OK(txn);
            ASSERT_OK(
                index.put(*txn, "key" + std::to_string(rng.below(2000)), random_text(rng, 1500)));
            ASSERT_OK(txn->commit());
            most = std::max(most, sm::engine_of(store).log->used_bytes());
            if (i % 8 == 0) yield();
        }
        EXPECT_LT(most, options.log_bytes);
        EXPECT_GT(sm::engine_of(store).log->tail().value, options.log_bytes)
            << "the log has gone round at least once";
        EXPECT_GT(sm::engine_of(store).checkpointer->completed(), 3u);
    });
    // The background one is through.
    ASSERT_OK(store.checkpoint());
    expect_sound(store);
    ASSERT_OK(store.close());
}

// Lazy writers outrun any checkpoint of so small a log: new transactions wait for room, none of
// them meets log_full.
TEST_F(CheckpointTest, ATransactionWaitsForRoomInTheLogBeforeItBegins) {
    Options options = small_options();
    options.log_bytes = 16 << 20;
    options.log_segment_bytes = 1 << 20;
    options.log_ring_bytes = 1 << 20;
    options.retries_max = 0;
    Store store = open("a", options);
    make(store, "i", "h");
    std::vector<Handle<void>> handles;
    for (int n = 0; n < 4; ++n)
        handles.push_back(store.start([&, n]() -> Result<void> {
            Rng rng(seed_of_run() + static_cast<uint64_t>(n));
            for (int t = 0; t < 600; ++t) {
                TRY(store.run(
                    [&](Txn& txn) -> Result<void> {
                        for (int i = 0; i < 8; ++i)
                            TRY(TRY(store.index("i"))
                                    .put(txn, std::to_string(n) + random_text(rng, 2),
                                         random_text(rng, 1500)));
                        return {};
                    },
                    {.durability = txn::Durability::lazy}));
            }
            return {};
        }));
    for (auto& handle : handles) {
        auto done = handle.join();
        EXPECT_TRUE(done) << done.error().text();
    }
    EXPECT_GT(store.stats().log_bytes, options.log_bytes * 2);
    expect_sound(store);
}

TEST_F(CheckpointTest, TransactionsLiveThroughCheckpoints) {
    std::map<std::string, std::string> expected;
    {
        Store store = open("a");
        make(store, "i", "h");
        on_thread(store, [&] {
            const Index index = *store.index("i");
            auto loser = store.begin(), winner = store.begin(), silent = store.begin();
            ASSERT_OK(index.insert(*loser, "lost", "x"));
            ASSERT_OK(index.insert(*silent, "silent", "never writes again"));
            ASSERT_OK(index.insert(*winner, "won", "y"));
            ASSERT_OK(store.checkpoint());
            ASSERT_OK(index.insert(*loser, "lost too", "x"));
            ASSERT_OK(store.checkpoint());
            ASSERT_OK(winner->commit());
            ASSERT_OK(store.checkpoint());
            EXPECT_LT(sm::engine_of(store).superblock.log_start,
                      sm::engine_of(store).superblock.checkpoint_lsn);
            ASSERT_OK(store.wait_durable(sm::engine_of(store).log->tail()));
            copy("a", "b");
            ASSERT_OK(loser->abort());
            ASSERT_OK(silent->commit());
        });
        ASSERT_OK(store.close());
    }
    Store store = open("b");
    EXPECT_EQ(index_content(store, "i"), (std::map<std::string, std::string>{{"won", "y"}}));
    expect_sound(store);
    ASSERT_OK(store.close());
}

TEST_F(CheckpointTest, ManyLiveTransactionsTakeSeveralRecords) {
    Options options = small_options();
    options.transactions_max = 20'000;
    options.log_bytes = 256 << 20;
    {
        Store store = open("a", options);
        make(store, "i", "h");
        on_thread(store, [&] {
            std::vector<Txn> live;
            for (int i = 0; i < 10'000; ++i) {
                auto txn = store.begin({.durability = txn::Durability::lazy});
                ASSERT_OK(txn);
                ASSERT_OK(store.heap("h")->insert(*txn, "loser " + std::to_string(i)));
                live.push_back(std::move(*txn));
            }
            ASSERT_OK(store.checkpoint());
            ASSERT_OK(store.wait_durable(sm::engine_of(store).log->tail()));
            copy("a", "b");
            for (Txn& txn : live) ASSERT_OK(txn.commit());
        });
        ASSERT_OK(store.close());
    }
    Store all = open("a", options);
    EXPECT_EQ(heap_content(all, "h").size(), 10'000u);
    ASSERT_OK(all.close());
    Store none = open("b", options);
    EXPECT_EQ(heap_content(none, "h").size(), 0u);
    expect_sound(none);
    ASSERT_OK(none.close());
}

}  // namespace lockstep::checkpoint_test
