// input.h - the input of each transaction as a terminal makes it, before the transaction begins
// (clauses 2.4.1 to 2.8.1).
//
// Concepts   Input and execution are separate. A deadlock victim is repeated with the same input,
//            and a run can be replayed.
#pragma once

#include "tpcc/database.h"

namespace lockstep::tpcc {

enum class TxnType : uint8_t { new_order, payment, order_status, delivery, stock_level };
inline constexpr size_t kTxnTypes = 5;
inline constexpr const char* kTxnNames[kTxnTypes] = {"NewOrder", "Payment", "OrderStatus",
                                                     "Delivery", "StockLevel"};

// A customer by number, or by last name if `by_name`.
struct CustomerChoice {
    bool by_name;
    uint32_t w, d, c;
    Text<16> last;
};

struct NewOrderLine {
    uint32_t i_id, supply_w;
    uint8_t number;  // OL_NUMBER: the place on the terminal's screen
    uint8_t quantity;
};
// Lines stand in the order of execution, (supply_w, i_id), so that two orders never wait for each
// other's stock in a cycle. `number` keeps the order on the terminal. The unused item of a rollback
// stays last: the work of the other lines is done before it is met (clause 2.4.2.3).
struct NewOrderInput {
    uint32_t w, d, c;
    uint8_t ol_cnt;
    uint8_t all_local;
    bool rolls_back;
    NewOrderLine lines[15];
};

struct PaymentInput {
    uint32_t w, d;
    CustomerChoice customer;
    Cents amount;
};

struct OrderStatusInput {
    CustomerChoice customer;
};

struct DeliveryInput {
    uint32_t w;
    uint8_t carrier_id;
};

struct StockLevelInput {
    uint32_t w, d;
    int32_t threshold;
};

// The parameters of inputs besides the random numbers.
struct InputRules {
    Scale scale;
    RandomConstants constants;
    bool remote = true;  // orders and payments may concern another warehouse
};

NewOrderInput make_new_order(Rng& rng, const InputRules& rules, uint32_t w);
PaymentInput make_payment(Rng& rng, const InputRules& rules, uint32_t w);
OrderStatusInput make_order_status(Rng& rng, const InputRules& rules, uint32_t w);
DeliveryInput make_delivery(Rng& rng, uint32_t w);
StockLevelInput make_stock_level(Rng& rng, uint32_t w, uint32_t d);

}  // namespace lockstep::tpcc
