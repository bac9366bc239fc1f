// labels: sim
// each_page_test.cc - every page of a store in turn cannot be read: only what needs
// that page fails and names it, all else gives the right answers.
#include <gtest/gtest.h>

#include <map>
#include <set>

#include "sm/buffer/page.h"
#include "tests/sim_store.h"

namespace lockstep::each_page_test {

// With values as below: two levels of pages and some chains.
constexpr int kRows = 260;

std::string key_of(int i) {
    std::string key = "key" + std::to_string(1000 + i);
    return key.append(static_cast<size_t>(i % 7) * 8, 'k');
}
std::string value_of(int i) {
    return std::string(i % 40 == 3 ? 20'000 : 200, static_cast<char>('a' + i % 26));
}

using Heaps = std::vector<RecordId>;

// So much log that none of what was written before is left, then a checkpoint.
Result<void> push_out_log(Store& store) {
    for (int round = 0; round < 8; ++round) {
        TRY(store.run([&](Txn& txn) -> Result<void> {
            const Index junk = TRY(store.index("junk"));
            for (int i = 0; i < 10; ++i)
                TRY(junk.put(txn, "junk" + std::to_string(i),
                             std::string(100'000, static_cast<char>('a' + round))));
            return {};
        }));
        TRY(store.checkpoint());
    }
    TRY(store.run([&](Txn& txn) { return store.drop(txn, "junk"); }));
    return store.checkpoint();
}

Result<void> fill(Store& store, Heaps& records) {
    TRY(store.run([&](Txn& txn) -> Result<void> {
        TRY(store.create_index(txn, "i"));
        TRY(store.create_index(txn, "going"));
        TRY(store.create_index(txn, "junk"));
        TRY(store.create_heap(txn, "h"));
        TRY(store.create_heap(txn, "leaving"));
        return {};
    }));
    TRY(store.run([&](Txn& txn) -> Result<void> {
        const Index index = TRY(store.index("i")), going = TRY(store.index("going"));
        const Heap heap = TRY(store.heap("h")), leaving = TRY(store.heap("leaving"));
        for (int i = 0; i < kRows; ++i) {
            TRY(index.insert(txn, key_of(i), value_of(i)));
            if (i % 5 == 0) TRY(going.insert(txn, key_of(i), value_of(i)));
            records.push_back(TRY(heap.insert(txn, value_of(i).substr(0, 300))));
            if (i % 9 == 0) TRY(leaving.insert(txn, value_of(i).substr(0, 300)));
        }
        return {};
    }));
    return push_out_log(store);
}

// One transaction of the script.
struct Operation {
    const char* name;
    std::function<Result<void>(Store&, Txn&, const Heaps&)> run;
};

Result<void> check(bool right) {
    return right ? Result<void>{} : fail(ErrorCode::bad_argument, "a wrong answer");
}

Result<void> read_all(Store& store, Txn& txn, bool up, Access access) {
    Cursor cursor = TRY(store.index("i")).scan(txn, {}, {}, access);
    int rows = 0;
    for (; TRY(up ? cursor.next() : cursor.prev()); ++rows) {
        const int i = std::stoi(std::string(cursor.key().substr(3, 4))) - 1000;
        TRY(check(cursor.key() == key_of(i) && cursor.value() == value_of(i)));
    }
    return check(rows == kRows);
}

Result<void> read_many(Store& store, Txn& txn) {
    std::vector<std::string> keys, values(kRows, std::string(20'000, '\0'));
    for (int i = 0; i < kRows; ++i) keys.push_back(key_of(i));
    std::vector<Lookup> rows;
    for (size_t i = 0; i < kRows; ++i)
        rows.push_back({.key = keys[i], .buffer = std::as_writable_bytes(std::span(values[i]))});
    TRY(check(TRY(TRY(store.index("i")).get_many(txn, rows)) == kRows));
    for (int i = 0; i < kRows; ++i) TRY(check(values[i].substr(0, rows[i].bytes) == value_of(i)));
    return {};
}

Result<void> insert_many(Store& store, Txn& txn) {
    std::vector<std::string> keys;
    std::vector<NewRecord> records;
    for (int i = 0; i < kRows; i += 2) keys.push_back(key_of(i) + "+");
    const std::string value(700, 'v');  // pages split
    for (const std::string& key : keys) records.push_back({key, value});
    return TRY(store.index("i")).insert_many(txn, records);
}

template <class Each>
Result<void> on_every_row(Store& store, int step, Each each) {
    const Index index = TRY(store.index("i"));
    for (int i = 0; i < kRows; i += step) TRY(each(index, i));
    return {};
}

template <class Each>
Result<void> on_every_record(Store& store, const Heaps& records, int step, Each each) {
    const Heap heap = TRY(store.heap("h"));
    for (int i = 0; i < kRows; i += step) TRY(each(heap, records[static_cast<size_t>(i)]));
    return {};
}

const Operation kOperations[] = {
    {"get",
     [](Store& s, Txn& t, const Heaps&) {
         return on_every_row(s, 3, [&](const Index& index, int i) -> Result<void> {
             std::string value;
             return check(TRY(index.get(t, key_of(i), value)) && value == value_of(i));
         });
     }},
    {"get into a buffer",
     [](Store& s, Txn& t, const Heaps&) {
         return on_every_row(s, 3, [&](const Index& index, int i) -> Result<void> {
             std::vector<std::byte> room(30'000);
             return check(TRY(index.get(t, key_of(i), room, Access::write)) == value_of(i).size());
         });
     }},
    {"get_many", [](Store& s, Txn& t, const Heaps&) { return read_many(s, t); }},
    {"scan up", [](Store& s, Txn& t, const Heaps&) { return read_all(s, t, true, Access::read); }},
    {"scan down",
     [](Store& s, Txn& t, const Heaps&) { return read_all(s, t, false, Access::update); }},
    {"insert",
     [](Store& s, Txn& t, const Heaps&) {
         return on_every_row(s, 2, [&](const Index& index, int i) {
             return index.insert(t, key_of(i) + "#", std::string(i % 3 ? 900 : 9'000, '#'));
         });
     }},
    {"insert_many", [](Store& s, Txn& t, const Heaps&) { return insert_many(s, t); }},
    {"update",
     [](Store& s, Txn& t, const Heaps&) {
         return on_every_row(s, 2, [&](const Index& index, int i) -> Result<void> {
             return check(TRY(index.update(t, key_of(i), std::string(i % 5 ? 500 : 9'000, 'u'))));
         });
     }},
    {"patch",
     [](Store& s, Txn& t, const Heaps&) {
         return on_every_row(s, 1, [&](const Index& index, int i) -> Result<void> {
             return check(TRY(index.patch(t, key_of(i), 7, "patched")));
         });
     }},
    {"erase",
     [](Store& s, Txn& t, const Heaps&) {
         return on_every_row(s, 1, [&](const Index& index, int i) -> Result<void> {
             return check(TRY(index.erase(t, key_of(i))));
         });
     }},
    {"bulk load",
     [](Store& s, Txn& t, const Heaps&) -> Result<void> {
         const Index index = TRY(s.create_index(t, "new"));
         int i = 0;
         std::string key, value;
         return s.bulk_load(t, index, [&](Slice& k, Slice& v) {
             key = "b" + std::to_string(10'000 + i), value = value_of(i), k = key, v = value;
             return i++ < 150;
         });
     }},
    {"new heap",
     [](Store& s, Txn& t, const Heaps&) -> Result<void> {
         const Heap heap = TRY(s.create_heap(t, "new heap"));
         for (int i = 0; i < 60; ++i) TRY(heap.insert(t, std::string(1'000, 'n')));
         return {};
     }},
    {"heap get",
     [](Store& s, Txn& t, const Heaps& r) {
         return on_every_record(s, r, 1, [&](const Heap& heap, RecordId id) -> Result<void> {
             std::string record;
             return check(TRY(heap.get(t, id, record)));
         });
     }},
    {"heap scan",
     [](Store& s, Txn& t, const Heaps&) -> Result<void> {
         int seen = 0;
         TRY(TRY(s.heap("h")).scan(t, [&](RecordId, Slice) { return ++seen > 0; }));
         return check(seen == kRows);
     }},
    {"heap insert",
     [](Store& s, Txn& t, const Heaps& r) {
         return on_every_record(s, r, 4, [&](const Heap& heap, RecordId) -> Result<void> {
             TRY(heap.insert(t, std::string(1'500, 'i')));
             return {};
         });
     }},
    {"heap update",
     [](Store& s, Txn& t, const Heaps& r) {  // grown records move away
         return on_every_record(s, r, 2, [&](const Heap& heap, RecordId id) -> Result<void> {
             return check(TRY(heap.update(t, id, std::string(2'500, 'g'))));
         });
     }},
    {"heap erase",
     [](Store& s, Txn& t, const Heaps& r) {
         return on_every_record(s, r, 1, [&](const Heap& heap, RecordId id) -> Result<void> {
             return check(TRY(heap.erase(t, id)));
         });
     }},
    {"drop index", [](Store& s, Txn& t, const Heaps&) { return s.drop(t, "going"); }},
    {"drop heap", [](Store& s, Txn& t, const Heaps&) { return s.drop(t, "leaving"); }},
};

class EachPage : public ::testing::Test {
protected:
    void SetUp() override {
        SimStore store(disk_);
        store.options().log_bytes = 8 << 20;
        ASSERT_TRUE(store.open());
        Result<void> done;
        store.on_thread([&] { done = fill(*store, records_); });
        ASSERT_TRUE(done) << done.error().text();
        pages_ = static_cast<uint32_t>(store.engine().space->pages_total());
        for (uint32_t p = 0; p < pages_; ++p)
            used_.push_back(*store.engine().space->is_used(PageId{p}));
        ASSERT_TRUE(store.close());
    }

    // An answer, or an error that names the page. True if the operation went through.
    bool answers(const Result<void>& done, uint32_t page, const std::string& what) {
        if (done) return true;
        const bool named = sm::is_bad_page(done.error().code) && done.error().a == page;
        EXPECT_TRUE(named) << "page " << page << ", " << what << ": " << done.error().text();
        return false;
    }

    // Each operation is a transaction and is rolled back, so that all find the same rows.
    void run_script(SimStore& store, uint32_t page) {
        for (const Operation& operation : kOperations) {
            Result<void> done;
            store.on_thread([&] {
                auto txn = store->begin();
                ASSERT_TRUE(txn) << txn.error().text();
                done = operation.run(*store, *txn, records_);
                const Result<void> aborted = txn->abort();
                EXPECT_TRUE(aborted)
                    << "page " << page << ", " << operation.name << ": " << aborted.error().text();
            });
            failed_ += !answers(done, page, operation.name);
        }
    }

    // Two ways to lose a page: bytes that are wrong, and sectors that cannot be read.
    void lose(threads::SimDisk& disk, uint32_t page, bool spoilt) {
        const uint64_t at = uint64_t{page} * kPageBytes;
        if (spoilt) return disk.spoil_sector("/store/data", at + 2048);
        auto file = disk.open("/store/data", 0);
        ASSERT_TRUE(file);
        char byte = 0;
        ASSERT_TRUE(disk.read_now(*file, at + 100, &byte, 1));
        byte = static_cast<char>(byte ^ 16);
        ASSERT_TRUE(disk.write_now(*file, at + 100, &byte, 1));
        disk.close(*file);
    }

    void try_page(uint32_t page, bool spoilt) {
        auto image = disk_.image(page, threads::SimCrash::keep_all);
        lose(*image, page, spoilt);
        SimStore store(*image, page);
        store.options().log_bytes = 8 << 20;
        const Result<void> opened = store.open();
        ++lost_;
        if (!answers(opened, page, "open")) {
            ++refused_;
            return;
        }
        run_script(store, page);
        Result<std::vector<std::string>> faults = store->verify();
        if (!faults) (void)answers(std::unexpected(faults.error()), page, "verify");
        if (store.is_open()) healed_ += store.engine().pool->stats().repairs > 0;
        const Result<void> closed = store.close();
        (void)answers(closed, page, "close");
    }

    threads::SimDisk disk_;
    Heaps records_;
    uint32_t pages_ = 0;
    std::vector<bool> used_;
    uint32_t lost_ = 0, failed_ = 0, refused_ = 0, healed_ = 0;
};

TEST_F(EachPage, NothingIsLost) {
    auto image = disk_.image(1, threads::SimCrash::keep_all);
    SimStore store(*image);
    ASSERT_TRUE(store.open());
    run_script(store, 0);
    EXPECT_EQ(failed_, 0u);
    const auto faults = store->verify();
    ASSERT_TRUE(faults);
    EXPECT_TRUE(faults->empty());
    EXPECT_TRUE(store.close());
}

TEST_F(EachPage, WrongBytesAreNamedByWhoNeedsThem) {
    for (uint32_t page = sm::kFirstMapPage.value; page < pages_ && !HasFailure(); ++page)
        if (used_[page]) try_page(page, false);
    std::printf("%u pages lost, %u healed, %u opens and %u operations refused\n", lost_, healed_,
                refused_, failed_);
    EXPECT_GT(failed_, 100u);  // nearly every page is needed by some operation,
    EXPECT_GT(refused_, 0u);   // the catalog's by all
}

// An insert needs no certain page: the worker leaves the one that it used last.
TEST_F(EachPage, AnInsertGoesElsewhereIfItsPageIsLost) {
    auto image = disk_.image(1, threads::SimCrash::keep_all);
    SimStore store(*image);
    store.options().log_bytes = 8 << 20;
    store.pool_bytes(1 << 20);
    ASSERT_TRUE(store.open());
    RecordId before{}, after{};
    const auto insert = [&](RecordId& made) {
        return store->run([&](Txn& txn) -> Result<void> {
            made = TRY(TRY(store->heap("h")).insert(txn, "new"));
            return {};
        });
    };
    Result<void> done;
    store.on_thread([&] {
        done = store->run([&](Txn& txn) -> Result<void> {
            TRY(store->create_index(txn, "junk"));
            return {};
        });
        if (done) done = insert(before);
        if (done) done = push_out_log(*store);
    });
    ASSERT_TRUE(done) << done.error().text();
    ASSERT_EQ(store.engine().pool->resident(before.page), nullptr) << "the test is blind";
    image->spoil_sector("/store/data", uint64_t{before.page.value} * kPageBytes + 2048);
    for (int time = 0; time < 3; ++time) {
        store.on_thread([&] { done = insert(after); });
        ASSERT_TRUE(done) << done.error().text();
        EXPECT_NE(after.page, before.page);
    }
    EXPECT_TRUE(store.close());
}

// The same way through the engine from there on: a third of the pages will do.
TEST_F(EachPage, UnreadableSectorsAreNamedByWhoNeedsThem) {
    for (uint32_t page = sm::kFirstMapPage.value; page < pages_ && !HasFailure(); page += 3)
        if (used_[page]) try_page(page, true);
    EXPECT_GT(failed_, 40u);
}

}  // namespace lockstep::each_page_test
