// needs.cc - the records that an input names.
#include "tpcc/needs.h"

namespace lockstep::tpcc {
namespace {

constexpr uint32_t kLastOrder = UINT32_MAX;  // above every order's number

template <class To>
void add_customer(const Database& db, const CustomerChoice& choice, Access access, size_t bytes,
                  To& needs) {
    if (choice.by_name)
        needs.add(db.customer_name, name_low(choice.w, choice.d, choice.last), Access::read, 0);
    else needs.add(db.customer, customer_key(choice.w, choice.d, choice.c), access, bytes);
}

template <class To>
void add(const Database& db, const NewOrderInput& in, To& needs) {
    needs.add(db.customer, customer_key(in.w, in.d, in.c), Access::read,
              offsetof(CustomerRecord, middle));
    const RowKey end = order_key(in.w, in.d, kLastOrder);
    needs.add(db.orders, end, Access::write, 0);
    needs.add(db.orders_customer, customer_order_key(in.w, in.d, in.c, kLastOrder), Access::write,
              0);
    needs.add(db.new_order, end, Access::write, 0);
    if (db.calls == Calls::single) {
        for (uint8_t i = 0; i < in.ol_cnt; ++i)
            needs.add(db.item, item_key(in.lines[i].i_id), Access::read, sizeof(ItemRecord));
        for (uint8_t i = 0; i < in.ol_cnt; ++i)
            needs.add(db.stock, stock_key(in.lines[i].supply_w, in.lines[i].i_id), Access::write,
                      sizeof(StockRecord));
    }
    needs.add(db.order_line, end, Access::write, 0);
}

template <class To>
void add(const Database& db, const PaymentInput& in, To& needs) {
    add_customer(db, in.customer, Access::write, sizeof(CustomerRecord), needs);
}

template <class To>
void add(const Database& db, const OrderStatusInput& in, To& needs) {
    add_customer(db, in.customer, Access::read, offsetof(CustomerRecord, credit_lim), needs);
}

// The oldest undelivered order of each district.
template <class To>
void add(const Database& db, const DeliveryInput& in, To& needs) {
    for (uint32_t d = 1; d <= db.scale.districts; ++d)
        needs.add(db.new_order, district_key(in.w, d), Access::write, 0);
}

template <class To>
void add(const Database& db, const StockLevelInput& in, To& needs) {
    needs.add(db.district, district_key(in.w, in.d), Access::read, sizeof(DistrictRecord));
}

}  // namespace

template <class To>
void needs_of(const Database& db, const Input& input, To& to) {
    std::visit([&](const auto& in) { add(db, in, to); }, input);
}
template void needs_of(const Database&, const Input&, Needs&);
template void needs_of(const Database&, const Input&, Announcement&);

}  // namespace lockstep::tpcc
