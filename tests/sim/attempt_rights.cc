// attempt_rights.cc - compares the locks that a transaction has with what it did.
#include <fmt/format.h>

#include "sm/api/operation.h"
#include "sm/engine/engine.h"
#include "tests/sim/attempt.h"

namespace lockstep::sim {
namespace {

using txn::LockMode;

struct Named {
    std::string object;
    std::string key;
    LockMode needs;
};

}  // namespace

// A changed row is locked in X to the end, a row that a serializable transaction has read in S; or
// a lock of the whole object covers that. Objects that it has made or dropped itself are left out.
void Attempt::check_rights(const Txn& txn) {
    const txn::Transaction* const live = sm::TxnAccess::usable(txn);
    if (live == nullptr || is_snapshot() || shared_.report.failed()) return;
    std::vector<Named> rows;
    for (const auto& [object, content] : own_)
        for (const auto& [key, value] : content.rows) rows.push_back({object, key, LockMode::X});
    for (const Observation& read : reads_)
        for (const auto& [key, value] : read.seen)
            if (read.of == Observation::Of::rows && !read.existence_only && serializable())
                rows.push_back({read.object, key, LockMode::S});
    const txn::LockManager& locks = *host_.engine().locks;
    std::map<ObjectId, LockMode> whole;
    for (const auto& of : locks.list(live->locks).objects)
        whole[of.object] = whole[of.object] | of.mode;
    std::map<std::string, Store::Entry> entries;
    for (Store::Entry& entry : host_->list()) entries.emplace(entry.name, std::move(entry));
    for (const Named& row : rows) {
        const auto entry = entries.find(row.object);
        if (entry == entries.end() || entry->second.of != ObjectId{} ||
            objects_.contains(row.object))
            continue;
        // list() may have one that has been replaced, if the store has failed since.
        const auto opened = opened_.find(row.object);
        const ObjectId id = opened == opened_.end() ? entry->second.id : opened->second;
        const txn::LockName name = entry->second.is_index
                                       ? txn::key_lock_name(id, row.key)
                                       : txn::record_lock_name(id, record_of_key(row.key));
        const LockMode held = locks.held(live->locks, name);
        if (!txn::covers(held, row.needs) && !txn::covers(whole[id], row.needs))
            unexpected("rights",
                       fmt::format("{}[{}] is locked in {} and {}, not in {}", row.object,
                                   show(row.key), txn::lock_mode_name(held),
                                   txn::lock_mode_name(whole[id]), txn::lock_mode_name(row.needs)));
    }
    shared_.report.add(Count::rights_checked, rows.size());
}

}  // namespace lockstep::sim
