// executor.cc - runs one transaction to its end.
#include "tpcc/executor.h"

#include "threads/base/try.h"
#include "tpcc/ack.h"
#include "tpcc/needs.h"

namespace lockstep::tpcc {

// Data of the last attempt. Each body has a function of its own, so that only one output is on the
// stack.
struct Executor::Trace {
    TxnId txn;
    Time date = 0;
    // The order of a New-Order, the customer of a Payment.
    uint32_t id = 0;
    DeliveryOutput delivered;  // of a Delivery
};

namespace {

constexpr Nanos kLogFullPause = 10 * kMillisecond, kLogFullPatience = 5 * kSecond;

[[gnu::noinline]] Result<bool> run_new_order(Database& db, Txn& txn, const NewOrderInput& in,
                                             Time now, uint32_t& id) {
    NewOrderOutput out;
    const bool commit = TRY(new_order(db, txn, in, now, out));
    id = out.o_id;
    return commit;
}

[[gnu::noinline]] Result<bool> run_payment(Database& db, Txn& txn, const PaymentInput& in, Time now,
                                           uint32_t& id) {
    Unmade<PaymentOutput, 1> room;  // payment() sets what is read
    PaymentOutput& out = room.items[0];
    TRY(payment(db, txn, in, now, out));
    id = out.c_id;
    return true;
}

[[gnu::noinline]] Result<bool> run_order_status(Database& db, Txn& txn,
                                                const OrderStatusInput& in) {
    OrderStatusOutput out;
    TRY(order_status(db, txn, in, out));
    return true;
}

[[gnu::noinline]] Result<bool> run_stock_level(Database& db, Txn& txn, const StockLevelInput& in) {
    StockLevelOutput out;
    TRY(stock_level(db, txn, in, out));
    return true;
}

// A frame of its own, which is gone before the transaction goes on.
[[gnu::noinline]] void announce(const Database& db, Txn& txn, const Input& input) {
    Needs needs;
    CustomerOfName customer;
    needs_of(db, input, customer, needs);
    txn.will_need(needs.all());
}

// Records that the transaction will lock, for the lock stage. Exact where the input tells, else
// the specification's averages.
uint32_t operations_of(const Input& input) {
    constexpr uint32_t kNames = 3;   // customers of one last name
    constexpr uint32_t kLines = 10;  // lines of an order
    switch (type_of(input)) {
        case TxnType::new_order:
            return 5 + 3 * static_cast<uint32_t>(std::get<NewOrderInput>(input).ol_cnt);
        case TxnType::payment:
            return 4 + (std::get<PaymentInput>(input).customer.by_name ? kNames : 0);
        case TxnType::order_status:
            return 2 + kLines + (std::get<OrderStatusInput>(input).customer.by_name ? kNames : 0);
        case TxnType::delivery: return 10 * (3 + kLines);
        case TxnType::stock_level: break;
    }
    return 1 + 2 * 20 * kLines;
}

}  // namespace

inline Result<bool> Executor::run_body(Txn& txn, const Input& input, Trace& trace) {
    trace.date = static_cast<Time>(now()) + settings_.clock_offset;
    switch (type_of(input)) {
        case TxnType::new_order:
            return run_new_order(db_, txn, std::get<NewOrderInput>(input), trace.date, trace.id);
        case TxnType::payment:
            return run_payment(db_, txn, std::get<PaymentInput>(input), trace.date, trace.id);
        case TxnType::order_status:
            return run_order_status(db_, txn, std::get<OrderStatusInput>(input));
        case TxnType::delivery:
            TRY(delivery(db_, txn, std::get<DeliveryInput>(input), trace.date, trace.delivered));
            return true;
        case TxnType::stock_level:
            return run_stock_level(db_, txn, std::get<StockLevelInput>(input));
    }
    return fail(ErrorCode::bad_argument, "transaction type");
}

Result<Outcome> Executor::execute(const Input& input, DeliveryOutput* delivered, bool announced) {
    const TxnType type = type_of(input);
    TxnOptions options;
    options.isolation = settings_.isolation;
    options.durability = settings_.durability;
    options.operations = operations_of(input);
    options.read_only = type == TxnType::order_status || type == TxnType::stock_level;
    if (options.read_only && settings_.snapshot_reads) options.isolation = Isolation::snapshot;
    for (uint32_t attempt = 0;; ++attempt) {
        Txn txn = TRY(db_.store->begin(options));
        Trace trace;
        trace.txn = txn.id();
        if (!announced && txn.walks_needs()) announce(db_, txn, input);
        announced = false;
        Result<bool> body = run_body(txn, input, trace);
        if (body.has_value() && *body) {
            const auto committed = txn.commit();
            if (committed) {
                if (settings_.ack_fd >= 0) TRY(acknowledge(input, trace));
                if (delivered && type == TxnType::delivery) *delivered = trace.delivered;
                return Outcome::committed;
            }
            body = std::unexpected(committed.error());
        }
        if (!body.has_value()) options.retry = txn.retry();
        if (txn.live()) TRY(txn.abort());
        if (body.has_value()) return Outcome::rolled_back;
        if (!may_repeat(body.error(), type, attempt)) return std::unexpected(body.error());
    }
}

// Counts the failed attempt and lets others run first. False: a repetition cannot help.
[[gnu::cold, gnu::noinline]] bool Executor::may_repeat(const Error& error, TxnType type,
                                                       uint32_t attempt) {
    AbortCause cause = AbortCause::other;
    if (error.code == ErrorCode::deadlock) cause = AbortCause::deadlock;
    if (error.code == ErrorCode::lock_timeout) cause = AbortCause::lock_timeout;
    if (error.code == ErrorCode::log_full || error.code == ErrorCode::no_space)
        cause = AbortCause::log_full;
    stats_.count_abort(type, cause, now());
    if (cause == AbortCause::other || attempt >= settings_.retries_max) return false;
    if (cause != AbortCause::log_full) {
        yield();
        return true;
    }
    // A checkpoint must free log space first. If that takes so long, the log cannot grow, as on a
    // full disk.
    if (attempt * kLogFullPause >= kLogFullPatience) return false;
    sleep_for(kLogFullPause);
    return true;
}

[[gnu::cold, gnu::noinline]] Result<void> Executor::acknowledge(const Input& input,
                                                                const Trace& trace) {
    AckWriter ack(settings_.ack_fd, trace.txn);
    switch (type_of(input)) {
        case TxnType::new_order: return ack.new_order(std::get<NewOrderInput>(input), trace.id);
        case TxnType::payment:
            return ack.payment(std::get<PaymentInput>(input), trace.id, trace.date);
        case TxnType::delivery:
            return ack.delivery(std::get<DeliveryInput>(input), trace.delivered);
        default: return {};
    }
}

}  // namespace lockstep::tpcc
