// savepoints.cc - the list hangs on TxnLocal::savepoints and exists only for transactions that have
// taken a savepoint.
#include "sm/change/savepoints.h"

#include <algorithm>
#include <vector>

#include "threads/base/mutants.h"

namespace lockstep::sm {

struct Savepoints {
    std::vector<RollbackPoint> valid;
};

txn::Savepoint take_savepoint(txn::Transaction& txn) {
    Savepoints*& taken = local_of(txn).savepoints;
    if (taken == nullptr) taken = new Savepoints;
    const RollbackPoint made = rollback_point(txn);
    DCHECK(taken->valid.empty() || taken->valid.back().number < made.number);  // VS-1
    DCHECK(taken->valid.empty() || taken->valid.back().lsn <= made.lsn);
    taken->valid.push_back(made);
    return {.txn = txn.id, .number = made.number};
}

std::optional<RollbackPoint> find_savepoint(const txn::Transaction& txn,
                                            const txn::Savepoint& savepoint) {
    const Savepoints* const taken = local_of(txn).savepoints;
    if (taken == nullptr || savepoint.txn != txn.id) return std::nullopt;
    const auto at =
        std::ranges::lower_bound(taken->valid, savepoint.number, {}, &RollbackPoint::number);
    if (at == taken->valid.end() || at->number != savepoint.number) return std::nullopt;
    return *at;
}

void drop_later(txn::Transaction& txn, const RollbackPoint& point) {
    if (MUTANT(savepoint_lives_on)) return;
    std::vector<RollbackPoint>& valid = local_of(txn).savepoints->valid;
    while (valid.back().number > point.number) valid.pop_back();
    DCHECK(valid.back().number == point.number);
}

void free_savepoints(Savepoints* savepoints) { delete savepoints; }

}  // namespace lockstep::sm
