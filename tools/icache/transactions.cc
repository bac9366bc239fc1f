// transactions.cc - TPC-C transactions, ten terminals to a warehouse, no think time.
//
// Concepts   Traced databases are smaller than the specification's (a tenth of the rows of each
//            warehouse), or loading them under the tracer would take minutes; trees then are at
//            most one level lower, and code is the same. Native runs use the full size. A Delivery
//            runs on the terminal's own thread instead of in a queue.
#include "tools/icache/workload.h"
#include "tpcc/deck.h"
#include "tpcc/executor.h"
#include "tpcc/loader.h"

namespace lockstep::icache {

namespace {

constexpr uint32_t kTerminals = 10;  // per warehouse
constexpr tpcc::Scale kSmall = {
    .warehouses = 1, .districts = 10, .customers = 300, .undelivered = 90, .items = 10000};

tpcc::Mix mix_of(std::string_view what) {
    if (what == "payment") return tpcc::Mix::payment;
    if (what == "neworder") return tpcc::Mix::new_order;
    return what == "mix4" ? tpcc::Mix::without_delivery : tpcc::Mix::full;
}

class Transactions final : public Workload {
public:
    Transactions(Store& store, const WorkloadSettings& settings)
        : store_(store), settings_(settings) {}

    Result<void> load() override {
        tpcc::LoadProgress progress;
        db_ = TRY(
            tpcc::load(store_, {.scale = scale_of(settings_), .seed = settings_.seed}, progress));
        executor_.emplace(db_, tpcc::ExecutorSettings{}, stats_);
        return {};
    }

    uint32_t threads(const Part&) const override { return settings_.warehouses * kTerminals; }

    Result<void> begin_part(const Part& part) override {
        terminals_.clear();
        ++parts_;
        for (uint32_t i = 0; i < threads(part); ++i) {
            const uint64_t seed = settings_.seed + parts_ * 1000;
            terminals_.push_back({tpcc::Deck(mix_of(part.what), tpcc::row_rng(seed, 201, i)),
                                  tpcc::row_rng(seed, 200, i), i % settings_.warehouses + 1,
                                  i / settings_.warehouses % db_.scale.districts + 1});
        }
        return {};
    }

    Result<void> unit(uint32_t number) override {
        Terminal& t = terminals_[number];
        TRY(executor_->execute(input(t)));
        return {};
    }
    Result<void> end(uint32_t) override { return {}; }

private:
    struct Terminal {
        tpcc::Deck deck;
        Rng rng;
        uint32_t w, d;
    };

    tpcc::Input input(Terminal& t) const {
        const tpcc::InputRules rules{db_.scale, db_.constants};
        switch (t.deck.deal()) {
            case tpcc::TxnType::new_order: return tpcc::make_new_order(t.rng, rules, t.w);
            case tpcc::TxnType::payment: return tpcc::make_payment(t.rng, rules, t.w);
            case tpcc::TxnType::order_status: return tpcc::make_order_status(t.rng, rules, t.w);
            case tpcc::TxnType::delivery: return tpcc::make_delivery(t.rng, t.w);
            case tpcc::TxnType::stock_level: break;
        }
        return tpcc::make_stock_level(t.rng, t.w, t.d);
    }

    Store& store_;
    const WorkloadSettings settings_;
    tpcc::Database db_;
    tpcc::WorkerStats stats_;
    std::optional<tpcc::Executor> executor_;
    std::vector<Terminal> terminals_;
    uint64_t parts_ = 0;
};

}  // namespace

tpcc::Scale scale_of(const WorkloadSettings& settings) {
    tpcc::Scale scale = settings.native ? tpcc::Scale{} : kSmall;
    scale.warehouses = settings.warehouses;
    return scale;
}

std::unique_ptr<Workload> make_transactions(Store& store, const WorkloadSettings& settings) {
    return std::make_unique<Transactions>(store, settings);
}

}  // namespace lockstep::icache
