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

// The customer in the middle of those of a last name (clause 2.5.2.2).
class CustomerOfName final : public FollowUp {
public:
    void follow(std::span<const Slice> keys, Announcement& to) const override;

    const Database* db = nullptr;
    uint32_t w = 0, d = 0, bytes = 0;
    Access access = Access::read;
};

class Needs {
public:
    static constexpr size_t kMax = 40;
    Needs() = default;
    Needs(const Needs&) = delete;  // its needs refer to its keys
    Needs& operator=(const Needs&) = delete;

    void add(const Index& index, const RowKey& key, Access access, size_t bytes,
             const FollowUp* follow_up = nullptr) {
        if (count_ == kMax) return;
        const RowKey& kept = *new (&keys_.items[count_]) RowKey(key);
        new (&needs_.items[count_])
            Need{index, kept, access, static_cast<uint32_t>(bytes), follow_up};
        ++count_;
    }
    std::span<const Need> all() const { return {needs_.items, count_}; }

private:
    size_t count_ = 0;
    Unmade<RowKey, kMax> keys_;
    Unmade<Need, kMax> needs_;
};

// `to`: a Needs or an Announcement. Sets `customer` if the input names one by last name; it stays
// as long as the needs count.
template <class To>
void needs_of(const Database& db, const Input& input, CustomerOfName& customer, To& to);

}  // namespace lockstep::tpcc
