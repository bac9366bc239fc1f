// tpcc_client.h - a terminal of TPC-C over the small interface: the five transactions of tpcc/,
// with the same inputs, keys and rows.
//
// Concepts   Every engine gets the same operations, one row a call. A row that changes is read with
//            Access::write and stored as a whole. A HISTORY row gets a key that no other row has:
//            the client's number and a count.
//            A Delivery runs at once and not in a queue.
#pragma once

#include "tools/peers/workload.h"
#include "tpcc/deck.h"
#include "tpcc/transactions.h"

namespace lockstep::peers {

// Number `client` of the row `count` of HISTORY; the loader is client 0.
inline tpcc::RowKey history_key(unsigned client, uint32_t count) {
    tpcc::RowKey key;
    key.u16(static_cast<uint16_t>(client)).u32(count);
    return key;
}

// The table's number in the small interface is that of tpcc::TableId.
inline Table table_of(tpcc::TableId id) { return static_cast<Table>(id); }

class TpccClient final : public Client {
public:
    // Serves the warehouses w with (w - 1) mod clients = number.
    TpccClient(const tpcc::InputRules& rules, unsigned number, unsigned clients, Rng rng)
        : rules_(rules),
          number_(number),
          clients_(clients),
          deck_(tpcc::Mix::full, rng.fork(1)),
          rng_(rng.fork(2)) {}

    Result<size_t> step(Session& session, Tally& tally) override;

private:
    uint32_t home();
    Result<bool> run(Session& session, Tally& tally, tpcc::TxnType type);

    Result<bool> new_order(Session& s, const tpcc::NewOrderInput& in, tpcc::Time now);
    Result<void> enter_order(Session& s, const tpcc::NewOrderInput& in, tpcc::NewOrderOutput& out);
    Result<bool> add_lines(Session& s, const tpcc::NewOrderInput& in, tpcc::NewOrderOutput& out);
    Result<void> payment(Session& s, const tpcc::PaymentInput& in, tpcc::Time now);
    Result<void> order_status(Session& s, const tpcc::OrderStatusInput& in);
    Result<void> delivery(Session& s, const tpcc::DeliveryInput& in, tpcc::Time now);
    Result<void> deliver(Session& s, const tpcc::DeliveryInput& in, uint32_t d, uint32_t o_id,
                         tpcc::Time now);
    Result<void> stock_level(Session& s, const tpcc::StockLevelInput& in);
    Result<uint32_t> find_customer(Session& s, const tpcc::CustomerChoice& choice);

    const tpcc::InputRules rules_;
    const unsigned number_, clients_;
    tpcc::Deck deck_;
    Rng rng_;
    uint32_t payments_ = 0;
};

}  // namespace lockstep::peers
