// needs.h - the records that a transaction's input names, for Txn::will_need() and packets.
//
// Concepts   An input tells most keys of its transaction. Those of a new order contain its number,
//            which is known only later: the need is the end of the district's keys, where the new
//            rows go. Delivery and Order-Status learn keys on the way and announce them then.
//            Warehouses and districts are left out: they are few, so the caches have them. Items
//            and stock are left out with `--calls many`: one call reads or changes all of an order,
//            and asks for their lines by itself.
#pragma once

#include <lockstep/need.h>
#include "tpcc/executor.h"
#include "tpcc/transactions.h"

namespace lockstep::tpcc {

class Needs {
public:
    static constexpr size_t kMax = 40;
    Needs() = default;
    Needs(const Needs&) = delete;  // its needs refer to its keys
    Needs& operator=(const Needs&) = delete;

    void add(const Index& index, const RowKey& key, Access access, size_t bytes) {
        if (count_ == kMax) return;
        const RowKey& kept = *new (&keys_.items[count_]) RowKey(key);
        new (&needs_.items[count_]) Need{index, kept, access, static_cast<uint32_t>(bytes)};
        ++count_;
    }
    std::span<const Need> all() const { return {needs_.items, count_}; }

private:
    size_t count_ = 0;
    Unmade<RowKey, kMax> keys_;
    Unmade<Need, kMax> needs_;
};

// `to`: a Needs or an Announcement.
template <class To>
void needs_of(const Database& db, const Input& input, To& to);

}  // namespace lockstep::tpcc
