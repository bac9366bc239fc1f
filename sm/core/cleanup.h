// cleanup.h - hooks through which structures report what others must finish (ghosts, unreachable
// pages), and by which undo finds an object.
//
// Concepts   A delete leaves a ghost record. A replaced or erased large value leaves its overflow
//            chain. A bulk load or a drop may leave pages without a structure. The structure
//            reports them to the hooks here, and the ghost cleaner, the drop list and the
//            catalog implement them. So a structure needs to know nothing of its owners.
// Blocking   GhostNotes::note_leaf() never parks. GhostNotes::release() and DropRegistry park:
//            locks, pages, log. ObjectDirectory::load() parks for pages.
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "txn/transaction.h"

namespace lockstep::sm {

class BTree;
class HeapFile;

inline constexpr ObjectId kCatalogObject{1};
inline constexpr ObjectId kFirstUserObject{16};

enum class DropKind : uint32_t {
    index = 1,  // page: its root
    heap = 2,   // page: its first map
    chain = 3,  // page: the chain's first
    load = 4,   // pages of the index that its root does not reach
};

struct DropEntry {
    DropKind kind{};
    ObjectId object{};
    PageId page = kPageNone;
    void assert_state() const {
        DCHECK(kind >= DropKind::index && kind <= DropKind::load);
        DCHECK(object.value >= kFirstUserObject.value);  // the catalog is never dropped
        DCHECK((kind == DropKind::load) == (page == kPageNone));
        DCHECK((kind >= DropKind::chain) == (number != 0));
    }
    uint64_t number = 0;  // tells chains and loads of one object apart; 0 for objects
};

// Names pages that must be freed whatever happens, so that no crash can leak them.
class DropRegistry {
public:
    virtual ~DropRegistry() = default;
    virtual Result<void> add(txn::Transaction& txn, const DropEntry& entry) = 0;
    // Does nothing if the entry is not there.
    virtual Result<void> remove(txn::Transaction& txn, const DropEntry& entry) = 0;
    // remove() of all of them in a transaction of its own.
    virtual Result<void> remove_now(std::span<const DropEntry> entries) = 0;
};

// A chain of overflow pages to which a transaction has removed the only reference.
struct ReleasedChain {
    ObjectId object;
    std::string ref;  // what its record had in place of the value (overflow.h)
    Lsn removed;      // the record of the change. Its rollback keeps the chain
};

// Takes what transactions leave behind.
class GhostNotes {
public:
    virtual ~GhostNotes() = default;
    // A place with ghosts, for a background thread.
    virtual void note_leaf(ObjectId object, Slice key) = 0;
    // Chains of a transaction whose commit record ends at `committed`. Frees them, or keeps them
    // for as long as a snapshot may read them. What cannot be freed stays on the drop list.
    virtual void release(std::vector<ReleasedChain> chains, Lsn committed) = 0;
};

// Finds objects by number: for undo, for locks of transactions in doubt, for services.
class ObjectDirectory {
public:
    virtual ~ObjectDirectory() = default;
    // Reads all entries from the volume and makes the objects. Called after redo and before undo.
    virtual Result<void> load() = 0;
    // The index, or the catalog's own tree; null if there is none of that number.
    virtual BTree* index_by_id(ObjectId id) = 0;
    // The heap; null if there is none of that number.
    virtual HeapFile* heap_by_id(ObjectId id) = 0;
    // The lock of the index, heap or catalog; null if there is none of that number.
    virtual txn::ObjectLock* lock_by_id(ObjectId id) = 0;
    // Does `txn` see the object under this name? It has made or dropped it itself. Parks.
    virtual Result<bool> has(txn::Transaction& txn, std::string_view name, ObjectId id) = 0;
    // For error texts: `index "accounts"`, `heap "log"`, `the catalog`; by number if the object is
    // not known.
    virtual std::string text_of(ObjectId id) const = 0;
};

// The same without a directory: by number.
inline std::string object_text(const ObjectDirectory* objects, ObjectId id) {
    return objects ? objects->text_of(id) : "object " + std::to_string(id.value);
}

}  // namespace lockstep::sm
