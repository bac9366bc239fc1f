// executor.h - runs one transaction with a given input to its end: begin, body, commit or rollback,
// repeat after a deadlock.
//
// Concepts   There is one executor per worker. It holds no state of a transaction, so all user
//            threads of the worker share it. They also share the patience with a log or a disk that
//            has no room: it begins when the first of them meets the end of the room, and a change
//            that commits ends it.
// Blocking   execute() parks the calling user thread for locks, pages and log space. A durable
//            transaction also waits until its commit is on disk.
#pragma once

#include <variant>

#include "tpcc/run_stats.h"
#include "tpcc/transactions.h"

namespace lockstep::tpcc {

// The alternatives stand in the order of TxnType.
using Input =
    std::variant<NewOrderInput, PaymentInput, OrderStatusInput, DeliveryInput, StockLevelInput>;
inline TxnType type_of(const Input& input) { return static_cast<TxnType>(input.index()); }

struct ExecutorSettings {
    Isolation isolation = Isolation::serializable;
    // Order-Status and Stock-Level are snapshot transactions.
    bool snapshot_reads = false;
    Durability durability = Durability::lazy;
    uint32_t retries_max = 1000;
    // Each durable commit is written here as a line (ack.h); -1 = no.
    int ack_fd = -1;
    Time clock_offset = 0;  // added to the store's clock for dates in rows
};

enum class Outcome : uint8_t { committed, rolled_back };

class Executor {
public:
    Executor(Database& db, const ExecutorSettings& settings, WorkerStats& stats)
        : db_(db), settings_(settings), stats_(stats) {}

    // A Delivery fills `delivered` unless it is null. `announced`: the caller's packet has named
    // the needs of the first attempt. Errors: those that a repetition cannot cure, and any error
    // after retries_max repetitions.
    Result<Outcome> execute(const Input& input, DeliveryOutput* delivered = nullptr,
                            bool announced = false);
    WorkerStats& stats() { return stats_; }

private:
    struct Trace;  // data for an acknowledgement
    Result<bool> run_body(Txn& txn, const Input& input, Trace& trace);
    Result<void> acknowledge(const Input& input, const Trace& trace);
    bool may_repeat(const Error& error, TxnType type, uint32_t attempt);
    bool may_wait_for_room(AbortCause cause, uint32_t attempt);

    Database& db_;
    const ExecutorSettings settings_;
    WorkerStats& stats_;
    Nanos no_room_since_ = 0;  // 0: there is room
};

}  // namespace lockstep::tpcc
