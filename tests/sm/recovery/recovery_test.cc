// labels: unit model
// recovery_test.cc - killed stores on a real disk: committed work is there,
// losers are gone, torn pages are healed.
#include <fcntl.h>
#include <unistd.h>

#include "sm/api/engine_of.h"
#include "tests/sm/store_crash_util.h"

namespace lockstep::recovery_test {

class RecoveryTest : public StoreCrash {
protected:
    using Model = std::map<std::string, std::string>;
    using Records = std::map<RecordId, std::string>;

    // One random transaction on index "i" and heap "h"; the models follow if it commits.
    void random_transaction(Store& store, Rng& rng, Model& keys, Records& records, bool commit,
                            std::vector<Txn>* leave_open = nullptr) {
        auto begun = store.begin({.durability = txn::Durability::lazy, .lock_timeout = 0});
        ASSERT_OK(begun);
        Txn txn = std::move(*begun);
        Index index = *store.index("i");
        Heap heap = *store.heap("h");
        Model k = keys;
        Records r = records;
        for (uint64_t n = 1 + rng.below(8); n > 0; --n) {
            const std::string key = "key" + std::to_string(rng.below(500)),
                              value = random_text(rng, rng.below(rng.chance(0.02) ? 6000 : 300));
            switch (rng.below(4)) {
                case 0:
                    // Locked by one of the open ones: give up.
                    if (!index.put(txn, key, value)) return;
                    k[key] = value;
                    break;
                case 1:
                    if (!index.erase(txn, key).has_value()) return;
                    k.erase(key);
                    break;
                case 2: {
                    auto id = heap.insert(txn, value);
                    if (!id) return;
                    r[*id] = value;
                    break;
                }
                default: {
                    if (r.empty()) break;
                    const RecordId id =
                        std::next(r.begin(), static_cast<long>(rng.below(r.size())))->first;
                    if (rng.chance(0.3)) {
                        if (!heap.erase(txn, id).has_value()) return;
                        r.erase(id);
                    } else {
                        if (!heap.update(txn, id, value).has_value()) return;
                        r[id] = value;
                    }
                }
            }
        }
        if (leave_open) {
            leave_open->push_back(std::move(txn));
        } else if (commit) {
            ASSERT_OK(txn.commit());
            keys = k;
            records = r;
        } else {
            ASSERT_OK(txn.abort());
        }
    }
};

TEST_F(RecoveryTest, CommittedIsThereLosersAreGone) {
    const uint64_t first = seed_of_run();
    for (uint64_t seed = first; seed < first + 4 && !HasFailure(); ++seed) {
        SCOPED_TRACE("LOCKSTEP_SEED=" + std::to_string(seed));
        Rng rng(seed);
        const std::string a = "a" + std::to_string(seed), b = "b" + std::to_string(seed);
        Model keys;
        Records records;
        {
            Store store = open(a);
            make(store, "i", "h");
            on_thread(store, [&] {
                std::vector<Txn> open_ones;
                for (int i = 0; i < 300 && !HasFatalFailure(); ++i) {
                    random_transaction(store, rng, keys, records, rng.chance(0.8));
                    if (i == 100) ASSERT_OK(store.checkpoint());
                    if (i == 90 || i > 280)
                        random_transaction(store, rng, keys, records, false, &open_ones);
                    if (i == 200) ASSERT_OK(store.checkpoint());
                }
                ASSERT_OK(store.wait_durable(sm::engine_of(store).log->tail()));
                copy(a, b);
                for (Txn& txn : open_ones) ASSERT_OK(txn.abort());
            });
            ASSERT_OK(store.close());
        }
        for (const std::string& name : {a, b}) {
            Store store = open(name, small_options(name == b ? 2 : 1));
            EXPECT_TRUE(index_content(store, "i") == keys) << name;
            EXPECT_TRUE(heap_content(store, "h") == records) << name;
            expect_sound(store);
            Model k = keys;
            Records r = records;
            // And it goes on.
            on_thread(store, [&] { random_transaction(store, rng, k, r, true); });
            EXPECT_TRUE(index_content(store, "i") == k) << name;
            ASSERT_OK(store.close());
        }
    }
}

TEST_F(RecoveryTest, CleanStoreHasNothingToRecover) {
    {
        Store store = open("a");
        make(store, "i", "h");
        ASSERT_OK(store.close());
    }
    for (int i = 0; i < 3; ++i) {
        Store store = open("a");
        const uint64_t checkpoint = sm::engine_of(store).superblock.checkpoint_lsn;
        EXPECT_EQ(sm::engine_of(store).superblock.clean, 1u);
        ASSERT_OK(store.close());
        EXPECT_GT(checkpoint, 0u);
    }
}

// What is read of a store without opening it: how far its log goes.
TEST_F(RecoveryTest, TheEndOfAClosedLogIsFound) {
    {
        Store store = open("a");
        make(store, "i", "h");
        ASSERT_OK(store.close());
    }
    const std::unique_ptr<threads::Disk> disk = threads::make_disk(threads::IoBackend::pool);
    const auto data = disk->open(path("a") + "/data", threads::Disk::kReadOnly);
    ASSERT_OK(data);
    const auto block = sm::read_superblock(*disk, *data);
    disk->close(*data);
    ASSERT_OK(block);
    const auto since = sm::log_since_checkpoint(
        *disk, {.directory = path("a"), .segment_bytes = block->log_segment_bytes}, *block);
    ASSERT_OK(since);
    EXPECT_TRUE(since->closed);
    EXPECT_GT(since->end.value, block->checkpoint_lsn);
    Store store = open("a");
    on_thread(store, [&] { EXPECT_LE(since->end, sm::engine_of(store).log->tail()); });
    ASSERT_OK(store.close());
}

// A crash tears the pages that were being written: any of their sectors may be old, new or neither.
TEST_F(RecoveryTest, TornPagesAreHealedFromTheirImages) {
    Model keys;
    Records records;
    Rng rng(seed_of_run());
    {
        Store store = open("a");
        make(store, "i", "h");
        on_thread(store, [&] {
            for (int i = 0; i < 100 && !HasFatalFailure(); ++i)
                random_transaction(store, rng, keys, records, true);
            ASSERT_OK(store.checkpoint());
            for (int i = 0; i < 100 && !HasFatalFailure(); ++i)
                random_transaction(store, rng, keys, records, true);
            ASSERT_OK(store.wait_durable(sm::engine_of(store).log->tail()));
            copy("a", "b");
        });
        ASSERT_OK(store.close());
    }
    // Pages that the log since the checkpoint names.
    std::map<uint32_t, int> touched;
    {
        auto disk = threads::make_disk();
        auto file = disk->open(path("b") + "/data", 0);
        ASSERT_OK(file);
        auto block = sm::read_superblock(*disk, *file);
        ASSERT_OK(block);
        txn::LogReader reader(*disk, {.directory = path("b"), .segment_bytes = 4 << 20});
        reader.seek(Lsn{block->checkpoint_lsn});
        for (txn::LogRecordView record; *reader.next(record);) {
            if (record.header->kind < txn::kSmLogKindFirst) continue;
            uint32_t cursor = 0;
            for (sm::PartView part; *sm::next_part(record, cursor, part);)
                touched[part.page.value]++;
        }
        disk->close(*file);
    }
    ASSERT_GT(touched.size(), 5u);
    const int fd = ::open((path("b") + "/data").c_str(), O_RDWR);
    ASSERT_GE(fd, 0);
    for (const auto& [page, count] : touched)
        for (uint64_t sector = 0; sector < kPageBytes / 512; ++sector)
            if (rng.chance(0.5)) {
                const std::string noise = random_text(rng, 512);
                ASSERT_EQ(pwrite(fd, noise.data(), 512,
                                 static_cast<off_t>(page * kPageBytes + sector * 512)),
                          512);
            }
    ::close(fd);
    Store store = open("b");
    EXPECT_EQ(index_content(store, "i"), keys);
    EXPECT_EQ(heap_content(store, "h"), records);
    expect_sound(store);
    ASSERT_OK(store.close());
}

TEST_F(RecoveryTest, TransactionNumbersGoOn) {
    uint64_t last = 0;
    {
        Store store = open("a");
        make(store, "i", "h");
        on_thread(store, [&] {
            for (int i = 0; i < 50; ++i) {
                auto txn = store.begin({.durability = txn::Durability::lazy});
                ASSERT_OK(txn);
                last = txn->id().value;
                ASSERT_OK(store.heap("h")->insert(*txn, "x"));
                ASSERT_OK(txn->commit());
            }
            ASSERT_OK(store.wait_durable(sm::engine_of(store).log->tail()));
            copy("a", "b");
        });
        ASSERT_OK(store.close());
    }
    for (const char* name : {"a", "b"}) {
        Store store = open(name);
        on_thread(store, [&] {
            auto txn = store.begin();
            ASSERT_OK(txn);
            EXPECT_GT(txn->id().value, last);
        });
        ASSERT_OK(store.close());
    }
}

}  // namespace lockstep::recovery_test
