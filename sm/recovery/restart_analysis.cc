// restart_analysis.cc - which transactions were live when the log ended, from one pass over it.
//
// Argument   Transactions with a record at or after the checkpoint's begin are seen here. A live
//            transaction whose records all lie before is in the checkpoint's list, which was taken
//            after begin.
//            The list may name a transaction that ended between begin and the list's record. Its
//            commit or end record was seen, so `ended_` keeps such transactions until the list is
//            merged. Lists of other, unfinished checkpoints are ignored; `begin` identifies them.
#include <algorithm>
#include <cstring>

#include "sm/recovery/recovery_parts.h"

namespace lockstep::sm {

void Analysis::ended(uint64_t id) {
    live_.erase(id);
    if (collecting_) ended_.push_back(id);
}

Result<void> Analysis::see(const txn::LogRecordView& record) {
    const txn::LogRecordHeader& head = *record.header;
    assert_state();
    DCHECK(record.lsn >= begin_);
    switch (static_cast<txn::TxnLogKind>(head.kind)) {
        case txn::TxnLogKind::pad:
        case txn::TxnLogKind::time: return {};
        case txn::TxnLogKind::checkpoint_begin:
            if (record.lsn == begin_) {
                image_lsn_ = record.end();
                collecting_ = true;
            }
            return {};
        case txn::TxnLogKind::checkpoint_end: return merge(record);
        default: break;
    }
    ++changes_;
    if (head.txn == 0) return {};
    next_txn_ = std::max(next_txn_, head.txn + 1);
    if (head.kind == static_cast<uint16_t>(txn::TxnLogKind::commit) ||
        head.kind == static_cast<uint16_t>(txn::TxnLogKind::end)) {
        ended(head.txn);
        return {};
    }
    auto [it, fresh] =
        live_.try_emplace(head.txn, Unended{TxnId{head.txn}, record.lsn, record.lsn});
    DCHECK(fresh || it->second.last < record.lsn);  // in the order of the log
    if (!fresh) it->second.last = record.lsn;
    return {};
}

Result<void> Analysis::merge(const txn::LogRecordView& record) {
    CheckpointEnd end;
    if (record.payload_bytes() < sizeof end)
        return fail(ErrorCode::corrupt_log, "checkpoint record", record.lsn.value);
    std::memcpy(&end, record.payload(), sizeof end);
    if (end.begin != begin_.value) return {};
    if (end.count > (record.payload_bytes() - sizeof end) / sizeof(CheckpointTxn))
        return fail(ErrorCode::corrupt_log, "checkpoint record", record.lsn.value);
    DCHECK(end.part < end.parts && end.count <= kCheckpointTxnsMax);
    next_txn_ = std::max(next_txn_, end.next_txn);
    std::sort(ended_.begin(), ended_.end());
    for (uint32_t i = 0; i < end.count; ++i) {
        CheckpointTxn t;
        std::memcpy(&t, record.payload() + sizeof end + i * sizeof t, sizeof t);
        if (std::binary_search(ended_.begin(), ended_.end(), t.id)) continue;
        auto [it, fresh] = live_.try_emplace(t.id, Unended{TxnId{t.id}, Lsn{t.first}, Lsn{t.last}});
        DCHECK(t.id != 0 && t.id < end.next_txn);
        if (!fresh) {
            it->second.first = std::min(it->second.first, Lsn{t.first});
            it->second.last = std::max(it->second.last, Lsn{t.last});
        }
    }
    if (end.part + 1 == end.parts) {
        collecting_ = false;
        ended_ = {};
    }
    assert_state();
    return {};
}

std::vector<Unended> Analysis::unended() const {
    std::vector<Unended> result;
    result.reserve(live_.size());
    for (const auto& [id, unended] : live_) result.push_back(unended);
    std::sort(result.begin(), result.end(),
              [](const Unended& a, const Unended& b) { return a.last > b.last; });
    return result;
}

}  // namespace lockstep::sm
