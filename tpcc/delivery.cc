// delivery.cc - the Delivery transaction (clause 2.7): the oldest undelivered order of each
// district.
//
// Operations  per district: scan NO, one step (X); delete NO; fetch O (X), update O; scan OL (X),
//             update each; fetch C (X), update C.
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

Result<void> deliver(Database& db, Txn& txn, const DeliveryInput& in, uint32_t d, uint32_t o_id,
                     Time now) {
    const RowKey o_key = order_key(in.w, d, o_id);
    OrderRecord order;
    TRY(fetch(db.orders, txn, o_key, order, "orders", Access::write));
    order.carrier_id = in.carrier_id;
    TRY(patch_row(db.orders, txn, o_key, order, 0, sizeof(order.carrier_id), "orders"));
    const Cents sum = TRY(deliver_lines(db, txn, in.w, d, o_id, now));

    const RowKey c_key = customer_key(in.w, d, order.c_id);
    CustomerRecord customer;
    TRY(fetch(db.customer, txn, c_key, customer, "customer", Access::write,
              offsetof(CustomerRecord, discount)));
    customer.balance += sum;
    customer.delivery_cnt += 1;
    return patch_row(db.customer, txn, c_key, customer, 0, offsetof(CustomerRecord, discount),
                     "customer");
}

}  // namespace

Result<void> delivery(Database& db, Txn& txn, const DeliveryInput& in, Time now,
                      DeliveryOutput& out) {
    out.skipped = 0;
    for (uint32_t d = 1; d <= db.scale.districts; ++d) {
        const uint32_t o_id = out.o_id[d - 1] = TRY(take_oldest(db, txn, in.w, d));
        if (o_id == 0) ++out.skipped;
        else TRY(deliver(db, txn, in, d, o_id, now));
    }
    return {};
}

}  // namespace lockstep::tpcc
