// drop_list.cc - entries of the list, as pairs of the catalog's tree.
#include "sm/catalog/drop_list.h"

#include <cstring>

#include "sm/btree/btree_raw_scan.h"
#include "sm/change/rollback.h"
#include "threads/base/on_disk.h"

namespace lockstep::sm {
namespace {

constexpr char kMark = '\0';

struct DropValue {
    uint32_t object, kind, page;
};
static_assert(kOnDisk<DropValue, 12>);

std::string key_of(const DropEntry& entry) {
    std::string key(1, kMark);
    static_assert(sizeof entry.number == 8 && sizeof entry.page.value == 4);  // drop_list.h
    key.append(reinterpret_cast<const char*>(&entry.object.value), sizeof entry.object.value);
    if (entry.number == 0) return key;
    // Two chains begun at the same moment have the same number, but never the same first page.
    key.append(reinterpret_cast<const char*>(&entry.number), sizeof entry.number);
    key.append(reinterpret_cast<const char*>(&entry.page.value), sizeof entry.page.value);
    return key;
}

}  // namespace

Result<void> DropList::add(txn::Transaction& txn, const DropEntry& entry) {
    entry.assert_state();
    const DropValue value{entry.object.value, static_cast<uint32_t>(entry.kind), entry.page.value};
    return tree_.insert(txn, key_of(entry), {reinterpret_cast<const char*>(&value), sizeof value});
}

Result<void> DropList::remove(txn::Transaction& txn, const DropEntry& entry) {
    DCHECK((entry.number != 0) == (entry.kind >= DropKind::chain));  // both are in the key
    TRY(tree_.erase(txn, key_of(entry)));
    return {};
}

Result<void> DropList::remove_now(std::span<const DropEntry> entries) {
    return run_system_txn(env_, [&](txn::Transaction& txn) -> Result<void> {
        for (const DropEntry& entry : entries) TRY(remove(txn, entry));
        return {};
    });
}

txn::LockName DropList::lock_name(const DropEntry& entry) {
    return txn::key_lock_name(kCatalogObject, key_of(entry));
}

Result<bool> DropList::read(Slice key, Slice value, DropEntry& entry) {
    if (key.empty() || key[0] != kMark) return false;
    DropValue v;
    if (value.size() != sizeof v)
        return fail(ErrorCode::corrupt_page, "drop list's entry", value.size());
    std::memcpy(&v, value.data(), sizeof v);
    entry = {static_cast<DropKind>(v.kind), ObjectId{v.object}, PageId{v.page}, 0};
    if (key.size() == 1 + sizeof(uint32_t) + sizeof(uint64_t) + sizeof(uint32_t))
        std::memcpy(&entry.number, key.data() + 1 + sizeof(uint32_t), sizeof(uint64_t));
    const bool object = entry.kind == DropKind::index || entry.kind == DropKind::heap;
    const bool other = entry.kind == DropKind::chain || entry.kind == DropKind::load;
    if ((!object && !other) || key_of(entry) != key || other == (entry.number == 0))
        return fail(ErrorCode::corrupt_page, "drop list's entry", v.object, v.kind);
    return true;
}

Result<std::vector<DropEntry>> DropList::entries() {
    std::vector<DropEntry> all;
    TRY(scan_raw(*env_.pool, tree_, [&](Slice key, Slice value, bool ghost) -> Result<void> {
        DropEntry entry;
        if (!ghost && TRY(read(key, value, entry))) all.push_back(entry);
        return {};
    }));
    return all;
}

}  // namespace lockstep::sm
