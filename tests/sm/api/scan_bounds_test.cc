// labels: unit
// scan_bounds_test.cc - scan() copies its bounds before it may give the CPU to another user thread,
// so the caller's buffer may belong to all of them.
#include <array>

#include "tests/sm/store_crash_util.h"
#include "threads/thread/ctx_points.h"

namespace lockstep::scan_bounds_test {

class ScanBounds : public StoreCrash {};

constexpr int kRows = 64, kThreads = 12, kRounds = 40;

std::string row(int n) { return "row" + std::to_string(100 + n); }

// Bounds of one scan in memory that every thread uses.
struct Shared {
    std::array<char, 6> low, high;
    void set(int from, int to) {
        std::memcpy(low.data(), row(from).data(), low.size());
        std::memcpy(high.data(), row(to).data(), high.size());
    }
};

TEST_F(ScanBounds, AreCopiedBeforeAnotherThreadRuns) {
    for (const StepsMode mode : {StepsMode::off, StepsMode::on}) {
        Options options = small_options();
        options.steps.mode = mode;
        options.steps.points = threads::kCtxIcache;
        Store store = open(mode == StepsMode::on ? "on" : "off", options);
        Index rows;
        ASSERT_TRUE(store.run([&](Txn& txn) -> Result<void> {
            rows = TRY(store.create_index(txn, "rows"));
            for (int n = 0; n < kRows; ++n) TRY(rows.insert(txn, row(n), "v"));
            return {};
        }));
        Shared shared{};
        int wrong = 0, seen = 0;
        // Each scans three rows, now forward, now backward, with bounds that the others overwrite.
        const auto work = [&](int thread) {
            return [&, thread](Txn& txn) -> Result<void> {
                for (int round = 0; round < kRounds; ++round) {
                    const int from = (thread * 5 + round) % (kRows - 3);
                    shared.set(from, from + 3);
                    Cursor cursor = rows.scan(txn, Slice(shared.low.data(), shared.low.size()),
                                              Slice(shared.high.data(), shared.high.size()));
                    const bool up = round % 2 == 0;
                    for (int n = 0; n < 3; ++n) {
                        const bool more = TRY(up ? cursor.next() : cursor.prev());
                        wrong += !more || cursor.key() != row(up ? from + n : from + 2 - n);
                        ++seen;
                    }
                    wrong += TRY(up ? cursor.next() : cursor.prev());
                }
                return {};
            };
        };
        std::vector<Handle<void>> handles;
        on_thread(store, [&] {
            for (int t = 0; t < kThreads; ++t)
                handles.push_back(store.spawn(work(t), {.isolation = Isolation::read_committed}));
        });
        for (auto& handle : handles) EXPECT_TRUE(handle.join());
        EXPECT_EQ(seen, kThreads * kRounds * 3);
        EXPECT_EQ(wrong, 0);
    }
}

}  // namespace lockstep::scan_bounds_test
