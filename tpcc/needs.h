// needs.h - the records that a transaction's input names, for Txn::will_need() and packets.
//
// Concepts   An input tells most keys of its transaction. Those of a new order contain its number,
//            which is known only later: the need is the end of the district's keys, where the new
//            rows go. Delivery and Stock-Level learn their keys on the way and announce them then.
#pragma once

#include <lockstep/need.h>
#include "tpcc/executor.h"

namespace lockstep::tpcc {

class Needs {
public:
    static constexpr size_t kMax = 40;
    Needs() = default;
    Needs(const Needs&) = delete;  // its needs refer to its keys
    Needs& operator=(const Needs&) = delete;

    void add(const Index& index, const RowKey& key, Access access, size_t bytes) {
        if (count_ == kMax) return;
        keys_[count_] = key;
        needs_[count_] = {index, keys_[count_], access, static_cast<uint32_t>(bytes)};
        ++count_;
    }
    std::span<const Need> all() const { return {needs_, count_}; }

private:
    size_t count_ = 0;
    RowKey keys_[kMax];
    Need needs_[kMax];
};

// `to`: a Needs or an Announcement.
template <class To>
void needs_of(const Database& db, const Input& input, To& to);

}  // namespace lockstep::tpcc
