// native.cc - times a plan on this machine: the modes in turn on one store, A B A B, so that a
// drift of the machine meets both alike.
//
// Concepts   A slice counts units and the CPU time that they took, with a probe of the core before
//            and after it (tools/bench/quiet.h).
#include <fmt/core.h>

#include <algorithm>

#include "sm/engine/engine.h"
#include "threads/thread/thread.h"
#include "tools/icache/child.h"
#include "tools/icache/native_json.h"

namespace lockstep::icache {

namespace {

constexpr int kPairs = 33;  // the first warms up
constexpr Nanos kSliceMax = 5 * kSecond;

// One part against its base, STEPS off.
class Contest {
public:
    Contest(Store& store, Workload& workload, const Part& part, double seconds)
        : store_(store),
          workload_(workload),
          part_(part),
          slice_(static_cast<Nanos>(seconds * 1e9 / (2 * kPairs))) {}

    Result<nlohmann::ordered_json> run() {
        TRY(workload_.begin_part(part_));
        std::vector<Handle<void>> members;
        for (uint32_t i = 0; i < workload_.threads(part_); ++i)
            members.push_back(store_.start([this, i] { return member(i); }, 0));
        const auto controlled = store_.start([this] { return control(); }, 0).join();
        stop_ = true;
        for (auto& member : members) TRY(member.join());
        if (!controlled) return std::unexpected(controlled.error());
        return report();
    }

private:
    Result<void> member(uint32_t number) {
        while (!stop_) {
            TRY(workload_.unit(number));
            ++units_;
            // Or one thread would keep the worker.
            if (threads::worker_local.steps == nullptr && is_operation(part_.what))
                threads::yield();
        }
        return workload_.end(number);
    }

    Result<void> control() {
        auto hardware = Hardware::open();
        if (!hardware) refusal_ = explain_refusal(hardware.error().os);
        for (int pair = 0; pair < kPairs; ++pair)
            for (const bool steps : {false, true}) {
                set_mode(steps ? part_.mode : StepsMode::off);
                threads::sleep_until(threads::now() + slice_ / 4);  // the new mode settles
                const double probe = bench::probe_core();
                const Readings before = hardware ? hardware->read() : Readings{};
                const uint64_t units = units_;
                const Nanos cpu = bench::cpu_time();
                // On a busy machine a short slice may pass before one unit has ended.
                const Nanos last = threads::now() + kSliceMax;
                do threads::sleep_until(threads::now() + slice_ * 3 / 4);
                while (units_ == units && threads::now() < last);
                const auto took = static_cast<double>(bench::cpu_time() - cpu);
                const auto n = static_cast<double>(units_ - units);
                const Readings after = hardware ? hardware->read() : Readings{};
                const double slower = std::max(probe, bench::probe_core());
                if (pair == 0) continue;
                if (n == 0)
                    return fail(ErrorCode::bad_argument,
                                "seconds: nothing ended in a slice of 5 s; give --seconds a larger "
                                "value");
                slices_[steps].push_back({n / took, slower});
                if (hardware) counters_[steps].push_back({before, after, n});
            }
        set_mode(StepsMode::off);
        return {};
    }

    void set_mode(StepsMode mode) {
        StepsOptions steps = store_.steps_options();
        steps.mode = mode;
        threads::set_steps(steps);
    }

    nlohmann::ordered_json report() const {
        nlohmann::ordered_json json = time_json(slices_[0], slices_[1]);
        json["what"] = part_.what;
        json["mode"] = part_.text();
        json["threads"] = workload_.threads(part_);
        if (!refusal_.empty()) json["counters_refused"] = refusal_;
        else json["counters"] = counters_json(counters_[0], counters_[1]);
        return json;
    }

    Store& store_;
    Workload& workload_;
    const Part part_;
    const Nanos slice_;
    uint64_t units_ = 0;  // one worker: no race
    bool stop_ = false;
    std::string refusal_;
    std::vector<bench::TimedSlice> slices_[2];  // rates: units a nanosecond of CPU time
    std::vector<CounterSlice> counters_[2];
};

}  // namespace

Result<nlohmann::ordered_json> run_native(const ChildSettings& settings) {
    Store store =
        TRY(Store::open(settings.directory + "/native", TRY(options_for(settings, false))));
    const auto workload = is_transaction(settings.plan[0].what)
                              ? make_transactions(store, settings.workload)
                              : make_operations(store, settings.workload);
    TRY(store.start([&] { return workload->load(); }, 0).join());
    nlohmann::ordered_json result;
    // The other parts are their bases.
    for (size_t i = 1; i < settings.plan.size(); i += 2)
        result["parts"].push_back(
            TRY(Contest(store, *workload, settings.plan[i], settings.seconds).run()));
    TRY(store.close());
    return result;
}

}  // namespace lockstep::icache
