// page_change.h - the only way to change pages: reserve log space, write one record for all pages,
// apply its actions, unlatch.
//
// Concepts   One change = one log record = atomic, whatever number of pages. Structure changes
//            (split, merge, allocation) are one redo-only record outside the transaction's undo
//            chain: a nested top action in a single record.
// Invariants PC-1 Every page of the change is exclusively held by the caller. PC-2 Nothing fails
// after the reservation.
//            PC-3 A page whose lsn is not above the image horizon (begin of the newest checkpoint)
//                 gets its image into the record, so any torn page can be rebuilt. The horizon is
//                 looked at again after the reservation: if it moved, the reservation becomes
//                 padding.
//            PC-4 A page is noted as dirty, changed and given its lsn while the reservation is
//                 open: a record that Log::wait_until_published() has waited for is on its pages.
//            PC-5 A record has one part for a page: redo knows by the lsn whether a page has had
//            the record. [checked: change_pages()]
// Blocking   commit() may park while the log ring is full (latches are kept).
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
    // The payload, as up to four pieces that are written one behind the other; they may lie in the
    // pages themselves.
    Slice pieces[4] = {};
    // Of log that undoing it takes, if more than one record no longer than its own.
    uint32_t undo_bytes = 0;
};

enum class ChangeRole : uint8_t {
    // Undoable record of the transaction: undo space is reserved, txn chain advances.
    forward,
    compensation,  // CLR of the transaction: charged to its undo space, undo_next given
    system,        // belongs to no transaction
};

// Logs and applies `parts` (1..16) as one record. Errors, all before anything changed: log_full
// (forward only), store_failed. `txn` is null for system. For compensation, `undo_next` is where
// rollback goes on. The LSN of the record is returned.
Result<Lsn> change_pages(Env& env, txn::Transaction* txn, ChangeRole role, LogKind kind,
                         ObjectId store, std::span<ChangePart> parts, Lsn undo_next = kLsnNone);

}  // namespace lockstep::sm
