// catalog.cc - the catalog's entries and their objects.
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
#include "sm/store/catalog.h"

#include <cstring>

#include "sm/btree/btree_raw_scan.h"
#include "sm/btree/overflow.h"
#include "sm/change/deferred.h"
#include "sm/change/rollback.h"
#include "sm/core/lock_error.h"
#include "sm/space/sweep.h"
#include "sm/store/engine.h"
#include "sm/store/ghost_cleaner.h"
#include "sm/store/secondary.h"
#include "threads/base/mutants.h"
#include "threads/base/on_disk.h"
#include "threads/base/spin_lock.h"

namespace lockstep::sm {
namespace {

struct EntryValue {
    uint32_t id;
    uint32_t kind;
    uint32_t root;
};
// Behind it, for a secondary index.
struct SecondaryValue {
    uint32_t of;
    uint32_t unique;
};
static_assert(kOnDisk<EntryValue, 12> && kOnDisk<SecondaryValue, 8>);

std::string text_of(const CatalogEntry& entry) {
    const EntryValue v{entry.id.value, uint32_t(entry.kind), entry.root.value};
    std::string text(reinterpret_cast<const char*>(&v), sizeof v);
    if (entry.of == ObjectId{}) return text;
    DCHECK(entry.kind == ObjectKind::index && entry.of != entry.id);
    const SecondaryValue s{entry.of.value, entry.unique};
    return text.append(reinterpret_cast<const char*>(&s), sizeof s);
}

Result<CatalogEntry> entry_of_text(Slice name, Slice value) {
    EntryValue v;
    SecondaryValue s{0, 0};
    if (value.size() != sizeof v && value.size() != sizeof v + sizeof s)
        return fail(ErrorCode::corrupt_page, "catalog entry", value.size());
    std::memcpy(&v, value.data(), sizeof v);
    if (value.size() > sizeof v) {
        std::memcpy(&s, value.data() + sizeof v, sizeof s);
        if (v.kind != uint32_t(ObjectKind::index) || s.of < kFirstUserObject.value ||
            s.of == v.id || s.unique > 1)
            return fail(ErrorCode::corrupt_page, "catalog entry of a secondary index", v.id, s.of);
    }
    if (v.id < kFirstUserObject.value || v.id == UINT32_MAX ||
        (v.kind != uint32_t(ObjectKind::index) && v.kind != uint32_t(ObjectKind::heap)))
        return fail(ErrorCode::corrupt_page, "catalog entry", v.id, v.kind);
    return CatalogEntry{.name = std::string(name),
                        .id = ObjectId{v.id},
                        .kind = static_cast<ObjectKind>(v.kind),
                        .root = PageId{v.root},
                        .of = ObjectId{s.of},
                        .unique = s.unique != 0};
}

DropEntry drop_entry(const CatalogEntry& entry) {
    return {static_cast<DropKind>(entry.kind), entry.id, entry.root};
}
static_assert(static_cast<int>(DropKind::index) == static_cast<int>(ObjectKind::index) &&
              static_cast<int>(DropKind::heap) == static_cast<int>(ObjectKind::heap));

Result<void> check_name(std::string_view name) {
    if (name.empty() || name.size() > kNameBytesMax)
        return fail(ErrorCode::bad_argument, "length of a name", name.size());
    if (name.contains('\0')) return fail(ErrorCode::bad_argument, "zero byte in a name");
    return {};
}

}  // namespace

struct Catalog::Impl {
    struct Object {
        CatalogEntry entry;
        std::unique_ptr<BTree> tree;  // one of the two
        std::unique_ptr<HeapFile> heap;
        bool named = false;  // visible through its name
        // Dropped for good: its creator may come late to publish it.
        bool gone = false;
        void assert_state() const {  // under lock
            DCHECK((tree != nullptr) != (heap != nullptr));
            DCHECK((entry.kind == ObjectKind::index) == (tree != nullptr));
            DCHECK(entry.id.value >= kFirstUserObject.value && entry.root != kPageNone);
            DCHECK(!(named && gone));
        }
        std::atomic<bool> rooted{false};  // the root page was seen to be this object's
    };
    explicit Impl(Engine& engine, PageId root)
        : secondaries(engine), tree(engine, kCatalogObject, root), drops(engine, tree) {}

    Secondaries secondaries;
    BTree tree;
    DropList drops;
    mutable SpinLock lock;
    std::map<uint32_t, Object> objects;  // under lock; nodes never go away before close
    std::map<std::string, Object*, std::less<>> names;  // under lock
    uint32_t next_id = kFirstUserObject.value;          // under lock

    Object* add(Engine& engine, const CatalogEntry& entry) {
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
    Result<Object*> add_listed(Engine& engine, const CatalogEntry& entry) {
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
    void publish(Object& object, bool visible) {
        SpinGuard guard(lock);
        object.assert_state();
        object.gone |= !visible;
        object.named = visible && !object.gone;
        DCHECK(!object.named || !object.entry.name.empty());
        if (object.named) {
            names[object.entry.name] = &object;
        } else if (const auto it = names.find(object.entry.name);
                   it != names.end() && it->second == &object) {
            names.erase(it);  // else the name is a newer object's already
        }
    }
    static Result<void> check_root(Engine& engine, Object& object);
    Result<Object*> see(txn::Transaction& txn, std::string_view name, Access access);
    Result<void> link_secondaries();
    bool named(std::string_view name) const {  // committed and not dropped
        SpinGuard guard(lock);
        return names.contains(name);
    }
    Result<Object*> find(std::string_view name, ObjectKind kind) const {
        SpinGuard guard(lock);
        const auto it = names.find(name);
        if (it == names.end()) return fail(ErrorCode::no_such_object, "index or heap");
        if (it->second->entry.kind != kind)
            return fail(ErrorCode::wrong_kind, "index or heap", it->second->entry.id.value);
        return it->second;
    }
};

Catalog::Catalog(Engine& engine, PageId root)
    : engine_(engine), impl_(std::make_shared<Impl>(engine, root)) {}

Result<PageId> Catalog::create(Engine& engine) { return BTree::create(engine, kCatalogObject); }

Result<void> Catalog::load() {
    {
        SpinGuard guard(impl_->lock);
        impl_->names.clear();
    }
    // Ghosts count for undo (their objects must be found by number), names only come from live
    // entries.
    impl_->secondaries.forget_live();
    TRY(scan_raw(
        *engine_.pool, impl_->tree, [this](Slice key, Slice value, bool ghost) -> Result<void> {
            DropEntry drop;
            if (TRY(DropList::read(key, value, drop))) {
                if (drop.object.value < kFirstUserObject.value)
                    return fail(ErrorCode::corrupt_page, "drop list's entry", drop.object.value);
                if (drop.number == 0)
                    TRY(impl_->add_listed(engine_, {.name = {},
                                                    .id = drop.object,
                                                    .kind = static_cast<ObjectKind>(drop.kind),
                                                    .root = drop.page}));
                return {};
            }
            auto* object = TRY(impl_->add_listed(engine_, TRY(entry_of_text(key, value))));
            if (!ghost) impl_->publish(*object, true);
            return {};
        }));
    return impl_->link_secondaries();
}

// Nothing runs yet.
Result<void> Catalog::Impl::link_secondaries() {
    for (const auto& [name, secondary] : names) {
        const CatalogEntry& entry = secondary->entry;
        if (entry.of == ObjectId{}) continue;
        Object* const primary = object(entry.of.value);
        if (primary == nullptr || primary->tree == nullptr || primary->entry.of != ObjectId{})
            return fail(ErrorCode::corrupt_page, "catalog entry of a secondary index",
                        entry.id.value, entry.of.value);
        DCHECK(secondary->named && entry.kind == ObjectKind::index && entry.name == name);
        secondaries.add(*secondary->tree, *primary->tree, name, entry.unique, true);
    }
    return {};
}

// Makes the object and puts it on the drop list, in a transaction of its own: no crash can leak it.
Result<void> Catalog::make_listed(CatalogEntry& entry) {
    {
        SpinGuard guard(impl_->lock);
        DCHECK(!impl_->objects.contains(impl_->next_id));  // CA-1
        entry.id = ObjectId{impl_->next_id++};
    }
    TRY(run_system_txn(engine_, [&](txn::Transaction& txn) -> Result<void> {
        entry.root = entry.kind == ObjectKind::index
                         ? TRY(BTree::create(engine_, entry.id, &txn))
                         : TRY(HeapFile::create(engine_, entry.id, &txn));
        return impl_->drops.add(txn, drop_entry(entry));
    }));
    return {};
}

// `entry` has no id and no root yet.
Result<void> Catalog::create_named(txn::Transaction& txn, CatalogEntry entry, uint32_t& id_out) {
    TRY(check_name(entry.name));
    TRY(make_listed(entry));
    auto* object = impl_->add(engine_, entry);
    DCHECK(!object->named && !object->gone);
    const ObjectId id = entry.id;
    // Registered before anything else can fail: from now on the transaction's end decides what
    // becomes of the object.
    auto settled = std::make_shared<bool>(false);
    at_end(txn, [this, object, settled](bool committed) {
        // Handles are made without a lock (LM-8).
        if (committed && *settled) engine_.locks->keep_note(engine_.txns->newest_commit());
        if (committed && *settled) impl_->publish(*object, true);
        else destroy(object->entry);
    });
    auto named = impl_->tree.insert(txn, entry.name, text_of(entry));
    if (!named) {
        if (named.error().code == ErrorCode::duplicate_key)
            return fail(ErrorCode::already_exists, "index or heap");
        return named;
    }
    TRY(impl_->drops.remove(txn, drop_entry(entry)));
    *settled = true;
    id_out = id.value;
    return {};
}

Result<BTree*> Catalog::create_index(txn::Transaction& txn, std::string_view name) {
    uint32_t id = 0;
    TRY(create_named(txn, {.name = std::string(name), .kind = ObjectKind::index}, id));
    return index_by_id(ObjectId{id});
}

Result<HeapFile*> Catalog::create_heap(txn::Transaction& txn, std::string_view name) {
    uint32_t id = 0;
    TRY(create_named(txn, {.name = std::string(name), .kind = ObjectKind::heap}, id));
    return heap_by_id(ObjectId{id});
}

// The object that `txn` sees under the name, or null. The tree has it even if this transaction made
// it, when no other transaction can see it yet. `access` is the lock on the name, free or not.
Result<Catalog::Impl::Object*> Catalog::Impl::see(txn::Transaction& txn, std::string_view name,
                                                  Access access) {
    std::string found;
    ValueOut out{.text = &found};
    if (!TRY(tree.fetch(txn, name, access, out))) return static_cast<Object*>(nullptr);
    const ObjectId id = TRY(entry_of_text(name, found)).id;
    Object* seen = object(id.value);
    if (seen == nullptr) return fail(ErrorCode::no_such_object, "index or heap", id.value);
    DCHECK(seen->entry.name == name && seen->entry.id == id);
    return seen;
}

// `made`: set if the object is new. `wanted` has name and kind, and what a new one is.
Result<ObjectId> Catalog::look_up(txn::Transaction& txn, const CatalogEntry& wanted, bool create,
                                  bool* made) {
    const std::string& name = wanted.name;
    const ObjectKind kind = wanted.kind;
    TRY(check_name(name));
    // An S lock on a free name, turned into X by two transactions at once, would be a deadlock.
    const bool is_free = create && !impl_->named(name) && !MUTANT(free_name_shared);
    Impl::Object* object = TRY(impl_->see(txn, name, is_free ? Access::write : Access::read));
    if (object == nullptr && create) {
        // Dropped since, or by this transaction; or free, and locked so that it stays free.
        if (!is_free) object = TRY(impl_->see(txn, name, Access::write));
        if (object == nullptr) {
            uint32_t id = 0;
            TRY(create_named(txn, wanted, id));
            if (made) *made = true;
            DCHECK(impl_->object(id) != nullptr && impl_->object(id)->entry.kind == kind);
            return ObjectId{id};
        }
    }
    if (object == nullptr) return fail(ErrorCode::no_such_object, "index or heap");
    if (object->entry.kind != kind)
        return fail(ErrorCode::wrong_kind, "index or heap", object->entry.id.value);
    DCHECK((kind == ObjectKind::index) == (object->tree != nullptr));
    TRY(Impl::check_root(engine_, *object));
    return object->entry.id;
}

Result<BTree*> Catalog::index(txn::Transaction& txn, std::string_view name) {
    return index_by_id(
        TRY(look_up(txn, {.name = std::string(name), .kind = ObjectKind::index}, false)));
}
Result<HeapFile*> Catalog::heap(txn::Transaction& txn, std::string_view name) {
    return heap_by_id(
        TRY(look_up(txn, {.name = std::string(name), .kind = ObjectKind::heap}, false)));
}
Result<BTree*> Catalog::open_or_create_index(txn::Transaction& txn, std::string_view name) {
    return index_by_id(
        TRY(look_up(txn, {.name = std::string(name), .kind = ObjectKind::index}, true)));
}
Result<HeapFile*> Catalog::open_or_create_heap(txn::Transaction& txn, std::string_view name) {
    return heap_by_id(
        TRY(look_up(txn, {.name = std::string(name), .kind = ObjectKind::heap}, true)));
}

Result<Secondary*> Catalog::make_secondary(txn::Transaction& txn, std::string_view name, BTree& of,
                                           bool unique, bool open, bool& made) {
    DCHECK(impl_->secondaries.find(of.id()) == nullptr);
    const CatalogEntry wanted{
        .name = std::string(name), .kind = ObjectKind::index, .of = of.id(), .unique = unique};
    ObjectId id;
    made = !open;
    if (open) id = TRY(look_up(txn, wanted, true, &made));
    else TRY(create_named(txn, wanted, id.value));
    const CatalogEntry entry = impl_->object(id.value)->entry;
    if (!made && entry.of == ObjectId{})
        return fail(ErrorCode::wrong_kind, "index that is not secondary", id.value);
    if (!made && (entry.of != of.id() || entry.unique != unique))
        return fail(ErrorCode::bad_argument,
                    "secondary index of that name: its primary or `unique` is another",
                    entry.of.value, entry.unique);
    DCHECK(made || impl_->secondaries.find(id) != nullptr);
    if (!made) return impl_->secondaries.find(id);
    DCHECK(entry.of == of.id() && entry.unique == unique && !impl_->secondaries.find(id));
    // Before the first entry: the primary is locked, and the new index is kept up from now on.
    TRY(Secondaries::lock_primary(engine_, txn, of));
    Secondary& fresh = impl_->secondaries.add(*index_by_id(id), of, name, unique, false);
    TRY(impl_->secondaries.change(txn, fresh, true));
    return &fresh;
}

Result<Secondary*> Catalog::secondary(std::string_view name) {
    const ObjectId id = TRY(impl_->find(name, ObjectKind::index))->entry.id;
    Secondary* const found = impl_->secondaries.find(id);
    if (found == nullptr)
        return fail(ErrorCode::wrong_kind, "index that is not secondary", id.value);
    return found;
}

Result<bool> Catalog::has(txn::Transaction& txn, std::string_view name, ObjectId id) {
    const Impl::Object* const object = TRY(impl_->see(txn, name, Access::read));
    return object != nullptr && object->entry.id == id;
}

Result<void> Catalog::drop(txn::Transaction& txn, std::string_view name) {
    TRY(check_name(name));
    Impl::Object* object = TRY(impl_->see(txn, name, Access::write));
    if (object == nullptr) return fail(ErrorCode::no_such_object, "index or heap");
    const CatalogEntry entry = object->entry;
    DCHECK(entry.name == name && entry.id != txn::kNoObject);
    object->assert_state();
    auto& lock = object->tree ? object->tree->lock() : object->heap->lock();
    // The primary before the secondary, as everywhere.
    if (Secondary* secondary = impl_->secondaries.find(entry.id))
        TRY(impl_->secondaries.change(txn, *secondary, false));
    TRY(engine_.locks->lock_object(txn.locks, lock, txn::LockMode::X));
    TRY(drop_secondaries(txn, entry.id));
    if (!TRY(impl_->tree.erase(txn, entry.name)))
        return fail(ErrorCode::no_such_object, "index or heap");
    TRY(impl_->drops.add(txn, drop_entry(entry)));
    const auto freed = [this, object](bool committed) {
        if (!committed) return;
        DCHECK(MUTANT(catalog_stale) || !object->gone);  // dropped once
        engine_.locks->keep_note(engine_.txns->newest_commit());
        if (!MUTANT(catalog_stale)) impl_->publish(*object, false);
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
    if (engine_.ghosts) engine_.ghosts->hold();
    auto done = run_system_txn(engine_, [&](txn::Transaction& txn) -> Result<void> {
        if (BTree* tree = index_by_id(entry.id)) {
            TRY(engine_.locks->lock_object_to_free(txn.locks, tree->lock()));
            if (!MUTANT(dropped_pages_leak)) TRY(tree->destroy());
        } else if (HeapFile* heap = heap_by_id(entry.id)) {
            TRY(engine_.locks->lock_object_to_free(txn.locks, heap->lock()));
            TRY(heap->destroy());
        }
        return impl_->drops.remove(txn, drop_entry(entry));
    });
    if (engine_.ghosts) engine_.ghosts->resume();
    if (!done)
        engine_.report(
            1, "space of a dropped object is freed at the next open: " + done.error().text());
}

Result<void> Catalog::free_entry(const DropEntry& entry) {
    if (entry.kind == DropKind::chain) {
        TRY(free_overflow(engine_, entry.object, entry.page, entry.number));
    } else if (entry.kind == DropKind::load) {
        BTree* tree = index_by_id(entry.object);
        TRY(sweep(engine_, entry.object, tree ? TRY(tree->verify()).pages : std::vector<PageId>{}));
    } else {
        destroy({.name = {},
                 .id = entry.object,
                 .kind = static_cast<ObjectKind>(entry.kind),
                 .root = entry.page});
        return {};
    }
    return impl_->drops.remove_now(entry);
}

Result<void> Catalog::free_dropped() {
    for (const DropEntry& entry : TRY(impl_->drops.entries())) TRY(free_entry(entry));
    return {};
}

// Whoever goes down from a root believes in it: looked at once, when the object is first asked for
// by name.
Result<void> Catalog::Impl::check_root(Engine& engine, Object& object) {
    if (object.rooted.load(std::memory_order_relaxed)) return {};
    const CatalogEntry& entry = object.entry;
    const auto look = [&]() -> Result<void> {
        SharedPage page = TRY(engine.pool->fix_shared(entry.root));
        if (page->kind() !=
                (entry.kind == ObjectKind::index ? PageKind::btree : PageKind::heap_map) ||
            page->header.object != entry.id.value)
            return fail(ErrorCode::corrupt_page, "root page of an index or heap", entry.root.value,
                        entry.id.value);
        return {};
    };
    // Handles are also asked for from kernel threads.
    TRY(threads::current() ? look() : engine.run_and_wait(look));
    object.rooted.store(true, std::memory_order_relaxed);
    return {};
}

Result<BTree*> Catalog::index(std::string_view name) {
    Impl::Object* object = TRY(impl_->find(name, ObjectKind::index));
    TRY(impl_->check_root(engine_, *object));
    return object->tree.get();
}

Result<HeapFile*> Catalog::heap(std::string_view name) {
    Impl::Object* object = TRY(impl_->find(name, ObjectKind::heap));
    TRY(impl_->check_root(engine_, *object));
    return object->heap.get();
}

BTree* Catalog::index_by_id(ObjectId id) {
    if (id == kCatalogObject) return &impl_->tree;
    SpinGuard guard(impl_->lock);
    const auto it = impl_->objects.find(id.value);
    return it == impl_->objects.end() ? nullptr : it->second.tree.get();
}

HeapFile* Catalog::heap_by_id(ObjectId id) {
    SpinGuard guard(impl_->lock);
    const auto it = impl_->objects.find(id.value);
    return it == impl_->objects.end() ? nullptr : it->second.heap.get();
}

std::optional<CatalogEntry> Catalog::find(ObjectId id) const {
    SpinGuard guard(impl_->lock);
    const auto it = impl_->objects.find(id.value);
    if (it == impl_->objects.end()) return std::nullopt;
    DCHECK(it->second.entry.id == id);
    return it->second.entry;
}

std::string object_text(Catalog* catalog, ObjectId id) {
    if (id == kCatalogObject) return "the catalog";
    if (const auto entry = catalog ? catalog->find(id) : std::nullopt)
        return (entry->kind == ObjectKind::index ? "index " : "heap ") + printable(entry->name);
    return "object " + std::to_string(id.value);
}

std::vector<CatalogEntry> Catalog::list() const {
    std::vector<CatalogEntry> entries;
    SpinGuard guard(impl_->lock);
    for (const auto& [name, object] : impl_->names) {
        DCHECK(object->named && object->entry.name == name);
        entries.push_back(object->entry);
    }
    return entries;
}

BTree& Catalog::own_tree() { return impl_->tree; }
DropList& Catalog::drop_list() { return impl_->drops; }
Secondaries& Catalog::secondaries() { return impl_->secondaries; }

}  // namespace lockstep::sm
