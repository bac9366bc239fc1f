// queries.cc - the plans over blocks of columns.
#include "tpcc/ch/queries.h"

#include <algorithm>
#include <map>
#include <unordered_map>
#include <unordered_set>

#include "threads/base/try.h"

namespace lockstep::tpcc::ch {

namespace {

constexpr size_t kNewestOrders = 3333, kBestItems = 50;

uint64_t order_number(uint16_t w, uint8_t d, uint32_t o) {
    return uint64_t{w} << 40 | uint64_t{d} << 32 | o;
}

// The scans of one query.
class Plan {
public:
    Plan(Report& report, ScanPolicy policy, const Constants& by)
        : report_(report), policy_(policy), by_(by) {}
    Result<Answer> q1();
    Result<Answer> q4();
    Result<Answer> q6();
    Result<Answer> q12();
    Result<Answer> q14();
    Result<Answer> q19();
    Result<Answer> best_sellers();

private:
    // Calls fn(block) with each block of the table's columns.
    template <class Fn>
    Result<void> each(const char* table, std::vector<std::string> columns, std::vector<Where> where,
                      Fn fn) {
        Scan scan = TRY(report_.scan(
            table, {.columns = std::move(columns), .where = std::move(where), .policy = policy_}));
        return scan.each([&](const Block& block) -> Result<bool> {
            fn(block);
            return true;
        });
    }
    Where at_least(const char* column, int64_t value) const {
        return {column, Compare::at_least, {value}};
    }
    Where less(const char* column, int64_t value) const { return {column, Compare::less, {value}}; }
    Where between(const char* column) const { return {column, Compare::at_most, {by_.high}}; }

    Report& report_;
    const ScanPolicy policy_;
    const Constants& by_;
};

// ol_number: quantity, amount, lines, of what was delivered since `from`.
Result<Answer> Plan::q1() {
    std::array<std::array<int64_t, 3>, 256> groups{};
    TRY(each("order_line", {"ol_number", "ol_quantity", "ol_amount"},
             {at_least("ol_delivery_d", by_.from)}, [&](const Block& block) {
                 const auto number = block.numbers<uint8_t>(0),
                            quantity = block.numbers<uint8_t>(1);
                 const auto amount = block.numbers<int64_t>(2);
                 for (size_t i = 0; i < block.rows(); ++i) {
                     auto& group = groups[number[i]];
                     group[0] += quantity[i];
                     group[1] += amount[i];
                     ++group[2];
                 }
             }));
    Answer out;
    for (size_t number = 0; number < groups.size(); ++number)
        if (const auto& g = groups[number]; g[2] != 0)
            out.push_back({static_cast<int64_t>(number), g[0], g[1], g[2]});
    return out;
}

// o_ol_cnt: orders of the window with a line that was delivered at or after their entry.
Result<Answer> Plan::q4() {
    struct Order {
        Time entry;
        uint8_t lines;
        bool delivered = false;
    };
    std::unordered_map<uint64_t, Order> orders;
    TRY(each(
        "orders", {"o_w_id", "o_d_id", "o_id", "o_entry_d", "o_ol_cnt"},
        {at_least("o_entry_d", by_.from), less("o_entry_d", by_.to)}, [&](const Block& block) {
            for (size_t i = 0; i < block.rows(); ++i)
                orders[order_number(block.numbers<uint16_t>(0)[i], block.numbers<uint8_t>(1)[i],
                                    block.numbers<uint32_t>(2)[i])] = {
                    block.numbers<int64_t>(3)[i], block.numbers<uint8_t>(4)[i]};
        }));
    TRY(each("order_line", {"ol_w_id", "ol_d_id", "ol_o_id", "ol_delivery_d"},
             {at_least("ol_delivery_d", by_.from)}, [&](const Block& block) {
                 for (size_t i = 0; i < block.rows(); ++i) {
                     const auto order = orders.find(order_number(block.numbers<uint16_t>(0)[i],
                                                                 block.numbers<uint8_t>(1)[i],
                                                                 block.numbers<uint32_t>(2)[i]));
                     if (order != orders.end())
                         order->second.delivered |=
                             block.numbers<int64_t>(3)[i] >= order->second.entry;
                 }
             }));
    std::map<int64_t, int64_t> counts;
    for (const auto& [number, order] : orders)
        if (order.delivered) ++counts[order.lines];
    Answer out;
    for (const auto& [lines, count] : counts) out.push_back({lines, count});
    return out;
}

// The amount of the lines of a window and of some quantities.
Result<Answer> Plan::q6() {
    int64_t sum = 0;
    TRY(each("order_line", {"ol_amount"},
             {at_least("ol_delivery_d", by_.from), less("ol_delivery_d", by_.to),
              at_least("ol_quantity", by_.low), between("ol_quantity")},
             [&](const Block& block) {
                 for (const int64_t amount : block.numbers<int64_t>(0)) sum += amount;
             }));
    return Answer{{sum}};
}

// o_ol_cnt: lines of orders with carrier 1 or 2, and of others, delivered in the window and not
// before the entry of the order.
Result<Answer> Plan::q12() {
    struct Order {
        Time entry;
        uint8_t lines;
        bool high;
    };
    std::unordered_map<uint64_t, Order> orders;
    TRY(each(
        "orders", {"o_w_id", "o_d_id", "o_id", "o_entry_d", "o_ol_cnt", "o_carrier_id"}, {},
        [&](const Block& block) {
            for (size_t i = 0; i < block.rows(); ++i) {
                const uint8_t carrier = block.is_null(5, i) ? 0 : block.numbers<uint8_t>(5)[i];
                orders[order_number(block.numbers<uint16_t>(0)[i], block.numbers<uint8_t>(1)[i],
                                    block.numbers<uint32_t>(2)[i])] = {
                    block.numbers<int64_t>(3)[i], block.numbers<uint8_t>(4)[i],
                    carrier == 1 || carrier == 2};
            }
        }));
    std::map<int64_t, std::array<int64_t, 2>> counts;
    TRY(each("order_line", {"ol_w_id", "ol_d_id", "ol_o_id", "ol_delivery_d"},
             {at_least("ol_delivery_d", by_.from), less("ol_delivery_d", by_.to)},
             [&](const Block& block) {
                 for (size_t i = 0; i < block.rows(); ++i) {
                     const auto order = orders.find(order_number(block.numbers<uint16_t>(0)[i],
                                                                 block.numbers<uint8_t>(1)[i],
                                                                 block.numbers<uint32_t>(2)[i]));
                     if (order == orders.end() ||
                         order->second.entry > block.numbers<int64_t>(3)[i])
                         continue;
                     ++counts[order->second.lines][order->second.high ? 0 : 1];
                 }
             }));
    Answer out;
    for (const auto& [lines, count] : counts) out.push_back({lines, count[0], count[1]});
    return out;
}

// The amount of items whose data begin with the prefix, and of all items, in the window.
Result<Answer> Plan::q14() {
    std::unordered_set<uint32_t> items;
    TRY(each("item", {"i_id"}, {{"i_data", Compare::prefix, {by_.prefix}}},
             [&](const Block& block) {
                 for (const uint32_t item : block.numbers<uint32_t>(0)) items.insert(item);
             }));
    int64_t promoted = 0, sum = 0;
    TRY(each("order_line", {"ol_i_id", "ol_amount"},
             {at_least("ol_delivery_d", by_.from), less("ol_delivery_d", by_.to)},
             [&](const Block& block) {
                 const auto item = block.numbers<uint32_t>(0);
                 const auto amount = block.numbers<int64_t>(1);
                 for (size_t i = 0; i < block.rows(); ++i) {
                     sum += amount[i];
                     if (items.contains(item[i])) promoted += amount[i];
                 }
             }));
    return Answer{{promoted, sum}};
}

// The amount of lines of one warehouse with at most so many pieces of items in a range of prices.
Result<Answer> Plan::q19() {
    std::unordered_set<uint32_t> items;
    TRY(each(
        "item", {"i_id"},
        {at_least("i_price", int64_t{by_.low} * 100), less("i_price", int64_t{by_.high} * 100)},
        [&](const Block& block) {
            for (const uint32_t item : block.numbers<uint32_t>(0)) items.insert(item);
        }));
    int64_t sum = 0;
    TRY(each(
        "order_line", {"ol_i_id", "ol_amount"},
        {{"ol_w_id", Compare::equal, {by_.warehouse}}, {"ol_quantity", Compare::at_most, {10}}},
        [&](const Block& block) {
            const auto item = block.numbers<uint32_t>(0);
            for (size_t i = 0; i < block.rows(); ++i)
                if (items.contains(item[i])) sum += block.numbers<int64_t>(1)[i];
        }));
    return Answer{{sum}};
}

// i_id, pieces, price: the items that sold most in the newest orders.
Result<Answer> Plan::best_sellers() {
    std::vector<std::pair<Time, uint64_t>> newest;  // a heap: the oldest of them first
    TRY(each("orders", {"o_w_id", "o_d_id", "o_id", "o_entry_d"}, {}, [&](const Block& block) {
        for (size_t i = 0; i < block.rows(); ++i) {
            const std::pair order(
                block.numbers<int64_t>(3)[i],
                order_number(block.numbers<uint16_t>(0)[i], block.numbers<uint8_t>(1)[i],
                             block.numbers<uint32_t>(2)[i]));
            if (newest.size() == kNewestOrders) {
                if (order < newest.front()) continue;
                std::ranges::pop_heap(newest, std::greater());
                newest.pop_back();
            }
            newest.push_back(order);
            std::ranges::push_heap(newest, std::greater());
        }
    }));
    std::unordered_set<uint64_t> orders;
    for (const auto& [entry, order] : newest) orders.insert(order);
    std::unordered_map<uint32_t, int64_t> pieces;
    TRY(each("order_line", {"ol_w_id", "ol_d_id", "ol_o_id", "ol_i_id", "ol_quantity"}, {},
             [&](const Block& block) {
                 for (size_t i = 0; i < block.rows(); ++i)
                     if (orders.contains(order_number(block.numbers<uint16_t>(0)[i],
                                                      block.numbers<uint8_t>(1)[i],
                                                      block.numbers<uint32_t>(2)[i])))
                         pieces[block.numbers<uint32_t>(3)[i]] += block.numbers<uint8_t>(4)[i];
             }));
    std::vector<std::pair<int64_t, int64_t>> best;  // -pieces, item
    for (const auto& [item, count] : pieces) best.emplace_back(-count, item);
    std::ranges::sort(best);
    best.resize(std::min(best.size(), kBestItems));
    std::unordered_map<int64_t, int64_t> prices;
    for (const auto& [count, item] : best) prices[item] = 0;
    TRY(each("item", {"i_id", "i_price"}, {}, [&](const Block& block) {
        for (size_t i = 0; i < block.rows(); ++i)
            if (const auto price = prices.find(block.numbers<uint32_t>(0)[i]);
                price != prices.end())
                price->second = block.numbers<int64_t>(1)[i];
    }));
    Answer out;
    for (const auto& [count, item] : best) out.push_back({item, -count, prices[item]});
    return out;
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

Result<Answer> answer(QueryId query, const Constants& by, Report& report, ScanPolicy policy) {
    Plan plan(report, policy, by);
    switch (query) {
        case QueryId::q1: return plan.q1();
        case QueryId::q4: return plan.q4();
        case QueryId::q6: return plan.q6();
        case QueryId::q12: return plan.q12();
        case QueryId::q14: return plan.q14();
        case QueryId::q19: return plan.q19();
        case QueryId::best_sellers: return plan.best_sellers();
    }
    return fail(ErrorCode::bad_argument, "query");
}

}  // namespace lockstep::tpcc::ch
