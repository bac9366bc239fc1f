// savepoints.cc - the list hangs on TxnLocal::savepoints and exists only for transactions that have
// taken a savepoint.
#include "sm/change/savepoints.h"

#include <algorithm>
#include <vector>

#include "threads/base/mutants.h"

namespace lockstep::sm {

struct Savepoints {
    std::vector<txn::Savepoint> valid;
};

txn::Savepoint take_savepoint(txn::Transaction& txn) {
    Savepoints*& taken = local_of(txn).savepoints;
    if (taken == nullptr) taken = new Savepoints;
    const txn::Savepoint made{.lsn = txn.last_lsn, .number = ++txn.savepoints};
    DCHECK(taken->valid.empty() || taken->valid.back().number < made.number);  // VS-1
    DCHECK(taken->valid.empty() || taken->valid.back().lsn <= made.lsn);
    taken->valid.push_back(made);
    return made;
}

bool is_valid(const txn::Transaction& txn, const txn::Savepoint& savepoint) {
    const Savepoints* const taken = local_of(txn).savepoints;
    if (taken == nullptr) return false;
    const auto at =
        std::ranges::lower_bound(taken->valid, savepoint.number, {}, &txn::Savepoint::number);
    return at != taken->valid.end() && at->number == savepoint.number && at->lsn == savepoint.lsn;
}

void drop_later(txn::Transaction& txn, const txn::Savepoint& savepoint) {
    DCHECK(is_valid(txn, savepoint));
    if (MUTANT(savepoint_lives_on)) return;
    std::vector<txn::Savepoint>& valid = local_of(txn).savepoints->valid;
    while (valid.back().number > savepoint.number) valid.pop_back();
}

void free_savepoints(Savepoints* savepoints) { delete savepoints; }

}  // namespace lockstep::sm
