// rows.cc - the initial content of every row.
#include "tpcc/rows.h"

#include <numeric>

namespace lockstep::tpcc {

namespace {
enum Stream : uint64_t {
    s_item = 1,
    s_warehouse,
    s_stock,
    s_district,
    s_names,
    s_customer,
    s_history,
    s_permutation,
    s_order,
    s_line
};
// One row in ten, drawn independently for each row.
bool one_in_ten(Rng& rng) { return rng.below(10) == 0; }
// The first number that is drawn for a stock row.
int32_t first_quantity(Rng& rng) { return static_cast<int32_t>(rng.between(10, 100)); }
}  // namespace

void RowSource::item(uint32_t i, ItemRecord& out) const {
    Rng rng = row_rng(seed, s_item, 0, 0, i);
    out.im_id = static_cast<uint32_t>(rng.between(1, 10000));
    random_text(rng, 14, 24, out.name);
    out.price = rng.between(100, 10000);
    random_data(rng, one_in_ten(rng), out.data);
}

void RowSource::warehouse(uint32_t w, WarehouseRecord& out) const {
    Rng rng = row_rng(seed, s_warehouse, w);
    random_text(rng, 6, 10, out.name);
    random_address(rng, out.address);
    out.tax = static_cast<int32_t>(rng.between(0, 2000));
    // 300,000.00 at full scale: 10.00 from each customer.
    out.ytd = Cents{1000} * scale.customers * scale.districts;
}

void RowSource::stock(uint32_t w, uint32_t i, StockRecord& out) const {
    Rng rng = row_rng(seed, s_stock, w, 0, i);
    out.quantity = first_quantity(rng);
    out.order_cnt = 0;
    out.remote_cnt = 0;
    out.ytd = 0;
    random_letters(rng, {&out.dist[0][0], sizeof(out.dist)});
    random_data(rng, one_in_ten(rng), out.data);
}

int32_t RowSource::stock_quantity(uint32_t w, uint32_t i) const {
    Rng rng = row_rng(seed, s_stock, w, 0, i);
    return first_quantity(rng);
}

void RowSource::district(uint32_t w, uint32_t d, DistrictRecord& out) const {
    Rng rng = row_rng(seed, s_district, w, d);
    random_text(rng, 6, 10, out.name);
    random_address(rng, out.address);
    out.tax = static_cast<int32_t>(rng.between(0, 2000));
    out.ytd = Cents{1000} * scale.customers;
    out.next_o_id = scale.customers + 1;
}

void RowSource::customer_names(uint32_t w, uint32_t d, uint32_t c, Text<16>& last,
                               Text<16>& first) const {
    Rng rng = row_rng(seed, s_names, w, d, c);
    last = last_name(
        c <= scale.names() ? c - 1 : nurand(rng, 255, 0, scale.names() - 1, constants.c_last_load));
    random_text(rng, 8, 16, first);
}

void RowSource::customer(uint32_t w, uint32_t d, uint32_t c, CustomerRecord& out) const {
    Text<16> last, first;
    customer_names(w, d, c, last, first);
    out.last = last;
    out.first = first;
    Rng rng = row_rng(seed, s_customer, w, d, c);
    random_address(rng, out.address);
    random_digits(rng, out.phone);
    std::memcpy(out.middle, "OE", 2);
    std::memcpy(out.credit, one_in_ten(rng) ? "BC" : "GC", 2);
    out.since = load_time;
    out.credit_lim = 5'000'000;
    out.discount = static_cast<int32_t>(rng.between(0, 5000));
    out.balance = -1000;
    out.ytd_payment = 1000;
    out.payment_cnt = 1;
    out.delivery_cnt = 0;
    out.data_size = static_cast<uint16_t>(rng.between(300, 500));
    random_letters(rng, {out.data, out.data_size});
}

void RowSource::history(uint32_t w, uint32_t d, uint32_t c, HistoryRecord& out) const {
    Rng rng = row_rng(seed, s_history, w, d, c);
    out.c_id = c;
    out.c_w_id = out.w_id = w;
    out.c_d_id = out.d_id = static_cast<uint8_t>(d);
    out.date = load_time;
    out.amount = 1000;
    random_text(rng, 12, 24, out.data);
}

std::vector<uint32_t> RowSource::order_customers(uint32_t w, uint32_t d) const {
    Rng rng = row_rng(seed, s_permutation, w, d);
    std::vector<uint32_t> customers(scale.customers);
    std::iota(customers.begin(), customers.end(), 1);
    shuffle(rng, std::span(customers));
    return customers;
}

void RowSource::order(uint32_t w, uint32_t d, uint32_t o, uint32_t c, OrderRecord& out) const {
    Rng rng = row_rng(seed, s_order, w, d, o);
    out.ol_cnt = static_cast<uint8_t>(rng.between(5, 15));
    const auto carrier = static_cast<uint8_t>(rng.between(1, 10));
    out.carrier_id = o <= scale.delivered() ? carrier : 0;
    out.all_local = 1;
    out.c_id = c;
    out.entry_d = load_time;
}

void RowSource::order_line(uint32_t w, uint32_t d, uint32_t o, uint32_t ol,
                           OrderLineRecord& out) const {
    Rng rng = row_rng(seed, s_line, w, d, uint64_t{o} << 8 | ol);
    const bool delivered = o <= scale.delivered();
    out.i_id = static_cast<uint32_t>(rng.between(1, scale.items));
    out.supply_w_id = w;
    out.quantity = 5;
    out.delivery_d = delivered ? load_time : 0;
    out.amount = delivered ? 0 : rng.between(1, 999'999);
    random_letters(rng, out.dist_info);
}

}  // namespace lockstep::tpcc
