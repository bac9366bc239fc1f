// stock_level.cc - the Stock-Level transaction (clause 2.8): how many items of the last 20 orders
// are low in stock.
//
// Operations  fetch D (S); scan OL of the last 20 orders; fetch S (S) of each distinct item, in the
//             order of their keys, sixteen at a time.
#include "threads/base/try.h"
#include "tpcc/transactions.h"

namespace lockstep::tpcc {

Result<void> stock_level(Database& db, Txn& txn, const StockLevelInput& in, StockLevelOutput& out) {
    constexpr uint32_t kOrders = 20;
    DistrictRecord district;
    TRY(fetch(db.district, txn, district_key(in.w, in.d), district, "district"));
    const uint32_t end = district.next_o_id;
    uint32_t items[kOrders * 15];
    size_t n = 0;
    {
        Cursor lines = db.order_line.scan(txn, order_key(in.w, in.d, end - std::min(end, kOrders)),
                                          order_key(in.w, in.d, end));
        while (TRY(lines.next())) {
            OrderLineRecord line;
            if (n == std::size(items) || !read_record(lines.value(), line))
                return missing_row("order_line", lines.key());
            items[n++] = line.i_id;
        }
    }
    std::sort(items, items + n);
    const uint32_t* const items_end = std::unique(items, items + n);
    out.low_stock = 0;
    RowBatch<StockRecord, 16> stocks;
    for (const uint32_t* item = items; item != items_end;) {
        stocks.clear();
        while (item != items_end && !stocks.full())
            stocks.add(stock_key(in.w, *item++), sizeof(StockRecord::quantity));
        TRY(stocks.fetch(db, db.stock, txn, "stock"));
        for (size_t i = 0; i < stocks.size(); ++i)
            out.low_stock += stocks[i].quantity < in.threshold;
    }
    return {};
}

}  // namespace lockstep::tpcc
