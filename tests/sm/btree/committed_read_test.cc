// labels: model tsan
// committed_read_test.cc - LM-9: reads at read_committed take no lock, wait for no reader, and see
// no open change of a transaction that runs beside them.
#include <lockstep/cursor.h>
#include <lockstep/index.h>

#include <atomic>
#include <optional>

#include "tests/sm/store_crash_util.h"
#include "threads/base/rng.h"

namespace lockstep {
namespace {

constexpr uint32_t kRows = 24;
constexpr TxnOptions kCommitted{.isolation = Isolation::read_committed,
                                .durability = Durability::lazy};

std::string key_of(uint64_t row) { return "key " + std::to_string(100 + row); }
// Some values are large: they have pages of their own.
std::string value_of(uint64_t row) { return std::string(row % 8 == 0 ? 5000 : 90, 'c'); }

struct CommittedRead : StoreCrash {
    void SetUp() override {
        StoreCrash::SetUp();
        store_.emplace(open("s", small_options(2)));
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

    // Changes rows and takes the changes back.
    void change_and_roll_back(Rng& rng) const {
        Txn txn = std::move(*store().begin({.durability = Durability::lazy}));
        for (uint64_t n = 1 + rng.below(3); n > 0; --n) {
            const std::string key = key_of(rng.below(kRows));
            const std::string open_change(rng.chance(0.2) ? 6000 : 90, 'o');
            if (rng.chance(0.6)) (void)index.put(txn, key, open_change);
            else if (rng.chance(0.5)) (void)index.erase(txn, key);
            else (void)index.insert(txn, key + "x", open_change);
        }
        CHECK(txn.abort());
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
            if (!there || !*there || cursor.key() != key_of(row) ||
                !sound(row, std::string(cursor.value())))
                return false;
        }
        return !*cursor.next();
    }

    Store& store() const { return *store_; }

    mutable std::optional<Store> store_;
    Index index;
};

// A writer on one worker, a reader on the other: both kernel threads run at once.
TEST_F(CommittedRead, NoOpenChangeIsSeen) {
    std::atomic<bool> done{false};
    std::atomic<uint64_t> wrong_gets{0}, wrong_groups{0}, wrong_scans{0};
    auto writer = store().start(
        [&]() -> Result<void> {
            for (Rng rng(5); !done; yield()) change_and_roll_back(rng);
            return {};
        },
        0);
    auto reader = store().start(
        [&]() -> Result<void> {
            struct End {
                std::atomic<bool>& done;
                ~End() { done = true; }
            } const end{done};
            Rng rng(6);
            for (int round = 0; round < 3000; ++round) {
                Txn txn = std::move(*store().begin(kCommitted));
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

}  // namespace
}  // namespace lockstep
