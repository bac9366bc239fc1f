// record_changes.h - which records a page action changes: what they are before it, and how to work
// that out later from the log.
//
// Concepts   Snapshot transactions need the states that changes replace. A change of pages asks for
//            the present states just before it applies its actions. For changes that are in the
//            log already, the state before follows from the state after and the log record.
// Invariants RA-3 An action that is part of an undoable record and changes a record's state is
//                 among LOCKSTEP_RECORD_ACTIONS. [checked by: snapshot model tests, mutants]
// Blocking   Nothing here parks.
#pragma once

#include <lockstep/function_ref.h>
#include "sm/buffer/page.h"
#include "sm/change/log_kinds.h"
#include "sm/version/changed_records.h"

namespace lockstep::sm {

// Functions `void records_before_<name>(const Page&, Slice payload, ChangedRecords&)` and
// `void records_undone_<name>(ObjectId, PageId, Slice payload, UndoneVisit)`, of the B-tree and the
// heap.
#define LOCKSTEP_RECORD_ACTIONS(X) \
    X(btree_put)                   \
    X(btree_put_many)              \
    X(btree_replace)               \
    X(btree_replace_many)          \
    X(btree_set_ghost)             \
    X(btree_set_ghosts)            \
    X(btree_revive)                \
    X(heap_put)                    \
    X(heap_replace)                \
    X(heap_remove)

// `undo` makes the state before the action of the state after it.
using Undo = FunctionRef<void(RecordCopy& state)>;
using UndoneVisit = FunctionRef<void(const RecordName& name, Undo undo)>;

#define X(name) void records_before_##name(const Page& page, Slice payload, ChangedRecords& out);
LOCKSTEP_RECORD_ACTIONS(X)
#undef X
// Adds each record that the action with that payload is about to change on the page.
inline void records_before(PageAction action, const Page& page, Slice payload,
                           ChangedRecords& out) {
    switch (action) {
#define X(name) \
    case PageAction::name: return records_before_##name(page, payload, out);
        LOCKSTEP_RECORD_ACTIONS(X)
#undef X
        default: return;
    }
}
// What most changes are: one action, btree_replace or heap_put. They do all that records_before()
// and the table of versions do then. A version that is renewed takes no call. `hash`: of the
// record's name; 0: not known.
void keep_before_only_replace(VersionTable& versions, txn::Transaction& txn, const Page& page,
                              Slice payload, uint64_t hash);
void keep_before_only_heap_put(VersionTable& versions, txn::Transaction& txn, const Page& page,
                               Slice payload, uint64_t hash);
// Visits each record that it has changed. `object`: that of the log record.
void records_undone(PageAction action, ObjectId object, PageId page, Slice payload,
                    UndoneVisit visit);

}  // namespace lockstep::sm
