// config.cc - drawing a configuration.
#include "tests/sim/config.h"

#include <fmt/format.h>

#include <algorithm>

namespace lockstep::sim {

namespace {

// Of Options::transactions_max; and threads, some of which then wait in begin.
constexpr uint32_t kTransactionsLeast = 16, kCrowd = 20;

void draw_engine(Config& c, Rng& rng) {
    c.workers = one_of(rng, {1u, 1u, 2u, 2u, 3u, 4u});
    c.threads = static_cast<uint32_t>(2 + rng.below(7));
    if (rng.chance(0.4)) {
        c.steps.mode = one_of(rng, {StepsMode::on, StepsMode::on, StepsMode::prefetch,
                                    StepsMode::ctx, StepsMode::grouping, StepsMode::ctx_only});
        c.steps.team_max = one_of(rng, {2u, 3u, 8u, 16u});
        c.steps.policy =
            one_of(rng, {TeamPolicy::last_leaver, TeamPolicy::largest, TeamPolicy::oldest});
        c.steps.gate = one_of(rng, {TeamGate::t_gated, TeamGate::d_gated, TeamGate::c_gated});
        // Every other configuration changes its team size all the time.
        c.steps.window_records = c.threads % 2 != 0 ? 2 : 0;
    }
    c.log_bytes = one_of(rng, {uint64_t{4} << 20, uint64_t{8} << 20, uint64_t{64} << 20});
    c.checkpoint_log_bytes = rng.chance(0.5) ? 1 << 20 : 2 << 20;
    c.checkpoint_odds = one_of(rng, {0.0, 0.03, 0.15});
    c.lazy_flush_interval = one_of(rng, {50 * kMicrosecond, kMillisecond, 10 * kMillisecond});
    c.lock_timeout = one_of(rng, {20 * kMillisecond, 200 * kMillisecond, 10 * kSecond});
    c.escalate_at = one_of(rng, {3u, 10u, 5000u, 5000u});
    c.tick = one_of(rng, {Nanos{0}, kMicrosecond, 10 * kMicrosecond});
    c.latency_max = one_of(rng, {50 * kMicrosecond, 200 * kMicrosecond, 5 * kMillisecond});
}

void draw_records(Config& c, Rng& rng) {
    c.indexes = static_cast<uint32_t>(1 + rng.below(3));
    c.heaps = static_cast<uint32_t>(rng.below(3));
    c.schema_changes = rng.chance(0.4);
    c.keys = one_of(rng, {uint64_t{1}, uint64_t{5}, uint64_t{30}, uint64_t{100}, uint64_t{300},
                          uint64_t{1000}});
    c.key_pad = one_of(rng, {0u, 0u, 20u, 200u, 900u});
    c.value_max = one_of(rng, {40u, 200u, 200u, 1500u});
    c.large_odds = rng.chance(0.3) ? 0.1 : 0;
    c.skew = one_of(rng, {0.0, 0.5, 0.9});
    c.weak_odds = one_of(rng, {0.0, 0.2, 0.5});
    c.lazy_odds = one_of(rng, {0.0, 0.4, 0.9});
    c.operations_max = one_of(rng, {3u, 10u, 10u, 25u});
}

FaultProfile draw_profile(Rng& rng) {
    if (rng.chance(0.25)) return FaultProfile::none;
    return static_cast<FaultProfile>(
        1 + rng.below(static_cast<uint64_t>(FaultProfile::data_failure) - 1));
}

// A transaction in doubt keeps its locks for longer than others may wait.
void use_variety(Config& c, uint32_t version) {
    c.variety = draw_variety(c.seed, version);
    c.secondary = c.secondary || c.variety.secondary;
    if (c.variety.prepare_odds > 0) c.lock_timeout = std::min(c.lock_timeout, 200 * kMillisecond);
    if (c.variety.small_pool) c.pool_bytes = 1 << 20;
    if (c.variety.crowd) c.transactions_max = kTransactionsLeast, c.threads = kCrowd;
}

}  // namespace

const char* profile_name(FaultProfile profile) {
    static constexpr const char* kNames[] = {"none",      "write_errors", "log_failure",
                                             "no_space",  "clock",        "log_full",
                                             "disk_full", "lost_writes",  "data_failure"};
    static_assert(std::size(kNames) == static_cast<size_t>(FaultProfile::kCount));
    return kNames[static_cast<size_t>(profile)];
}

// Always the same draws in the same order; what the command line fixes replaces them afterwards.
Config draw_config(uint64_t seed, const Arguments& arguments) {
    Config c;
    c.seed = seed;
    Rng rng = stream(seed, Stream::configuration);
    draw_engine(c, rng);
    draw_records(c, rng);
    c.profile = draw_profile(rng);
    c.transactions = static_cast<uint32_t>(20 + rng.below(100));
    const bool tpcc = rng.chance(0.15);
    c.interrupt_one_in = one_of(rng, {3u, 10u, 30u, 100u, 1000u});
    c.workload = arguments.workload != Workload::mixed ? arguments.workload
                 : tpcc                                ? Workload::tpcc
                                                       : Workload::records;
    if (c.profile == FaultProfile::write_errors || c.profile == FaultProfile::no_space ||
        c.profile == FaultProfile::lost_writes)
        c.checkpoint_odds = 0.15;
    if (arguments.profile >= 0) c.profile = static_cast<FaultProfile>(arguments.profile);
    // A lot of log.
    if (c.profile == FaultProfile::log_full || c.profile == FaultProfile::disk_full) {
        c.log_bytes = uint64_t{8} << 20;
        c.checkpoint_log_bytes = uint64_t{4} << 20;
        c.checkpoint_odds = 0.01;
        c.value_max = 1500;
        c.large_odds = 0.3;
        c.operations_max = 25;
    }
    if (c.profile == FaultProfile::data_failure) c.pool_bytes = 1 << 20;
    // In half of the seeds the log fits into one segment, whose file grows in steps.
    if (Rng(seed).fork(static_cast<uint64_t>(Stream::configuration)).fork(1).chance(0.5))
        c.log_segment_bytes = c.log_bytes / 4;
    Rng packets = Rng(seed).fork(static_cast<uint64_t>(Stream::configuration)).fork(2);
    c.packets = packets.chance(0.5);
    c.executors = one_of(packets, {1u, 2u, 4u, 16u});
    if (arguments.transactions > 0) c.transactions = arguments.transactions;
    if (arguments.steps >= 0) c.steps.mode = arguments.steps > 0 ? StepsMode::on : StepsMode::off;
    if (arguments.workers > 0) c.workers = static_cast<uint32_t>(arguments.workers);
    if (arguments.keys > 0) c.keys = arguments.keys;
    c.syncs_after_write = arguments.syncs_after_write;
    c.secondary = arguments.secondary;
    if (arguments.variety > 0 && c.workload == Workload::records) use_variety(c, arguments.variety);
    if (c.workload == Workload::tpcc) {
        c.lock_timeout = 10 * kSecond;
        c.log_bytes = 64 << 20;
    }
    return c;
}

std::string Config::text() const {
    return fmt::format(
        "workload {} profile {} workers {} threads {} transactions {} steps {} pool {}K log {}M "
        "segment {}M checkpoint {:.2f} lazy {:.1f} "
        "indexes {} heaps {} schema {} keys {} pad {} value {} large {:.1f} skew {:.1f} weak "
        "{:.1f} escalate {} tick {} interrupt 1/{} packets {} executors {}; {}",
        static_cast<int>(workload), profile_name(profile), workers, threads, transactions,
        static_cast<int>(steps.mode), pool_bytes >> 10, log_bytes >> 20, log_segment_bytes >> 20,
        checkpoint_odds, lazy_odds, indexes, heaps, schema_changes, keys, key_pad, value_max,
        large_odds, skew, weak_odds, escalate_at, tick, interrupt_one_in, packets, executors,
        variety.text());
}

}  // namespace lockstep::sim
