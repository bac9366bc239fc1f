// delivery.cc - the Delivery transaction (clause 2.7): the oldest undelivered order of each
// district.
//
// Operations  per district: scan NO, one step (X); delete NO. Then per order: fetch O (X), update
//             O; scan OL (X), update each. Then per order: fetch C (X), update C. Each of the three
//             rounds learns the keys of the next one and announces them.
#include <lockstep/need.h>
#include "threads/base/try.h"
#include "tpcc/transactions.h"

namespace lockstep::tpcc {

namespace {

// Deletes the NEW-ORDER row of the district's oldest undelivered order. Returns its number, or 0.
Result<uint32_t> take_oldest(Database& db, Txn& txn, uint32_t w, uint32_t d) {
    uint32_t o_id;
    {
        Cursor oldest =
            db.new_order.scan(txn, district_key(w, d), district_key(w, d + 1), Access::write);
        if (!TRY(oldest.next())) return 0u;
        o_id = last_u32(oldest.key());
    }
    const RowKey key = order_key(w, d, o_id);
    if (!TRY(db.new_order.erase(txn, key))) return missing_row("new_order", key);
    return o_id;
}

// Sets the delivery date of the order's lines. Returns the sum of their amounts.
Result<Cents> deliver_lines(Database& db, Txn& txn, uint32_t w, uint32_t d, uint32_t o_id,
                            Time now) {
    Cents sum = 0;
    Cursor lines =
        db.order_line.scan(txn, order_key(w, d, o_id), order_key(w, d, o_id + 1), Access::write);
    while (TRY(lines.next())) {
        OrderLineRecord line;
        if (!read_record(lines.value(), line)) return missing_row("order_line", lines.key());
        sum += line.amount;
        if (!TRY(lines.patch(offsetof(OrderLineRecord, delivery_d),
                             Slice(reinterpret_cast<const char*>(&now), sizeof now)))) [[unlikely]]
            return missing_row("order_line", lines.key());
    }
    return sum;
}

// One district's share of the transaction.
struct Delivered {
    uint32_t d, o_id, c_id;
    Cents sum;
};
using Orders = std::span<Delivered>;

[[gnu::noinline]] void announce_orders(const Database& db, Txn& txn, uint32_t w, Orders orders) {
    RowKey keys[10];
    Need needs[20];
    size_t n = 0;
    for (size_t i = 0; i < orders.size(); ++i) {
        keys[i] = order_key(w, orders[i].d, orders[i].o_id);
        needs[n++] = {db.orders, keys[i], Access::write, sizeof(OrderRecord)};
        needs[n++] = {db.order_line, keys[i], Access::write, 0};
    }
    txn.will_need({needs, n});
}

[[gnu::noinline]] void announce_customers(const Database& db, Txn& txn, uint32_t w, Orders orders) {
    RowKey keys[10];
    Need needs[10];
    for (size_t i = 0; i < orders.size(); ++i) {
        keys[i] = customer_key(w, orders[i].d, orders[i].c_id);
        needs[i] = {db.customer, keys[i], Access::write, offsetof(CustomerRecord, discount)};
    }
    txn.will_need({needs, orders.size()});
}

Result<void> deliver_order(Database& db, Txn& txn, const DeliveryInput& in, Time now,
                           Delivered& of) {
    const RowKey key = order_key(in.w, of.d, of.o_id);
    OrderRecord order;
    TRY(fetch(db.orders, txn, key, order, "orders", Access::write));
    order.carrier_id = in.carrier_id;
    TRY(patch_row(db.orders, txn, key, order, 0, sizeof(order.carrier_id), "orders"));
    of.c_id = order.c_id;
    of.sum = TRY(deliver_lines(db, txn, in.w, of.d, of.o_id, now));
    return {};
}

Result<void> charge_customer(Database& db, Txn& txn, uint32_t w, const Delivered& of) {
    const RowKey key = customer_key(w, of.d, of.c_id);
    CustomerRecord customer;
    TRY(fetch(db.customer, txn, key, customer, "customer", Access::write,
              offsetof(CustomerRecord, discount)));
    customer.balance += of.sum;
    customer.delivery_cnt += 1;
    return patch_row(db.customer, txn, key, customer, 0, offsetof(CustomerRecord, discount),
                     "customer");
}

}  // namespace

Result<void> delivery(Database& db, Txn& txn, const DeliveryInput& in, Time now,
                      DeliveryOutput& out) {
    out.skipped = 0;
    Delivered found[std::size(decltype(out.o_id){})];
    size_t n = 0;
    for (uint32_t d = 1; d <= db.scale.districts; ++d) {
        const uint32_t o_id = out.o_id[d - 1] = TRY(take_oldest(db, txn, in.w, d));
        if (o_id == 0) ++out.skipped;
        else found[n++] = {d, o_id, 0, 0};
    }
    const Orders orders(found, n);
    if (txn.walks_needs()) announce_orders(db, txn, in.w, orders);
    for (Delivered& of : orders) TRY(deliver_order(db, txn, in, now, of));
    if (txn.walks_needs()) announce_customers(db, txn, in.w, orders);
    for (const Delivered& of : orders) TRY(charge_customer(db, txn, in.w, of));
    return {};
}

}  // namespace lockstep::tpcc
