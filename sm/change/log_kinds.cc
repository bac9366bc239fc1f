// log_kinds.cc - from numbers in the log to functions and names: applying an action, undoing a
// kind.
//
// Concepts   Everything here is generated from the two tables of log_kinds.h: an entry without its
//            function does not link.
#include "sm/change/log_kinds.h"

#include "threads/base/check.h"

namespace lockstep::sm {

// Defined by the B-tree, the heap, the space map and page_actions.cc.
#define X(number, name) void apply_##name(Page& page, Slice payload);
LOCKSTEP_PAGE_ACTIONS(X)
#undef X
Result<void> undo_btree_insert(Env& env, txn::Transaction& txn, const txn::LogRecordView& record);
Result<void> undo_btree_insert_many(Env& env, txn::Transaction& txn,
                                    const txn::LogRecordView& record);
Result<void> undo_btree_update(Env& env, txn::Transaction& txn, const txn::LogRecordView& record);
Result<void> undo_btree_update_many(Env& env, txn::Transaction& txn,
                                    const txn::LogRecordView& record);
Result<void> undo_btree_erase(Env& env, txn::Transaction& txn, const txn::LogRecordView& record);
Result<void> undo_btree_erase_many(Env& env, txn::Transaction& txn,
                                   const txn::LogRecordView& record);
Result<void> undo_btree_bulk(Env& env, txn::Transaction& txn, const txn::LogRecordView& record);
Result<void> undo_allocation(Env& env, txn::Transaction& txn, const txn::LogRecordView& record);
Result<void> undo_heap_insert(Env& env, txn::Transaction& txn, const txn::LogRecordView& record);
Result<void> undo_heap_update(Env& env, txn::Transaction& txn, const txn::LogRecordView& record);
Result<void> undo_heap_erase(Env& env, txn::Transaction& txn, const txn::LogRecordView& record);

void apply_action(PageAction action, Page& page, Slice payload) {
    switch (action) {
#define X(number, name) \
    case PageAction::name: return apply_##name(page, payload);
        LOCKSTEP_PAGE_ACTIONS(X)
#undef X
    }
    CHECK(!"page action exists");  // next_part() lets no other number through
}

Result<void> undo_record(Env& env, txn::Transaction& txn, const txn::LogRecordView& record) {
    using Undo = Result<void> (*)(Env&, txn::Transaction&, const txn::LogRecordView&);
    Undo undo = nullptr;
    switch (static_cast<LogKind>(record.header->kind)) {
#define X(number, name, function) \
    case LogKind::name: undo = function; break;
        LOCKSTEP_SM_LOG_KINDS(X)
#undef X
    }
    // RC-2: what was compensated is jumped over.
    DCHECK(!(record.header->flags & txn::kLogCompensation));
    if (undo == nullptr)
        return fail(ErrorCode::corrupt_log, "record that cannot be undone", record.lsn.value,
                    record.header->kind);
    return undo(env, txn, record);
}

const char* log_kind_name(uint16_t kind) {
    switch (static_cast<txn::TxnLogKind>(kind)) {
        case txn::TxnLogKind::pad: return "pad";
        case txn::TxnLogKind::commit: return "commit";
        case txn::TxnLogKind::end: return "end";
        case txn::TxnLogKind::savepoint_rollback: return "savepoint_rollback";
        case txn::TxnLogKind::checkpoint_begin: return "checkpoint_begin";
        case txn::TxnLogKind::checkpoint_end: return "checkpoint_end";
        case txn::TxnLogKind::time: return "time";
        case txn::TxnLogKind::prepare_locks: return "prepare_locks";
        case txn::TxnLogKind::prepare: return "prepare";
    }
    switch (static_cast<LogKind>(kind)) {
#define X(number, name, undo) \
    case LogKind::name: return #name;
        LOCKSTEP_SM_LOG_KINDS(X)
#undef X
    }
    return "?";
}

const char* page_action_name(PageAction action) {
    switch (action) {
#define X(number, name) \
    case PageAction::name: return #name;
        LOCKSTEP_PAGE_ACTIONS(X)
#undef X
    }
    return "?";
}

std::string describe_record(const txn::LogRecordView& record) {
    const txn::LogRecordHeader& h = *record.header;
    std::string line = std::to_string(record.lsn.value) + " " + log_kind_name(h.kind) + " " +
                       std::to_string(h.bytes) + " bytes";
    if (h.txn != 0) line += ", txn " + std::to_string(h.txn);
    if (h.prev != 0)
        line +=
            (h.flags & txn::kLogCompensation ? ", undo next " : ", prev ") + std::to_string(h.prev);
    if (const Lsn stamped = txn::stamped_durable_end(h, record.lsn); stamped != kLsnNone)
        line += ", log durable up to " + std::to_string(stamped.value);
    else if (h.object != 0) line += ", object " + std::to_string(h.object);
    if (h.flags & txn::kLogCompensation) line += ", compensation";
    if (h.kind < txn::kSmLogKindFirst) return line;
    uint32_t cursor = 0;
    PartView part;
    for (;;) {
        const Result<bool> more = next_part(record, cursor, part);
        if (!more.has_value()) return line + "; DAMAGED PART";
        if (!*more) return line;
        line += "; page " + std::to_string(part.page.value) + " " + page_action_name(part.action) +
                " " + std::to_string(part.payload.size());
        if (part.flags & kPartImage) line += " +image " + std::to_string(part.image.size());
        if (part.flags & kPartPacked) line += " packed";
        if (part.flags & kPartFresh) line += " fresh";
    }
}

}  // namespace lockstep::sm
