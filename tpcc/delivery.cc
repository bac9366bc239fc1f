// delivery.cc - the Delivery transaction (clause 2.7): the oldest undelivered order of each
// district.
//
// Operations  per district: scan NO, one step (X); delete NO. Then modify O of all districts; per
//             order modify OL (with --calls single: scan OL (X), update each); modify C of all
//             districts. The first round learns the keys of the lines and announces them.
#include <lockstep/need.h>
#include "threads/base/try.h"
#include "tpcc/transactions.h"

namespace lockstep::tpcc {

namespace {

constexpr size_t kDistricts = std::size(decltype(DeliveryOutput::o_id){});

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

// One district's share of the transaction.
struct Delivered {
    uint32_t d, o_id, c_id;
    uint8_t ol_cnt;
    Cents sum;
};
using Orders = std::span<Delivered>;

// The part of a customer's row that a Delivery reads and changes.
struct [[gnu::packed]] CustomerTotals {
    Cents balance, ytd_payment;
    uint32_t payment_cnt, delivery_cnt;
};
static_assert(sizeof(CustomerTotals) == offsetof(CustomerRecord, discount));
static_assert(offsetof(CustomerTotals, delivery_cnt) == offsetof(CustomerRecord, delivery_cnt));

// The lines of one order are changed after those of another; orders and customers are all changed
// at once, and wait for memory together anyway.
[[gnu::noinline]] void announce_lines(const Database& db, Txn& txn, uint32_t w, Orders orders) {
    RowKey keys[kDistricts];
    Need needs[kDistricts];
    for (size_t i = 0; i < orders.size(); ++i) {
        keys[i] = order_key(w, orders[i].d, orders[i].o_id);
        needs[i] = {db.order_line, keys[i], Access::write, 0};
    }
    txn.will_need({needs, orders.size()});
}

Result<void> deliver_orders(Database& db, Txn& txn, const DeliveryInput& in, Orders orders) {
    RowBatch<OrderRecord, kDistricts> rows;
    for (const Delivered& of : orders) rows.add(order_key(in.w, of.d, of.o_id));
    return rows.modify(db, db.orders, txn, 0, sizeof(OrderRecord::carrier_id), "orders",
                       [&](size_t i) {
                           rows[i].carrier_id = in.carrier_id;
                           orders[i].c_id = rows[i].c_id;
                           orders[i].ol_cnt = rows[i].ol_cnt;
                       });
}

constexpr size_t kDateAt = offsetof(OrderLineRecord, delivery_d);

// Sets the delivery date of the order's lines, and adds up their amounts.
Result<void> deliver_lines(Database& db, Txn& txn, uint32_t w, Delivered& of, Time now) {
    RowBatch<OrderLineRecord, 15> lines;
    for (uint32_t ol = 1; ol <= of.ol_cnt; ++ol) {
        lines.add(line_key(w, of.d, of.o_id, ol));
        if (!lines.full() && ol != of.ol_cnt) continue;
        TRY(lines.modify(db, db.order_line, txn, kDateAt, kDateAt + sizeof now, "order_line",
                         [&](size_t i) {
                             lines[i].delivery_d = now;
                             of.sum += lines[i].amount;
                         }));
        lines.clear();
    }
    return {};
}

// The same as the thesis has it.
Result<void> scan_lines(Database& db, Txn& txn, uint32_t w, Delivered& of, Time now) {
    Cursor lines = db.order_line.scan(txn, order_key(w, of.d, of.o_id),
                                      order_key(w, of.d, of.o_id + 1), Access::write);
    while (TRY(lines.next())) {
        OrderLineRecord line;
        if (!read_record(lines.value(), line)) return missing_row("order_line", lines.key());
        of.sum += line.amount;
        if (!TRY(lines.patch(kDateAt, Slice(reinterpret_cast<const char*>(&now), sizeof now))))
            [[unlikely]]
            return missing_row("order_line", lines.key());
    }
    return {};
}

Result<void> charge_customers(Database& db, Txn& txn, uint32_t w, Orders orders) {
    RowBatch<CustomerTotals, kDistricts> rows;
    for (const Delivered& of : orders) rows.add(customer_key(w, of.d, of.c_id));
    return rows.modify(db, db.customer, txn, 0, sizeof(CustomerTotals), "customer", [&](size_t i) {
        rows[i].balance += orders[i].sum;
        rows[i].delivery_cnt += 1;
    });
}

}  // namespace

Result<void> delivery(Database& db, Txn& txn, const DeliveryInput& in, Time now,
                      DeliveryOutput& out) {
    out = {};
    Delivered found[kDistricts];
    size_t n = 0;
    for (uint32_t d = 1; d <= db.scale.districts; ++d) {
        const uint32_t o_id = out.o_id[d - 1] = TRY(take_oldest(db, txn, in.w, d));
        if (o_id == 0) ++out.skipped;
        else found[n++] = {.d = d, .o_id = o_id, .c_id = 0, .ol_cnt = 0, .sum = 0};
    }
    const Orders orders(found, n);
    const auto deliver = db.calls == Calls::single ? scan_lines : deliver_lines;
    if (txn.walks_needs()) announce_lines(db, txn, in.w, orders);
    TRY(deliver_orders(db, txn, in, orders));
    for (Delivered& of : orders) TRY(deliver(db, txn, in.w, of, now));
    return charge_customers(db, txn, in.w, orders);
}

}  // namespace lockstep::tpcc
