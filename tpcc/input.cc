// input.cc - makes the input of each transaction.
#include "tpcc/input.h"

namespace lockstep::tpcc {

namespace {

uint32_t uniform(Rng& rng, uint32_t low, uint32_t high) {
    return static_cast<uint32_t>(rng.between(low, high));
}

uint32_t choose_customer(Rng& rng, const InputRules& rules) {
    return nurand(rng, 1023, 1, rules.scale.customers, rules.constants.c_id);
}

bool has_remote(const InputRules& rules) { return rules.remote && rules.scale.warehouses > 1; }

uint32_t other_warehouse(Rng& rng, const InputRules& rules, uint32_t home) {
    const uint32_t w = uniform(rng, 1, rules.scale.warehouses - 1);
    return w + (w >= home);
}

// 60% by last name, 40% by number (clauses 2.5.1.2, 2.6.1.2).
void choose_name_or_number(Rng& rng, const InputRules& rules, CustomerChoice& out) {
    out.by_name = uniform(rng, 1, 100) <= 60;
    out.c = 0;
    if (out.by_name)
        out.last =
            last_name(nurand(rng, 255, 0, rules.scale.names() - 1, rules.constants.c_last_run));
    else out.c = choose_customer(rng, rules);
}

// An object: a sort calls a function through its address.
constexpr auto kRunsBefore = [](const NewOrderLine& a, const NewOrderLine& b) {
    if (a.supply_w != b.supply_w) return a.supply_w < b.supply_w;
    return a.i_id != b.i_id ? a.i_id < b.i_id : a.number < b.number;
};

}  // namespace

NewOrderInput make_new_order(Rng& source, const InputRules& rules, uint32_t w) {
    NewOrderInput in;
    // Some forty draws: the state of a copy stays in registers.
    Rng rng = source;
    in.w = w;
    in.d = uniform(rng, 1, rules.scale.districts);
    in.c = choose_customer(rng, rules);
    in.ol_cnt = static_cast<uint8_t>(uniform(rng, 5, 15));
    in.rolls_back = uniform(rng, 1, 100) == 1;
    in.all_local = 1;
    for (uint8_t n = 1; n <= in.ol_cnt; ++n) {
        NewOrderLine& line = in.lines[n - 1];
        line.number = n;
        line.i_id = nurand(rng, 8191, 1, rules.scale.items, rules.constants.ol_i_id);
        line.supply_w = w;
        if (uniform(rng, 1, 100) == 1 && has_remote(rules)) {
            line.supply_w = other_warehouse(rng, rules, w);
            in.all_local = 0;
        }
        line.quantity = static_cast<uint8_t>(uniform(rng, 1, 10));
    }
    if (in.rolls_back) in.lines[in.ol_cnt - 1].i_id = rules.scale.items + 1;
    source = rng;
    std::sort(in.lines, in.lines + in.ol_cnt - in.rolls_back, kRunsBefore);
    return in;
}

PaymentInput make_payment(Rng& rng, const InputRules& rules, uint32_t w) {
    PaymentInput in;
    in.w = w;
    in.d = uniform(rng, 1, rules.scale.districts);
    in.customer.w = w;
    in.customer.d = in.d;
    // Of another district too, also where no other warehouse can be chosen (clause 2.5.1.2).
    if (uniform(rng, 1, 100) > 85) {
        if (has_remote(rules)) in.customer.w = other_warehouse(rng, rules, w);
        in.customer.d = uniform(rng, 1, rules.scale.districts);
    }
    choose_name_or_number(rng, rules, in.customer);
    in.amount = rng.between(100, 500'000);
    return in;
}

OrderStatusInput make_order_status(Rng& rng, const InputRules& rules, uint32_t w) {
    OrderStatusInput in;
    in.customer.w = w;
    in.customer.d = uniform(rng, 1, rules.scale.districts);
    choose_name_or_number(rng, rules, in.customer);
    return in;
}

DeliveryInput make_delivery(Rng& rng, uint32_t w) {
    return {w, static_cast<uint8_t>(uniform(rng, 1, 10))};
}

StockLevelInput make_stock_level(Rng& rng, uint32_t w, uint32_t d) {
    return {w, d, static_cast<int32_t>(uniform(rng, 10, 20))};
}

}  // namespace lockstep::tpcc
