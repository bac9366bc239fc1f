// transaction_verify.cc - checks the table of transactions while nothing runs.
#include <algorithm>
#include <string>
#include <unordered_set>
#include <vector>

#include "txn/transaction_impl.h"

namespace lockstep::txn {

namespace {

std::string at_slot(const char* what, uint32_t slot) {
    return std::string(what) + ", slot " + std::to_string(slot);
}

// What a free slot has left of its last transaction; null: nothing.
const char* left_in(const Transaction& txn) {
    DCHECK(txn.state == TxnState::free);
    if (txn.locks.locks_held != 0 || txn.locks.intents_used != 0 ||
        txn.locks.strong_unlisted != nullptr)
        return "TX-2: locks of no transaction";
    if (txn.locks.waiting.load() != nullptr) return "a wait of no transaction";
    if (txn.first_lsn.load() != 0) return "TX-1: first_lsn of no transaction";
    if (txn.undo.bytes != 0) return "LOG-3: a promise to no transaction";
    if (txn.outcome != nullptr) return "an outcome of no transaction";
    if (txn.internal || txn.reaper != nullptr) return "a reaper of no transaction";
    return nullptr;
}

}  // namespace

std::string TransactionTable::verify() const {
    const Impl& table = *impl_;
    if (table.log.failed()) return {};
    const uint32_t end = std::min(table.chunks_used.load() * kTxnChunk, table.slots);
    DCHECK(end >= kSystemSlots);  // TT-2
    std::vector<bool> is_free(end, false);
    const auto walk = [&](uint32_t slot) -> std::string {
        for (; slot != kNoSlot; slot = table.at(slot).next_free) {
            if (slot >= end || is_free[slot]) return at_slot("TT-1: free twice", slot);
            is_free[slot] = true;
        }
        return {};
    };
    std::string fault = walk(table.system_free);
    for (uint32_t i = 0; i < table.workers && fault.empty(); ++i)
        fault = walk(table.shards[i].free_head);
    if (!fault.empty()) return fault;
    std::unordered_set<uint64_t> ids;
    uint64_t promised = 0, live = 0, prepared = 0;
    for (uint32_t slot = 0; slot < end; ++slot) {
        const Transaction& txn = table.at(slot);
        if (is_free[slot] != (txn.state == TxnState::free)) return at_slot("TT-1: lost", slot);
        if (is_free[slot]) {
            if (const char* left = left_in(txn)) return at_slot(left, slot);
            continue;
        }
        if (!ids.insert(txn.id.value).second) return at_slot("an id is used twice", slot);
        if (txn.id.value >= table.next_id.load()) return at_slot("an id is beyond the next", slot);
        if (txn.locks.txn != txn.id) return at_slot("locks of another transaction", slot);
        DCHECK(txn.slot == slot && txn.locks.slot == slot);
        promised += txn.undo.bytes;
        ++(txn.state == TxnState::prepared ? prepared : live);
    }
    if (prepared != table.prepared.load()) return "TX-5: prepared transactions are miscounted";
    // Those that wait for a slot count as live; of those for a system slot nobody knows the number.
    const uint64_t counted = static_cast<uint64_t>(table.count()), known = live + table.waiting;
    if (known > counted || (known < counted && table.system_free != kNoSlot))
        return "live transactions are miscounted";
    return table.log.verify(promised);
}

}  // namespace lockstep::txn
