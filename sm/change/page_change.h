// page_change.h - the only way to change pages: reserve log space, write one record for all pages,
// apply its actions, unlatch.
//
// Concepts   One change is one log record and atomic, whatever the number of pages. Structure
//            changes (split, merge, allocation) are one redo-only record outside the transaction's
//            undo chain: a nested top action in a single record.
// Invariants PC-1 The caller holds every page of the change exclusively.
//            PC-2 Nothing fails after the reservation. [kept by: change()]
//            PC-3 A page whose lsn is not above the full-page-image LSN (the end of the newest
//                 checkpoint's begin record) gets its image into the record. So any torn page can
//                 be rebuilt. That LSN is read again after the reservation; if it moved, the
//                 reservation becomes padding.
//            PC-4 A page is noted as dirty, changed and given its lsn while the reservation is
//                 open. So a record that Log::wait_until_published() has waited for is on its
//                 pages.
//            PC-5 A record has at most one part for a page: redo knows by the lsn whether a page
//                 has had the record. [checked: change_pages()]
// Blocking   change_pages() may park while the log ring is full; the latches are kept.
// Source     ARIES (page-oriented redo, logical undo); PostgreSQL's full-page writes for the image
//            rule.
#pragma once

#include <span>

#include "sm/buffer/buffer_pool.h"
#include "sm/change/log_kinds.h"

namespace lockstep::sm {

struct ChangePart {
    ExclusivePage* page = nullptr;
    PageAction action{};
    uint8_t flags = 0;  // kPartFresh or 0
    // The payload, as up to four pieces in sequence; they may lie in the pages themselves.
    Slice pieces[4] = {};
    // Log bytes that its undo takes, if more than one record no longer than its own.
    uint32_t undo_bytes = 0;
    // Hash of the name of the only record that changes, if the caller has it; else 0.
    uint64_t record = 0;

    void assert_state() const {
        DCHECK(page != nullptr && *page);  // PC-1
        DCHECK(action != PageAction{} && (flags & ~kPartFresh) == 0);
    }
};

enum class ChangeRole : uint8_t {
    // Undoable record of the transaction: undo space is reserved, txn chain advances.
    forward,
    compensation,  // CLR of the transaction: uses its reserved undo space, undo_next given
    system,        // belongs to no transaction
};

// Logs and applies `parts` (1..16) as one record. `txn` is null for system. For compensation,
// `undo_next` is where rollback continues. Returns the record's LSN. Errors, all before anything
// changed: store_failed; of forward also log_full, no_space.
Result<Lsn> change_pages(Env& env, txn::Transaction* txn, ChangeRole role, LogKind kind,
                         ObjectId object, std::span<ChangePart> parts, Lsn undo_next = kLsnNone);

}  // namespace lockstep::sm
