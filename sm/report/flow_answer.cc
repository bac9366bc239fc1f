// flow_answer.cc - runs plans: each for itself, or those of one type as one, in cycles.
#include <algorithm>
#include <utility>

#include "sm/report/flow.h"
#include "sm/report/flow_impl.h"
#include "sm/report/row_data.h"
#include "threads/runtime/runtime.h"

namespace lockstep::sm::report {

// A report that waits for its cycle. Lives on its caller's stack; under mutex_.
struct Operators::Ticket {
    std::shared_ptr<const PlanNode> plan;
    uint64_t came_in;    // the cycle that ran then, or the last one
    bool leads = false;  // it runs the next cycle for all
    bool alone = false;  // it computes its own plan
    bool done = false;
    std::vector<Rows> rows = {};
};

// Reports of one type and one state. While a cycle runs, those that come wait for its end.
struct Operators::Cycle {
    uint64_t number = 0;
    bool runs = false;
    size_t alone = 0;  // reports of this cycle that run one by one
    std::vector<Ticket*> waiting;
    Condition changed;
    void assert_state() const {
        DCHECK(runs || (alone == 0 && waiting.empty()));
        DCHECK(std::ranges::all_of(waiting, [&](const Ticket* ticket) {
            return !ticket->done && !ticket->alone && ticket->came_in <= number;
        }));
    }
};

Result<std::vector<Rows>> Operators::answer(std::span<const Plan> plans, const Reads& reads,
                                            const AnswerOptions& options) {
    if (options.sharing > Sharing::cycle) return fail(ErrorCode::bad_argument, "sharing");
    Roots roots;
    for (const Plan& plan : plans) roots.push_back(plan.node_);
    if (options.sharing != Sharing::cycle) return one_by_one(roots, reads, options);
    if (roots.size() == 1) return in_cycle(roots, reads, options);
    return compute(roots, reads, options);
}

// Those of one type as one, if they are enough.
Result<std::vector<Rows>> Operators::compute(const Roots& plans, const Reads& reads,
                                             const AnswerOptions& options) {
    std::map<std::string, std::vector<size_t>> types;
    for (size_t i = 0; i < plans.size(); ++i) types[describe(*plans[i], false)].push_back(i);
    std::vector<Rows> out(plans.size());
    for (const auto& [type, places] : types)
        for (size_t from = 0; from < places.size(); from += kTogetherMax) {
            const size_t end = std::min(places.size(), from + kTogetherMax);
            Roots some;
            for (size_t i = from; i < end; ++i) some.push_back(plans[places[i]]);
            const bool many = some.size() >= std::max<size_t>(options.together_min, 2);
            auto rows = many ? as_one(some, reads, options) : one_by_one(some, reads, options);
            // Their sets took too much memory.
            if (many && !rows.has_value() && rows.error().code == ErrorCode::out_of_memory)
                rows = one_by_one(some, reads, options);
            if (!rows.has_value()) return std::unexpected(rows.error());
            DCHECK(rows->size() == some.size());
            for (size_t i = from; i < end; ++i) out[places[i]] = std::move((*rows)[i - from]);
        }
    return out;
}

Result<std::vector<Rows>> Operators::as_one(const Roots& plans, const Reads& reads,
                                            const AnswerOptions& options) {
    DCHECK(plans.size() > 1 && plans.size() <= kTogetherMax);
    Run run{.began = lockstep::now()};
    begin(run, plans, reads, options);
    wait(run);
    if (run.error.code != ErrorCode::none) return std::unexpected(run.error);
    const std::lock_guard lock(mutex_);
    stats_.together += plans.size();
    return std::move(run.rows);
}

Result<std::vector<Rows>> Operators::one_by_one(const Roots& plans, const Reads& reads,
                                                const AnswerOptions& options) {
    std::list<Run> runs;
    for (const auto& plan : plans) {
        runs.emplace_back().began = lockstep::now();
        begin(runs.back(), {plan}, reads, options);
    }
    std::vector<Rows> out;
    Error error;
    for (Run& run : runs) {
        wait(run);
        if (run.error.code != ErrorCode::none) error = run.error;
        else out.push_back(std::move(run.rows[0]));
        DCHECK(run.error.code != ErrorCode::none || run.rows.size() == 1);
    }
    if (error.code != ErrorCode::none) return std::unexpected(error);
    return out;
}

Result<std::vector<Rows>> Operators::in_cycle(const Roots& plan, const Reads& reads,
                                              const AnswerOptions& options) {
    const std::string type =
        std::to_string(reinterpret_cast<uintptr_t>(reads.state.get())) + describe(*plan[0], false);
    std::unique_lock lock(mutex_);
    auto& place = cycles_[type];
    if (!place) place = std::make_shared<Cycle>();
    const std::shared_ptr<Cycle> cycle = place;
    Ticket ticket{.plan = plan[0], .came_in = cycle->number};
    cycle->waiting.push_back(&ticket);
    ++stats_.waiting;
    if (!std::exchange(cycle->runs, true)) {
        ticket.leads = true;
        // Others that are ready on this worker may join.
        lock.unlock();
        if (threads::current() != nullptr) threads::yield();
        lock.lock();
    }
    cycle->changed.wait(mutex_, [&] { return ticket.leads || ticket.alone || ticket.done; });
    if (ticket.leads) {
        std::vector<Ticket*> tickets = begin_cycle(*cycle);
        lock.unlock();
        const bool done = run_cycle(tickets, reads, options);
        lock.lock();
        if (done) {
            for (Ticket* const one : tickets) one->done = true;
            end_cycle(type, *cycle);
        } else {
            for (Ticket* const one : tickets) one->alone = true;
            cycle->alone = tickets.size();
            cycle->changed.notify_all();
        }
    }
    if (ticket.alone) {
        lock.unlock();
        auto rows = one_by_one(plan, reads, options);
        lock.lock();
        if (--cycle->alone == 0) end_cycle(type, *cycle);
        return rows;
    }
    DCHECK(ticket.done && !ticket.alone);
    cycle->assert_state();
    DCHECK(ticket.rows.size() == 1);
    return std::move(ticket.rows);
}

// Takes all that wait. A report that came while cycle n ran is in cycle n + 1.
std::vector<Operators::Ticket*> Operators::begin_cycle(Cycle& cycle) {
    cycle.assert_state();
    ++cycle.number;
    ++stats_.cycles;
    DCHECK(cycle.runs && cycle.alone == 0 && !cycle.waiting.empty());
    for ([[maybe_unused]] const Ticket* const ticket : cycle.waiting)
        CHECK(ticket->came_in + 1 == cycle.number);  // OF-4
    stats_.waiting -= cycle.waiting.size();
    return std::exchange(cycle.waiting, {});
}

// False: each report is to run alone, because they are few, or because one of them fails. The
// constants of one are no reason for another one's error.
bool Operators::run_cycle(std::vector<Ticket*>& tickets, const Reads& reads,
                          const AnswerOptions& options) {
    if (tickets.size() < std::max<size_t>(options.together_min, 2)) return false;
    Roots plans;
    for (const Ticket* const ticket : tickets) plans.push_back(ticket->plan);
    auto rows = compute(plans, reads, options);
    if (!rows.has_value()) return false;
    DCHECK(rows->size() == tickets.size());
    for (size_t i = 0; i < tickets.size(); ++i) tickets[i]->rows.push_back(std::move((*rows)[i]));
    return true;
}

void Operators::end_cycle(const std::string& type, Cycle& cycle) {
    DCHECK(cycle.runs && cycle.alone == 0);
    if (cycle.waiting.empty()) {
        cycle.runs = false;
        const auto at = cycles_.find(type);
        if (at != cycles_.end() && at->second.get() == &cycle) cycles_.erase(at);
    } else {
        cycle.waiting.front()->leads = true;
    }
    cycle.assert_state();
    cycle.changed.notify_all();
}

}  // namespace lockstep::sm::report
