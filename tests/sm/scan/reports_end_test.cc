// labels: unit
// reports_end_test.cc - how scans end: functions, errors, what goes away under them, close and
// fork.
#include "tests/sm/scan/reports_test_util.h"

#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <stdexcept>
#include <thread>

namespace lockstep::sm::reports_end_test {

using namespace reports;
class ReportsEnd : public ReportsOfBoth {};
INSTANTIATE_TEST_SUITE_P(Both, ReportsEnd, ::testing::Values(Kind::index, Kind::heap),
                         name_of_kind);

TEST_P(ReportsEnd, FunctionsOnUserThreads) {
    load(kRows);
    const auto done = store_
                          ->start([&]() -> Result<uint64_t> {
                              Report r = TRY(store_->report());
                              Scan all = TRY(r.scan("lines", {.columns = {"id"}}));
                              uint64_t rows = 0;
                              TRY(all.each([&](const Block& block) -> Result<bool> {
                                  rows += block.rows();
                                  yield();
                                  return true;
                              }));
                              return rows;
                          })
                          .join();
    ASSERT_TRUE(done) << done.error().text();
    EXPECT_EQ(*done, kRows);
}

TEST_P(ReportsEnd, AFunctionEndsItsScanOnly) {
    load(kRows);
    Report r = report();
    Scan other = scan(r), stops = scan(r), fails = scan(r), throws = scan(r);
    int calls = 0;
    EXPECT_TRUE(stops.each([&](const Block&) -> Result<bool> { return ++calls < 2; }));
    EXPECT_EQ(calls, 2);
    EXPECT_EQ(code(fails.each([&](const Block&) -> Result<bool> {
                  return fail(ErrorCode::rolled_back, "on purpose");
              })),
              ErrorCode::rolled_back);
    EXPECT_THROW(
        (void)throws.each([&](const Block&) -> Result<bool> { throw std::runtime_error("mine"); }),
        std::runtime_error);
    Block block;
    EXPECT_EQ(code(stops.next(block)), ErrorCode::cancelled);
    EXPECT_EQ(*drain(other), expected(kRows));
}

TEST_P(ReportsEnd, CancelEndsAWait) {
    load(kRows);
    Report r = report();
    Scan all = scan(r);
    ErrorCode seen = ErrorCode::none;
    std::thread reader([&] {
        Block block;
        for (;;) {
            const auto more = all.next(block);
            if (!more.has_value()) seen = more.error().code;
            if (!more.has_value() || !*more) return;
        }
    });
    all.cancel();
    reader.join();
    EXPECT_EQ(seen, ErrorCode::cancelled);
}

TEST_P(ReportsEnd, ADroppedIndex) {
    load(kRows);
    Report r = report();
    Scan all = scan(r);
    Block block;
    ASSERT_TRUE(*all.next(block));
    ASSERT_TRUE(store_->run([&](Txn& txn) { return store_->drop(txn, "lines"); }));
    EXPECT_EQ(code(drain(all)), ErrorCode::no_such_object);
    EXPECT_EQ(code(r.scan("lines")), ErrorCode::no_such_object);
}

TEST_P(ReportsEnd, TooOldAState) {
    store_.reset();
    open({.version_bytes = 1 << 20});
    load(kRows);
    Report r = report();
    Scan all = scan(r);
    change(0, kRows, [](uint32_t id) { return record_of(id + 1).bytes(); });
    EXPECT_EQ(code(drain(all)), ErrorCode::snapshot_too_old);
    Report again = report();
    Scan fresh = scan(again);
    EXPECT_TRUE(drain(fresh));
}

// A state that an operator ends is too old; others go on.
TEST_P(ReportsEnd, AnEndedTransaction) {
    load(kRows);
    Report r = report();
    const auto transactions = store_->transactions();
    ASSERT_EQ(transactions.size(), 1u);
    Report other = report();
    Scan all = scan(r), alive = scan(other);
    ASSERT_TRUE(store_->end_transaction(transactions[0].id));
    EXPECT_EQ(code(drain(all)), ErrorCode::snapshot_too_old);
    EXPECT_EQ(*drain(alive), expected(kRows));
}

// A record that does not fit a column ends the scans that asked for it.
TEST_P(ReportsEnd, AMisfitEndsWhoAskedForIt) {
    load(kRows);
    ASSERT_TRUE(store_->run([&](Txn& txn) -> Result<void> {
        return put(txn, 100, std::string(9, '\1') + "\2\xff\xff");
    }));
    Report r = report();
    Scan without = scan(r, {.columns = {"id", "amount"}}), with = scan(r);
    uint64_t rows = 0;
    Block block;
    for (;;) {
        const auto more = without.next(block);
        ASSERT_TRUE(more.has_value()) << more.error().text();
        if (!*more) break;
        rows += block.rows();
    }
    EXPECT_EQ(rows, kRows);
    const auto refused = drain(with);
    EXPECT_EQ(code(refused), ErrorCode::bad_argument);
    EXPECT_NE(refused.error().text().find("\"name\""), std::string::npos) << refused.error().text();
}

// In chains of an index; a heap's records have moved to pages with room for them.
TEST_P(ReportsEnd, LargeValues) {
    const size_t large = kind_ == Kind::index ? 9000 : 6000;
    load(300);
    change(0, 300, [&](uint32_t id) { return std::string(id % 2 ? large + id : 3, 'v'); });
    ASSERT_TRUE(store_->describe("lines", kind_ == Kind::index
                                              ? "id u32 key, data text value 0"
                                              : "id u32 value 0, data text value 4"));
    Report r = report();
    auto both = r.scan("lines"), keys = r.scan("lines", {.columns = {"id"}});
    ASSERT_TRUE(both && keys);
    std::map<uint32_t, size_t> sizes;
    uint64_t rows = 0;
    ASSERT_TRUE(both->each([&](const Block& block) -> Result<bool> {
        for (size_t i = 0; i < block.rows(); ++i)
            sizes[block.numbers<uint32_t>(0)[i]] = block.text(1, i).size();
        return true;
    }));
    ASSERT_TRUE(keys->each([&](const Block& block) -> Result<bool> {
        rows += block.rows();
        return true;
    }));
    EXPECT_EQ(rows, 300u);
    ASSERT_EQ(sizes.size(), 300u);
    for (const auto& [id, size] : sizes) EXPECT_EQ(size, id % 2 ? large + id : 3);
}

TEST_P(ReportsEnd, AnEmptyIndex) {
    load(0);
    Report r = report();
    Scan all = scan(r);
    EXPECT_EQ(drain(all)->size(), 0u);
}

// close() ends scans, also one that is waited for; blocks stay.
TEST_P(ReportsEnd, ClosingTheStore) {
    load(kRows);
    Report r = report();
    Scan all = scan(r), other = scan(r);
    Block block;
    ASSERT_TRUE(*all.next(block));
    std::atomic<bool> begun{false};
    ErrorCode seen = ErrorCode::none;
    std::thread reader([&] {
        const auto done = other.each([&](const Block&) -> Result<bool> {
            begun = true;
            sleep_for(kMillisecond);
            return true;
        });
        seen = code(done);
    });
    while (!begun) std::this_thread::yield();
    ASSERT_TRUE(store_->close());
    reader.join();
    EXPECT_TRUE(seen == ErrorCode::store_closed || seen == ErrorCode::none);
    EXPECT_EQ(code(all.next(block)), ErrorCode::store_closed);
    EXPECT_EQ(code(r.scan("lines")), ErrorCode::store_closed);
    EXPECT_EQ(code(store_->report()), ErrorCode::store_closed);
    store_.reset();
    EXPECT_EQ(block.numbers<uint32_t>(0)[0], 0u);
    EXPECT_EQ(code(all.next(block)), ErrorCode::store_closed);
}

TEST_P(ReportsEnd, InTheChildOfAFork) {
    load(1000);
    Report r = report();
    Scan all = scan(r);
    const pid_t child = fork();
    if (child == 0) {
        Block block;
        const bool good = code(all.next(block)) == ErrorCode::forked &&
                          code(r.scan("lines")) == ErrorCode::forked &&
                          code(store_->report()) == ErrorCode::forked;
        all = Scan();
        r = Report();
        _exit(good ? 0 : 1);
    }
    int status = -1;
    ASSERT_EQ(waitpid(child, &status, 0), child);
    EXPECT_EQ(status, 0);
    EXPECT_EQ(*drain(all), expected(1000));
}

}  // namespace lockstep::sm::reports_end_test
