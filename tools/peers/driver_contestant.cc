// driver_contestant.cc - measures Lockstep with its own TPC-C driver, which uses all of the public
// interface.
#include <cstring>

#include <lockstep/clock.h>

#include "tools/peers/contestant.h"
#include "tpcc/consistency.h"
#include "tpcc/driver.h"
#include "tpcc/loader.h"

namespace lockstep::peers {

namespace {

Options options_of(const Conditions& conditions, unsigned workers) {
    Options options;
    options.workers = workers;
    options.pool_bytes = conditions.cache_bytes;
    return options;
}

// Reads all tables, as the other contestants do.
Result<void> warm(tpcc::Database& db) {
    TxnOptions options;
    options.read_only = true;
    options.durability = Durability::lazy;
    return db.store->run(
        [&](Txn& txn) -> Result<void> {
            for (const tpcc::TableName& table : tpcc::kTables) {
                if (!table.index) continue;
                Cursor cursor = (db.*table.index).scan(txn);
                while (TRY(cursor.next())) {}
            }
            return {};
        },
        options);
}

class DriverContestant final : public Contestant {
public:
    explicit DriverContestant(uint32_t terminals) : terminals_(terminals) {}

    std::string name() const override { return terminals_ == 0 ? "driver-1" : "driver"; }
    std::string title() const override {
        return terminals_ == 0 ? "Lockstep, own driver, 1 terminal a worker"
                               : "Lockstep, own driver";
    }
    const Product& product() const override { return kLockstep; }
    bool runs(const WorkloadKind& kind) const override {
        return std::strcmp(kind.name, "tpcc") == 0;
    }

    Result<void> load(const WorkloadKind&, const Conditions& conditions,
                      const std::string& directory) override {
        Store store = TRY(Store::open(directory, options_of(conditions, 1)));
        tpcc::LoadProgress progress;
        const Sizes& sizes = conditions.sizes;
        TRY(tpcc::load(store,
                       {.scale = {.warehouses = sizes.warehouses,
                                  .customers = sizes.customers,
                                  .undelivered = sizes.customers * 3 / 10,
                                  .items = sizes.items},
                        .seed = sizes.seed,
                        .load_time = kLoadTime},
                       progress));
        return store.close();
    }

    Result<Measured> measure(const Plan& plan, const Conditions& conditions, uint64_t seed,
                             const std::string& directory) override {
        Store store = TRY(Store::open(directory, options_of(conditions, plan.workers)));
        tpcc::Database db = TRY(tpcc::open_database(store));
        TRY(warm(db));
        tpcc::RunSettings run;
        run.executor.durability = plan.sync ? Durability::durable : Durability::lazy;
        run.terminals = terminals_;
        run.warmup = conditions.warmup;
        run.duration = conditions.duration;
        run.seed = seed;
        // One terminal a worker, as the peers have: as many warehouses as workers.
        if (terminals_ == 0) {
            run.terminals = 1;
            db.scale.warehouses = std::min(db.scale.warehouses, plan.workers);
        }
        const MonotonicClock clock;
        const Nanos began = clock.now();
        const CpuUse use;
        const auto report = TRY(tpcc::run_terminals(db, run, {}));
        Measured measured;
        use.note(clock.now() - began, measured);
        count(*report, measured);
        db.scale.warehouses = conditions.sizes.warehouses;
        for (const std::string& fault : faults_of(TRY(tpcc::check_consistency(db))))
            measured.faults.push_back(fault);
        TRY(store.close());
        return measured;
    }

private:
    static void count(const tpcc::RunReport& report, Measured& out) {
        tpcc::Histogram<6> all;
        for (const tpcc::TypeStats& type : report.stats.types) {
            all.merge(type.latency);
            for (const uint64_t aborts : type.aborts) out.repeats += aborts;
        }
        out.nanos = report.measured;
        out.transactions = all.count();
        out.p50_us = static_cast<double>(all.percentile(0.5)) / 1e3;
        out.p99_us = static_cast<double>(all.percentile(0.99)) / 1e3;
    }
    static std::vector<std::string> faults_of(const tpcc::ConsistencyReport& report) {
        std::vector<std::string> faults = report.index_faults;
        for (const auto& condition : report.conditions)
            faults.insert(faults.end(), condition.faults.begin(), condition.faults.end());
        for (const auto& stock : report.stock)
            faults.insert(faults.end(), stock.faults.begin(), stock.faults.end());
        return faults;
    }

    const uint32_t terminals_;
};

}  // namespace

std::unique_ptr<Contestant> driver_contestant(uint32_t terminals) {
    return std::make_unique<DriverContestant>(terminals);
}

}  // namespace lockstep::peers
