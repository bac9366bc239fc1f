// object_history.cc - see object_history.h.
#include "sm/version/object_history.h"

#include "threads/runtime/runtime.h"

namespace lockstep::sm {

ObjectHistory::~ObjectHistory() {
    for (auto* at : {&made_, &loaded_})
        if (txn::Outcome* outcome = at->load()) txn::Outcome::drop(outcome);
    for (txn::Outcome* outcome : earlier_) txn::Outcome::drop(outcome);
}

// A load needs an empty index. So an outcome that stood there before is that of a load that was
// rolled back, or of one whose records no snapshot sees any more.
Result<void> ObjectHistory::note(std::atomic<txn::Outcome*>& at, txn::Transaction& txn) {
    if (txn.outcome == nullptr) txn.outcome = txn::OutcomeSource().make(txn.id);
    txn::Outcome* const outcome = txn.outcome;
    if (outcome == nullptr) return fail(ErrorCode::out_of_memory, "outcome of a transaction");
    DCHECK(outcome->active() && outcome->txn() == txn.id);
    DCHECK(&at == &made_ || &at == &loaded_);
    outcome->add_use();
    // The old one may be in use by a reader: it stays as long as the object.
    if (txn::Outcome* old = at.exchange(outcome)) earlier_.push_back(old);
    return {};
}

bool ObjectHistory::sees(const Snapshot& snapshot, const txn::Outcome& outcome) {
    for (;;) {
        const auto below = outcome.committed_below(snapshot.sees);
        if (below != txn::Outcome::Below::unknown) return below == txn::Outcome::Below::yes;
        threads::yield();
    }
}

Result<void> ObjectHistory::check(const Snapshot& snapshot, const txn::ObjectLock& lock) const {
    if (snapshot.too_old.load(std::memory_order_acquire)) [[unlikely]]
        return fail(ErrorCode::snapshot_too_old, "snapshot", snapshot.sees.value);
    if (lock.gone.load(std::memory_order_acquire)) [[unlikely]]
        return fail(ErrorCode::no_such_object, "index or heap that was dropped", lock.id.value);
    const txn::Outcome* const maker = made_.load(std::memory_order_acquire);
    if (maker != nullptr && !sees(snapshot, *maker)) [[unlikely]]
        return fail(ErrorCode::no_such_object, "index or heap made after the snapshot",
                    lock.id.value);
    return {};
}

bool ObjectHistory::empty_to(const Snapshot& snapshot) const {
    const txn::Outcome* const loader = loaded_.load(std::memory_order_acquire);
    return loader != nullptr && !loader->aborted() && !sees(snapshot, *loader);
}

}  // namespace lockstep::sm
