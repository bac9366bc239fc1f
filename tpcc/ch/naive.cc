// naive.cc - the queries by cursors and records: what the plans must agree with.
#include <algorithm>
#include <map>
#include <set>
#include <tuple>

#include "threads/base/check.h"
#include "threads/base/try.h"
#include "tpcc/ch/queries.h"

namespace lockstep::tpcc::ch {

namespace {

using OrderId = std::tuple<uint32_t, uint32_t, uint32_t>;  // warehouse, district, number

uint32_t number_at(Slice key, size_t at, size_t bytes) {
    uint32_t out = 0;
    DCHECK(at + bytes <= key.size());
    for (size_t i = 0; i < bytes; ++i) out = out << 8 | static_cast<uint8_t>(key[at + i]);
    return out;
}
OrderId order_of(Slice key) {
    return {number_at(key, 0, 2), number_at(key, 2, 1), number_at(key, 3, 4)};
}

struct Line {
    OrderId order;
    uint32_t number;
    OrderLineRecord record;
};
struct Item {
    Cents price;
    std::string data;
};

// All rows of the tables that the queries read.
struct Contents {
    std::vector<Line> lines;
    std::map<OrderId, OrderRecord> orders;
    std::map<uint32_t, Item> items;
};

template <class Record>
Record record_of(Slice value) {
    Record out{};
    std::memcpy(&out, value.data(), std::min(value.size(), sizeof out));
    return out;
}

Result<Contents> read(Database& db, Txn& txn) {
    Contents out;
    Cursor lines = db.order_line.scan(txn);
    while (TRY(lines.next()))
        out.lines.push_back({order_of(lines.key()), number_at(lines.key(), 7, 1),
                             record_of<OrderLineRecord>(lines.value())});
    Cursor orders = db.orders.scan(txn);
    while (TRY(orders.next()))
        out.orders[order_of(orders.key())] = record_of<OrderRecord>(orders.value());
    Cursor items = db.item.scan(txn);
    while (TRY(items.next())) {
        const auto item = record_of<ItemRecord>(items.value());
        out.items[number_at(items.key(), 0, 3)] = {item.price, std::string(item.data.view())};
    }
    return out;
}

Answer as_answer(const std::map<int64_t, std::vector<int64_t>>& groups) {
    Answer out;
    for (const auto& [key, sums] : groups) {
        out.push_back({key});
        out.back().insert(out.back().end(), sums.begin(), sums.end());
    }
    return out;
}

Answer best_sellers(const Contents& rows) {
    std::vector<std::pair<Time, OrderId>> newest;
    for (const auto& [id, order] : rows.orders) newest.emplace_back(order.entry_d, id);
    std::ranges::sort(newest, std::greater());
    newest.resize(std::min<size_t>(newest.size(), 3333));
    std::set<OrderId> chosen;
    for (const auto& [entry, id] : newest) chosen.insert(id);
    std::map<int64_t, int64_t> pieces;
    for (const Line& line : rows.lines)
        if (chosen.contains(line.order)) pieces[line.record.i_id] += line.record.quantity;
    std::vector<std::pair<int64_t, int64_t>> sorted(pieces.begin(), pieces.end());
    std::ranges::stable_sort(sorted, std::greater(), &std::pair<int64_t, int64_t>::second);
    sorted.resize(std::min<size_t>(sorted.size(), 50));
    Answer out;
    for (const auto& [item, count] : sorted)
        out.push_back({item, count, rows.items.at(static_cast<uint32_t>(item)).price});
    return out;
}

// Queries over lines, each with its order and its item.
Answer over_lines(QueryId query, const Constants& by, const Contents& rows) {
    std::map<int64_t, std::vector<int64_t>> groups;
    std::map<OrderId, bool> delivered;
    int64_t sum = 0, promoted = 0;
    for (const Line& line : rows.lines) {
        const OrderLineRecord& l = line.record;
        const OrderRecord& order = rows.orders.at(line.order);
        const Item& item = rows.items.at(l.i_id);
        const Time at = l.delivery_d;
        const bool since = at != 0 && at >= by.from, within = since && at < by.to;
        if (query == QueryId::q1 && since) {
            auto& group = groups[line.number];
            group.resize(3);
            group[0] += l.quantity;
            group[1] += l.amount;
            ++group[2];
        }
        if (query == QueryId::q6 && within && l.quantity >= by.low && l.quantity <= by.high)
            sum += l.amount;
        if (query == QueryId::q12 && within && order.entry_d <= at) {
            auto& group = groups[order.ol_cnt];
            group.resize(2);
            ++group[order.carrier_id == 1 || order.carrier_id == 2 ? 0 : 1];
        }
        if (query == QueryId::q14 && within) {
            sum += l.amount;
            if (item.data.starts_with(by.prefix)) promoted += l.amount;
        }
        if (query == QueryId::q19 && std::get<0>(line.order) == by.warehouse && l.quantity <= 10 &&
            item.price >= Cents{by.low} * 100 && item.price < Cents{by.high} * 100)
            sum += l.amount;
        if (query == QueryId::q4 && at != 0 && at >= order.entry_d && order.entry_d >= by.from &&
            order.entry_d < by.to && !std::exchange(delivered[line.order], true)) {
            auto& group = groups[order.ol_cnt];
            group.resize(1);
            ++group[0];
        }
    }
    if (query == QueryId::q14) return {{promoted, sum}};
    if (query == QueryId::q6 || query == QueryId::q19) return {{sum}};
    return as_answer(groups);
}

}  // namespace

Result<Answer> naive_answer(QueryId query, const Constants& by, Database& db, Txn& txn) {
    const Contents rows = TRY(read(db, txn));
    return query == QueryId::best_sellers ? best_sellers(rows) : over_lines(query, by, rows);
}

}  // namespace lockstep::tpcc::ch
