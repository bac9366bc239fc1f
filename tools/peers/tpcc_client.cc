// tpcc_client.cc - the five transactions of TPC-C over the small interface.
#include "tools/peers/tpcc_client.h"

#include <lockstep/clock.h>
#include "tpcc/row_changes.h"

namespace lockstep::peers {

using namespace tpcc;

namespace {

// Reads a row that must exist.
template <class R>
Result<void> fetch(Session& s, TableId table, const RowKey& key, R& record,
                   Access access = Access::read) {
    const auto size = TRY(s.get(
        table_of(table), key, std::span(reinterpret_cast<std::byte*>(&record), sizeof(R)), access));
    if (!size || *size < bytes_min<R>())
        return missing_row(kTables[static_cast<size_t>(table)].name, key);
    return {};
}

template <class R>
Result<void> store_row(Session& s, TableId table, const RowKey& key, const R& record) {
    return s.put(table_of(table), key, bytes_of(record));
}

// The order lines of one or several orders, which change or are only read.
struct Lines {
    struct Line {
        RowKey key;
        OrderLineRecord record;
    };
    std::vector<Line> rows;

    Result<void> read(Session& s, const RowKey& low, const RowKey& high, Access access) {
        rows.clear();
        bool sound = true;
        TRY(s.scan(table_of(TableId::order_line), low, high, Order::ascending, access,
                   [&](Slice key, Slice value) {
                       Line& line = rows.emplace_back();
                       for (const char c : key) line.key.u8(static_cast<uint8_t>(c));
                       return sound = read_record(value, line.record);
                   }));
        if (!sound) return missing_row("order_line", rows.back().key);
        return {};
    }
};

}  // namespace

uint32_t TpccClient::home() {
    const uint32_t warehouses = rules_.scale.warehouses;
    if (warehouses <= clients_) return number_ % warehouses + 1;
    const uint32_t own = (warehouses - number_ + clients_ - 1) / clients_;
    return number_ + clients_ * static_cast<uint32_t>(rng_.below(own)) + 1;
}

Result<size_t> TpccClient::step(Session& session, Tally& tally) {
    const TxnType type = deck_.deal();
    TRY(run(session, tally, type));
    return static_cast<size_t>(type);
}

Result<bool> TpccClient::run(Session& session, Tally& tally, TxnType type) {
    const uint32_t w = home();
    const Time now = MonotonicClock().now();
    // A body that either ends with a commit or fails.
    const auto commit = [](const Result<void>& done) -> Result<bool> {
        if (!done) return std::unexpected(done.error());
        return true;
    };
    switch (type) {
        case TxnType::new_order: {
            const NewOrderInput in = make_new_order(rng_, rules_, w);
            return transact(session, true, tally, [&] { return new_order(session, in, now); });
        }
        case TxnType::payment: {
            const PaymentInput in = make_payment(rng_, rules_, w);
            return transact(session, true, tally,
                            [&] { return commit(payment(session, in, now)); });
        }
        case TxnType::order_status: {
            const OrderStatusInput in = make_order_status(rng_, rules_, w);
            return transact(session, false, tally,
                            [&] { return commit(order_status(session, in)); });
        }
        case TxnType::delivery: {
            const DeliveryInput in = make_delivery(rng_, w);
            return transact(session, true, tally,
                            [&] { return commit(delivery(session, in, now)); });
        }
        case TxnType::stock_level: break;
    }
    const auto d = static_cast<uint32_t>(rng_.between(1, rules_.scale.districts));
    const StockLevelInput in = make_stock_level(rng_, w, d);
    return transact(session, false, tally, [&] { return commit(stock_level(session, in)); });
}

// False: an item does not exist, so that the transaction is rolled back.
Result<bool> TpccClient::new_order(Session& s, const NewOrderInput& in, Time now) {
    NewOrderOutput out;
    out.entry_d = now;
    out.total = 0;
    TRY(enter_order(s, in, out));
    if (!TRY(add_lines(s, in, out))) return false;
    apply_rates(out);
    return true;
}

Result<void> TpccClient::enter_order(Session& s, const NewOrderInput& in, NewOrderOutput& out) {
    WarehouseRecord warehouse;
    TRY(fetch(s, TableId::warehouse, warehouse_key(in.w), warehouse));
    out.w_tax = warehouse.tax;
    const RowKey district = district_key(in.w, in.d);
    DistrictRecord row;
    TRY(fetch(s, TableId::district, district, row, Access::write));
    out.d_tax = row.tax;
    out.o_id = row.next_o_id++;
    TRY(store_row(s, TableId::district, district, row));
    CustomerRecord customer;
    TRY(fetch(s, TableId::customer, customer_key(in.w, in.d, in.c), customer));
    out.discount = customer.discount;
    out.last = customer.last;
    std::memcpy(out.credit, customer.credit, sizeof(out.credit));
    const RowKey order = order_key(in.w, in.d, out.o_id);
    TRY(s.insert(table_of(TableId::orders), order, bytes_of(order_row(in, out.entry_d))));
    TRY(s.insert(table_of(TableId::orders_customer), customer_order_key(in.w, in.d, in.c, out.o_id),
                 {}));
    return s.insert(table_of(TableId::new_order), order, {});
}

Result<bool> TpccClient::add_lines(Session& s, const NewOrderInput& in, NewOrderOutput& out) {
    OrderLineRecord rows[15];
    for (uint8_t i = 0; i < in.ol_cnt; ++i) {
        const NewOrderLine& line = in.lines[i];
        ItemRecord item;
        const auto size =
            TRY(s.get(table_of(TableId::item), item_key(line.i_id),
                      std::span(reinterpret_cast<std::byte*>(&item), sizeof(item)), Access::read));
        if (!size) return false;
        StockRecord stock;
        const RowKey key = stock_key(line.supply_w, line.i_id);
        TRY(fetch(s, TableId::stock, key, stock, Access::write));
        supply_line(in, line, item, stock, rows, out);
        TRY(store_row(s, TableId::stock, key, stock));
    }
    for (uint32_t i = 0; i < in.ol_cnt; ++i)
        TRY(s.insert(table_of(TableId::order_line), line_key(in.w, in.d, out.o_id, i + 1),
                     bytes_of(rows[i])));
    return true;
}

Result<void> TpccClient::payment(Session& s, const PaymentInput& in, Time now) {
    WarehouseRecord warehouse;
    TRY(fetch(s, TableId::warehouse, warehouse_key(in.w), warehouse, Access::write));
    warehouse.ytd += in.amount;
    TRY(store_row(s, TableId::warehouse, warehouse_key(in.w), warehouse));
    DistrictRecord district;
    TRY(fetch(s, TableId::district, district_key(in.w, in.d), district, Access::write));
    district.ytd += in.amount;
    TRY(store_row(s, TableId::district, district_key(in.w, in.d), district));

    const uint32_t c_id = TRY(find_customer(s, in.customer));
    const RowKey key = customer_key(in.customer.w, in.customer.d, c_id);
    CustomerRecord customer;
    TRY(fetch(s, TableId::customer, key, customer, Access::write));
    customer.balance -= in.amount;
    customer.ytd_payment += in.amount;
    customer.payment_cnt += 1;
    if (is_bad_credit(customer)) note_in_customer_data(in, c_id, customer);
    TRY(store_row(s, TableId::customer, key, customer));
    const HistoryRecord history = history_row(in, c_id, now, warehouse.name, district.name);
    return s.insert(table_of(TableId::history), history_key(number_ + 1, payments_++),
                    bytes_of(history));
}

Result<void> TpccClient::order_status(Session& s, const OrderStatusInput& in) {
    const CustomerChoice& choice = in.customer;
    const uint32_t c_id = TRY(find_customer(s, choice));
    CustomerRecord customer;
    TRY(fetch(s, TableId::customer, customer_key(choice.w, choice.d, c_id), customer));
    uint32_t o_id = 0;
    TRY(s.scan(table_of(TableId::orders_customer), customer_key(choice.w, choice.d, c_id),
               customer_key(choice.w, choice.d, c_id + 1), Order::descending, Access::read,
               [&](Slice key, Slice) {
                   o_id = last_u32(key);
                   return false;
               }));
    if (o_id == 0) return {};
    OrderRecord order;
    TRY(fetch(s, TableId::orders, order_key(choice.w, choice.d, o_id), order));
    Lines lines;
    return lines.read(s, order_key(choice.w, choice.d, o_id),
                      order_key(choice.w, choice.d, o_id + 1), Access::read);
}

Result<void> TpccClient::delivery(Session& s, const DeliveryInput& in, Time now) {
    for (uint32_t d = 1; d <= rules_.scale.districts; ++d) {
        uint32_t o_id = 0;
        TRY(s.scan(table_of(TableId::new_order), district_key(in.w, d), district_key(in.w, d + 1),
                   Order::ascending, Access::write, [&](Slice key, Slice) {
                       o_id = last_u32(key);
                       return false;
                   }));
        if (o_id != 0) TRY(deliver(s, in, d, o_id, now));
    }
    return {};
}

Result<void> TpccClient::deliver(Session& s, const DeliveryInput& in, uint32_t d, uint32_t o_id,
                                 Time now) {
    const RowKey key = order_key(in.w, d, o_id);
    // An engine that does not lock what it scans: another Delivery has taken the order meanwhile.
    if (!TRY(s.erase(table_of(TableId::new_order), key))) return conflict("tpcc: new_order");
    OrderRecord order;
    TRY(fetch(s, TableId::orders, key, order, Access::write));
    order.carrier_id = in.carrier_id;
    TRY(store_row(s, TableId::orders, key, order));
    Lines lines;
    TRY(lines.read(s, key, order_key(in.w, d, o_id + 1), Access::write));
    Cents sum = 0;
    for (auto& [line_key, line] : lines.rows) {
        sum += line.amount;
        line.delivery_d = now;
        TRY(store_row(s, TableId::order_line, line_key, line));
    }
    CustomerRecord customer;
    const RowKey customer_at = customer_key(in.w, d, order.c_id);
    TRY(fetch(s, TableId::customer, customer_at, customer, Access::write));
    customer.balance += sum;
    customer.delivery_cnt += 1;
    return store_row(s, TableId::customer, customer_at, customer);
}

Result<void> TpccClient::stock_level(Session& s, const StockLevelInput& in) {
    constexpr uint32_t kOrders = 20;
    DistrictRecord district;
    TRY(fetch(s, TableId::district, district_key(in.w, in.d), district));
    const uint32_t end = district.next_o_id;
    Lines lines;
    TRY(lines.read(s, order_key(in.w, in.d, end - std::min(end, kOrders)),
                   order_key(in.w, in.d, end), Access::read));
    std::vector<uint32_t> items;
    items.reserve(lines.rows.size());
    for (const auto& line : lines.rows) items.push_back(line.record.i_id);
    std::sort(items.begin(), items.end());
    items.erase(std::unique(items.begin(), items.end()), items.end());
    uint32_t low_stock = 0;
    for (const uint32_t item : items) {
        StockRecord stock;
        TRY(fetch(s, TableId::stock, stock_key(in.w, item), stock));
        low_stock += stock.quantity < in.threshold;
    }
    return {};
}

Result<uint32_t> TpccClient::find_customer(Session& s, const CustomerChoice& choice) {
    if (!choice.by_name) return choice.c;
    const RowKey low = name_low(choice.w, choice.d, choice.last);
    std::vector<uint32_t> found;
    TRY(s.scan(table_of(TableId::customer_name), low, name_high(choice.w, choice.d, choice.last),
               Order::ascending, Access::read, [&](Slice key, Slice) {
                   found.push_back(last_u16(key));
                   return true;
               }));
    if (found.empty()) return missing_row("customer_name", low);
    return found[(found.size() - 1) / 2];
}

}  // namespace lockstep::peers
