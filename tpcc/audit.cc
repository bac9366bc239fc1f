// audit.cc - the twelve consistency conditions over rows that are fed in.
#include "tpcc/audit.h"

#include <fmt/format.h>

#include "threads/base/check.h"
#include "tpcc/units.h"

namespace lockstep::tpcc {

namespace {
constexpr size_t kFaultsKept = 5;
std::string place(uint32_t w, uint32_t d) { return fmt::format("district {}/{}", w, d); }
}  // namespace

const char* condition_text(uint32_t id) {
    static constexpr const char* kTexts[kConditions] = {
        "W_YTD = sum(D_YTD)",
        "D_NEXT_O_ID - 1 = max(O_ID) = max(NO_O_ID)",
        "max(NO_O_ID) - min(NO_O_ID) + 1 = number of NEW-ORDER rows",
        "sum(O_OL_CNT) = number of ORDER-LINE rows",
        "O_CARRIER_ID is null if and only if the order is in NEW-ORDER",
        "O_OL_CNT = number of the order's lines",
        "OL_DELIVERY_D is null if and only if O_CARRIER_ID is null",
        "W_YTD = sum(H_AMOUNT)",
        "D_YTD = sum(H_AMOUNT)",
        "C_BALANCE = sum(OL_AMOUNT delivered) - sum(H_AMOUNT)",
        "ORDER rows - NEW-ORDER rows = loaded difference + deliveries",
        "C_BALANCE + C_YTD_PAYMENT = sum(OL_AMOUNT delivered)",
    };
    return id - 1 < kConditions ? kTexts[id - 1] : "";
}

Audit::Audit(const Scale& scale)
    : scale_(scale),
      warehouses_(scale.warehouses),
      districts_(size_t{scale.warehouses} * scale.districts),
      customers_(size_t{scale.warehouses} * scale.districts * scale.customers),
      conditions_(kConditions) {
    for (uint32_t id = 1; id <= kConditions; ++id) conditions_[id - 1].id = id;
}

void Audit::violated(uint32_t condition, std::string fault) {
    Condition& c = conditions_[condition - 1];
    if (++c.violations <= kFaultsKept) c.faults.push_back(std::move(fault));
}

void Audit::misplaced(uint32_t condition, const char* table, uint32_t w, uint32_t d, uint32_t n) {
    violated(condition,
             fmt::format("a row of {} is malformed or has an impossible key ({}, {}, {})", table, w,
                         d, n));
}

void Audit::warehouse(uint32_t w, const WarehouseRecord& record) {
    if (!is_here(w, 1)) return misplaced(1, "warehouse", w, 0, 0);
    warehouses_[w - 1].present = true;
    warehouses_[w - 1].ytd = record.ytd;
}

void Audit::district(uint32_t w, uint32_t d, const DistrictRecord& record) {
    if (!is_here(w, d)) return misplaced(1, "district", w, d, 0);
    DistrictSums& sums = at(w, d);
    sums.present = true;
    sums.ytd = record.ytd;
    sums.next_o_id = record.next_o_id;
    warehouses_[w - 1].districts_ytd += record.ytd;
}

void Audit::customer(uint32_t w, uint32_t d, uint32_t c, const CustomerRecord& record) {
    if (!is_here(w, d) || !in_scale(w, d, c)) return misplaced(10, "customer", w, d, c);
    at(w, d, c).balance = record.balance;
    at(w, d, c).ytd_payment = record.ytd_payment;
    at(w, d).delivered += record.delivery_cnt;
}

void Audit::history(const HistoryRecord& record) {
    if (!in_scale(record.w_id, record.d_id) || !in_scale(record.c_w_id, record.c_d_id, record.c_id))
        return misplaced(8, "history", record.w_id, record.d_id, record.c_id);
    warehouses_[record.w_id - 1].history += record.amount;
    at(record.w_id, record.d_id).history += record.amount;
    at(record.c_w_id, record.c_d_id, record.c_id).history += record.amount;
}

void Audit::order(uint32_t w, uint32_t d, uint32_t o, const OrderRecord& record) {
    close_order();
    if (!is_here(w, d) || !in_scale(w, d, record.c_id)) return misplaced(6, "orders", w, d, o);
    DistrictSums& sums = at(w, d);
    ++sums.orders;
    sums.o_max = std::max(sums.o_max, o);
    sums.ol_cnt += record.ol_cnt;
    open_ = OpenOrder{};
    open_.open = true;
    open_.w = w;
    open_.d = d;
    open_.o = o;
    open_.record = record;
}

void Audit::new_order() {
    // A line of a misplaced order, which is already counted.
    if (!open_.open) return;
    DistrictSums& sums = at(open_.w, open_.d);
    open_.has_new_order = true;
    if (sums.new_orders++ == 0) sums.no_min = open_.o;
    sums.no_max = open_.o;
}

void Audit::order_line(const OrderLineRecord& record) {
    if (!open_.open) return;
    ++open_.lines;
    open_.amount += record.amount;
    if (record.delivery_d == 0) open_.undelivered_line = true;
    else open_.delivered_line = true;
}

void Audit::orphan_new_order(uint32_t w, uint32_t d, uint32_t o) {
    close_order();
    violated(5, fmt::format("order {} of {} is in NEW-ORDER but does not exist", o, place(w, d)));
    if (!in_scale(w, d)) return;
    DistrictSums& sums = at(w, d);
    if (sums.new_orders++ == 0) sums.no_min = o;
    sums.no_max = std::max(sums.no_max, o);
}

void Audit::orphan_line(uint32_t w, uint32_t d, uint32_t o) {
    close_order();
    violated(6, fmt::format("order {} of {} has a line but does not exist", o, place(w, d)));
    if (in_scale(w, d)) ++at(w, d).lines;
}

void Audit::close_order() {
    if (!open_.open) return;
    open_.open = false;
    const OrderRecord& order = open_.record;
    const auto where = [&] {
        return fmt::format("order {} of {}", open_.o, place(open_.w, open_.d));
    };
    at(open_.w, open_.d).lines += open_.lines;
    const bool carried = order.carrier_id != 0;
    if (carried == open_.has_new_order)
        violated(5, fmt::format("{}: carrier {}, in NEW-ORDER: {}", where(), order.carrier_id,
                                open_.has_new_order));
    if (open_.lines != order.ol_cnt)
        violated(6, fmt::format("{}: O_OL_CNT {}, lines {}", where(), order.ol_cnt, open_.lines));
    if (carried ? open_.undelivered_line : open_.delivered_line)
        violated(7, fmt::format("{}: carrier {}, but a line's OL_DELIVERY_D is {}", where(),
                                order.carrier_id, carried ? "null" : "set"));
    if (carried) at(open_.w, open_.d, order.c_id).delivered += open_.amount;
}

void Audit::judge_warehouse(uint32_t w) {
    const WarehouseSums& sums = warehouses_[w - 1];
    if (!sums.present) return violated(1, fmt::format("warehouse {} is missing", w));
    if (sums.ytd != sums.districts_ytd)
        violated(1, fmt::format("warehouse {}: W_YTD {}, sum of D_YTD {}", w, money(sums.ytd),
                                money(sums.districts_ytd)));
    if (sums.ytd != sums.history)
        violated(8, fmt::format("warehouse {}: W_YTD {}, sum of H_AMOUNT {}", w, money(sums.ytd),
                                money(sums.history)));
}

void Audit::judge_district(uint32_t w, uint32_t d) {
    const DistrictSums& s = at(w, d);
    if (!s.present) return violated(1, place(w, d) + " is missing");
    // With no undelivered order there is no max(NO_O_ID) to compare.
    if (s.next_o_id != s.o_max + 1 || (s.new_orders && s.no_max != s.o_max))
        violated(2, fmt::format("{}: D_NEXT_O_ID {}, max(O_ID) {}, max(NO_O_ID) {}", place(w, d),
                                s.next_o_id, s.o_max, s.no_max));
    if (s.new_orders && s.no_max - s.no_min + 1 != s.new_orders)
        violated(3, fmt::format("{}: NO_O_ID from {} to {}, {} rows", place(w, d), s.no_min,
                                s.no_max, s.new_orders));
    if (s.ol_cnt != s.lines)
        violated(4, fmt::format("{}: sum of O_OL_CNT {}, ORDER-LINE rows {}", place(w, d), s.ol_cnt,
                                s.lines));
    if (s.ytd != s.history)
        violated(9, fmt::format("{}: D_YTD {}, sum of H_AMOUNT {}", place(w, d), money(s.ytd),
                                money(s.history)));
    if (s.orders != s.new_orders + scale_.delivered() + s.delivered)
        violated(11,
                 fmt::format(
                     "{}: {} orders, {} in NEW-ORDER, {} loaded as delivered, {} delivered since",
                     place(w, d), s.orders, s.new_orders, scale_.delivered(), s.delivered));
}

void Audit::judge_customer(uint32_t w, uint32_t d, uint32_t c) {
    const CustomerSums& s = at(w, d, c);
    if (s.balance != s.delivered - s.history)
        violated(10,
                 fmt::format("customer {} of {}: C_BALANCE {}, delivered {}, sum of H_AMOUNT {}", c,
                             place(w, d), money(s.balance), money(s.delivered), money(s.history)));
    if (s.balance + s.ytd_payment != s.delivered)
        violated(12, fmt::format("customer {} of {}: C_BALANCE {}, C_YTD_PAYMENT {}, delivered {}",
                                 c, place(w, d), money(s.balance), money(s.ytd_payment),
                                 money(s.delivered)));
}

std::vector<Condition> Audit::finish() {
    CHECK(!conditions_.empty());
    close_order();
    for (uint32_t w = scale_.first; w <= scale_.last_here(); ++w) {
        judge_warehouse(w);
        for (uint32_t d = 1; d <= scale_.districts; ++d) {
            judge_district(w, d);
            for (uint32_t c = 1; c <= scale_.customers; ++c) judge_customer(w, d, c);
        }
    }
    return std::move(conditions_);
}

}  // namespace lockstep::tpcc
