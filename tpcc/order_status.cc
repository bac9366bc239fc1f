// order_status.cc - the Order-Status transaction (clause 2.6).
//
// Operations  by name: scan C's names; fetch C (S); backward scan of the customer's orders, one
//             step; fetch O (S); scan OL.
#include <lockstep/need.h>
#include "threads/base/try.h"
#include "tpcc/transactions.h"

namespace lockstep::tpcc {

namespace {

void announce_order(const Database& db, Txn& txn, uint32_t w, uint32_t d, uint32_t o_id) {
    const RowKey key = order_key(w, d, o_id);
    const Need needs[] = {{db.orders, key, Access::read, sizeof(OrderRecord)},
                          {db.order_line, key, Access::read, 0}};
    txn.will_need(needs);
}

}  // namespace

Result<void> order_status(Database& db, Txn& txn, const OrderStatusInput& in,
                          OrderStatusOutput& out) {
    const CustomerChoice& choice = in.customer;
    out.c_id = TRY(find_customer(db, txn, choice));
    CustomerRecord customer;
    TRY(fetch(db.customer, txn, customer_key(choice.w, choice.d, out.c_id), customer, "customer",
              Access::read, offsetof(CustomerRecord, credit_lim)));
    out.balance = customer.balance;
    out.first = customer.first;
    out.last = customer.last;
    std::memcpy(out.middle, customer.middle, sizeof(out.middle));
    out.o_id = 0;
    Cursor newest = db.orders_customer.scan(txn, customer_key(choice.w, choice.d, out.c_id),
                                            customer_key(choice.w, choice.d, out.c_id + 1));
    if (!TRY(newest.prev())) return {};
    out.o_id = last_u32(newest.key());
    if (txn.walks_needs()) announce_order(db, txn, choice.w, choice.d, out.o_id);
    TRY(fetch(db.orders, txn, order_key(choice.w, choice.d, out.o_id), out.order, "orders"));

    Cursor lines = db.order_line.scan(txn, order_key(choice.w, choice.d, out.o_id),
                                      order_key(choice.w, choice.d, out.o_id + 1));
    for (size_t n = 0; TRY(lines.next()); ++n)
        if (n == std::size(out.lines) || !read_record(lines.value(), out.lines[n]))
            return missing_row("order_line", lines.key());
    return {};
}

}  // namespace lockstep::tpcc
