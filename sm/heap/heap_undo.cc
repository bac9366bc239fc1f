// heap_undo.cc - rollback of heap changes: each part of the record is undone on its page, in one
// compensation record.
//
// Concepts   Slots do not move and keep their space (heap_page.h), so undo finds page and slot
//            where the forward change left them.
// Invariants HF-6 (heap_impl.h) After its undo a slot has the state and the bytes it had before;
//                 only capacity and place on the page may differ.
// Blocking   Parks for pages and latches; needs no log space beyond what was reserved.
#include "sm/change/log_kinds.h"
#include "sm/heap/heap_impl.h"

namespace lockstep::sm {

using namespace heap;

namespace {

// Inverse of one part. `head` must outlive the change.
union InverseHead {
    PutPayload put;
    ReplacePayload replace;
    RemovePayload remove;
};

Result<void> invert(const PartView& part, InverseHead& head, ChangePart& out) {
    switch (part.action) {
        case PageAction::heap_put: {
            const auto p = head_of<PutPayload>(part.payload);
            head.remove = {p.slot, kToEmpty, p.state};
            out.action = PageAction::heap_remove;
            out.pieces[0] = bytes_of(head.remove);
            return {};
        }
        case PageAction::heap_remove: {
            const auto p = head_of<RemovePayload>(part.payload);
            CHECK(p.mode == kToGhost);  // the other modes are redo-only
            head.put = {p.slot, p.state_old, 0};
            out.action = PageAction::heap_put;
            out.pieces[0] = bytes_of(head.put);
            out.pieces[1] = part.payload.substr(sizeof p);
            return {};
        }
        case PageAction::heap_replace: {
            const auto p = head_of<ReplacePayload>(part.payload);
            head.replace = {p.slot,      p.state_old, p.state_new, p.at,
                            p.new_bytes, p.old_bytes, kWithoutOld};
            out.action = PageAction::heap_replace;
            out.pieces[0] = bytes_of(head.replace);
            out.pieces[1] = part.payload.substr(sizeof p + p.new_bytes, p.old_bytes);
            return {};
        }
        default:
            return fail(ErrorCode::corrupt_log, "heap record with an action that has no undo",
                        static_cast<uint64_t>(part.action));
    }
}

Result<void> undo_heap(Env& env, txn::Transaction& txn, const txn::LogRecordView& record,
                       LogKind kind) {
    DCHECK(record.header->txn == txn.id.value && (record.header->flags & txn::kLogUndoable));
    LatchedPages pages;
    PartView views[3];
    uint32_t count = 0, cursor = 0;
    for (PartView part; TRY(next_part(record, cursor, part));) {
        if (count == 3)
            return fail(ErrorCode::corrupt_log, "heap record with too many parts",
                        record.lsn.value);
        views[count++] = part;
        pages.want(part.page);
    }
    DCHECK(count > 0 && count == pages.count);  // PC-5
    TRY(pages.latch(*env.pool));
    ChangePart parts[3];
    InverseHead heads[3];
    for (uint32_t i = 0; i < count; ++i) {
        parts[i].page = &pages.of(views[i].page);
        TRY(invert(views[i], heads[i], parts[i]));
    }
    TRY(change_pages(env, &txn, ChangeRole::compensation, kind, ObjectId{record.header->object},
                     {parts, count}, Lsn{record.header->prev}));
    return {};
}

}  // namespace

// The table of log kinds calls these. They need no HeapFile: while a heap's creation is rolled
// back, it does not exist any more.
Result<void> undo_heap_insert(Env& env, txn::Transaction& txn, const txn::LogRecordView& record) {
    return undo_heap(env, txn, record, LogKind::heap_undo_insert);
}
Result<void> undo_heap_update(Env& env, txn::Transaction& txn, const txn::LogRecordView& record) {
    return undo_heap(env, txn, record, LogKind::heap_undo_update);
}
Result<void> undo_heap_erase(Env& env, txn::Transaction& txn, const txn::LogRecordView& record) {
    return undo_heap(env, txn, record, LogKind::heap_undo_erase);
}

}  // namespace lockstep::sm
