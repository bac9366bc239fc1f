// labels: unit
// record_check_test.cc - a log that passes by in pieces of any size is checked as a whole one is.
#include "sm/backup/record_check.h"

#include <algorithm>

#include "tests/sm/backup/archive_test_util.h"

namespace lockstep::record_check_test {

using sm::RecordCheck;
using threads::SimDisk;
using Ends = std::vector<uint64_t>;  // of records

class RecordCheckTest : public testing::Test {
protected:
    // The log of a store: small records, and such with pages.
    void SetUp() override {
        SimStore store(disk_, 1);
        ASSERT_OK(store.open());
        Rng rng(1);
        store.on_thread([&] {
            Commits::make_index(*store);
            Commits commits;
            commits.many(*store, rng, 20);
            commits.many(*store, rng, 4, 30'000);
        });
        ASSERT_OK(store.close());
        const auto file = disk_.open("/store/log.00000000", 0);
        ASSERT_OK(file);
        log_.resize(*disk_.size(*file));
        ASSERT_OK(disk_.read_now(*file, 0, log_.data(), log_.size()));
        disk_.close(*file);
        const auto whole = ends_of(kLsnMax, log_.size());
        ends_ = whole.ends;
        ASSERT_EQ(whole.code, ErrorCode::corrupt_log);  // zeros
        ASSERT_GT(ends_.size(), 100u);
        ASSERT_EQ(whole.position, ends_.back());
    }
    struct Seen {
        Ends ends;
        ErrorCode code;
        uint64_t position;
    };
    // In pieces of up to so many bytes, which sometimes begin before the end of the one before.
    Seen ends_of(Lsn stop, uint64_t piece_max) {
        Seen seen{};
        RecordCheck check{Lsn{txn::kLogFirst}};
        if (stop != kLsnMax) check.stop_at(stop);
        check.on_record([&](const txn::LogRecordView& record) -> Result<void> {
            seen.ends.push_back(record.end().value);
            return {};
        });
        for (uint64_t at = 0; at < log_.size() && seen.code == ErrorCode::none;) {
            const uint64_t size = std::min(8 * (1 + rng_.below(piece_max / 8)), log_.size() - at);
            seen.code = code_of(check.see(Lsn{at}, {log_.data() + at, size}));
            at += size;
            if (rng_.chance(0.1)) at -= 8 * rng_.below(size / 8 + 1);
        }
        seen.position = check.position().value;
        return seen;
    }

    Rng rng_{7};
    SimDisk disk_{{.seed = 1}};
    std::vector<std::byte> log_;
    Ends ends_;
};

TEST_F(RecordCheckTest, SeesEachRecordOnceWhateverThePieces) {
    for (const uint64_t piece : {8, 16, 40, 200, 4096, 100'000})
        for (int round = 0; round < 5; ++round) {
            const Seen seen = ends_of(Lsn{ends_.back()}, piece);
            EXPECT_EQ(seen.code, ErrorCode::none);
            EXPECT_EQ(seen.ends, ends_);
            EXPECT_EQ(seen.position, ends_.back());
        }
}

TEST_F(RecordCheckTest, StopsAtTheLastRecordThatEndsBeforeThePoint) {
    for (int round = 0; round < 300; ++round) {
        const uint64_t stop = txn::kLogFirst + 8 * rng_.below((ends_.back() - txn::kLogFirst) / 8);
        const Seen seen = ends_of(Lsn{stop}, 8 + rng_.below(20'000));
        const auto behind = std::ranges::upper_bound(ends_, stop);
        EXPECT_EQ(seen.code, ErrorCode::none);
        EXPECT_EQ(seen.ends, Ends(ends_.begin(), behind));
        EXPECT_EQ(seen.position, behind == ends_.begin() ? txn::kLogFirst : *(behind - 1));
    }
}

TEST_F(RecordCheckTest, NamesTheRecordThatIsDamaged) {
    for (int round = 0; round < 300; ++round) {
        const uint64_t at = txn::kLogFirst + rng_.below(ends_.back() - txn::kLogFirst);
        log_[at] ^= std::byte{0x10};
        const Seen seen = ends_of(Lsn{ends_.back()}, 8 + rng_.below(20'000));
        log_[at] ^= std::byte{0x10};
        const auto damaged = std::ranges::upper_bound(ends_, at);
        // A record that seems to be longer than the log is never whole.
        EXPECT_EQ(seen.ends, Ends(ends_.begin(), damaged));
        EXPECT_EQ(seen.position, damaged == ends_.begin() ? txn::kLogFirst : *(damaged - 1));
    }
}

// A record that is sound and that its taker refuses is told from a damaged one.
TEST_F(RecordCheckTest, TellsARefusedRecordFromADamagedOne) {
    for (const bool refuses : {true, false}) {
        RecordCheck check{Lsn{txn::kLogFirst}};
        check.on_record([&](const txn::LogRecordView& record) -> Result<void> {
            if (refuses && record.end().value == ends_[9])
                return fail(ErrorCode::corrupt_log, "a part of it");
            return {};
        });
        const auto seen = check.see(Lsn{0}, {log_.data(), log_.size()});
        EXPECT_EQ(code_of(seen), ErrorCode::corrupt_log);  // zeros, or what refuses
        EXPECT_EQ(check.refused(), refuses);
        EXPECT_EQ(check.position().value, refuses ? ends_[8] : ends_.back());
    }
}

}  // namespace lockstep::record_check_test
