// stock_audit.h - the four changing columns of STOCK against the order lines; independent of the
// store.
//
// Concepts   The twelve conditions of clause 3.3.2 never look at STOCK. A New-Order could leave out
//            its stock updates, and all twelve would hold. Clause 2.4.2.2 says how each line
//            changes the stock of its supplying warehouse, and clause 4.3.3.1 with what it begins.
//            So the rows can be computed from the lines of all orders that were not loaded.
//            S_QUANTITY begins in [10, 100] and stays there: a stock of 9 or less gains 91. These
//            are 91 values, and a refill adds 91. So the first quantity and S_YTD determine
//            S_QUANTITY exactly, modulo 91.
//            Feed all lines first, then all stock rows. A shard also gets the lines of other shards
//            that its stock supplied.
// Source     TPC-C revision 5.11, clauses 2.4.2.2 and 4.3.3.1.
#pragma once

#include "tpcc/audit.h"
#include "tpcc/rows.h"

namespace lockstep::tpcc {

enum class StockColumn : uint8_t { ytd, order_cnt, remote_cnt, quantity };
inline constexpr size_t kStockColumns = 4;
// What the column must equal, in a few words.
const char* stock_column_text(StockColumn column);

struct StockCheck {
    StockColumn column{};
    uint64_t violations = 0;
    std::vector<std::string> faults;  // the first few violations, with the numbers
    bool ok() const { return violations == 0; }
};

class StockAudit {
public:
    // `source` tells the first quantity of each row. 12 bytes of memory for each row of STOCK.
    explicit StockAudit(const RowSource& source);

    // A line of order o of warehouse w. Lines of loaded orders have left the stock alone.
    void order_line(uint32_t w, uint32_t o, const OrderLineRecord& record);
    void stock(uint32_t w, uint32_t i, const StockRecord& record);
    // A stock row that must not exist, or cannot be read.
    void misplaced(uint32_t w, uint32_t i);
    // Looks for missing rows. Call it once, at the end. In the order of StockColumn.
    std::vector<StockCheck> finish();

private:
    struct Sums {
        uint32_t quantity = 0, lines = 0, remote_lines = 0;
    };
    bool in_scale(uint32_t w, uint32_t i) const {
        return w - 1 < source_.scale.warehouses && i - 1 < source_.scale.items;
    }
    Sums& at(uint32_t w, uint32_t i) {
        return sums_[(w - 1) * size_t{source_.scale.items} + i - 1];
    }
    void compare(StockColumn column, uint32_t w, uint32_t i, int64_t stored, int64_t expected);
    void violated(StockColumn column, std::string fault);

    const RowSource source_;
    std::vector<Sums> sums_;
    uint64_t rows_ = 0;
    std::vector<StockCheck> checks_;
};

}  // namespace lockstep::tpcc
