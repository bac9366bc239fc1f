// catalog_drop.cc - drops: the object leaves its name, and its pages are freed.
#include "sm/btree/overflow.h"
#include "sm/catalog/catalog_impl.h"
#include "sm/change/deferred.h"
#include "sm/change/rollback.h"
#include "sm/services/ghost_cleaner.h"
#include "sm/services/prepared_txns.h"
#include "sm/space/sweep.h"

namespace lockstep::sm {

Result<void> Catalog::drop(txn::Transaction& txn, std::string_view name) {
    TRY(Impl::check_name(name));
    Impl::Object* object = TRY(impl_->see(txn, name, Access::write));
    if (object == nullptr) return Impl::unknown_name(name);
    const CatalogEntry entry = object->entry;
    DCHECK(entry.name == name && entry.id != txn::kNoObject);
    object->assert_state();
    txn::ObjectLock& lock = object->object_lock();
    // The primary before the secondary, as everywhere.
    if (Secondary* secondary = impl_->secondaries.find(entry.id))
        TRY(impl_->secondaries.change(txn, *secondary, false));
    TRY(engine_.locks->lock_object(txn.locks, lock, txn::LockMode::X));
    TRY(drop_secondaries(txn, entry.id));
    if (!TRY(impl_->tree.erase(txn, entry.name))) return Impl::unknown_name(name);
    TRY(impl_->drops.add(txn, Impl::drop_entry(entry)));
    const auto freed = [this, object](bool committed) {
        if (!committed) return;
        DCHECK(!object->gone);  // dropped once
        engine_.locks->keep_note(engine_.txns->newest_commit());
        impl_->publish(*object, false);
        destroy(object->entry);
    };
    at_end(txn, freed, [this, &lock] { engine_.locks->bar_object(lock); });  // CA-2
    return {};
}

Result<void> Catalog::drop_secondaries(txn::Transaction& txn, ObjectId id) {
    const BTree* const primary = index_by_id(id);
    if (primary == nullptr) return {};
    for (const Secondary* secondary : TRY(impl_->secondaries.seen_of(txn, *primary)))
        TRY(drop(txn, secondary->name));
    return {};
}

// Frees the pages under the object's X lock, then takes it off the list. A failure leaves it there
// for the next open.
void Catalog::destroy(const CatalogEntry& entry) {
    ghosts_.hold();
    auto done = run_system_txn(engine_, [&](txn::Transaction& txn) -> Result<void> {
        if (BTree* tree = index_by_id(entry.id)) {
            TRY(engine_.locks->lock_object_to_free(txn.locks, tree->lock()));
            TRY(tree->destroy());
        } else if (HeapFile* heap = heap_by_id(entry.id)) {
            TRY(engine_.locks->lock_object_to_free(txn.locks, heap->lock()));
            TRY(heap->destroy());
        }
        return impl_->drops.remove(txn, Impl::drop_entry(entry));
    });
    ghosts_.resume();
    if (!done)
        engine_.report(
            1, "space of a dropped object is freed at the next open: " + done.error().text());
}

Result<void> Catalog::free_entry(const DropEntry& entry) {
    if (entry.kind == DropKind::chain) {
        TRY(free_overflow(engine_, entry.object, entry.page, entry.number));
    } else if (entry.kind == DropKind::load) {
        // A dropped index is destroyed by now: before the crash, or because it comes first in the
        // list. Its pages are free, and on the disk a free page may be torn.
        const Impl::Object* const object = impl_->object(entry.object.value);
        if (object != nullptr && object->tree == nullptr)
            return fail(ErrorCode::corrupt_page, "drop list's entry", entry.object.value);
        const bool live = object != nullptr && object->named;
        StructureReport report;
        if (live) report = TRY(object->tree->verify());
        // A damaged index may have pages that verify() does not reach. They are not free.
        if (!report.faults.empty()) {
            engine_.report(1, "space of an unfinished load is not freed, since index " +
                                  std::to_string(entry.object.value) +
                                  " is damaged: " + report.faults.front());
            return {};
        }
        TRY(sweep(engine_, entry.object, std::move(report.pages)));
    } else {
        destroy({.name = {},
                 .id = entry.object,
                 .kind = static_cast<ObjectKind>(entry.kind),
                 .root = entry.page});
        return {};
    }
    return impl_->drops.remove_now({&entry, 1});
}

// The entry was written by a transaction in doubt, or the sweep that it asks for could take pages
// that such a transaction would bring back. The next open looks again.
bool Catalog::must_stay(const DropEntry& entry) const {
    if (!prepared_.any()) return false;
    return entry.kind == DropKind::load || impl_->tree.lock().strong.load() != 0 ||
           !engine_.locks->grantable(DropList::lock_name(entry), txn::LockMode::X);
}

// A damaged page does not keep the store from being opened: its entry stays.
Result<void> Catalog::free_dropped() {
    for (const DropEntry& entry : TRY(impl_->drops.entries())) {
        if (must_stay(entry)) continue;
        const Result<void> freed = free_entry(entry);
        if (!freed && !is_bad_page(freed.error().code)) return freed;
        if (!freed)
            engine_.report(
                1, "space on the drop list is freed at a later open: " + freed.error().text());
    }
    return {};
}

}  // namespace lockstep::sm
