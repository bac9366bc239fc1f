// new_order.cc - the New-Order transaction (clause 2.4).
//
// Operations  fetch W (S); modify D; fetch C (S); insert O, its customer key, NO; fetch all I (S);
//             modify all S; then insert all OL. Stock is locked in key order, so that two orders
//             cannot deadlock on it. The lines are inserted in the order of their numbers.
//             Ascending inserts find each next position beside the last one, and fill pages
//             completely.
#include "threads/base/try.h"
#include "tpcc/row_changes.h"

namespace lockstep::tpcc {

namespace {

// Takes the district's next order number; also reads its tax.
Result<uint32_t> take_order_number(Database& db, Txn& txn, const NewOrderInput& in,
                                   NewOrderOutput& out) {
    const RowKey key = district_key(in.w, in.d);
    DistrictRecord district;
    uint32_t o_id = 0;
    const auto take = [&] {
        o_id = district.next_o_id++;
        return true;
    };
    TRY(modify_row(db, db.district, txn, key, district, offsetof(DistrictRecord, next_o_id),
                   offsetof(DistrictRecord, tax), "district", take));
    out.d_tax = district.tax;
    return o_id;
}

Result<void> read_customer(Database& db, Txn& txn, const NewOrderInput& in, NewOrderOutput& out) {
    CustomerRecord customer;
    TRY(fetch(db.customer, txn, customer_key(in.w, in.d, in.c), customer, "customer", Access::read,
              offsetof(CustomerRecord, middle)));
    out.discount = customer.discount;
    out.last = customer.last;
    std::memcpy(out.credit, customer.credit, 2);
    return {};
}

Result<void> insert_order(Database& db, Txn& txn, const NewOrderInput& in,
                          const NewOrderOutput& out) {
    const OrderRecord order = order_row(in, out.entry_d);
    const RowKey key = order_key(in.w, in.d, out.o_id);
    TRY(db.orders.insert(txn, key, bytes_of(order)));
    TRY(db.orders_customer.insert(txn, customer_order_key(in.w, in.d, in.c, out.o_id), {}));
    return db.new_order.insert(txn, key, {});
}

// Clause 2.4.2.2: if fewer than 10 pieces remain, the stock is refilled by 91.
void take_stock(StockRecord& stock, const NewOrderLine& line, bool remote) {
    stock.quantity -= line.quantity;
    if (stock.quantity < 10) stock.quantity += 91;
    stock.ytd += line.quantity;
    stock.order_cnt += 1;
    stock.remote_cnt += remote;
}

// As if written into its two callers: it runs ten times in a New-Order.
[[gnu::always_inline]] inline void fill(const NewOrderInput& in, const NewOrderLine& line,
                                        const ItemRecord& item, const StockRecord& stock,
                                        OrderLineRecord* rows, NewOrderOutput& out) {
    OrderLineRecord& record = rows[line.number - 1];
    record.delivery_d = 0;
    record.amount = item.price * line.quantity;
    record.i_id = line.i_id;
    record.supply_w_id = line.supply_w;
    record.quantity = line.quantity;
    std::memcpy(record.dist_info, stock.dist[in.d - 1], sizeof(record.dist_info));

    NewOrderOutput::Line& shown = out.lines[line.number - 1];
    shown.i_name = item.name;
    shown.price = item.price;
    shown.amount = record.amount;
    shown.stock_quantity = stock.quantity;
    shown.brand_generic = is_original(item.data) && is_original(stock.data) ? 'B' : 'G';
    out.total += record.amount;
}

struct Supplies {
    RowBatch<ItemRecord, 15> items;    // in the order of the input's lines
    RowBatch<StockRecord, 15> stocks;  // of the lines of this store whose item exists
    uint8_t line_of[15];               // of each stock
    uint8_t found = 0;                 // lines before the first item that does not exist
};

// Fetches the items of all lines; names the stocks up to the first item that does not exist.
Result<void> fetch_items(Database& db, Txn& txn, const NewOrderInput& in, bool has_remote,
                         Supplies& supplies) {
    for (uint8_t i = 0; i < in.ol_cnt; ++i) supplies.items.add(item_key(in.lines[i].i_id));
    TRY(supplies.items.look_up(db, db.item, txn));
    for (uint8_t i = 0; i < in.ol_cnt && supplies.items.found(i); ++i) {
        ++supplies.found;
        if (has_remote && !db.scale.holds(in.lines[i].supply_w)) continue;
        supplies.line_of[supplies.stocks.size()] = i;
        supplies.stocks.add(stock_key(in.lines[i].supply_w, in.lines[i].i_id));
    }
    return {};
}

// A line whose stock another shard has changed.
void fill_remote_line(const NewOrderInput& in, const NewOrderLine& line, const ItemRecord& item,
                      const RemoteStock& told, OrderLineRecord* rows, NewOrderOutput& out) {
    StockRecord stock;
    stock.quantity = told.quantity;
    std::memcpy(stock.dist[in.d - 1], told.dist_info, sizeof(told.dist_info));
    stock.data.assign(told.original ? "ORIGINAL" : "");
    fill_line(in, line, item, stock, rows, out);
}

Result<void> insert_lines(Database& db, Txn& txn, const NewOrderInput& in, uint32_t o_id,
                          const OrderLineRecord* rows, size_t count) {
    Unmade<RowKey, 15> keys;
    Unmade<NewRecord, 15> made;
    for (size_t i = 0; i < count; ++i) {
        const RowKey& key =
            *new (&keys.items[i]) RowKey(line_key(in.w, in.d, o_id, static_cast<uint32_t>(i + 1)));
        new (&made.items[i]) NewRecord{key, bytes_of(rows[i])};
    }
    const std::span<const NewRecord> records(made.items, count);
    if (db.calls == Calls::many) [[likely]]
        return db.order_line.insert_many(txn, records);
    for (const NewRecord& record : records)
        TRY(db.order_line.insert(txn, record.key, record.value));
    return {};
}

// False: an item does not exist. The unused item of a rollback has the last number; the other lines
// are inserted first (clause 2.4.2.3).
Result<bool> add_lines(Database& db, Txn& txn, const NewOrderInput& in, const RemoteStock* remote,
                       NewOrderOutput& out) {
    OrderLineRecord rows[15];
    Supplies supplies;
    TRY(fetch_items(db, txn, in, remote != nullptr, supplies));
    const size_t supplied = supplies.found;
    const auto supply = [&](size_t at) {
        const uint8_t line = supplies.line_of[at];
        supply_line(in, in.lines[line], supplies.items[line], supplies.stocks[at], rows, out);
    };
    TRY(supplies.stocks.modify(db, db.stock, txn, 0, offsetof(StockRecord, dist), "stock", supply));
    for (uint8_t i = 0; remote != nullptr && i < supplied; ++i)
        if (!db.scale.holds(in.lines[i].supply_w))
            fill_remote_line(in, in.lines[i], supplies.items[i], remote[i], rows, out);
    if (supplied + 1 < in.ol_cnt) [[unlikely]]
        return false;
    TRY(insert_lines(db, txn, in, out.o_id, rows, supplied));
    return supplied == in.ol_cnt;
}

}  // namespace

Result<bool> new_order(Database& db, Txn& txn, const NewOrderInput& in, Time now,
                       NewOrderOutput& out, const RemoteStock* remote) {
    WarehouseRecord warehouse;
    TRY(fetch(db.warehouse, txn, warehouse_key(in.w), warehouse, "warehouse"));
    out.w_tax = warehouse.tax;
    out.entry_d = now;
    out.o_id = TRY(take_order_number(db, txn, in, out));
    TRY(read_customer(db, txn, in, out));
    TRY(insert_order(db, txn, in, out));
    out.total = 0;
    if (!TRY(add_lines(db, txn, in, remote, out))) return false;
    apply_rates(out);
    return true;
}

Result<void> supply_remote(Database& db, Txn& txn, const NewOrderInput& in, RemoteStock* out) {
    RowBatch<StockRecord, 15> stocks;
    uint8_t line_of[15];
    // The unused item of a rollback has no stock.
    for (uint8_t i = 0; i < in.ol_cnt - in.rolls_back; ++i) {
        if (!db.scale.holds(in.lines[i].supply_w)) continue;
        line_of[stocks.size()] = i;
        stocks.add(stock_key(in.lines[i].supply_w, in.lines[i].i_id));
    }
    const auto supply = [&](size_t at) {
        StockRecord& stock = stocks[at];
        take_stock(stock, in.lines[line_of[at]], true);
        RemoteStock& told = out[line_of[at]];
        told.quantity = stock.quantity;
        std::memcpy(told.dist_info, stock.dist[in.d - 1], sizeof(told.dist_info));
        told.original = is_original(stock.data);
    };
    return stocks.modify(db, db.stock, txn, 0, offsetof(StockRecord, dist), "stock", supply);
}

OrderRecord order_row(const NewOrderInput& in, Time entry_d) {
    OrderRecord order;
    order.carrier_id = 0;
    order.ol_cnt = in.ol_cnt;
    order.all_local = in.all_local;
    order.c_id = in.c;
    order.entry_d = entry_d;
    return order;
}

void supply_line(const NewOrderInput& in, const NewOrderLine& line, const ItemRecord& item,
                 StockRecord& stock, OrderLineRecord* rows, NewOrderOutput& out) {
    take_stock(stock, line, line.supply_w != in.w);
    fill(in, line, item, stock, rows, out);
}

void fill_line(const NewOrderInput& in, const NewOrderLine& line, const ItemRecord& item,
               const StockRecord& stock, OrderLineRecord* rows, NewOrderOutput& out) {
    fill(in, line, item, stock, rows, out);
}

void apply_rates(NewOrderOutput& out) {
    // total * (1 - discount) * (1 + w_tax + d_tax), rates in 1/10000
    out.total =
        out.total * (10000 - out.discount) / 10000 * (10000 + out.w_tax + out.d_tax) / 10000;
}

}  // namespace lockstep::tpcc
