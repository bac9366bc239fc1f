// rows.h - the initial content of every row, from the seed and the row's key alone (clause
// 4.3.3.1).
//
// Concepts   Any row can be made again without making others. Each table is therefore loaded in its
//            own key order. Two loads with one seed are equal for every order and every number of
//            workers.
#pragma once

#include <vector>

#include "tpcc/database.h"

namespace lockstep::tpcc {

// The parameters of the rows.
struct RowSource {
    static RowSource of(const Database& db) {
        return {db.seed, db.scale, db.constants, db.load_time};
    }

    uint64_t seed;
    Scale scale;
    RandomConstants constants;
    Time load_time;

    void item(uint32_t i, ItemRecord& out) const;
    void warehouse(uint32_t w, WarehouseRecord& out) const;
    void stock(uint32_t w, uint32_t i, StockRecord& out) const;
    // Its S_QUANTITY alone, for the audit.
    int32_t stock_quantity(uint32_t w, uint32_t i) const;
    void district(uint32_t w, uint32_t d, DistrictRecord& out) const;
    void customer(uint32_t w, uint32_t d, uint32_t c, CustomerRecord& out) const;
    // The two names alone, for the index on names.
    void customer_names(uint32_t w, uint32_t d, uint32_t c, Text<16>& last, Text<16>& first) const;
    void history(uint32_t w, uint32_t d, uint32_t c, HistoryRecord& out) const;
    // Customer of order o at [o - 1]: a random permutation of all customers of the district.
    std::vector<uint32_t> order_customers(uint32_t w, uint32_t d) const;
    void order(uint32_t w, uint32_t d, uint32_t o, uint32_t c, OrderRecord& out) const;
    void order_line(uint32_t w, uint32_t d, uint32_t o, uint32_t ol, OrderLineRecord& out) const;
};

}  // namespace lockstep::tpcc
