// labels: unit
// reports_failures_test.cc - what goes wrong or changes while a pass runs, for indexes and heaps.
#include "tests/sm/scan/reports_test_util.h"

#include <atomic>
#include <chrono>
#include <fstream>
#include <future>
#include <thread>

#include "sm/buffer/page.h"

namespace lockstep::sm::reports_failures_test {

using namespace reports;

class ReportsFailures : public ReportsOfBoth {
protected:
    // A second object, with one row.
    void load_other() {
        const auto made = store_->run([&](Txn& txn) -> Result<void> {
            const Index index = TRY(store_->create_index(txn, "other"));
            TRY(index.put(txn, Key().u32(7), "x"));
            return store_->describe(txn, "other", "id u32 key");
        });
        ASSERT_TRUE(made) << made.error().text();
    }
    static void expect_other(Report& r) {
        auto other = r.scan("other");
        ASSERT_TRUE(other) << other.error().text();
        Block block;
        ASSERT_TRUE(*other->next(block));
        EXPECT_EQ(block.numbers<uint32_t>(0)[0], 7u);
        EXPECT_FALSE(*other->next(block));
    }
    uint32_t object_number() {
        return kind_ == Kind::index ? lines().id().value : store_->heap("lines")->id().value;
    }
};
INSTANTIATE_TEST_SUITE_P(Both, ReportsFailures, ::testing::Values(Kind::index, Kind::heap),
                         name_of_kind);

// Records grow, so leaves split and heap records move; then most go, so leaves merge.
TEST_P(ReportsFailures, GrowthAndErasesWhileAPassRuns) {
    load(20'000);
    Report before = report();
    Scan begun = scan(before), late = scan(before);
    Records rows;
    Block block;
    ASSERT_TRUE(*begun.next(block));
    add_rows(block, rows);
    const auto grown = [](uint32_t id) {
        Record record = record_of(id);
        record.name = std::string(200, 'g');
        return record;
    };
    change(0, 20'000, [&](uint32_t id) { return grown(id).bytes(); });
    Report between = report();
    Scan middle = scan(between);
    ASSERT_TRUE(*middle.next(block));
    Records middle_rows;
    add_rows(block, middle_rows);
    Records left;
    for (uint32_t from = 0; from < 20'000; from += 1000) {
        const auto erased = store_->run([&](Txn& txn) -> Result<void> {
            for (uint32_t id = from; id < from + 990; ++id) TRY(erase(txn, id));
            return {};
        });
        ASSERT_TRUE(erased) << erased.error().text();
        for (uint32_t id = from + 990; id < from + 1000; ++id) left.emplace(id, grown(id));
    }
    Report after = report();
    Scan now = scan(after);
    // Several states in one turn (RB-3).
    for (int round = 0; round < 3; ++round) {
        Scan scans[] = {scan(after), scan(between), scan(before)};
        Records seen[3];
        std::vector<std::thread> readers;
        for (size_t i = 0; i < 3; ++i)
            readers.emplace_back([&, i] { seen[i] = drain(scans[i]).value_or(Records()); });
        for (std::thread& reader : readers) reader.join();
        EXPECT_EQ(seen[0], left);
        EXPECT_EQ(seen[1].size(), 20'000u);
        EXPECT_EQ(seen[1][3], grown(3));
        EXPECT_EQ(seen[2], expected(20'000));
    }
    while (*begun.next(block)) add_rows(block, rows);
    while (*middle.next(block)) add_rows(block, middle_rows);
    EXPECT_EQ(rows, expected(20'000));
    EXPECT_EQ(*drain(late), expected(20'000));
    EXPECT_EQ(*drain(now), left);
    ASSERT_EQ(middle_rows.size(), 20'000u);
    for (const auto& [id, record] : middle_rows) ASSERT_EQ(record, grown(id));
}

// Its scans end, also one that is read at that moment; those of other objects go on.
TEST_P(ReportsFailures, ADropWhileAPassRuns) {
    load(kRows);
    load_other();
    Report r = report();
    std::atomic<bool> begun{false};
    ErrorCode seen = ErrorCode::none;
    std::thread reader([&] {
        while (seen == ErrorCode::none) {
            auto all = r.scan("lines");
            if (!all.has_value()) seen = code(all);
            Block block;
            while (seen == ErrorCode::none) {
                const auto more = all->next(block);
                begun = true;
                if (!more.has_value()) seen = code(more);
                if (!more.has_value() || !*more) break;
            }
        }
    });
    while (!begun) std::this_thread::yield();
    ASSERT_TRUE(store_->run([&](Txn& txn) { return store_->drop(txn, "lines"); }));
    reader.join();
    EXPECT_EQ(seen, ErrorCode::no_such_object);
    expect_other(r);
}

// Only the scans of the state that has become too old end.
TEST_P(ReportsFailures, OneOfTwoStatesIsTooOld) {
    store_.reset();
    open({.version_bytes = 1 << 20});
    load(kRows);
    Report old = report();
    Scan ends = scan(old);
    change(0, kRows, [](uint32_t id) { return record_of(id + 1).bytes(); });
    Report young = report();
    Scan lives = scan(young);
    ErrorCode seen = ErrorCode::none;
    std::thread reader([&] { seen = code(drain(ends)); });
    const auto rows = drain(lives);
    reader.join();
    EXPECT_EQ(seen, ErrorCode::snapshot_too_old);
    ASSERT_TRUE(rows) << rows.error().text();
    ASSERT_EQ(rows->size(), kRows);
    for (const auto& [id, record] : *rows) ASSERT_EQ(record, record_of(id + 1));
}

// A page in the middle is not the object's. Who needs its chunk gets corrupt_page; others go on.
TEST_P(ReportsFailures, ADamagedPage) {
    load(kRows);
    load_other();
    const uint32_t number = object_number();
    ASSERT_TRUE(store_->close());
    store_.reset();
    std::vector<PageId> pages;
    std::fstream file(path_ + "/data", std::ios::binary | std::ios::in | std::ios::out);
    auto page = std::make_unique<Page>();
    const auto is_data = [&] {
        return page->header.object == number && page->header.level == 0 &&
               page->kind() == (kind_ == Kind::index ? PageKind::btree : PageKind::heap);
    };
    while (file.read(reinterpret_cast<char*>(page.get()), kPageBytes))
        if (is_data()) pages.push_back(page->id());
    file.clear();
    ASSERT_GT(pages.size(), 100u);
    const PageId victim = pages[pages.size() / 2];
    const auto at = static_cast<std::streamoff>(uint64_t{victim.value} * kPageBytes);
    file.seekg(at).read(reinterpret_cast<char*>(page.get()), kPageBytes);
    page->header.object = number + 1000;
    page->header.checksum = page_checksum(*page, victim);
    file.seekp(at).write(reinterpret_cast<const char*>(page.get()), kPageBytes);
    ASSERT_TRUE(file.good());
    file.close();
    std::filesystem::remove(path_ + "/data.lsn");
    open({});
    Report r = report();
    Scan all = scan(r), again = scan(r);
    const auto rows = drain(all);
    EXPECT_EQ(code(rows), ErrorCode::corrupt_page);
    EXPECT_EQ(code(drain(again)), ErrorCode::corrupt_page);
    expect_other(r);
    if (kind_ == Kind::heap) return;
    Scan first = scan(r, {.where = {{"id", Compare::less, {1000}}}});
    EXPECT_EQ(*drain(first), expected(1000));
}

// RB-2, also when nothing can be kept for it.
TEST_P(ReportsFailures, ASlowScan) {
    store_.reset();
    open({.scan_bytes = 1 << 20});
    load(4 * kRows);
    Report r = report();
    Scan slow = scan(r);
    Block block;
    Records rows;
    ASSERT_TRUE(*slow.next(block));
    add_rows(block, rows);
    for (int i = 0; i < 2; ++i) {
        Scan other = scan(r);
        EXPECT_EQ(*drain(other), expected(4 * kRows));
    }
    EXPECT_LT(slow.progress(), 0.5);
    while (*slow.next(block)) add_rows(block, rows);
    EXPECT_EQ(rows, expected(4 * kRows));
    EXPECT_GT(store_->report_stats().made_again, 0u);
}

// A scan that is cancelled while it is read, and one that is given up without a word.
TEST_P(ReportsFailures, ACancelledScan) {
    load(kRows);
    Report r = report();
    Scan other = scan(r), ends = scan(r);
    Block block;
    ASSERT_TRUE(*other.next(block));
    Records rows;
    add_rows(block, rows);
    {
        Scan dropped = scan(r);
        ASSERT_TRUE(*dropped.next(block));
    }
    ASSERT_TRUE(*ends.next(block));
    ends.cancel();
    EXPECT_EQ(code(ends.next(block)), ErrorCode::cancelled);
    EXPECT_LT(ends.progress(), 1.0);
    while (*other.next(block)) add_rows(block, rows);
    EXPECT_EQ(rows, expected(kRows));
}

// RB-6: a function may call everything, also what takes the locks of the service, from any thread.
TEST_P(ReportsFailures, AFunctionMayCallEverything) {
    load(kRows);
    Report r = report();
    Scan all = scan(r);
    Scan other = scan(r), ended = scan(r);
    std::future<double> elsewhere;
    uint64_t rows = 0;
    const auto done = all.each([&](const Block& block) -> Result<bool> {
        if (rows == 0) {
            elsewhere = std::async(std::launch::async, [&] {
                ended.cancel();
                return other.progress();
            });
            if (elsewhere.wait_for(std::chrono::seconds(20)) != std::future_status::ready)
                return fail(ErrorCode::timeout, "the service's lock");
            Report inner = TRY(store_->report());
            Scan few = TRY(inner.scan("lines"));
            Block first;
            TRY(few.next(first));
            TRY(store_->run([&](Txn& txn) { return put(txn, 3, record_of(4).bytes()); }));
        }
        rows += block.rows();
        return true;
    });
    ASSERT_TRUE(done) << done.error().text();
    EXPECT_EQ(rows, kRows);
    EXPECT_EQ(*drain(other), expected(kRows));
}

}  // namespace lockstep::sm::reports_failures_test
