// traced.cc - runs a plan on a simulated disk and a clock that stands still, under the tracer.
#include "sm/api/engine_of.h"
#include "sm/host/test_hooks.h"
#include "threads/io/sim_disk.h"
#include "threads/steps/ctx.h"
#include "threads/thread/thread.h"
#include "tools/icache/child.h"
#include "tools/icache/trace_format.h"

namespace lockstep::icache {

namespace {

class TracedRun {
public:
    explicit TracedRun(const ChildSettings& settings)
        : settings_(settings), transactions_(is_transaction(settings.plan[0].what)) {}

    Result<nlohmann::ordered_json> run() {
        hooks_.disk = &disk_;
        hooks_.clock = &clock_;
        hooks_.caller_driven = true;
        // What a worker executes by itself, not a simulation's short steps.
        hooks_.whole_turns = true;
        hooks_.idle = [this] { return idle(); };
        Options options = TRY(options_for(settings_, true));
        options.test_hooks = &hooks_;
        steps_ = options.steps;
        store_.emplace(TRY(Store::open("/store", options)));
        workload_ = transactions_ ? make_transactions(*store_, settings_.workload)
                                  : make_operations(*store_, settings_.workload);
        TRY(drive());
        TRY(store_->close());
        return std::move(result_);
    }

private:
    // Nothing runs by itself: this kernel thread runs slice after slice until the body has ended.
    Result<void> drive() {
        bool ended = false;
        auto running = store_->start(
            [&]() -> Result<void> {
                auto done = body();
                ended = true;
                return done;
            },
            0);
        while (!ended)
            if (!sm::engine_of(*store_).runtime->step()) idle();
        return running.join();
    }
    bool idle() {
        if (!disk_.advance(clock_)) clock_.advance(kMillisecond);
        return true;
    }

    Result<void> body() {
        TRY(workload_->load());
        // Of both the second argument is the point.
        const auto skipped = &threads::Steps::ctx_slow;
        LOCKSTEP_TRACE_WATCH(&lockstep_ctx_swap);
        LOCKSTEP_TRACE_WATCH(skipped);
        result_["swap"] = reinterpret_cast<uintptr_t>(&lockstep_ctx_swap);
        result_["skipped"] = reinterpret_cast<uintptr_t>(skipped);
        for (const auto& point : threads::kCtxPointInfo)
            result_["points"].push_back(
                {{"name", point.name}, {"data", point.kind == threads::CtxClass::data}});
        for (const Part& part : settings_.plan) TRY(run_part(part));
        return {};
    }

    Result<void> run_part(const Part& part) {
        steps_.mode = part.mode;
        threads::set_steps(steps_);
        TRY(workload_->begin_part(part));
        done_ = 0;
        started_ = 0;
        if (!transactions_) start_recording();
        std::vector<Handle<void>> members;
        const uint32_t threads = workload_->threads(part);
        for (uint32_t i = 0; i < threads; ++i)
            members.push_back(store_->start(
                [this, &part, i] { return transactions_ ? terminal(i) : member(part, i); }, 0));
        for (auto& member : members) TRY(member.join());
        if (!transactions_) LOCKSTEP_TRACE_STOP;
        const WorkloadSettings& w = settings_.workload;
        result_["parts"].push_back(
            {{"what", part.what},
             {"mode", part.text()},
             {"threads", threads},
             {"warm_units", transactions_ ? w.transactions / 10 : w.warm_rounds * threads},
             {"teams", teams_of(*store_)}});
        steps_.mode = StepsMode::off;
        threads::set_steps(steps_);
        return {};
    }

    void start_recording() {
        LOCKSTEP_TRACE_START;
        LOCKSTEP_TRACE_MARK(kMarkSegment, part_number_);
        ++part_number_;
    }

    // A thread of a team, or of a serial turn: then it lets the next thread run after each
    // operation. All begin together, or the first would form a team before the others exist, and
    // teams would stay apart.
    Result<void> member(const Part& part, uint32_t number) {
        for (++started_; started_ < part.threads;) threads::yield();
        const uint32_t rounds = settings_.workload.rounds + settings_.workload.warm_rounds;
        for (uint32_t round = 0; round < rounds; ++round) {
            TRY(workload_->unit(number));
            if (!teams_on(part.mode)) threads::yield();
        }
        return workload_->end(number);
    }

    // Recording begins with the transaction that ends the warm-up and ends with the last one, while
    // others are under way. autosteps finds one thread's transactions by the marks around them.
    Result<void> terminal(uint32_t number) {
        const WorkloadSettings& w = settings_.workload;
        while (done_ < w.warm_transactions + w.transactions) {
            LOCKSTEP_TRACE_MARK(kMarkOpBegin, number);
            TRY(workload_->unit(number));
            LOCKSTEP_TRACE_MARK(kMarkOpEnd, number);
            ++done_;
            if (done_ == w.warm_transactions) start_recording();
            else if (done_ > w.warm_transactions)
                LOCKSTEP_TRACE_MARK(kMarkUnits, done_ - w.warm_transactions);
            if (done_ == w.warm_transactions + w.transactions) LOCKSTEP_TRACE_STOP;
        }
        return {};
    }

    const ChildSettings& settings_;
    const bool transactions_;
    threads::SimDisk disk_;
    ManualClock clock_;
    TestHooks hooks_;
    StepsOptions steps_;
    std::optional<Store> store_;
    std::unique_ptr<Workload> workload_;
    uint64_t done_ = 0;     // transactions of this part
    uint32_t started_ = 0;  // its threads
    uint64_t part_number_ = 0;
    nlohmann::ordered_json result_;
};

}  // namespace

Result<nlohmann::ordered_json> run_traced(const ChildSettings& settings) {
    return TracedRun(settings).run();
}

nlohmann::ordered_json teams_of(const Store& store) {
    auto teams = nlohmann::ordered_json::array();
    for (const TeamStats& t : store.steps_stats().teams)
        teams.push_back({{"operation", t.operation},
                         {"teams", t.teams},
                         {"entered", t.entered},
                         {"left", t.left},
                         {"ready", t.ready},
                         {"strays", t.strays.sum()},
                         {"strays_lock", t.strays.lock}});
    return teams;
}

}  // namespace lockstep::icache
