// production_line.h - the thesis's model of staged execution in virtual time, driven by the gates
// of threads/sync/stage.h.
//
// Concepts   Queries arrive at random (Poisson) and pass through kModules modules on one CPU. A
//            query brings its own work, of which each module gets an equal share; a module also has
//            to load its common data whenever the CPU comes to it from another module. A module is
//            a Stage; the gate of the first forms the batches, which then pass module by module.
//            Time is virtual: a run depends on the seed alone. Analysis: closed forms for processor
//            sharing and first come, first served, and the stationary solution of the
//            locality-aware M/M/1 queue (first of a batch at rate mu, the others at mu/c, all leave
//            together).
// Source     S. Harizopoulos, "Staged Database Systems", 2005, section 3.5 and chapter 8 (with its
//            equation 12 and the final matrix corrected: the term z = 0 has the coefficient 1, and
//            sums to n = 1 carry lambda / (mu + lambda)).
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
    Nanos left = 0;  // at the module where it is
};
using QueryStage = threads::Stage<Query, false>;

struct LineModel {
    // Of the CPU if every query had to load every module's data.
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
inline Nanos nanos_of_ms(double ms) { return static_cast<Nanos>(ms * 1e6 + 0.5); }

class ProductionLine {
public:
    static constexpr size_t kModules = 5;

    ProductionLine(const LineModel& model, threads::StageGate gate, uint32_t batch_max = 0,
                   double cutoff_ms = 0)
        : model_(model),
          arrivals_(model.seed),
          works_(model.seed + 1),
          loading_(nanos_of_ms(model.loading_ms() / kModules)) {
        const bool cuts = gate == threads::StageGate::c_gated;
        // A batch that was let in passes the other modules as a whole.
        for (size_t i = 0; i < kModules; ++i)
            stages_.emplace_back(
                threads::StageOptions<Query>{.gate = i == 0 ? gate
                                                     : cuts ? gate
                                                            : threads::StageGate::d_gated,
                                             .batch_max = i == 0 ? batch_max : 0,
                                             .cutoff = nanos_of_ms(cutoff_ms)});
        next_arrival_ = draw_gap();
    }

    // Mean response in milliseconds: of the whole run, and of each of its kParts parts.
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
    double mean_batch() const { return stages_[0].stats().batch.mean(); }
    // Every query that entered a module is accounted for.
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

    // All who have arrived by now queue at the first module.
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
            if (module == 0) admit();  // for the gate that stays open
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
        if (finished_ % (model_.queries / kParts) == 0) {
            parts_.push_back((response_ms_ - parts_begin_) /
                             static_cast<double>(model_.queries / kParts));
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

// Processor sharing, where every query loads every module's data: the same arrivals and works. A
// query ends when the sharing clock, which runs at 1/n while n are inside, has moved on by its
// demand. Mean response in milliseconds.
inline double simulate_sharing(const LineModel& model) {
    struct Job {
        double ends, arrived;  // on the sharing clock; in time
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

// Pollaczek and Khinchine, with the demand l + Exp(m).
inline double fcfs_formula(const LineModel& model) {
    const double l = model.loading_ms(), m = model.own_ms();
    return model.per_ms() * (l * l + 2 * l * m + 2 * m * m) / (2 * (1 - model.load)) + l + m;
}

// At high load a mean needs millions of queries. First come, first served, whose mean is known,
// sees the same arrivals and works: what it is off by tells most of what the other is off by (a
// control variate, its coefficient from the parts of the two runs).
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
    double empty;     // probability that nobody is there
};

// Stationary solution. P[n]: a batch of n has just begun and nobody waits; a[m][z]: weight of m
// waiting after z ends of the batch.
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
    return {inside / total / q.lambda, 1 / total};  // Little
}

// The same queue, simulated: one stage, d_gated; the first of a batch is served at mu, the others
// at mu / c, all leave together.
inline double simulate(const LocalityQueue& q, uint64_t queries, uint64_t seed) {
    QueryStage stage({.gate = threads::StageGate::d_gated});
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
