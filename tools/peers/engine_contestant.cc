// engine_contestant.cc - measures an engine behind the small interface.
#include <lockstep/clock.h>
#include "tools/peers/contestant.h"

namespace lockstep::peers {

namespace {

Setup setup_of(const Workload& workload, const Conditions& conditions,
               const std::string& directory) {
    Setup setup;
    setup.directory = directory;
    setup.tables = workload.tables();
    setup.cache_bytes = conditions.cache_bytes;
    return setup;
}

// Reads all tables, so that the engine's cache holds them, also that of an engine which reads its
// files past the system's page cache.
Result<void> warm(Engine& engine, size_t tables) {
    return engine.run(1, [&](unsigned, Session& session) -> Result<void> {
        TRY(session.begin(false));
        for (size_t table = 0; table < tables; ++table)
            TRY(count_rows(session, static_cast<Table>(table)));
        return session.commit();
    });
}

// The clients of one slice.
class Race {
public:
    Race(Workload& workload, unsigned workers, uint64_t seed) {
        for (unsigned i = 0; i < workers; ++i) {
            clients_.push_back(workload.client(i, workers, seed));
            tallies_.emplace_back(workload.types().size());
        }
    }

    Result<void> run(Engine& engine, const Conditions& conditions) {
        begin_ = clock_.now() + conditions.warmup;
        end_ = begin_ + conditions.duration;
        return engine.run(static_cast<unsigned>(clients_.size()),
                          [&](unsigned i, Session& session) { return work(i, session); });
    }

    int64_t rows_added() const {
        int64_t rows = 0;
        for (const Tally& tally : tallies_) rows += tally.rows_added;
        return rows;
    }
    Measured measured(const Conditions& conditions) const {
        Measured out;
        out.nanos = conditions.duration;
        tpcc::Histogram<6> all;
        for (const Tally& tally : tallies_) {
            for (const auto& latency : tally.latency) all.merge(latency);
            out.repeats += tally.repeats;
        }
        out.transactions = all.count();
        out.p50_us = static_cast<double>(all.percentile(0.5)) / 1e3;
        out.p99_us = static_cast<double>(all.percentile(0.99)) / 1e3;
        return out;
    }

private:
    Result<void> work(unsigned number, Session& session) {
        Tally& tally = tallies_[number];
        for (Nanos before = clock_.now(); before < end_;) {
            tally.measures = before >= begin_;
            const size_t type = TRY(clients_[number]->step(session, tally));
            const Nanos after = clock_.now();
            // What ends behind the interval is not counted: it would make slow engines faster.
            if (after < end_) tally.count(type, after - before);
            before = after;
        }
        return {};
    }

    const MonotonicClock clock_;
    Nanos begin_ = 0, end_ = 0;
    std::vector<std::unique_ptr<Client>> clients_;
    std::vector<Tally> tallies_;
};

class EngineContestant final : public Contestant {
public:
    explicit EngineContestant(const Product& product) : product_(product) {}

    std::string name() const override { return product_.name; }
    std::string title() const override {
        return &product_ == &products().front() ? "Lockstep, same interface" : product_.title;
    }
    const Product& product() const override { return product_; }
    bool runs(const WorkloadKind&) const override { return true; }

    Result<void> load(const WorkloadKind& kind, const Conditions& conditions,
                      const std::string& directory) override {
        const auto workload = kind.make(conditions.sizes);
        Setup setup = setup_of(*workload, conditions, directory);
        setup.loads = true;
        const std::unique_ptr<Engine> engine = TRY(product_.open(setup));
        TRY(engine->run(1, [&](unsigned, Session& session) { return workload->load(session); }));
        return engine->close();
    }

    Result<Measured> measure(const Plan& plan, const Conditions& conditions, uint64_t seed,
                             const std::string& directory) override {
        const auto workload = plan.workload->make(conditions.sizes);
        Setup setup = setup_of(*workload, conditions, directory);
        setup.sync = plan.sync;
        setup.workers = plan.workers;
        const std::unique_ptr<Engine> engine = TRY(product_.open(setup));
        TRY(warm(*engine, setup.tables.size()));
        Race race(*workload, plan.workers, seed);
        const MonotonicClock clock;
        const Nanos began = clock.now();
        const CpuUse use;
        TRY(race.run(*engine, conditions));
        Measured measured = race.measured(conditions);
        use.note(clock.now() - began, measured);
        TRY(engine->run(1, [&](unsigned, Session& session) -> Result<void> {
            measured.faults = TRY(workload->check(session, race.rows_added()));
            return {};
        }));
        TRY(engine->close());
        return measured;
    }

private:
    const Product& product_;
};

}  // namespace

std::unique_ptr<Contestant> engine_contestant(const Product& product) {
    return std::make_unique<EngineContestant>(product);
}

}  // namespace lockstep::peers
