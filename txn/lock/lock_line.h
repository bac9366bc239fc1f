// lock_line.h - the lines in which repetitions of deadlock victims wait for their turn.
//
// Concepts   Transactions that want the same records in a bad order make each other victims again
//            and again, unless their repetitions keep out of each other's way. So a repetition
//            first takes X on a lock name that stands for the place of the conflict, a *line*, and
//            keeps it to its end. After one deadlock that is the line of the record, after two
//            also that of the index or heap, and from the third on also that of the store. The
//            number of these lines is the *level* of the repetition. A first attempt has level 0
//            and takes none. The transaction for which the victim waited stands first in the
//            record's line, so no repetition begins before that one has ended.
//            The victim of a deadlock is the transaction of the lowest level, and among
//            repetitions of one level the one whose first attempt is the youngest.
//            A line is a lock like any other, so its waits end as lock waits do, and the deadlock
//            search sees them.
// Invariants LNE-1 No transaction is a victim more than kLevels times while others go on. At
//                  most one of the highest level runs, and no cycle makes it the victim.
//                  Exceptions are cycles of nested transactions, and a line whose first owner does
//                  not end within kPatience. [test: RepeatStorm.*]
//            LNE-2 Lines are taken in the order of their levels and before all other locks. So
//                  they add no cycle, except where a thread waits within another transaction.
//                  [test: Repetition.WaitsForNobodyWhoWaitsForItsThread]
//            LNE-3 The name of a line is even, and all other names are odd.
//                  [checked: line_of(), wait_in_line()]
// Blocking   Said in lock_manager.h.
#pragma once

#include "threads/base/check.h"
#include "txn/lock/lock_owner.h"

namespace lockstep::txn {

inline constexpr uint8_t kLevels = 3;
// A repetition does not wait for longer than this while its line stands still: whoever is first
// there may be waiting for the application.
inline constexpr Nanos kPatience = kSecond;

inline bool is_line(LockName name) { return (name.value & 1) == 0; }

inline LockName line_of(uint64_t hash) {
    const LockName line{(mix64(hash) | 2) & ~uint64_t{1}};
    DCHECK(is_line(line) && line.value != 0);  // LNE-3
    return line;
}
inline LockName line_of_record(LockName lost) { return line_of(lost.value); }
inline LockName line_of_object(ObjectId object) { return line_of(uint64_t{object.value} << 8 | 2); }
inline LockName line_of_store() { return line_of(4); }

inline uint8_t level_of(const LockOwner& owner) { return owner.is_repetition() ? owner.level : 0; }

}  // namespace lockstep::txn
