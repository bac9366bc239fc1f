// row_changes.h - what New-Order and Payment write into rows; independent of the store.
#pragma once

#include "tpcc/transactions.h"

namespace lockstep::tpcc {

// The row of an order that has just been entered.
OrderRecord order_row(const NewOrderInput& in, Time entry_d);

// Takes the line's item from its stock, and refills that as clause 2.4.2.2 says. The line's row
// goes to rows[line.number - 1], what the terminal shows to `out`.
void supply_line(const NewOrderInput& in, const NewOrderLine& line, const ItemRecord& item,
                 StockRecord& stock, OrderLineRecord* rows, NewOrderOutput& out);

// The same for a stock that has been changed already.
void fill_line(const NewOrderInput& in, const NewOrderLine& line, const ItemRecord& item,
               const StockRecord& stock, OrderLineRecord* rows, NewOrderOutput& out);

// Applies discount and taxes to the sum of the lines.
void apply_rates(NewOrderOutput& out);

// Clause 2.5.2.2: the data of the payment is put in front of C_DATA, the rest moves right, and at
// most 500 characters are kept.
void note_in_customer_data(const PaymentInput& in, uint32_t c_id, CustomerRecord& customer);

HistoryRecord history_row(const PaymentInput& in, uint32_t c_id, Time date, const Text<10>& w_name,
                          const Text<10>& d_name);

}  // namespace lockstep::tpcc
