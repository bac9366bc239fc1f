// tpcc_work.cc - TPC-C at toy size: after every crash the twelve conditions hold and no
// acknowledged order or payment is missing.
#include <fmt/format.h>

#include <set>

#include "sm/buffer/page.h"
#include "tests/sim/work.h"
#include "tpcc/consistency.h"
#include "tpcc/deck.h"
#include "tpcc/loader.h"
#include "tpcc/transactions.h"

namespace lockstep::sim {

namespace {

using namespace lockstep::tpcc;

constexpr Scale kToy{
    .warehouses = 1, .districts = 2, .customers = 15, .undelivered = 5, .items = 100};
constexpr int kTriesMax = 50;

class TpccWork final : public Work {
public:
    // A database that exists already, or none yet.
    TpccWork(Shared& shared, bool loaded, uint64_t variant)
        : shared_(shared), variant_(variant), loaded_at_(loaded ? 0 : UINT64_MAX) {}

    void prepare(Host& host) override {
        Result<void> outcome;
        const bool ended = host.on_thread(
            [&]() -> Result<void> {
                LoadProgress progress;
                TRY(load(*host, {kToy, shared_.config.seed, 1'000'000'000}, progress));
                return {};
            },
            &outcome);
        if (!ended) return shared_.report.fail("liveness: the load hangs");
        if (!outcome) return shared_.report.fail("load: " + outcome.error().text());
        loaded_at_ = ++clock_;
    }

    void start(Host& host) override {
        auto opened = open_database(*host);
        if (!opened) return shared_.report.fail("database: " + opened.error().text());
        db_ = *opened;
        total_ = loaded_at_ == 0 ? 6 : shared_.config.transactions;
        running_ = shared_.config.threads;
        for (uint32_t n = 0; n < shared_.config.threads; ++n)
            host->start(
                [this, &host, n]() -> Result<void> {
                    run_terminal(host, n);
                    --running_;
                    return {};
                },
                static_cast<int>(n % host.options().workers));
    }
    bool done() const override { return running_ == 0; }
    double progress() const override {
        return total_ == 0 ? 1 : static_cast<double>(finished_) / static_cast<double>(total_);
    }
    uint64_t moment() const override { return clock_; }

    std::unique_ptr<Work> judge(Host& recovered, uint64_t at, uint64_t variant,
                                Shared& next) override {
        auto opened = open_database(*recovered);
        if (!opened) {
            if (at >= loaded_at_)
                shared_.report.fail("the database is gone: " + opened.error().text());
            return nullptr;
        }
        auto report = check_consistency(*opened);
        if (!report) return shared_.report.fail("consistency: " + report.error().text()), nullptr;
        for (const tpcc::Condition& condition : report->conditions)
            if (!condition.ok())
                shared_.report.fail(
                    fmt::format("condition {}: {}", condition.id,
                                condition.faults.empty() ? "" : condition.faults[0]));
        for (const StockCheck& check : report->stock)
            if (!check.ok()) shared_.report.fail("stock: " + check.faults[0]);
        for (const std::string& fault : report->index_faults)
            shared_.report.fail("consistency: " + fault);
        check_acknowledged(recovered, *opened, at);
        if (shared_.report.failed()) return nullptr;
        return std::make_unique<TpccWork>(next, true, variant);
    }

    void judge_injured(Host& host, uint64_t) override {
        auto opened = open_database(*host);
        if (!opened) return;
        auto report = check_consistency(*opened);
        if (!report) {
            if (!sm::is_bad_page(report.error().code))
                shared_.report.fail("damaged page: " + report.error().text());
            shared_.report.add(Count::page_refused);
            return;
        }
        if (!report->ok())
            shared_.report.fail(
                "a damaged page was returned as data: the consistency conditions fail");
    }

private:
    struct Order {
        uint32_t w, d, o;
        uint64_t acknowledged;
    };
    struct Paid {
        Time date;  // unique
        uint64_t acknowledged;
    };

    void run_terminal(Host& host, uint32_t n) {
        Rng rng = stream(shared_.config.seed, Stream::work).fork(100 + n * 7 + variant_ % 1000);
        Deck deck(Mix::full, rng.fork(1));
        const InputRules rules{db_.scale, db_.constants};
        for (uint32_t i = n; i < total_ && !shared_.report.failed();
             i += shared_.config.threads, ++finished_) {
            const Durability durability =
                rng.chance(shared_.config.lazy_odds) ? Durability::lazy : Durability::durable;
            if (rng.chance(shared_.config.checkpoint_odds)) allow(host->checkpoint(), "checkpoint");
            const TxnType type = deck.deal();
            Rng input = rng.fork(i);
            for (int tries = 0; tries < kTriesMax; ++tries) {
                Rng same = input;  // a victim is repeated with the same input
                shared_.liveness.begun(n, host.clock().now());
                const bool repeat = run_once(host, type, same, rules, durability, n);
                if (shared_.liveness.ended(n)) shared_.report.add(Count::ended_in_time);
                if (!repeat) break;
                shared_.report.add(Count::retried);
                yield();
            }
        }
    }

    // True: repeat.
    bool run_once(Host& host, TxnType type, Rng& rng, const InputRules& rules,
                  Durability durability, uint32_t thread) {
        shared_.report.add(Count::transactions);
        auto begun = host->begin({.durability = durability});
        if (!begun) return allow(std::unexpected(begun.error()), "begin"), false;
        Txn txn = std::move(*begun);
        Order order{1, 0, 0, 0};
        const Time date = 2'000'000'000 + static_cast<Time>(++dates_);
        Result<bool> body = run_body(txn, type, rng, rules, date, order);
        shared_.digest.add(
            300 + static_cast<uint64_t>(type), host.clock().now(), thread,
            body.has_value() ? *body : 1000 + static_cast<uint64_t>(body.error().code));
        if (body.has_value() && *body) {
            ++clock_;
            auto committed = txn.commit();
            if (!committed) return allow(std::unexpected(committed.error()), "commit"), false;
            shared_.report.add(Count::committed);
            if (durability == Durability::lazy) return false;
            if (type == TxnType::new_order)
                orders_.push_back({order.w, order.d, order.o, ++clock_});
            if (type == TxnType::payment) payments_.push_back({date, ++clock_});
            return false;
        }
        shared_.report.add(Count::aborted);
        allow(txn.abort(), "abort");
        if (body.has_value()) return false;
        const ErrorCode code = body.error().code;
        if (code == ErrorCode::deadlock) shared_.report.add(Count::deadlocks);
        if (code == ErrorCode::deadlock || code == ErrorCode::lock_timeout) return true;
        allow(std::unexpected(body.error()), kTxnNames[static_cast<size_t>(type)]);
        return false;
    }

    Result<bool> run_body(Txn& txn, TxnType type, Rng& rng, const InputRules& rules, Time date,
                          Order& order) {
        switch (type) {
            case TxnType::new_order: {
                const NewOrderInput in = make_new_order(rng, rules, 1);
                NewOrderOutput out;
                const bool commit = TRY(new_order(db_, txn, in, date, out));
                order = {in.w, in.d, out.o_id, 0};
                return commit;
            }
            case TxnType::payment: {
                PaymentOutput out;
                TRY(payment(db_, txn, make_payment(rng, rules, 1), date, out));
                return true;
            }
            case TxnType::order_status: {
                OrderStatusOutput out;
                TRY(order_status(db_, txn, make_order_status(rng, rules, 1), out));
                return true;
            }
            case TxnType::delivery: {
                DeliveryOutput out{};
                TRY(delivery(db_, txn, make_delivery(rng, 1), date, out));
                return true;
            }
            case TxnType::stock_level: {
                StockLevelOutput out;
                TRY(stock_level(
                    db_, txn,
                    make_stock_level(rng, 1, 1 + static_cast<uint32_t>(rng.below(kToy.districts))),
                    out));
                return true;
            }
        }
        return fail(ErrorCode::bad_argument, "transaction type");
    }

    void allow(const Result<void>& result, const char* what) {
        if (result) return;
        shared_.report.add(Count::failed);
        if (!shared_.failures_allowed || !is_failure_of_environment(result.error().code))
            shared_.report.fail(fmt::format("{}: {}", what, result.error().text()));
    }

    void check_acknowledged(Host& host, Database& db, uint64_t at) {
        std::set<Time> dates;
        Result<void> outcome;
        host.on_thread(
            [&]() -> Result<void> {
                return host->run([&](Txn& txn) -> Result<void> {
                    dates.clear();
                    TRY(db.history.scan(txn, [&](RecordId, Slice value) {
                        HistoryRecord record{};
                        if (read_record(value, record)) dates.insert(record.date);
                        return true;
                    }));
                    std::string value;
                    for (const Order& o : orders_)
                        if (o.acknowledged <= at &&
                            !TRY(db.orders.get(txn, order_key(o.w, o.d, o.o), value)))
                            shared_.report.fail(fmt::format(
                                "order {} of district {} was acknowledged and is lost", o.o, o.d));
                    return {};
                });
            },
            &outcome);
        if (!outcome) return shared_.report.fail("reading: " + outcome.error().text());
        for (const Paid& p : payments_)
            if (p.acknowledged <= at && !dates.contains(p.date))
                shared_.report.fail(
                    fmt::format("the payment of date {} was acknowledged and is lost", p.date));
    }

    Shared& shared_;
    const uint64_t variant_;
    Database db_;
    uint64_t loaded_at_, clock_ = 0, dates_ = 0;
    uint32_t running_ = 0, total_ = 0, finished_ = 0;
    std::vector<Order> orders_;
    std::vector<Paid> payments_;
};

}  // namespace

std::unique_ptr<Work> make_tpcc(Shared& shared) {
    return std::make_unique<TpccWork>(shared, false, 0);
}

}  // namespace lockstep::sim
