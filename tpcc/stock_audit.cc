// stock_audit.cc - the changing columns of STOCK against the order lines.
#include "tpcc/stock_audit.h"

#include <fmt/format.h>

#include "threads/base/check.h"

namespace lockstep::tpcc {

namespace {
constexpr size_t kFaultsKept = 5;
constexpr int64_t kLeast = 10, kValues = 91;  // S_QUANTITY lies in [10, 100]
constexpr const char* kNames[kStockColumns] = {"S_YTD", "S_ORDER_CNT", "S_REMOTE_CNT",
                                               "S_QUANTITY"};

// The quantity that is left of `first` after `taken` pieces, refills included.
int64_t quantity_left(int64_t first, int64_t taken) {
    const int64_t left = (first - kLeast - taken) % kValues;
    return kLeast + (left < 0 ? left + kValues : left);
}
}  // namespace

const char* stock_column_text(StockColumn column) {
    static constexpr const char* kTexts[kStockColumns] = {
        "S_YTD = sum(OL_QUANTITY of the lines that the stock supplied)",
        "S_ORDER_CNT = number of these lines",
        "S_REMOTE_CNT = number of these lines in orders of other warehouses",
        "S_QUANTITY = loaded quantity - S_YTD, with refills of 91",
    };
    return kTexts[static_cast<size_t>(column)];
}

StockAudit::StockAudit(const RowSource& source)
    : source_(source),
      sums_(size_t{source.scale.warehouses} * source.scale.items),
      checks_(kStockColumns) {
    for (size_t c = 0; c < kStockColumns; ++c) checks_[c].column = static_cast<StockColumn>(c);
}

void StockAudit::order_line(uint32_t w, uint32_t o, const OrderLineRecord& record) {
    if (o <= source_.scale.customers) return;  // as many orders as customers were loaded
    if (!in_scale(record.supply_w_id, record.i_id))
        return violated(StockColumn::ytd,
                        fmt::format("a line of order {} of warehouse {} has stock {}/{}, which "
                                    "cannot exist",
                                    o, w, record.supply_w_id, record.i_id));
    Sums& sums = at(record.supply_w_id, record.i_id);
    sums.quantity += record.quantity;
    ++sums.lines;
    sums.remote_lines += record.supply_w_id != w;
}

void StockAudit::stock(uint32_t w, uint32_t i, const StockRecord& record) {
    if (!in_scale(w, i) || !source_.scale.holds(w)) return misplaced(w, i);
    ++rows_;
    const Sums& sums = at(w, i);
    compare(StockColumn::ytd, w, i, record.ytd, sums.quantity);
    compare(StockColumn::order_cnt, w, i, record.order_cnt, sums.lines);
    compare(StockColumn::remote_cnt, w, i, record.remote_cnt, sums.remote_lines);
    compare(StockColumn::quantity, w, i, record.quantity,
            quantity_left(source_.stock_quantity(w, i), record.ytd));
}

void StockAudit::misplaced(uint32_t w, uint32_t i) {
    violated(StockColumn::quantity,
             fmt::format("a row of stock is malformed or has an impossible key ({}, {})", w, i));
}

void StockAudit::compare(StockColumn column, uint32_t w, uint32_t i, int64_t stored,
                         int64_t expected) {
    if (stored == expected) return;
    violated(column, fmt::format("stock {} of warehouse {}: {} {}, expected {}", i, w,
                                 kNames[static_cast<size_t>(column)], stored, expected));
}

void StockAudit::violated(StockColumn column, std::string fault) {
    StockCheck& check = checks_[static_cast<size_t>(column)];
    if (++check.violations <= kFaultsKept) check.faults.push_back(std::move(fault));
}

std::vector<StockCheck> StockAudit::finish() {
    CHECK(!checks_.empty());
    const uint64_t expected = uint64_t{source_.scale.warehouses_here()} * source_.scale.items;
    if (rows_ != expected)
        violated(StockColumn::quantity,
                 fmt::format("STOCK has {} rows, expected {}", rows_, expected));
    return std::move(checks_);
}

}  // namespace lockstep::tpcc
