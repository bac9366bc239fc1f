// catalog.h - names, numbers and roots of a store's indexes and heaps; itself a B-tree (ObjectId
// 1).
//
// Blocking   index(), heap() and the lookups by number take a spin lock briefly. Creates and drops
//            change the tree and park.
#pragma once

#include <map>
#include <memory>
#include <optional>
#include <string>

#include "sm/btree/btree.h"
#include "sm/catalog/drop_list.h"
#include "sm/heap/heap_file.h"

namespace lockstep::sm {

enum class ObjectKind : uint8_t { index = 1, heap = 2 };
inline constexpr size_t kNameBytesMax = 128;

struct CatalogEntry {
    std::string name;
    ObjectId id{};
    ObjectKind kind{};
    PageId root = kPageNone;
    ObjectId of{};        // a secondary index: its primary; else 0
    bool unique = false;  // a secondary index: one record for each key
};

// From the key and value of a pair of the catalog's tree that is not the drop list's. Errors:
// corrupt_page.
Result<CatalogEntry> catalog_entry(Slice name, Slice value);

class GhostCleaner;
class Host;
class PreparedTxns;
class Secondaries;
struct Secondary;

class Catalog final : public ObjectDirectory {
public:
    Catalog(Host& host, GhostCleaner& ghosts, const PreparedTxns& prepared, PageId root);
    // New store: the catalog's own tree.
    static Result<PageId> create(Env& env);
    Result<void> load() override;

    // Run inside `txn`; other transactions can use the object once it commits. Errors:
    // already_exists, bad_argument (name empty or too long).
    Result<BTree*> create_index(txn::Transaction& txn, std::string_view name);
    Result<HeapFile*> create_heap(txn::Transaction& txn, std::string_view name);
    // Takes the X lock on the object. Its pages are freed after commit, never on rollback.
    Result<void> drop(txn::Transaction& txn, std::string_view name);

    Result<BTree*> index(std::string_view name);  // no_such_object, wrong_kind
    Result<HeapFile*> heap(std::string_view name);
    // As `txn` sees the name, with its own creations and drops. Takes S on the name in the catalog,
    // so it parks while another transaction creates or drops the object.
    Result<BTree*> index(txn::Transaction& txn, std::string_view name);
    Result<HeapFile*> heap(txn::Transaction& txn, std::string_view name);
    // The same, or a new object if the name is free. Takes X on a free name, so of several
    // transactions that create it one creates and the others wait for its end.
    Result<BTree*> open_or_create_index(txn::Transaction& txn, std::string_view name);
    Result<HeapFile*> open_or_create_heap(txn::Transaction& txn, std::string_view name);
    // A secondary index (secondary.h); `made`: it is new, empty, and to be filled. Unless
    // `open` the name must be free (already_exists). Errors also: wrong_kind, and bad_argument if
    // the index of this name has another primary or differs in `unique`.
    Result<Secondary*> make_secondary(txn::Transaction& txn, std::string_view name, BTree& of,
                                      bool unique, bool open, bool& made);
    // A committed one; reads no page. Errors: no_such_object, wrong_kind.
    Result<Secondary*> secondary(std::string_view name);
    Result<bool> has(txn::Transaction& txn, std::string_view name, ObjectId id) override;
    std::string text_of(ObjectId id) const override;
    BTree* index_by_id(ObjectId id) override;
    txn::ObjectLock* lock_by_id(ObjectId id) override;
    HeapFile* heap_by_id(ObjectId id) override;
    std::vector<CatalogEntry> list() const;
    // Also of objects that are not committed yet. Empty: there is none of that number.
    std::optional<CatalogEntry> find(ObjectId id) const;
    BTree& own_tree();
    DropList& drop_list();
    Secondaries& secondaries();

    // Frees what transactions or a crash left on the drop list, but for what transactions in doubt
    // need. Called at open, after recovery.
    Result<void> free_dropped();

private:
    struct Impl;
    Result<void> make_listed(CatalogEntry& entry);
    Result<void> create_named(txn::Transaction& txn, CatalogEntry entry, uint32_t& id_out);
    Result<ObjectId> look_up(txn::Transaction& txn, const CatalogEntry& wanted, bool create,
                             bool* made = nullptr);
    Result<void> drop_secondaries(txn::Transaction& txn, ObjectId id);
    void destroy(const CatalogEntry& entry);
    Result<void> free_entry(const DropEntry& entry);
    bool must_stay(const DropEntry& entry) const;

    Host& engine_;
    GhostCleaner& ghosts_;
    const PreparedTxns& prepared_;
    std::shared_ptr<Impl> impl_;
};

}  // namespace lockstep::sm
