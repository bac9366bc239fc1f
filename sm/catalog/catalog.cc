// catalog.cc - names: entries as bytes, loading, creating, looking up.
#include "sm/catalog/catalog.h"

#include <cstring>

#include "sm/btree/btree_node.h"
#include "sm/btree/btree_raw_scan.h"
#include "sm/catalog/catalog_impl.h"
#include "sm/change/deferred.h"
#include "sm/change/rollback.h"
#include "sm/core/lock_error.h"
#include "sm/secondary/secondary.h"
#include "threads/base/error_detail.h"
#include "threads/base/limits.h"
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

std::string value_of(const CatalogEntry& entry) {
    const EntryValue v{entry.id.value, uint32_t(entry.kind), entry.root.value};
    std::string text(reinterpret_cast<const char*>(&v), sizeof v);
    if (entry.of == ObjectId{}) return text;
    DCHECK(entry.kind == ObjectKind::index && entry.of != entry.id);
    const SecondaryValue s{entry.of.value, entry.unique};
    return text.append(reinterpret_cast<const char*>(&s), sizeof s);
}

}  // namespace

Result<CatalogEntry> catalog_entry(Slice name, Slice value) {
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

Catalog::Catalog(Host& host, GhostCleaner& ghosts, const PreparedTxns& prepared, PageId root)
    : engine_(host),
      ghosts_(ghosts),
      prepared_(prepared),
      impl_(std::make_shared<Impl>(host, root)) {}

Result<PageId> Catalog::create(Env& env) { return BTree::create(env, kCatalogObject); }

Result<void> Catalog::load() {
    {
        SpinGuard guard(impl_->lock);
        impl_->names.clear();
        // A rollback since the load before may have taken the name.
        for (auto& [id, object] : impl_->objects) object.named = false;
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
            auto* object = TRY(impl_->add_listed(engine_, TRY(catalog_entry(key, value))));
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
        return impl_->drops.add(txn, Impl::drop_entry(entry));
    }));
    return {};
}

// `entry` has no id and no root yet.
Result<void> Catalog::create_named(txn::Transaction& txn, CatalogEntry entry, uint32_t& id_out) {
    TRY(Impl::check_name(entry.name));
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
    auto named = impl_->tree.insert(txn, entry.name, value_of(entry));
    if (!named) {
        if (named.error().code == ErrorCode::duplicate_key)
            return fail_with(ErrorCode::already_exists, "index or heap",
                             printable(entry.name) +
                                 "; open_or_create_index() and "
                                 "open_or_create_heap() accept it");
        return named;
    }
    TRY(impl_->drops.remove(txn, Impl::drop_entry(entry)));
    TRY(object->tree ? object->tree->history().made_by(txn) : object->heap->history().made_by(txn));
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

Result<void> Catalog::Impl::check_name(std::string_view name) {
    if (name.empty() || name.size() > kNameBytesMax)
        return fail(ErrorCode::bad_argument, "bytes of a name, and the most that it may have",
                    name.size(), kNameBytesMax);
    if (name.contains('\0')) return fail(ErrorCode::bad_argument, "zero byte in a name");
    return {};
}

Unexpected Catalog::Impl::unknown_name(std::string_view name) {
    return fail_with(ErrorCode::no_such_object, "index or heap",
                     printable(name) + "; Store::list() gives the names that exist");
}

Unexpected Catalog::Impl::other_kind(std::string_view name, ObjectKind wanted) {
    return fail_with(
        ErrorCode::wrong_kind, "index or heap",
        printable(name) + " is " + (wanted == ObjectKind::index ? "a heap" : "an index"));
}

// The root of an index covers every key; another node of it does not.
static bool is_root_of(const Page& page, const CatalogEntry& entry) {
    const bool is_index = entry.kind == ObjectKind::index;
    return page.kind() == (is_index ? PageKind::btree : PageKind::heap_map) &&
           page.header.object == entry.id.value &&
           (!is_index || (node::low(page).empty() && node::high_infinite(page)));
}

// The object that `txn` sees under the name, or null. The tree has it even if this transaction made
// it, when no other transaction can see it yet. `access` is the lock on the name, free or not.
Result<Catalog::Impl::Object*> Catalog::Impl::see(txn::Transaction& txn, std::string_view name,
                                                  Access access) {
    std::string found;
    ValueOut out{.text = &found};
    if (!TRY(tree.fetch(txn, name, access, out))) return static_cast<Object*>(nullptr);
    const ObjectId id = TRY(catalog_entry(name, found)).id;
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
    TRY(Impl::check_name(name));
    // An S lock on a free name, turned into X by two transactions at once, would be a deadlock.
    const bool is_free = create && !impl_->named(name);
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
    if (object == nullptr) return Impl::unknown_name(name);
    if (object->entry.kind != kind) return Impl::other_kind(name, kind);
    DCHECK((kind == ObjectKind::index) == (object->tree != nullptr));
    TRY(impl_->check_root(engine_, *object));
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
    // The transaction may have dropped the primary itself.
    const std::string primary = impl_->object(of.id().value)->entry.name;
    if (!TRY(has(txn, primary, of.id()))) return Impl::unknown_name(primary);
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

// Whoever goes down from a root believes in it: looked at once, when the object is first asked for
// by name, or one of a near number.
Result<void> Catalog::Impl::check_root(Host& engine, Object& object) {
    if (object.rooted.load(std::memory_order_relaxed)) return {};
    const CatalogEntry& entry = object.entry;
    bool sound = false;
    const auto look = [&]() -> Result<void> {
        const SharedPage page = TRY(engine.pool->fix_shared(entry.root));
        sound = is_root_of(*page, entry);
        if (sound) return {};
        return fail(ErrorCode::corrupt_page, "root page of an index or heap", entry.root.value,
                    entry.id.value);
    };
    const auto look_around = [&] {
        const Result<void> looked = look();
        if (looked) look_at_next_roots(engine, object);
        return looked;
    };
    // Handles are also asked for from kernel threads.
    const Result<void> looked =
        threads::current() ? look_around() : engine.run_and_wait(look_around);
    // A snapshot sees the name for longer, and without a lock the object may go at any moment. Its
    // pages may be another's by now (CA-2).
    if (object.object_lock().gone.load(std::memory_order_acquire)) return unknown_name(entry.name);
    if (looked) object.rooted.store(true, std::memory_order_relaxed);
    return looked;
}

// An application asks for all its indexes after an open. The roots of the next ones are read
// together. Those that are in memory already are looked at, so most calls need no user thread.
void Catalog::Impl::look_at_next_roots(Env& engine, const Object& object) {
    constexpr size_t kNext = limits::most::roots_ahead;
    Object* next[kNext];
    PageId missing[kNext];
    size_t n = 0, reads = 0;
    DCHECK(threads::current()->latch_depth == 0 && object.entry.root != kPageNone);
    {
        SpinGuard guard(lock);
        for (auto at = objects.upper_bound(object.entry.id.value);
             at != objects.end() && n < limits::roots_ahead(); ++at)
            if (at->second.named && !at->second.rooted.load(std::memory_order_relaxed))
                next[n++] = &at->second;
    }
    for (size_t i = 0; i < n; ++i) {
        const PageId root = next[i]->entry.root;
        if (engine.pool->resident(root) == nullptr) {
            missing[reads++] = root;
            continue;
        }
        const Result<SharedPage> page = engine.pool->fix_shared(root);
        // What is wrong is told to the caller that asks for it.
        if (page && is_root_of(**page, next[i]->entry) &&
            !next[i]->object_lock().gone.load(std::memory_order_acquire))
            next[i]->rooted.store(true, std::memory_order_relaxed);
    }
    DCHECK(reads <= n && n <= kNext);
    engine.pool->read_ahead({missing, reads});
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

txn::ObjectLock* Catalog::lock_by_id(ObjectId id) {
    if (BTree* const tree = index_by_id(id)) return &tree->lock();
    HeapFile* const heap = heap_by_id(id);
    return heap != nullptr ? &heap->lock() : nullptr;
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

std::string Catalog::text_of(ObjectId id) const {
    if (id == kCatalogObject) return "the catalog";
    if (const auto entry = find(id))
        return (entry->kind == ObjectKind::index ? "index " : "heap ") + printable(entry->name);
    return "object " + std::to_string(id.value);
}

std::vector<CatalogEntry> Catalog::list() const {
    std::vector<CatalogEntry> entries;
    SpinGuard guard(impl_->lock);
    for (const auto& [name, object] : impl_->names) {
        DCHECK(object->named && object->entry.name == name);
        if (!entries.empty() && entries.back().name == name) {
            if (object->is_dropped()) continue;
            entries.pop_back();  // at most one is not dropped
        }
        entries.push_back(object->entry);
    }
    return entries;
}

BTree& Catalog::own_tree() { return impl_->tree; }
DropList& Catalog::drop_list() { return impl_->drops; }
Secondaries& Catalog::secondaries() { return impl_->secondaries; }

}  // namespace lockstep::sm
