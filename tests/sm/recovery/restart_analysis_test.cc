// labels: unit
// restart_analysis_test.cc - which transactions restart takes for losers, whatever the order of
// their records, their ends and the checkpoint's list.
#include <gtest/gtest.h>

#include <cstring>
#include <string>
#include <vector>

#include "sm/recovery/recovery_parts.h"
#include "tests/sm/test_util.h"

namespace lockstep::sm::restart_analysis_test {

using txn::TxnLogKind;

constexpr Lsn kBegin{4096};
constexpr uint16_t kChange = txn::kSmLogKindFirst;

class AnalysisTest : public ::testing::Test {
protected:
    // The log's next record; its LSN.
    Lsn see(uint16_t kind, uint64_t txn, const std::string& payload = {}) {
        std::vector<uint64_t> words(
            txn::log_align(static_cast<uint32_t>(sizeof(txn::LogRecordHeader) + payload.size())) /
            8);
        auto* const header = reinterpret_cast<txn::LogRecordHeader*>(words.data());
        header->bytes = static_cast<uint32_t>(words.size() * 8);
        header->txn = txn;
        header->kind = kind;
        if (!payload.empty()) std::memcpy(header + 1, payload.data(), payload.size());
        const txn::LogRecordView record{.lsn = end_, .header = header};
        result_ = analysis_.see(record);
        end_ = record.end();
        return record.lsn;
    }
    Lsn see(TxnLogKind kind, uint64_t txn = 0, const std::string& payload = {}) {
        return see(static_cast<uint16_t>(kind), txn, payload);
    }
    // A record of the checkpoint's list.
    static std::string list(std::vector<CheckpointTxn> txns, uint32_t part = 0, uint32_t parts = 1,
                            Lsn begin = kBegin, uint64_t next_txn = 100) {
        const CheckpointEnd head{
            begin.value, next_txn, 100, part, parts, static_cast<uint32_t>(txns.size()), 0};
        std::string bytes(reinterpret_cast<const char*>(&head), sizeof head);
        bytes.append(reinterpret_cast<const char*>(txns.data()),
                     txns.size() * sizeof(CheckpointTxn));
        return bytes;
    }
    std::vector<uint64_t> losers() const {
        std::vector<uint64_t> ids;
        for (const Unended& loser : analysis_.unended()) ids.push_back(loser.id.value);
        return ids;
    }

    Analysis analysis_{kBegin};
    Lsn end_ = kBegin;
    Result<void> result_;
};

using Ids = std::vector<uint64_t>;

// The list is taken from what runs, record by record: a transaction may end meanwhile, before the
// list itself is in the log.
TEST_F(AnalysisTest, WhoEndsBeforeTheListIsNoLoser) {
    see(TxnLogKind::checkpoint_begin);
    see(TxnLogKind::commit, 7);
    see(TxnLogKind::end, 9);
    see(TxnLogKind::checkpoint_end, 0, list({{7, 100, 200}, {8, 120, 300}, {9, 140, 400}}));
    EXPECT_EQ(losers(), (Ids{8}));
}

TEST_F(AnalysisTest, WhoEndsBehindTheListIsNoLoser) {
    see(TxnLogKind::checkpoint_begin);
    see(TxnLogKind::checkpoint_end, 0, list({{7, 100, 200}, {8, 120, 300}, {9, 140, 400}}));
    see(kChange, 7);
    see(TxnLogKind::commit, 7);
    see(TxnLogKind::end, 9);
    EXPECT_EQ(losers(), (Ids{8}));
}

// A long list takes several records. All of them stand behind the same ends.
TEST_F(AnalysisTest, EachPartOfTheListCounts) {
    see(TxnLogKind::checkpoint_begin);
    see(TxnLogKind::commit, 7);
    see(TxnLogKind::checkpoint_end, 0, list({{5, 100, 500}}, 0, 3));
    see(TxnLogKind::checkpoint_end, 0, list({{7, 100, 600}}, 1, 3));
    see(TxnLogKind::commit, 11);
    see(TxnLogKind::checkpoint_end, 0, list({{9, 100, 400}, {11, 100, 450}}, 2, 3));
    EXPECT_EQ(losers(), (Ids{5, 9}));
}

// A checkpoint that a crash or an error cut off has a list of its own, as has the one before.
TEST_F(AnalysisTest, TheListOfAnotherCheckpointIsIgnored) {
    see(TxnLogKind::checkpoint_begin);
    see(TxnLogKind::checkpoint_end, 0, list({{5, 100, 500}}, 0, 1, Lsn{64}, 1000));
    see(TxnLogKind::checkpoint_end, 0, list({{7, 100, 200}}));
    see(TxnLogKind::checkpoint_begin);
    see(TxnLogKind::checkpoint_end, 0, list({{6, 100, 500}}, 0, 1, kBegin + 32, 1000));
    EXPECT_EQ(losers(), (Ids{7}));
    EXPECT_EQ(analysis_.next_txn(), TxnId{100});
}

// The chain begins where the list says, and ends with the last record that was seen.
TEST_F(AnalysisTest, FirstAndLastRecordComeFromListAndLog) {
    see(TxnLogKind::checkpoint_begin);
    const Lsn early = see(kChange, 5);
    see(TxnLogKind::checkpoint_end, 0, list({{5, 100, 200}, {6, 300, 400}}));
    const Lsn late = see(kChange, 6), lone = see(kChange, 120);
    const std::vector<Unended> found = analysis_.unended();
    ASSERT_EQ(found.size(), 3u);
    EXPECT_EQ(losers(), (Ids{120, 6, 5}));  // newest last record first
    EXPECT_EQ(found[0].first, lone);
    EXPECT_EQ(found[1].first, Lsn{300});
    EXPECT_EQ(found[1].last, late);
    EXPECT_EQ(found[2].first, Lsn{100});
    EXPECT_EQ(found[2].last, early);
    EXPECT_EQ(analysis_.next_txn(), TxnId{121});
    EXPECT_EQ(analysis_.changes(), 3u);
}

// The full-page-image LSN is the end of the begin record: what restart changes follows the rule of
// that checkpoint.
TEST_F(AnalysisTest, TheImageLsnIsTheEndOfTheBeginRecord) {
    EXPECT_EQ(analysis_.image_lsn(), kLsnNone);
    see(TxnLogKind::checkpoint_begin);
    EXPECT_EQ(analysis_.image_lsn(), kBegin + sizeof(txn::LogRecordHeader));
    see(TxnLogKind::checkpoint_end, 0, list({}));
    see(TxnLogKind::checkpoint_begin);
    EXPECT_EQ(analysis_.image_lsn(), kBegin + sizeof(txn::LogRecordHeader));
}

TEST_F(AnalysisTest, AListThatIsTooShortIsDamage) {
    see(TxnLogKind::checkpoint_begin);
    std::string cut = list({{5, 100, 500}, {6, 100, 500}});
    cut.resize(cut.size() - sizeof(CheckpointTxn));
    see(TxnLogKind::checkpoint_end, 0, cut);
    ASSERT_FALSE(result_);
    EXPECT_EQ(result_.error().code, ErrorCode::corrupt_log);
    see(TxnLogKind::checkpoint_end, 0, cut.substr(0, 16));
    EXPECT_FALSE(result_);
}

}  // namespace lockstep::sm::restart_analysis_test
