// production_line.h - the thesis's model of staged execution, in virtual time.
//
// Concepts   The gates are those of threads/sync/stage.h. Queries arrive at random (Poisson) and
//            pass through kModules modules on one CPU. Each module gets an equal share of a query's
//            own work. When the CPU comes from another module, the module first loads its common
//            data. A module is a Stage. The first module's gate forms the batches, which then pass
//            module by module. Time is virtual: a run depends on the seed alone.
// Analysis   Closed forms exist for processor sharing and for first come, first served. A third is
//            the stationary solution of the locality-aware M/M/1 queue. There the first query of a
//            batch is served at rate mu, the others at mu/c, and all leave together.
// Source     S. Harizopoulos, "Staged Database Systems", 2005, section 3.5 and chapter 8. Two
//            corrections in equation 12 and the final matrix: the term z = 0 has the coefficient
//            1, and sums to n = 1 carry lambda / (mu + lambda).
#pragma once

#include <cmath>
#include <deque>
#include <functional>
#include <queue>
#include <vector>

#include "threads/base/rng.h"
#include "threads/sync/stage.h"

namespace lockstep::bench {

struct Query {
    Query* next = nullptr;
    Query* prev = nullptr;
    Nanos entered = 0;
    uint32_t bypassed = 0;
    Nanos arrived = 0;
    Nanos work = 0;  // per module
    Nanos left = 0;  // at its current module
};
using QueryStage = threads::Stage<Query, false>;

struct LineModel {
    // CPU load if every query had to load every module's data.
    double load = 0.8;
    double demand_ms = 100;  // own work and loading, mean
    double loading = 0.2;    // share of the demand that is loading
    uint64_t queries = 400'000;
    uint64_t seed = 1;
    double own_ms() const { return demand_ms * (1 - loading); }
    double loading_ms() const { return demand_ms * loading; }
    double per_ms() const { return load / demand_ms; }  // arrivals
};

inline double exponential(Rng& rng, double mean) {
    return -std::log((static_cast<double>(rng.next() >> 11) + 1) * 0x1.0p-53) * mean;
}
inline Nanos nanos_of_ms(double ms) { return static_cast<Nanos>(std::llround(ms * 1e6)); }

class ProductionLine {
public:
    static constexpr size_t kModules = 5;

    ProductionLine(const LineModel& model, StageGate gate, uint32_t batch_max = 0,
                   double cutoff_ms = 0)
        : model_(model),
          arrivals_(model.seed),
          works_(model.seed + 1),
          loading_(nanos_of_ms(model.loading_ms() / kModules)) {
        const bool cuts = gate == StageGate::c_gated;
        // An admitted batch passes the other modules as a whole.
        for (size_t i = 0; i < kModules; ++i)
            stages_.emplace_back(threads::StageOptions<Query>{.gate = i == 0 ? gate
                                                                      : cuts ? gate
                                                                             : StageGate::d_gated,
                                                              .batch_max = i == 0 ? batch_max : 0,
                                                              .cutoff = nanos_of_ms(cutoff_ms)});
        next_arrival_ = draw_gap();
    }

    // Mean response in milliseconds of the whole run; parts() has it for each of kParts parts.
    static constexpr size_t kParts = 50;
    double run() {
        while (finished_ < model_.queries) {
            admit();
            if (inside_ == 0) {
                now_ = next_arrival_;
                continue;
            }
            for (size_t i = 0; i < kModules; ++i) serve(i);
        }
        return response_ms_ / static_cast<double>(finished_);
    }
    const std::vector<double>& parts() const { return parts_; }
    // Checks that no query was lost in a module; empty if sound.
    std::string verify() const {
        for (size_t i = 0; i < kModules; ++i)
            if (std::string fault = stages_[i].verify(lines_[i].length, 0); !fault.empty())
                return fault;
        return {};
    }

private:
    Nanos draw_gap() {
        return now_of_arrivals_ += nanos_of_ms(exponential(arrivals_, 1 / model_.per_ms()));
    }

    // Queries that have arrived by now queue at the first module.
    void admit() {
        for (; next_arrival_ <= now_; next_arrival_ = draw_gap()) {
            if (free_.empty()) free_.push_back(&queries_.emplace_back());
            Query& query = *free_.back();
            free_.pop_back();
            query.arrived = next_arrival_;
            query.work = query.left = nanos_of_ms(exponential(works_, model_.own_ms()) / kModules);
            stages_[0].enqueue(lines_[0], query, next_arrival_);
            ++inside_;
        }
    }

    void serve(size_t module) {
        QueryStage& stage = stages_[module];
        auto batch = stage.open(lines_[module]);
        while (Query* query = stage.dequeue(batch, now_)) {
            if (std::exchange(last_module_, module) != module) now_ += loading_;
            const bool behind = stage.stays_behind(query->left);
            const Nanos slice = behind ? stage.options().cutoff : query->left;
            now_ += slice;
            query->left -= slice;
            if (behind) stage.requeue(lines_[module], *query, now_);
            else leave(module, *query);
            if (module == 0) admit();  // for a gate that stays open
        }
    }

    void leave(size_t module, Query& query) {
        query.left = query.work;
        if (module + 1 < kModules)
            return stages_[module].forward(query, stages_[module + 1], lines_[module + 1], now_);
        stages_[module].finish();
        --inside_;
        ++finished_;
        response_ms_ += static_cast<double>(now_ - query.arrived) / 1e6;
        const uint64_t part = model_.queries / kParts;
        if (finished_ % part == 0) {
            parts_.push_back((response_ms_ - parts_begin_) / static_cast<double>(part));
            parts_begin_ = response_ms_;
        }
        free_.push_back(&query);
    }

    const LineModel model_;
    Rng arrivals_, works_;
    const Nanos loading_;  // of one module
    std::deque<QueryStage> stages_;
    QueryStage::Line lines_[kModules];
    std::deque<Query> queries_;
    std::vector<Query*> free_;
    Nanos now_ = 0, next_arrival_ = 0, now_of_arrivals_ = 0;
    size_t last_module_ = kModules;
    uint64_t inside_ = 0, finished_ = 0;
    double response_ms_ = 0, parts_begin_ = 0;
    std::vector<double> parts_;
};

// Processor sharing with the same arrivals and work, where every query loads every module's data.
// The sharing clock runs at 1/n while n queries are inside. A query ends when this clock has
// advanced by its demand. Returns the mean response in milliseconds.
inline double simulate_sharing(const LineModel& model) {
    struct Job {
        double ends, arrived;  // on the sharing clock; in virtual time
        bool operator>(const Job& other) const { return ends > other.ends; }
    };
    std::priority_queue<Job, std::vector<Job>, std::greater<>> jobs;
    Rng arrivals(model.seed), works(model.seed + 1);
    double now = 0, clock = 0, sum = 0, next = exponential(arrivals, 1 / model.per_ms());
    for (uint64_t finished = 0; finished < model.queries;) {
        const double n = static_cast<double>(jobs.size());
        const double first_end = jobs.empty() ? INFINITY : now + (jobs.top().ends - clock) * n;
        const double at = std::min(first_end, next);
        if (n > 0) clock += (at - now) / n;
        now = at;
        if (first_end <= next) {
            sum += now - jobs.top().arrived;
            jobs.pop();
            ++finished;
        } else {
            jobs.push({clock + exponential(works, model.own_ms()) + model.loading_ms(), now});
            next += exponential(arrivals, 1 / model.per_ms());
        }
    }
    return sum / static_cast<double>(model.queries);
}

inline double sharing_formula(const LineModel& model) {
    return 1 / (1 / model.demand_ms - model.per_ms());
}

// The Pollaczek-Khinchine formula for the demand l + Exp(m).
inline double fcfs_formula(const LineModel& model) {
    const double l = model.loading_ms(), m = model.own_ms();
    return model.per_ms() * (l * l + 2 * l * m + 2 * m * m) / (2 * (1 - model.load)) + l + m;
}

// Mean response with a control variate. At high load a plain mean needs millions of queries. The
// control is first come, first served with the same arrivals and work: its true mean is known, and
// the errors of both runs correlate. The coefficient comes from the parts of the two runs.
inline double controlled(const ProductionLine& line, const ProductionLine& fcfs, double fcfs_mean) {
    const size_t n = std::min(line.parts().size(), fcfs.parts().size());
    double x = 0, y = 0, xx = 0, xy = 0;
    for (size_t i = 0; i < n; ++i) {
        x += fcfs.parts()[i];
        y += line.parts()[i];
    }
    x /= static_cast<double>(n);
    y /= static_cast<double>(n);
    for (size_t i = 0; i < n; ++i) {
        xx += (fcfs.parts()[i] - x) * (fcfs.parts()[i] - x);
        xy += (fcfs.parts()[i] - x) * (line.parts()[i] - y);
    }
    return y - xy / xx * (x - fcfs_mean);
}

struct LocalityQueue {
    double lambda, mu, c;
};

struct LocalitySolution {
    double response;  // E[T]
    double empty;     // probability that the queue is empty
};

// Stationary solution. P[n]: probability that a batch of n has just begun and no query waits.
// a[m][z]: weight of m waiting queries after z ends of the batch.
inline LocalitySolution solve(const LocalityQueue& q, size_t n_max = 120, size_t m_max = 400) {
    const double y = q.lambda / (q.mu + q.lambda), x = q.lambda / (q.mu / q.c + q.lambda);
    const double r = 1 - x, g = q.mu / (q.mu / q.c + q.lambda), begin = q.mu / (q.mu + q.lambda);
    std::vector<std::vector<double>> a(m_max + 1, std::vector<double>(n_max + 1));
    for (size_t m = 0; m <= m_max; ++m) {
        a[m][0] = std::pow(y, static_cast<double>(m));
        for (size_t z = 1; z <= n_max; ++z) a[m][z] = a[m][z - 1] + (m ? x * a[m - 1][z] : 0);
    }
    std::vector<double> p(n_max + 1), better(n_max + 1), powers(n_max + 1, 1);
    for (size_t z = 1; z <= n_max; ++z) powers[z] = powers[z - 1] * r;
    for (double change = 1; change > 1e-12;) {  // with P(empty) = 1; scaled below
        change = 0;
        for (size_t n = 1; n <= n_max; ++n) {
            double sum = a[n][0] * p[1];
            for (size_t i = 2; i <= n_max; ++i) sum += a[n][i - 1] * powers[i - 1] * p[i];
            better[n] = begin * sum + (n == 1 ? y : 0);
            change = std::max(change, std::abs(better[n] - p[n]));
        }
        p.swap(better);
    }
    double total = 1, inside = 0;
    for (size_t n = 1; n <= n_max; ++n)
        for (size_t m = 0; m <= m_max; ++m) {
            double weight = a[m][0];
            for (size_t z = 1; z < n; ++z) weight += powers[z - 1] * g * a[m][z];
            total += weight * p[n];
            inside += weight * p[n] * static_cast<double>(m + n);
        }
    return {inside / total / q.lambda, 1 / total};  // Little's law
}

// Simulates the same queue with one d_gated stage. The first query of a batch is served at mu, the
// others at mu / c, and all leave together.
inline double simulate(const LocalityQueue& q, uint64_t queries, uint64_t seed) {
    QueryStage stage({.gate = StageGate::d_gated});
    QueryStage::Line line;
    Rng arrivals(seed), works(seed + 1);
    std::deque<Query> all;
    std::vector<Query*> free, batch_members;
    const auto nanos = [](double units) { return static_cast<Nanos>(units * 1e9); };
    Nanos now = 0, next = nanos(exponential(arrivals, 1 / q.lambda));
    double sum = 0;
    for (uint64_t finished = 0; finished < queries; finished += batch_members.size()) {
        if (line.empty()) now = std::max(now, next);
        const auto admit = [&] {
            for (; next <= now; next += nanos(exponential(arrivals, 1 / q.lambda))) {
                if (free.empty()) free.push_back(&all.emplace_back());
                free.back()->arrived = next;
                stage.enqueue(line, *free.back(), next);
                free.pop_back();
            }
        };
        admit();
        batch_members.clear();
        auto batch = stage.open(line);
        while (Query* query = stage.dequeue(batch, now)) {
            now += nanos(exponential(works, (batch_members.empty() ? 1 : q.c) / q.mu));
            batch_members.push_back(query);
        }
        for (Query* query : batch_members) sum += static_cast<double>(now - query->arrived) / 1e9;
        stage.finish(batch_members.size());
        free.insert(free.end(), batch_members.begin(), batch_members.end());
        admit();
    }
    return sum / static_cast<double>(stage.stats().finished);
}

}  // namespace lockstep::bench
