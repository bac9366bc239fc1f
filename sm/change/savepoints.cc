// savepoints.cc - the list hangs on TxnLocal::savepoints and exists only for transactions that have
// taken a savepoint.
#include "sm/change/savepoints.h"

#include <algorithm>
#include <vector>

namespace lockstep::sm {

namespace {

constexpr uint32_t kNumbersMax = 1u << 31;  // statements have the rest
constexpr size_t kRunsMax = 1 << 24;

// Savepoints of one state: no record lies between them.
struct Run {
    Lsn lsn{};
    uint32_t first = 0, last = 0;  // numbers; those of statements between them are nobody's
};
static_assert(sizeof(Run) == 16);

}  // namespace

struct Savepoints {
    std::vector<Run> valid;
    uint32_t dropped = 0;  // the last number that a rollback has made invalid

    void assert_state() const {  // VS-1, of the newest
        if (valid.empty()) return;
        DCHECK(valid.back().first <= valid.back().last);
        if (valid.size() == 1) return;
        DCHECK(valid[valid.size() - 2].last < valid.back().first);
        DCHECK(valid[valid.size() - 2].lsn <= valid.back().lsn);
    }
};

Result<txn::Savepoint> take_savepoint(txn::Transaction& txn) {
    Savepoints*& taken = local_of(txn).savepoints;
    if (taken == nullptr) taken = new Savepoints;
    std::vector<Run>& valid = taken->valid;
    if (txn.savepoints >= kNumbersMax || valid.size() >= kRunsMax)
        return fail(ErrorCode::too_many, "savepoints of a transaction", txn.savepoints);
    const RollbackPoint made = rollback_point(txn);
    // A number that was dropped must not become valid again.
    const bool revives = !valid.empty() && valid.back().last < taken->dropped;
    if (!valid.empty() && valid.back().lsn == made.lsn && !revives) valid.back().last = made.number;
    else valid.push_back({made.lsn, made.number, made.number});
    taken->assert_state();
    return txn::Savepoint{.txn = txn.id, .number = made.number};
}

std::optional<RollbackPoint> find_savepoint(const txn::Transaction& txn,
                                            const txn::Savepoint& savepoint) {
    const Savepoints* const taken = local_of(txn).savepoints;
    if (taken == nullptr) return std::nullopt;
    if (savepoint.txn != txn.id) return std::nullopt;
    const auto at = std::ranges::lower_bound(taken->valid, savepoint.number, {}, &Run::last);
    if (at == taken->valid.end() || savepoint.number < at->first) return std::nullopt;
    return RollbackPoint{.lsn = at->lsn, .number = savepoint.number};
}

void drop_later(txn::Transaction& txn, const RollbackPoint& point) {
    Savepoints& taken = *local_of(txn).savepoints;
    std::vector<Run>& valid = taken.valid;
    const uint32_t newest = valid.back().last;
    while (valid.back().first > point.number) valid.pop_back();
    DCHECK(valid.back().last >= point.number && valid.back().lsn == point.lsn);
    valid.back().last = point.number;
    if (newest != point.number) taken.dropped = newest;
    taken.assert_state();
}

size_t savepoint_bytes(const txn::Transaction& txn) {
    const Savepoints* const taken = local_of(txn).savepoints;
    return taken == nullptr ? 0 : taken->valid.size() * sizeof(Run);
}

void free_savepoints(Savepoints* savepoints) { delete savepoints; }

}  // namespace lockstep::sm
