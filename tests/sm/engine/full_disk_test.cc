// labels: sim
// full_disk_test.cc - the way out of a full disk: when an insert is refused for lack of space,
// records can be erased, indexes dropped and free pages given back, also after a crash.
//
// Concepts   The disk is simulated and has a capacity; time is virtual. Data and log share it.
#include <gtest/gtest.h>

#include <ostream>

#include "tests/code_of.h"
#include "tests/seed_of_run.h"
#include "tests/sim_store.h"
#include "tests/sm/test_util.h"

namespace lockstep::full_disk_test {

using threads::SimDisk;

struct Shape {
    const char* name;
    uint32_t value_bytes;
    uint32_t writers;
    uint64_t log_segment_bytes;
    uint64_t spare_bytes;  // capacity beside the empty store
    // The first writer's records that fit again, one of so many. A log that has not reached its
    // second file only grows.
    uint32_t again;
};
std::ostream& operator<<(std::ostream& out, const Shape& shape) { return out << shape.name; }

constexpr Shape kShapes[] = {
    {"YoungLog", 100, 1, 16 << 20, 3 << 20, 8},
    {"SmallRecords", 100, 4, 1 << 20, 12 << 20, 2},
    {"Pages", 2'000, 4, 1 << 20, 12 << 20, 2},
    {"LargeValues", 20'000, 4, 1 << 20, 20 << 20, 2},
};

class FullDisk : public testing::TestWithParam<Shape> {
protected:
    SimDisk disk{{.seed = seed_of_run()}};
    SimStore store{disk, seed_of_run(), 2};
    SimStore* opened = &store;  // another one after a crash
    uint64_t capacity = 0;
    uint32_t filled[4] = {};  // records of each writer that were acknowledged

    void SetUp() override {
        store.options().log_segment_bytes = GetParam().log_segment_bytes;
        ASSERT_OK(store.open());
        store.on_thread([&] {
            ASSERT_OK(store->run([&](Txn& txn) -> Result<void> {
                TRY(store->create_index(txn, "kept"));
                TRY(store->create_index(txn, "dropped"));
                return {};
            }));
        });
        capacity = disk.bytes_used() + GetParam().spare_bytes;
        disk.set_capacity(capacity);
        fill();
    }
    static void expect_ok(const Result<void>& done) { EXPECT_TRUE(done) << done.error().text(); }
    static Key key(uint32_t writer, uint32_t n) { return Key().u32(writer).u32(n); }
    // Each writer inserts into both indexes until it is refused for lack of space.
    void fill() {
        uint32_t ended = 0;
        for (uint32_t writer = 0; writer < GetParam().writers; ++writer)
            store->start(
                [&, writer]() -> Result<void> {
                    Result<void> done;
                    while (done) {
                        done = insert(writer, filled[writer]);
                        filled[writer] += done.has_value();
                    }
                    EXPECT_EQ(done.error().code, ErrorCode::no_space) << done.error().text();
                    ++ended;
                    return {};
                },
                writer % 2);
        ASSERT_TRUE(store.step_until([&] { return ended == GetParam().writers; }));
    }
    Result<void> insert(uint32_t writer, uint32_t n) {
        return (*opened)->run([&](Txn& txn) -> Result<void> {
            const std::string value(GetParam().value_bytes, static_cast<char>('a' + n % 26));
            for (const char* name : {"kept", "dropped"})
                TRY(TRY((*opened)->index(name)).insert(txn, key(writer, n), value));
            return {};
        });
    }
    // Erases every record of "kept", `piece` in a transaction.
    void erase_all(uint32_t piece) {
        for (uint32_t writer = 0; writer < GetParam().writers; ++writer)
            for (uint32_t n = 0; n < filled[writer] && !HasFailure(); n += piece)
                expect_ok((*opened)->run([&](Txn& txn) -> Result<void> {
                    const Index index = TRY((*opened)->index("kept"));
                    for (uint32_t i = n; i < std::min(n + piece, filled[writer]); ++i)
                        TRY(index.erase(txn, key(writer, i)));
                    return {};
                }));
    }
    uint64_t give_back() {
        uint64_t sum = 0;
        for (int turn = 0; turn < 200; ++turn) {
            const Result<uint64_t> bytes = (*opened)->give_back_space();
            EXPECT_EQ(code_of(bytes), ErrorCode::none);
            sum += bytes.value_or(0);
            sleep_for(10 * kMillisecond);
        }
        return sum;
    }
    // All that a user does to get out, and then goes on.
    void get_out() {
        opened->on_thread([&] {
            erase_all(20);
            expect_ok((*opened)->run([&](Txn& txn) { return (*opened)->drop(txn, "dropped"); }));
            EXPECT_GT(give_back(), GetParam().spare_bytes / 8);
            ASSERT_OK((*opened)->run([&](Txn& txn) -> Result<void> {
                TRY((*opened)->create_index(txn, "dropped"));
                return {};
            }));
            for (uint32_t n = 0; n < filled[0] / GetParam().again && !HasFailure(); ++n)
                expect_ok(insert(0, n));
        });
        expect_ok(opened->close());
    }
};

TEST_P(FullDisk, ErasesDropsAndGivesBack) { get_out(); }

TEST_P(FullDisk, TheSameAfterACrash) {
    const auto left = disk.image(seed_of_run(), threads::SimCrash::keep_all);
    left->set_capacity(capacity);
    (void)store.close();
    SimStore again(*left, seed_of_run(), 2);
    again.options().log_segment_bytes = GetParam().log_segment_bytes;
    ASSERT_OK(again.open());
    opened = &again;
    get_out();
}

INSTANTIATE_TEST_SUITE_P(Shapes, FullDisk, testing::ValuesIn(kShapes),
                         [](const auto& info) { return std::string(info.param.name); });

}  // namespace lockstep::full_disk_test
