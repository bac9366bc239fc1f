// queries.cc - the queries as plans of operators.
#include "tpcc/ch/queries.h"

#include <lockstep/plan.h>

#include "threads/base/try.h"

namespace lockstep::tpcc::ch {

namespace {

constexpr size_t kNewestOrders = 3333, kBestItems = 50;
const std::vector<JoinKey> kLineOfOrder = {
    {"ol_w_id", "o_w_id"}, {"ol_d_id", "o_d_id"}, {"ol_o_id", "o_id"}};

Where at_least(const char* column, int64_t value) { return {column, Compare::at_least, {value}}; }
Where less(const char* column, int64_t value) { return {column, Compare::less, {value}}; }

// Lines delivered within the window of the constants.
Plan lines(std::vector<std::string> columns, const Constants& by) {
    return Plan::scan("order_line", std::move(columns),
                      {at_least("ol_delivery_d", by.from), less("ol_delivery_d", by.to)});
}
// Lines with their orders, if they were not delivered before the entry of the order.
Plan with_order(const Plan& of_lines, const Plan& orders) {
    return of_lines.join(orders, kLineOfOrder)
        .compute("after", col("ol_delivery_d") - col("o_entry_d"))
        .where({at_least("after", 0)});
}

// ol_number: quantity, amount, lines, of what was delivered since `from`.
Plan q1(const Constants& by) {
    return Plan::scan("order_line", {"ol_number", "ol_quantity", "ol_amount"},
                      {at_least("ol_delivery_d", by.from)})
        .group({"ol_number"},
               {Aggregate::sum(col("ol_quantity"), "quantity"),
                Aggregate::sum(col("ol_amount"), "amount"), Aggregate::count("lines")})
        .order({{"ol_number"}});
}

// o_ol_cnt: orders of the window with a line that was delivered at or after their entry.
Plan q4(const Constants& by) {
    const Plan orders = Plan::scan("orders", {"o_w_id", "o_d_id", "o_id", "o_entry_d", "o_ol_cnt"},
                                   {at_least("o_entry_d", by.from), less("o_entry_d", by.to)});
    const Plan since = Plan::scan("order_line", {"ol_w_id", "ol_d_id", "ol_o_id", "ol_delivery_d"},
                                  {at_least("ol_delivery_d", by.from)});
    return with_order(since, orders)
        .group({"ol_w_id", "ol_d_id", "ol_o_id", "o_ol_cnt"})
        .group({"o_ol_cnt"}, {Aggregate::count("orders")})
        .order({{"o_ol_cnt"}});
}

// The amount of the lines of a window and of some quantities.
Plan q6(const Constants& by) {
    return Plan::scan("order_line", {"ol_amount"},
                      {at_least("ol_delivery_d", by.from),
                       less("ol_delivery_d", by.to),
                       at_least("ol_quantity", by.low),
                       {"ol_quantity", Compare::at_most, {by.high}}})
        .group({}, {Aggregate::sum(col("ol_amount"), "amount")});
}

// o_ol_cnt: lines of orders with carrier 1 or 2, and of others, delivered in the window and not
// before the entry of the order.
Plan q12(const Constants& by) {
    const Plan orders =
        Plan::scan("orders", {"o_w_id", "o_d_id", "o_id", "o_entry_d", "o_ol_cnt", "o_carrier_id"});
    const std::vector<Where> high = {{"o_carrier_id", Compare::in, {1, 2}}};
    return with_order(lines({"ol_w_id", "ol_d_id", "ol_o_id", "ol_delivery_d"}, by), orders)
        .group({"o_ol_cnt"}, {Aggregate::count("high", high), Aggregate::count("all")})
        .compute("low", col("all") - col("high"))
        .order({{"o_ol_cnt"}});
}

// The amount of items whose data begin with the prefix, and of all items, in the window.
Plan q14(const Constants& by) {
    const Plan items = Plan::scan("item", {"i_id"}, {{"i_data", Compare::prefix, {by.prefix}}});
    return lines({"ol_i_id", "ol_amount"}, by)
        .left_join(items, {{"ol_i_id", "i_id"}})
        .group({}, {Aggregate::sum(col("ol_amount"), "promoted", {at_least("i_id", 0)}),
                    Aggregate::sum(col("ol_amount"), "all")});
}

// The amount of lines of one warehouse with at most so many pieces of items in a range of prices.
Plan q19(const Constants& by) {
    const Plan items = Plan::scan(
        "item", {"i_id"},
        {at_least("i_price", int64_t{by.low} * 100), less("i_price", int64_t{by.high} * 100)});
    return Plan::scan("order_line", {"ol_i_id", "ol_amount"},
                      {{"ol_w_id", Compare::equal, {by.warehouse}},
                       {"ol_quantity", Compare::at_most, {10}}})
        .semi_join(items, {{"ol_i_id", "i_id"}})
        .group({}, {Aggregate::sum(col("ol_amount"), "amount")});
}

// i_id, pieces, price: the items that sold most in the newest orders.
Plan best_sellers() {
    const Plan newest =
        Plan::scan("orders", {"o_w_id", "o_d_id", "o_id", "o_entry_d"})
            .top(kNewestOrders,
                 {{"o_entry_d", true}, {"o_w_id", true}, {"o_d_id", true}, {"o_id", true}});
    const Plan best =
        Plan::scan("order_line", {"ol_w_id", "ol_d_id", "ol_o_id", "ol_i_id", "ol_quantity"})
            .semi_join(newest, kLineOfOrder)
            .group({"ol_i_id"}, {Aggregate::sum(col("ol_quantity"), "pieces")})
            .top(kBestItems, {{"pieces", true}, {"ol_i_id"}});
    return best.join(Plan::scan("item", {"i_id", "i_price"}), {{"ol_i_id", "i_id"}})
        .order({{"pieces", true}, {"ol_i_id"}});
}

Plan plan_of(QueryId query, const Constants& by) {
    switch (query) {
        case QueryId::q1: return q1(by);
        case QueryId::q4: return q4(by);
        case QueryId::q6: return q6(by);
        case QueryId::q12: return q12(by);
        case QueryId::q14: return q14(by);
        case QueryId::q19: return q19(by);
        case QueryId::best_sellers: break;
    }
    return best_sellers();
}

}  // namespace

Constants draw(QueryId query, const Database& db, Rng& rng) {
    Constants out;
    // Loaded orders carry the time of the load, others later ones: windows begin a little before it
    // or at some second of the run.
    const bool whole = rng.chance(0.5);
    out.from = db.load_time + (whole ? -1 : rng.between(0, 60)) * kSecond;
    out.to = out.from + rng.between(1, 600) * kSecond;
    const bool prices = query == QueryId::q19;
    out.low = static_cast<uint32_t>(rng.between(1, prices ? 60 : 5));
    out.high = out.low + static_cast<uint32_t>(rng.between(0, prices ? 40 : 5));
    out.warehouse = static_cast<uint32_t>(rng.between(1, db.scale.warehouses));
    out.prefix = std::string(1, static_cast<char>('a' + rng.below(26)));
    return out;
}

Result<Answer> answer(QueryId query, const Constants& by, Report& report,
                      const AnswerOptions& options) {
    const Rows rows = TRY(report.answer(plan_of(query, by), options));
    Answer out(rows.rows());
    for (size_t row = 0; row < rows.rows(); ++row)
        for (size_t column = 0; column < rows.columns(); ++column)
            if (query != QueryId::q12 || rows.name(column) != "all")
                out[row].push_back(rows.integer(row, column));
    return out;
}

}  // namespace lockstep::tpcc::ch
