// audit.h - the twelve consistency conditions of clause 3.3.2, checked over rows that are fed in;
// independent of the store.
//
// Concepts   Feed in this order: all warehouses, districts and customers; all history rows; then
//            order by order, ascending: the order, its NEW-ORDER row if it has one, its lines. A
//            NEW-ORDER row or line without an order is fed through orphan_*().
//            Condition 11 says that after the load ORDER has 2100 rows more than NEW-ORDER in each
//            district. Deliveries add to that difference. Every delivered order has raised the
//            C_DELIVERY_CNT of one customer, so the sum of these counts in the district is added.
//            This holds after a crash too, when no driver remembers its deliveries.
//            A shard has a part of the warehouses (Scale::first). Only these are judged. HISTORY
//            rows of other shards that speak of its customers are fed with its own.
// Source     TPC-C revision 5.11, clauses 3.3.2.1 to 3.3.2.12.
#pragma once

#include <string>
#include <vector>

#include "tpcc/database.h"

namespace lockstep::tpcc {

struct Condition {
    uint32_t id = 0;  // 1..12
    uint64_t violations = 0;
    std::vector<std::string> faults;  // the first few violations, with the numbers
    bool ok() const { return violations == 0; }
};
inline constexpr uint32_t kConditions = 12;
// What the condition demands, in a few words.
const char* condition_text(uint32_t id);

class Audit {
public:
    explicit Audit(const Scale& scale);

    void warehouse(uint32_t w, const WarehouseRecord& record);
    void district(uint32_t w, uint32_t d, const DistrictRecord& record);
    void customer(uint32_t w, uint32_t d, uint32_t c, const CustomerRecord& record);
    void history(const HistoryRecord& record);
    void order(uint32_t w, uint32_t d, uint32_t o, const OrderRecord& record);
    void new_order();  // of the order just fed
    void order_line(const OrderLineRecord& record);
    void orphan_new_order(uint32_t w, uint32_t d, uint32_t o);
    void orphan_line(uint32_t w, uint32_t d, uint32_t o);
    // A row that must not exist, such as a key outside the scale. Counts against the condition.
    void misplaced(uint32_t condition, const char* table, uint32_t w, uint32_t d, uint32_t n);
    // Evaluates all conditions. Call it once, at the end.
    std::vector<Condition> finish();

private:
    struct WarehouseSums {
        bool present = false;
        Cents ytd = 0, districts_ytd = 0, history = 0;
    };
    struct DistrictSums {
        bool present = false;
        Cents ytd = 0, history = 0;
        uint32_t next_o_id = 0, o_max = 0, no_min = 0, no_max = 0;
        uint64_t orders = 0, new_orders = 0, ol_cnt = 0, lines = 0, delivered = 0;
    };
    struct CustomerSums {
        Cents balance = 0, ytd_payment = 0, delivered = 0, history = 0;
    };
    struct OpenOrder {  // the order just fed, until the next one
        bool open = false, has_new_order = false, undelivered_line = false, delivered_line = false;
        uint32_t w = 0, d = 0, o = 0, lines = 0;
        Cents amount = 0;
        OrderRecord record;
    };

    bool in_scale(uint32_t w, uint32_t d) const {
        return w - 1 < scale_.warehouses && d - 1 < scale_.districts;
    }
    // Of a warehouse whose rows the store has.
    bool is_here(uint32_t w, uint32_t d) const { return in_scale(w, d) && scale_.holds(w); }
    bool in_scale(uint32_t w, uint32_t d, uint32_t c) const {
        return in_scale(w, d) && c - 1 < scale_.customers;
    }
    DistrictSums& at(uint32_t w, uint32_t d) {
        return districts_[(w - 1) * scale_.districts + d - 1];
    }
    CustomerSums& at(uint32_t w, uint32_t d, uint32_t c) {
        return customers_[((w - 1) * scale_.districts + d - 1) * size_t{scale_.customers} + c - 1];
    }
    void close_order();
    void judge_warehouse(uint32_t w);
    void judge_district(uint32_t w, uint32_t d);
    void judge_customer(uint32_t w, uint32_t d, uint32_t c);
    void violated(uint32_t condition, std::string fault);

    const Scale scale_;
    std::vector<WarehouseSums> warehouses_;
    std::vector<DistrictSums> districts_;
    std::vector<CustomerSums> customers_;
    OpenOrder open_;
    std::vector<Condition> conditions_;
};

}  // namespace lockstep::tpcc
