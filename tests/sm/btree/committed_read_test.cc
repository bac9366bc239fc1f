// labels: model
// committed_read_test.cc - LM-9: reads at read_committed take no lock, wait for no reader, and see
// no open change of a transaction that runs beside them.
#include <lockstep/cursor.h>
#include <lockstep/index.h>

#include <atomic>
#include <functional>
#include <optional>

#include "sm/api/engine_of.h"
#include "sm/catalog/catalog.h"
#include "sm/engine/engine.h"
#include "sm/services/ghost_cleaner.h"
#include "tests/seed_of_run.h"
#include "tests/sm/store_crash_util.h"
#include "threads/base/rng.h"

namespace lockstep::committed_read_test {

constexpr uint32_t kRows = 24;
constexpr int kRounds = 1000;       // of reads
constexpr uint64_t kChanges = 100;  // at least
constexpr TxnOptions kCommitted{.isolation = Isolation::read_committed,
                                .durability = Durability::lazy};

std::string key_of(uint64_t row) { return "key " + std::to_string(100 + row); }
// Some values are large: they have pages of their own.
std::string value_of(uint64_t row) { return std::string(row % 8 == 0 ? 5000 : 90, 'c'); }

struct CommittedRead : StoreCrash {
    void SetUp() override {
        StoreCrash::SetUp();
        store_.emplace(open("s", options));
        make(store(), "i", "h");
        index = *store().index("i");
        ASSERT_OK(store().run([&](Txn& txn) -> Result<void> {
            for (uint64_t row = 0; row < kRows; ++row)
                TRY(index.insert(txn, key_of(row), value_of(row)));
            return {};
        }));
    }
    void TearDown() override {
        ASSERT_OK(store_->close());
        store_.reset();
        StoreCrash::TearDown();
    }
    Result<std::string> get(Txn& txn, const std::string& key) const {
        std::string value;
        if (!TRY(index.get(txn, key, value))) value.clear();
        return value;
    }

    static std::string open_change(Rng& rng) {
        return std::string(rng.chance(0.2) ? 6000 : 90, 'o');
    }
    // Changes rows, and adds some.
    Result<void> change_some(Txn& txn, Rng& rng) const {
        for (uint64_t n = 1 + rng.below(3); n > 0; --n) {
            const std::string key = key_of(rng.below(kRows));
            if (rng.chance(0.6)) TRY(index.put(txn, key, open_change(rng)));
            else if (rng.chance(0.5)) TRY(index.erase(txn, key));
            else TRY(index.put(txn, key + "x", open_change(rng)));
        }
        return {};
    }
    // The content that every reader is to see.
    Result<void> restore(Txn& txn) const {
        for (uint64_t row = 0; row < kRows; ++row) {
            TRY(index.put(txn, key_of(row), value_of(row)));
            TRY(index.erase(txn, key_of(row) + "x"));
        }
        return {};
    }
    // Between two rows, so many that leaves are split.
    Result<void> add_many(Txn& txn, Rng& rng) const {
        const std::string key = key_of(rng.below(kRows)) + "x";
        for (int n = 0; n < 60; ++n)
            TRY(index.put(txn, key + std::to_string(n), std::string(400, 'o')));
        return index.put(txn, key, "o");
    }
    void clean_ghosts() const { ASSERT_OK(sm::engine_of(store()).ghosts->run_once()); }
    sm::BTree::Stats& tree_stats() const {
        return sm::engine_of(store()).catalog->index_by_id(index.id())->stats();
    }
    static bool sound(uint64_t row, const std::string& value) { return value == value_of(row); }

    bool read_one(Txn& txn, Rng& rng) const {
        const uint64_t row = rng.below(kRows);
        const Result<std::string> value = get(txn, key_of(row));
        return value && sound(row, *value) && get(txn, key_of(row) + "x")->empty();
    }
    bool read_many(Txn& txn) const {
        std::string keys[kRows];
        std::byte buffers[kRows][128];
        Lookup rows[kRows];
        for (uint64_t row = 0; row < kRows; ++row)
            rows[row] = {.key = keys[row] = key_of(row), .buffer = buffers[row]};
        const Result<size_t> found = index.get_many(txn, rows);
        if (!found || *found != kRows) return false;
        for (uint64_t row = 0; row < kRows; ++row)
            for (size_t i = 0; i < std::min(rows[row].bytes, sizeof buffers[row]); ++i)
                if (buffers[row][i] != std::byte{'c'}) return false;
        return true;
    }
    bool read_all(Txn& txn) const {
        Cursor cursor = index.scan(txn);
        for (uint64_t row = 0; row < kRows; ++row) {
            const Result<bool> there = cursor.next();
            if (!there.has_value() || !*there || cursor.key() != key_of(row) ||
                !sound(row, std::string(cursor.value())))
                return false;
        }
        return !*cursor.next();
    }

    // Runs `change` again and again beside a reader, which expects the content as it was at first.
    void race(const std::function<Result<void>(Rng&)>& change) const {
        std::atomic<bool> done{false};
        std::atomic<uint64_t> wrong_gets{0}, wrong_groups{0}, wrong_scans{0}, changes{0};
        const uint64_t seed = seed_of_run(5);
        auto writer = store().start(
            [&]() -> Result<void> {
                for (Rng rng(seed); !done; yield()) {
                    // A reader that waits for the writer may make it a deadlock's victim.
                    const Result<void> changed = change(rng);
                    if (!changed && changed.error().code != ErrorCode::deadlock) return changed;
                    changes += changed.has_value();
                }
                return {};
            },
            0);
        auto reader = store().start(
            [&]() -> Result<void> {
                struct End {
                    std::atomic<bool>& done;
                    ~End() { done = true; }
                } const end{done};
                Rng rng(seed + 1);
                for (int round = 0; round < kRounds || changes < kChanges; ++round) {
                    Txn txn = TRY(store().begin(kCommitted));
                    for (int n = 0; n < 8; ++n) wrong_gets += !read_one(txn, rng);
                    wrong_groups += !read_many(txn);
                    if (round % 4 == 0) wrong_scans += !read_all(txn);
                    TRY(txn.commit());
                    yield();
                }
                return {};
            },
            1);
        ASSERT_OK(reader.join());
        ASSERT_OK(writer.join());
        EXPECT_EQ(wrong_gets, 0u);
        EXPECT_EQ(wrong_groups, 0u);
        EXPECT_EQ(wrong_scans, 0u);
        expect_sound(store());
    }

    Store& store() const { return *store_; }

    Options options = small_options(2);
    mutable std::optional<Store> store_;
    Index index;
};

// Each commit leaves the content as it was. So a reader that sees something else has seen an open
// change. The writer is on one worker and the reader on the other: both kernel threads run at once.
TEST_F(CommittedRead, NoChangeThatIsRolledBackIsSeen) {
    race([&](Rng& rng) -> Result<void> {
        Txn txn = TRY(store().begin({.durability = Durability::lazy}));
        TRY(change_some(txn, rng));
        return txn.abort();
    });
}

TEST_F(CommittedRead, NoChangeBehindASavepointIsSeen) {
    race([&](Rng& rng) -> Result<void> {
        Txn txn = TRY(store().begin({.durability = Durability::lazy}));
        const Savepoint before = TRY(txn.savepoint());
        TRY(change_some(txn, rng));
        TRY(txn.rollback_to(before));
        yield();
        TRY(txn.commit());
        return {};
    });
}

// Rows are erased and inserted again, and others come and go: they leave ghosts, which are cleaned.
TEST_F(CommittedRead, NoStateWithinATransactionIsSeen) {
    race([&](Rng& rng) -> Result<void> {
        Txn txn = TRY(store().begin({.durability = Durability::lazy}));
        TRY(change_some(txn, rng));
        yield();
        TRY(restore(txn));
        TRY(txn.commit());
        if (rng.chance(0.2)) clean_ghosts();
        return {};
    });
    EXPECT_GT(tree_stats().ghosts_removed, 0u);
}

// A durable commit releases its locks before it is durable, and the next writer goes on at once.
TEST_F(CommittedRead, NoOpenChangeIsSeenBehindAnEarlyRelease) {
    race([&](Rng& rng) -> Result<void> {
        for (const Durability durability : {Durability::durable, Durability::lazy}) {
            Txn txn = TRY(store().begin({.durability = durability}));
            TRY(change_some(txn, rng));
            TRY(restore(txn));
            if (durability == Durability::lazy) TRY(txn.abort());
            else TRY(txn.commit());
        }
        return {};
    });
}

TEST_F(CommittedRead, NoOpenChangeIsSeenWhileLeavesAreSplitAndMerged) {
    race([&](Rng& rng) -> Result<void> {
        Txn txn = TRY(store().begin({.durability = Durability::lazy}));
        TRY(add_many(txn, rng));
        yield();
        TRY(txn.abort());
        clean_ghosts();
        return {};
    });
    EXPECT_GT(tree_stats().splits, 20u);
    EXPECT_GT(tree_stats().merges, 20u);
}

// A writer with X on the whole index has no lock on a key.
struct CommittedReadEscalated : CommittedRead {
    CommittedReadEscalated() { options.escalate_at = 8; }
};
TEST_F(CommittedReadEscalated, NoOpenChangeIsSeen) {
    race([&](Rng& rng) -> Result<void> {
        Txn txn = TRY(store().begin({.durability = Durability::lazy}));
        for (uint64_t row = 0; row < kRows; ++row)
            TRY(index.put(txn, key_of(row), open_change(rng)));
        yield();
        return txn.abort();
    });
    EXPECT_GT(store().stats().escalations, 0u);
}

// The writer and then the reader wait for the leaf. When the reader comes by, the record is
// changed: what it knew of the lock table before it waited says nothing. Without teams, which would
// change the order.
struct CommittedReadAlone : CommittedRead {
    CommittedReadAlone() { options.steps.mode = StepsMode::off; }
};
TEST_F(CommittedReadAlone, TheLookComesAfterTheLeafIsFound) {
    const uint64_t row = 3;
    enum State { latching, latched, writing, reading } state = latching;
    sm::Engine& engine = sm::engine_of(store());
    const uint64_t waits = store().stats().lock_waits;
    const auto until = [&](State wanted) {
        while (state < wanted) yield();
    };
    const auto let_others_run = [] {
        for (int i = 0; i < 1000; ++i) yield();
    };
    auto holder = store().start(
        [&]() -> Result<void> {
            const PageId leaf = engine.catalog->index_by_id(index.id())->root();
            const sm::ExclusivePage held = TRY(engine.pool->fix_exclusive(leaf));
            state = latched;
            until(reading);
            let_others_run();
            return {};
        },
        0);
    auto writer = store().start(
        [&]() -> Result<void> {
            Txn txn = TRY(store().begin({.durability = Durability::lazy}));
            until(latched);
            state = writing;
            std::string value;
            TRY(index.get(txn, key_of(row), value, Access::update));  // X comes behind the leaf
            TRY(index.put(txn, key_of(row), "open"));
            EXPECT_EQ(state, reading) << "the writer did not wait: the test is blind";
            let_others_run();
            return txn.abort();
        },
        0);
    auto reader = store().start(
        [&]() -> Result<void> {
            Txn txn = TRY(store().begin(kCommitted));
            until(writing);
            state = reading;
            EXPECT_EQ(TRY(get(txn, key_of(row))), value_of(row));
            TRY(txn.commit());
            return {};
        },
        0);
    ASSERT_OK(holder.join());
    ASSERT_OK(writer.join());
    ASSERT_OK(reader.join());
    EXPECT_GT(store().stats().lock_waits, waits) << "the reader came first: the test is blind";
}

TEST_F(CommittedRead, TakesNoLock) {
    on_thread(store(), [&] {
        const uint64_t before = store().stats().lock_grants_at_once;
        Txn txn = std::move(*store().begin(kCommitted));
        for (uint64_t row = 0; row < kRows; ++row) {
            if (row % 8 != 0) {
                EXPECT_TRUE(sound(row, *get(txn, key_of(row))));
            }
        }
        ASSERT_OK(txn.commit());
        EXPECT_EQ(store().stats().lock_grants_at_once, before);
    });
}

// Each lock that the scan waits for is granted when a writer commits, and its leaf has changed. The
// next writer waits behind the scan, and changes the record before the scan's next try.
TEST_F(CommittedRead, AScanReadsARecordThatAWriterAlwaysHolds) {
    std::atomic<bool> done{false};
    std::vector<Handle<void>> writers;
    for (char c = 'a'; c < 'e'; ++c)
        writers.push_back(store().start(
            [&, c]() -> Result<void> {
                for (; !done; yield())
                    TRY(store().run(
                        [&](Txn& txn) -> Result<void> {
                            TRY(index.update(txn, key_of(1), std::string(90, c)));
                            sleep_for(kMillisecond / 5);
                            return {};
                        },
                        kCommitted));
                return {};
            },
            0));
    auto reader = store().start(
        [&]() -> Result<void> {
            for (int scans = 0; scans < 20; ++scans) {
                uint32_t rows = 0;
                const auto read = store().run(
                    [&](Txn& txn) -> Result<void> {
                        Cursor cursor = index.scan(txn);
                        for (rows = 0; TRY(cursor.next());) ++rows;
                        return {};
                    },
                    kCommitted);
                EXPECT_EQ(rows, kRows);
                if (!read) return read;
            }
            return {};
        },
        0);
    const Result<void> read = reader.join();
    done = true;
    for (auto& writer : writers) ASSERT_OK(writer.join());
    ASSERT_OK(read);
    EXPECT_GT(store().stats().lock_waits, 20u) << "the test is blind";
}

// Its own changes are no others' changes.
TEST_F(CommittedRead, ATransactionSeesItsOwnChanges) {
    on_thread(store(), [&] {
        Txn txn = std::move(*store().begin(kCommitted));
        ASSERT_OK(index.put(txn, key_of(3), "mine"));
        ASSERT_TRUE(*index.erase(txn, key_of(4)));
        EXPECT_EQ(*get(txn, key_of(3)), "mine");
        EXPECT_EQ(*get(txn, key_of(4)), "");
        ASSERT_OK(txn.abort());
    });
}

}  // namespace lockstep::committed_read_test
