// native.cc - times a plan on this machine: the modes in turn on one store, A B A B, so that a
// drift of the machine meets both alike.
#include <fmt/core.h>

#include <algorithm>

#include "sm/store/engine.h"
#include "threads/thread/thread.h"
#include "tools/icache/child.h"
#include "tools/icache/hardware.h"

namespace lockstep::icache {

namespace {

constexpr int kPairs = 9;  // the first warms up

double median(std::vector<double> v) {
    std::sort(v.begin(), v.end());
    return v.empty() ? 0 : v[v.size() / 2];
}

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
                const auto before = hardware ? hardware->read() : std::array<uint64_t, kEvents>{};
                const uint64_t units = units_;
                const Nanos begin = threads::now();
                threads::sleep_until(begin + slice_ * 3 / 4);
                if (units_ == units || pair == 0) continue;
                const auto n = static_cast<double>(units_ - units);
                times_[steps].push_back(static_cast<double>(threads::now() - begin) / n);
                if (!hardware) continue;
                const auto after = hardware->read();
                for (size_t e = 0; e < kEvents; ++e)
                    events_[steps][e].push_back(static_cast<double>(after[e] - before[e]) / n);
            }
        set_mode(StepsMode::off);
        return {};
    }

    void set_mode(StepsMode mode) {
        StepsOptions steps = store_.options().steps;
        steps.mode = mode;
        threads::set_steps(steps);
    }

    nlohmann::ordered_json report() {
        std::vector<double> ratios;
        for (size_t i = 0; i < std::min(times_[0].size(), times_[1].size()); ++i)
            ratios.push_back(times_[0][i] / times_[1][i]);
        std::sort(ratios.begin(), ratios.end());
        nlohmann::ordered_json json = {{"what", part_.what},
                                       {"mode", part_.text()},
                                       {"threads", workload_.threads(part_)},
                                       {"ns_off", median(times_[0])},
                                       {"ns_on", median(times_[1])}};
        if (!ratios.empty()) {
            json["speedup"] = ratios[ratios.size() / 2];
            json["speedup_low"] = ratios.front();
            json["speedup_high"] = ratios.back();
        }
        if (!refusal_.empty()) json["counters_refused"] = refusal_;
        for (size_t e = 0; e < kEvents; ++e)
            if (!events_[0][e].empty())
                json["counters"][kEventNames[e]] = {{"off", median(events_[0][e])},
                                                    {"on", median(events_[1][e])}};
        return json;
    }

    Store& store_;
    Workload& workload_;
    const Part part_;
    const Nanos slice_;
    uint64_t units_ = 0;  // one worker: no race
    bool stop_ = false;
    std::string refusal_;
    std::vector<double> times_[2];
    std::vector<double> events_[2][kEvents];
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
    for (const Part& part : settings.plan)
        if (part.mode != StepsMode::off)
            result["parts"].push_back(TRY(Contest(store, *workload, part, settings.seconds).run()));
    TRY(store.close());
    return result;
}

}  // namespace lockstep::icache
