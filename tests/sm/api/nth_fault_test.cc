// labels: sim
// nth_fault_test.cc - the n-th read, write, sync or allocation of an operation fails,
// for every n: an error as a value, nothing lost, a sound store.
//
// Concepts   A trial: a fresh image of one disk, an open store with a cold pool, one operation, one
//            fault. From the n-th opportunity on all fail (the device is gone), or that one alone.
//            What came back decides which of two contents the store must have.
#include <gtest/gtest.h>

#include <map>
#include <set>

#include "sm/api/engine_of.h"
#include "sm/catalog/catalog.h"
#include "sm/services/ghost_cleaner.h"
#include "tests/sim_store.h"

namespace lockstep::nth_fault_test {

using threads::SimCrash;
using threads::SimDisk;
using threads::SimFault;

constexpr int kRows = 120;
constexpr uint64_t kFree = 40;  // pages of the volume
std::string key_of(int n) { return "key" + std::to_string(1000 + n); }
// Eight to a page: three levels.
std::string deep_key(int n) { return key_of(n) + std::string(900, 'k'); }
std::string value_of(int n) {
    return std::string(n % 30 == 7 ? 20'000 : 150, static_cast<char>('a' + n % 26));
}

using Content = std::map<std::string, std::string>;
using Body = std::function<Result<void>(Store&, Txn&)>;

// `prepare` runs and commits before anything fails; `run` is a transaction, `serve` works outside
// of any.
struct Operation {
    const char* name;
    Body prepare, run;
    std::function<Result<void>(Store&)> serve;
};

template <class Each>
Result<void> each_row(Store& store, const char* name, int from, int step, Each each) {
    const Index index = TRY(store.index(name));
    for (int n = from; n < kRows; n += step) TRY(each(index, n));
    return {};
}

Result<void> erase_most(Store& store, Txn& txn) {
    TRY(each_row(store, "deep", 5, 1, [&](const Index& index, int n) -> Result<void> {
        return (void)TRY(index.erase(txn, deep_key(n))), Result<void>{};
    }));
    return each_row(store, "i", 0, 1, [&](const Index& index, int n) -> Result<void> {
        if (n % 11 != 0) TRY(index.erase(txn, key_of(n)));
        return {};
    });
}

// Rows of many leaves and of one; single ones.
Result<void> modify_most(Store& store, Txn& txn) {
    const Index deep = TRY(store.index("deep")), index = TRY(store.index("i"));
    std::vector<std::string> keys;
    for (int n = 0; n < kRows; ++n) keys.push_back(deep_key(n));
    std::vector<std::byte> room(keys.size() * 8);
    std::vector<Lookup> rows;
    for (size_t i = 0; i < keys.size(); ++i)
        rows.push_back({.key = keys[i], .buffer = std::span(room).subspan(i * 8, 8), .hint = {}});
    const auto change = [](std::span<std::byte> value) {
        if (value.empty()) return ByteRange{};
        value.back() ^= std::byte(0x20);
        return ByteRange{value.size() - 1, 1};
    };
    const size_t found = TRY(deep.modify_many(
        txn, rows, [&](size_t, std::span<std::byte> value) { return change(value); }));
    EXPECT_EQ(found, keys.size());
    for (int n = 0; n < kRows; n += 3)
        EXPECT_TRUE(TRY(index.modify(txn, key_of(n), std::span(room).first(8), change)));
    return {};
}

Result<void> clean(Store& store) {
    for (int round = 0; round < 4; ++round) TRY(sm::engine_of(store).ghosts->run_once());
    return {};
}

Result<void> expect_sound(Store& store) {
    for (const std::string& fault : TRY(store.verify())) ADD_FAILURE() << fault;
    return {};
}

Result<void> make_secondary(Store& store, Txn& txn) {
    const auto long_key = [](Slice, Slice value, SecondaryKeys& keys) {
        keys.add(std::string(500, value[0]));
    };
    return (void)TRY(store.create_index(txn, "s", {.of = TRY(store.index("i")), .key = long_key})),
           Result<void>{};
}

const Operation kOperations[] = {
    {"get",
     {},
     [](Store& s, Txn& t) {
         return each_row(s, "i", 0, 9, [&](const Index& index, int n) -> Result<void> {
             std::string value;
             EXPECT_TRUE(TRY(index.get(t, key_of(n), value)));
             EXPECT_EQ(value, value_of(n));
             return {};
         });
     },
     {}},
    {"scan",
     {},
     [](Store& s, Txn& t) -> Result<void> {
         Cursor up = TRY(s.index("deep")).scan(t), down = TRY(s.index("i")).scan(t);
         for (int n = 0; n < kRows; ++n) {
             EXPECT_TRUE(TRY(up.next()) && up.key() == deep_key(n));
             EXPECT_TRUE(TRY(down.prev()) && down.key() == key_of(kRows - 1 - n));
         }
         return {};
     },
     {}},
    {"insert",
     {},
     [](Store& s, Txn& t) -> Result<void> {
         TRY(each_row(s, "deep", 0, 2, [&](const Index& index, int n) {
             return index.insert(t, deep_key(n) + "+", std::string(600, '+'));
         }));
         return each_row(s, "i", 0, 7, [&](const Index& index, int n) {
             return index.insert(t, key_of(n) + "+", value_of(n + 7));
         });
     },
     {}},
    {"insert many",
     {},
     [](Store& s, Txn& t) -> Result<void> {
         std::vector<std::string> keys;
         for (int n = 0; n < kRows; ++n) keys.push_back(deep_key(n) + "*");
         std::vector<NewRecord> records;
         for (const std::string& key : keys) records.push_back({key, Slice(key).substr(0, 300)});
         return TRY(s.index("deep")).insert_many(t, records);
     },
     {}},
    {"update",
     {},
     [](Store& s, Txn& t) -> Result<void> {
         TRY(each_row(s, "deep", 0, 5, [&](const Index& index, int n) {
             return index.put(t, deep_key(n), std::string(1'200, 'u'));
         }));
         return each_row(s, "i", 7, 6, [&](const Index& index, int n) {
             return index.put(t, key_of(n), std::string(n % 5 ? 40 : 9'000, 'u'));
         });
     },
     {}},
    {"patch",
     {},
     [](Store& s, Txn& t) {
         return each_row(s, "i", 1, 6, [&](const Index& index, int n) -> Result<void> {
             EXPECT_TRUE(TRY(index.patch(t, key_of(n), value_of(n).size() - 7, "patched")));
             return {};
         });
     },
     {}},
    {"modify", {}, modify_most, {}},
    {"erase", {}, erase_most, {}},
    {"erase and go back",
     {},
     [](Store& s, Txn& t) -> Result<void> {
         const Savepoint point = TRY(t.savepoint());
         TRY(erase_most(s, t));
         return t.rollback_to(point);
     },
     {}},
    {"clean and merge", erase_most, {}, clean},
    {"bulk load",
     {},
     [](Store& s, Txn& t) -> Result<void> {
         int n = 0;
         std::string key, value;
         return s.bulk_load(
             t, TRY(s.index("empty")),
             [&](Slice& k, Slice& v) {
                 key = deep_key(n), value = value_of(n), k = key, v = value;
                 return n++ < kRows;
             },
             80);
     },
     {}},
    {"create",
     {},
     [](Store& s, Txn& t) -> Result<void> {
         for (int n = 0; n < 40; ++n)
             TRY(s.create_index(t, "new" + std::string(100, 'w') + std::to_string(n)));
         return TRY(s.create_heap(t, "new heap")), Result<void>{};
     },
     {}},
    {"open or create",
     {},
     [](Store& s, Txn& t) -> Result<void> {
         for (int n = 0; n < 20; ++n) {
             const std::string name = "new" + std::string(100, 'w') + std::to_string(n);
             const ObjectId made = TRY(s.open_or_create_index(t, name)).id();
             EXPECT_EQ(TRY(s.index(t, name)).id(), made);
         }
         TRY(s.open_or_create_index(t, "i"));
         return TRY(s.open_or_create_heap(t, "new heap")), Result<void>{};
     },
     {}},
    {"drop index", {}, [](Store& s, Txn& t) { return s.drop(t, "i"); }, {}},
    {"drop heap", {}, [](Store& s, Txn& t) { return s.drop(t, "h"); }, {}},
    {"heap scan",
     {},
     [](Store& s, Txn& t) -> Result<void> {
         int seen = 0;
         TRY(TRY(s.heap("h")).scan(t, [&](RecordId, Slice) { return ++seen > 0; }));
         EXPECT_EQ(seen, kRows);
         return {};
     },
     {}},
    {"create a secondary index", {}, make_secondary, {}},
    {"changes that reach a secondary index",
     make_secondary,
     [](Store& s, Txn& t) -> Result<void> {
         TRY(each_row(s, "i", 0, 5, [&](const Index& index, int n) -> Result<void> {
             return (void)TRY(index.update(t, key_of(n), value_of(n + 1))), Result<void>{};
         }));
         TRY(each_row(s, "i", 1, 5, [&](const Index& index, int n) -> Result<void> {
             return (void)TRY(index.erase(t, key_of(n))), Result<void>{};
         }));
         return each_row(s, "i", 2, 5, [&](const Index& index, int n) {
             return index.insert(t, key_of(n) + "+", value_of(n + 7));
         });
     },
     {}},
    {"heap insert",
     {},
     [](Store& s, Txn& t) -> Result<void> {
         for (int n = 0; n < 30; ++n) TRY(TRY(s.heap("h")).insert(t, std::string(2'000, 'i')));
         return {};
     },
     {}},
    // Grown records move away, and shrink where they are.
    {"heap update",
     {},
     [](Store& s, Txn& t) -> Result<void> {
         const Heap heap = TRY(s.heap("h"));
         std::vector<RecordId> ids;
         TRY(heap.scan(t, [&](RecordId id, Slice) { return ids.push_back(id), true; }));
         for (size_t n = 0; n < ids.size(); n += 3)
             EXPECT_TRUE(TRY(heap.update(t, ids[n], std::string(3'000, 'g'))));
         for (size_t n = 0; n < ids.size(); n += 6)
             EXPECT_TRUE(TRY(heap.update(t, ids[n], "small")));
         return {};
     },
     {}},
    {"heap erase",
     {},
     [](Store& s, Txn& t) -> Result<void> {
         const Heap heap = TRY(s.heap("h"));
         std::vector<RecordId> ids;
         TRY(heap.scan(t, [&](RecordId id, Slice) { return ids.push_back(id), true; }));
         for (size_t n = 0; n < ids.size(); n += 2) EXPECT_TRUE(TRY(heap.erase(t, ids[n])));
         return {};
     },
     {}},
    {"checkpoint", erase_most, {}, [](Store& s) { return s.checkpoint(); }},
    // Pages that cannot be read are all named.
    {"verify",
     {},
     {},
     [](Store& s) -> Result<void> {
         const auto faults = TRY(s.verify());
         return faults.empty() ? Result<void>{}
                               : fail(ErrorCode::io_error, "verify", faults.size());
     }},
};

class NthFault : public ::testing::TestWithParam<SimFault> {
protected:
    void SetUp() override {
        SimStore store(disk_);
        ASSERT_TRUE(store.open());
        store.on_thread([&] {
            ASSERT_TRUE(store->run([&](Txn& txn) -> Result<void> {
                for (const char* name : {"i", "deep", "empty", "filler"})
                    TRY(store->create_index(txn, name));
                return TRY(store->create_heap(txn, "h")), Result<void>{};
            }));
            const auto filled = store->run([&](Txn& txn) -> Result<void> {
                const Heap heap = TRY(store->heap("h"));
                for (int n = 0; n < kRows; ++n) {
                    TRY(TRY(store->index("i")).insert(txn, key_of(n), value_of(n)));
                    TRY(TRY(store->index("deep")).insert(txn, deep_key(n), value_of(n + 1)));
                    TRY(heap.insert(txn, std::string(300, static_cast<char>('A' + n % 26))));
                }
                return {};
            });
            ASSERT_TRUE(filled) << filled.error().text();
        });
        store.on_thread([&] { EXPECT_TRUE(fill_volume(*store, kFree)); });
        ASSERT_TRUE(store.close());
    }

    // Everything that a reader can see. Where a fuller volume gives a heap other pages, its records
    // go without their ids.
    static Content content_of(SimStore& store) {
        Content all;
        store.on_thread([&] {
            const auto read = store->run([&](Txn& txn) -> Result<void> {
                for (const Store::Entry& entry : store->list()) {
                    all[entry.name] = "there";
                    if (entry.is_index) {
                        Cursor cursor = TRY(store->index(entry.name)).scan(txn);
                        while (TRY(cursor.next()))
                            all[entry.name + "/" + std::string(cursor.key())] = cursor.value();
                    } else {
                        std::multiset<std::string> records;
                        TRY(TRY(store->heap(entry.name)).scan(txn, [&](RecordId id, Slice record) {
                            if (GetParam() == SimFault::no_space_allocate) records.emplace(record);
                            else
                                all[entry.name + "/" + std::to_string(id.page.value) + "." +
                                    std::to_string(id.slot.value)] = record;
                            return true;
                        }));
                        for (int n = 0; const std::string& record : records)
                            all[entry.name + "/" + std::to_string(n++)] = record;
                    }
                }
                return {};
            });
            EXPECT_TRUE(read) << read.error().text();
        });
        return all;
    }
    static void check_sound(SimStore& store) {
        store.on_thread([&] {
            const auto done = expect_sound(*store);
            EXPECT_TRUE(done) << done.error().text();
        });
    }

    // Nothing of the volume is in memory.
    static void forget_pages(sm::Engine& engine) {
        engine.ghosts->hold();  // else pages change while others are being written
        const auto written = engine.pool->write_dirty(0);
        EXPECT_TRUE(written) << written.error().text();
        for (uint32_t p = sm::kFirstMapPage.value; p < engine.space->pages_total(); ++p)
            if (sm::ExclusivePage page; engine.pool->try_fix_exclusive(PageId{p}, page))
                engine.pool->drop(std::move(page));
        engine.ghosts->resume();
    }

    // So that few free pages are left in the volume.
    static Result<void> fill_volume(Store& store, uint64_t left) {
        sm::SpaceMap& space = *sm::engine_of(store).space;
        for (int n = 0; space.pages_used() + left < space.pages_total(); ++n)
            TRY(store.run(
                [&](Txn& txn) -> Result<void> {
                    return TRY(store.index("filler"))
                        .insert(txn, std::to_string(left) + "/" + key_of(n),
                                std::string(5'000, 'f'));
                },
                {.durability = Durability::lazy}));
        return {};
    }

    struct Outcome {
        Result<void> done;        // of the operation, and of the commit if there was one
        bool committing = false;  // whether it came so far
        uint64_t faults = 0;
        Content before, after;  // after: if the store lives
    };
    // The operation with its n-th opportunity (n = 0: none), and for ever from there on if
    // `for_ever`, failing. An allocation gives many pages: there it is the n-th page that the
    // volume has no room for.
    Outcome attempt(SimStore& store, const Operation& operation, uint64_t n, bool for_ever) {
        const SimFault kind = GetParam();
        Outcome out;
        threads::SimFaults& faults = image_->faults();
        store.on_thread([&] {
            if (operation.prepare) {
                store.engine().ghosts->hold();
                const auto prepared =
                    store->run([&](Txn& txn) { return operation.prepare(*store, txn); });
                store.engine().ghosts->resume();
                EXPECT_TRUE(prepared) << prepared.error().text();
            }
            if (GetParam() == SimFault::no_space_allocate && n != 0) {
                const auto filled = fill_volume(*store, n - 1);
                EXPECT_TRUE(filled) << filled.error().text();
            }
        });
        const bool by_page = kind == SimFault::no_space_allocate;
        out.before = content_of(store);
        store.on_thread([&] {
            if (kind == SimFault::read_error) forget_pages(store.engine());
            if (n != 0) faults.fail_nth(kind, by_page ? 1 : n, for_ever ? UINT64_MAX / 2 : 1);
            if (operation.serve) {
                out.done = operation.serve(*store);
                faults.enable(false);
                return;
            }
            auto txn = store->begin();
            ASSERT_TRUE(txn);
            out.done = operation.run(*store, *txn);
            out.committing = out.done.has_value();
            if (out.done) {
                if (auto point = txn->commit(); !point) out.done = std::unexpected(point.error());
            }
            faults.enable(false);
            if (txn->live()) {
                const auto aborted = txn->abort();
                EXPECT_TRUE(aborted || store.engine().failed()) << aborted.error().text();
            }
        });
        out.faults = faults.count(kind);
        return out;
    }

    static void merge_filler(Content& expected, const Content& found) {
        std::erase_if(expected,
                      [](const auto& entry) { return entry.first.starts_with("filler/"); });
        for (const auto& entry : found)
            if (entry.first.starts_with("filler/")) expected.insert(entry);
    }

    void fail_each(const Operation& operation, bool for_ever) {
        Content expected;
        const uint64_t last = GetParam() == SimFault::no_space_allocate ? kFree : UINT64_MAX;
        for (uint64_t n = 0; n <= last && !HasFailure(); n += 1 + n / 8) {
            SCOPED_TRACE(std::string(operation.name) + ", " + sim_fault_name(GetParam()) + " " +
                         std::to_string(n) + (for_ever ? " and on" : ""));
            image_ = disk_.image(1, SimCrash::keep_all);
            Outcome out;
            {
                SimStore store(*image_);
                const auto opened = store.open();
                EXPECT_TRUE(opened) << opened.error().text();
                if (!opened) return;
                out = attempt(store, operation, n, for_ever);
                if (n == 0) expected = content_of(store);
                else if (GetParam() == SimFault::no_space_allocate)
                    merge_filler(expected, out.before);
                if (n != 0 && out.faults == 0) return;
                failed_ += !out.done;
                stopped_ += store.engine().failed();
                if (store.engine().failed()) {
                    const auto closed = store.close();
                    EXPECT_TRUE(!closed && closed.error().code == ErrorCode::store_failed);
                } else {
                    EXPECT_TRUE(content_of(store) == (out.done ? expected : out.before));
                    check_sound(store);
                    EXPECT_TRUE(store.close());
                }
            }
            image_->close_all();
            SimStore again(*image_);
            const auto opened = again.open();
            EXPECT_TRUE(opened) << opened.error().text();
            if (!opened) return;
            const Content found = content_of(again);
            EXPECT_TRUE(found == (out.done ? expected : out.before) ||
                        (out.committing && found == expected))
                << (out.done ? "done" : out.done.error().text());
            check_sound(again);
            EXPECT_TRUE(again.close());
            ++trials_;
        }
    }

    SimDisk disk_;
    std::unique_ptr<SimDisk> image_;
    int trials_ = 0, failed_ = 0, stopped_ = 0;
};

TEST_P(NthFault, LeavesNothingHalfDone) {
    for (const Operation& operation : kOperations)
        for (const bool for_ever : {false, true}) {
            // Half as much is asked for then, and got.
            if (!for_ever && GetParam() == SimFault::no_space_allocate) continue;
            fail_each(operation, for_ever);
            if (HasFailure()) return;
        }
    std::printf("%d trials: %d operations failed, %d stores stopped\n", trials_, failed_, stopped_);
}

INSTANTIATE_TEST_SUITE_P(Of, NthFault,
                         ::testing::Values(SimFault::read_error, SimFault::write_error,
                                           SimFault::sync_error, SimFault::no_space_allocate,
                                           SimFault::no_space_write),
                         [](const auto& info) { return sim_fault_name(info.param); });

}  // namespace lockstep::nth_fault_test
