// needs.cc - the records that an input names.
#include "tpcc/needs.h"

namespace lockstep::tpcc {
namespace {

constexpr uint32_t kLastOrder = UINT32_MAX;  // above every order's number

template <class To>
void add_customer(const Database& db, const CustomerChoice& choice, Access access, uint32_t bytes,
                  CustomerOfName& of_name, To& needs) {
    if (!choice.by_name)
        return needs.add(db.customer, customer_key(choice.w, choice.d, choice.c), access, bytes);
    of_name.db = &db;
    of_name.w = choice.w;
    of_name.d = choice.d;
    of_name.bytes = bytes;
    of_name.access = access;
    needs.add(db.customer_name, name_low(choice.w, choice.d, choice.last), Access::read, 0,
              &of_name);
}

template <class To>
void add(const Database& db, const NewOrderInput& in, CustomerOfName&, To& needs) {
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
void add(const Database& db, const PaymentInput& in, CustomerOfName& of_name, To& needs) {
    add_customer(db, in.customer, Access::write, sizeof(CustomerRecord), of_name, needs);
}

template <class To>
void add(const Database& db, const OrderStatusInput& in, CustomerOfName& of_name, To& needs) {
    add_customer(db, in.customer, Access::read, offsetof(CustomerRecord, credit_lim), of_name,
                 needs);
}

// The oldest undelivered order of each district.
template <class To>
void add(const Database& db, const DeliveryInput& in, CustomerOfName&, To& needs) {
    for (uint32_t d = 1; d <= db.scale.districts; ++d)
        needs.add(db.new_order, district_key(in.w, d), Access::write, 0);
}

template <class To>
void add(const Database& db, const StockLevelInput& in, CustomerOfName&, To& needs) {
    needs.add(db.district, district_key(in.w, in.d), Access::read, sizeof(DistrictRecord));
}

}  // namespace

void CustomerOfName::follow(std::span<const Slice> keys, Announcement& to) const {
    to.add(db->customer, customer_key(w, d, last_u16(keys[(keys.size() - 1) / 2])), access, bytes);
}

template <class To>
void needs_of(const Database& db, const Input& input, CustomerOfName& customer, To& to) {
    std::visit([&](const auto& in) { add(db, in, customer, to); }, input);
}
template void needs_of(const Database&, const Input&, CustomerOfName&, Needs&);
template void needs_of(const Database&, const Input&, CustomerOfName&, Announcement&);

}  // namespace lockstep::tpcc
