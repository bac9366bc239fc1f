// catalog_impl.h - what the catalog knows of each object. Private to catalog*.cc.
//
// Concepts   An entry's key is the name, its value {id, kind, root}. That of a secondary index has
//            {of, unique} behind it, which older programs refuse. The same tree holds the drop
//            list. A create first puts the new object on that list in a separate transaction, which
//            also makes its first page. The creator's transaction takes it off. A drop puts the
//            object on the list in the dropper's transaction. So every object has a name or is on
//            the list, whatever happens to the transaction, also after a crash. open() destroys the
//            objects on the list.
// Invariants CA-1 An object's number is not given again while the store is open. Objects live until
//                 close, so handles stay valid.
//            CA-2 No operation reaches a dropped object. Its lock is barred before the dropper's
//                 locks are released, at the latest before its pages are freed. Every operation
//                 locks the object before it trusts a page.
//            CA-3 `names` has an entry for each object that is named, and for no other: a drop that
//                 comes late takes the dropped object's entry only. [checked: publish()]
#pragma once

#include <atomic>

#include "sm/catalog/catalog.h"
#include "sm/host/host.h"
#include "sm/secondary/secondary.h"
#include "threads/base/spin_lock.h"

namespace lockstep::sm {

static_assert(static_cast<int>(DropKind::index) == static_cast<int>(ObjectKind::index) &&
              static_cast<int>(DropKind::heap) == static_cast<int>(ObjectKind::heap));

struct Catalog::Impl {
    struct Object {
        CatalogEntry entry;
        std::unique_ptr<BTree> tree;  // one of the two
        std::unique_ptr<HeapFile> heap;
        bool named = false;  // visible through its name
        // Dropped for good: its creator may come late to publish it.
        bool gone = false;
        txn::ObjectLock& object_lock() { return tree ? tree->lock() : heap->lock(); }
        // Also while the end of the drop has not come here yet (CA-2).
        bool is_dropped() { return object_lock().gone.load(std::memory_order_acquire); }
        void assert_state() const {  // under lock
            DCHECK((tree != nullptr) != (heap != nullptr));
            DCHECK((entry.kind == ObjectKind::index) == (tree != nullptr));
            DCHECK(entry.id.value >= kFirstUserObject.value && entry.root != kPageNone);
            DCHECK(!(named && gone));
        }
        std::atomic<bool> rooted{false};  // the root page was seen to be this object's
    };
    explicit Impl(Env& engine, PageId root)
        : secondaries(engine), tree(engine, kCatalogObject, root), drops(engine, tree) {}

    Secondaries secondaries;
    BTree tree;
    DropList drops;
    mutable SpinLock lock;
    std::map<uint32_t, Object> objects;  // under lock; nodes never go away before close
    std::multimap<std::string, Object*, std::less<>> names;  // under lock
    uint32_t next_id = kFirstUserObject.value;               // under lock

    Object* add(Env& engine, const CatalogEntry& entry) {
        SpinGuard guard(lock);
        Object& object = objects[entry.id.value];
        if (!object.tree && !object.heap) {
            if (entry.kind == ObjectKind::index)
                object.tree = std::make_unique<BTree>(engine, entry.id, entry.root);
            else object.heap = std::make_unique<HeapFile>(engine, entry.id, entry.root);
        }
        object.entry = entry;
        if (entry.id.value >= next_id) next_id = entry.id.value + 1;
        object.assert_state();
        return &object;
    }
    // From the tree: several entries may stand for one object, but then they agree.
    Result<Object*> add_listed(Env& engine, const CatalogEntry& entry) {
        if (const Object* known = object(entry.id.value);
            known && (known->entry.kind != entry.kind || known->entry.root != entry.root))
            return fail(ErrorCode::corrupt_page, "catalog entry", entry.id.value, entry.root.value);
        return add(engine, entry);
    }
    Object* object(uint32_t id) {
        SpinGuard guard(lock);
        const auto it = objects.find(id);
        return it == objects.end() ? nullptr : &it->second;
    }
    // The ends of transactions come here in any order. One that made a new object of the name may
    // come before that of the transaction that dropped the old one, and even before its creator's.
    // So a name may have several objects for a moment. Each leaves by itself (CA-3).
    void publish(Object& object, bool visible) {
        SpinGuard guard(lock);
        object.assert_state();
        const bool was_named = object.named;
        object.gone |= !visible;
        object.named = visible && !object.gone;
        DCHECK(!object.named || !object.entry.name.empty());
        if (object.named == was_named) return;
        if (object.named) {
            names.emplace(object.entry.name, &object);
            return;
        }
        auto [at, end] = names.equal_range(object.entry.name);
        while (at != end && at->second != &object) ++at;
        DCHECK(at != end);
        names.erase(at);
    }
    static Result<void> check_name(std::string_view name);
    [[gnu::cold]] static Unexpected unknown_name(std::string_view name);
    [[gnu::cold]] static Unexpected other_kind(std::string_view name, ObjectKind wanted);
    static DropEntry drop_entry(const CatalogEntry& entry) {
        return {static_cast<DropKind>(entry.kind), entry.id, entry.root};
    }
    Result<void> check_root(Host& engine, Object& object);
    void look_at_next_roots(Env& engine, const Object& object);
    Result<Object*> see(txn::Transaction& txn, std::string_view name, Access access);
    Result<void> link_secondaries();
    bool named(std::string_view name) const {  // committed and not dropped
        SpinGuard guard(lock);
        return names.contains(name);
    }
    Result<Object*> find(std::string_view name, ObjectKind kind) const {
        Object* object = nullptr;
        {
            SpinGuard guard(lock);
            auto [at, end] = names.equal_range(name);
            for (; at != end; ++at)  // at most one is not dropped
                if (object == nullptr || !at->second->is_dropped()) object = at->second;
        }
        if (object == nullptr) return unknown_name(name);
        if (object->entry.kind != kind) return other_kind(name, kind);
        return object;
    }
};

}  // namespace lockstep::sm
