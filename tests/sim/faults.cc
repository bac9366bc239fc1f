// faults.cc - profiles.
#include "tests/sim/faults.h"

#include "sm/buffer/write_backoff.h"
#include "threads/io/sim_faults.h"

namespace lockstep::sim {

using threads::SimFault;

void disturb(threads::SimDisk& disk, Rng& rng) {
    auto& faults = disk.faults();
    faults.set_odds(SimFault::short_transfer, 0.2);
    faults.set_odds(SimFault::again, 0.2);
    faults.set_odds(SimFault::slow, 0.05);
    const SimFault once = rng.chance(0.5) ? SimFault::read_error : SimFault::bit_flip;
    faults.only_paths_ending_with(once, "/data");
    faults.fail_nth(once, 3 + rng.below(4));  // not the superblocks, which are two
}

void count_disturbances(threads::SimDisk& disk, Report& report) {
    auto& faults = disk.faults();
    report.add(Count::short_transfer, faults.count(SimFault::short_transfer));
    report.add(Count::again, faults.count(SimFault::again));
    report.add(Count::slow, faults.count(SimFault::slow));
    report.add(Count::read_error, faults.count(SimFault::read_error));
    report.add(Count::bit_flip, faults.count(SimFault::bit_flip));
}

FaultInjector::FaultInjector(threads::SimDisk& disk, Shared& shared)
    : disk_(disk), shared_(shared), rng_(stream(shared.config.seed, Stream::faults)) {}

void FaultInjector::begin(Host&) {
    auto& faults = disk_.faults();
    active_ = true;
    if (rng_.chance(0.5)) {  // on top of whatever else happens
        faults.set_odds(SimFault::short_transfer, 0.2);
        faults.set_odds(SimFault::again, 0.2);
        faults.set_odds(SimFault::slow, 0.1);
    }
    if (shared_.config.variety.torn_reads) faults.set_odds(SimFault::torn_read, 0.7);
    switch (shared_.config.profile) {
        case FaultProfile::write_errors:
            faults.only_paths_with(SimFault::write_error, "data");
            faults.set_odds(SimFault::write_error, 0.2 + 0.1 * static_cast<double>(rng_.below(3)));
            shared_.failures_allowed = true;
            break;
        case FaultProfile::log_failure: {
            const bool sync = rng_.chance(0.6);
            const SimFault fault = sync ? SimFault::sync_error : SimFault::write_error;
            faults.only_paths_with(fault, sync && rng_.chance(0.3) ? "data" : "log.");
            faults.fail_nth(fault, 1 + rng_.below(shared_.config.transactions / 2 + 1));
            shared_.failures_allowed = true;
            break;
        }
        case FaultProfile::no_space:
            faults.set_odds(SimFault::no_space_allocate, 0.5);
            faults.only_paths_with(SimFault::no_space_write, "data");
            faults.set_odds(SimFault::no_space_write, 0.3);
            shared_.failures_allowed = true;
            break;
        case FaultProfile::log_full:
            faults.only_paths_with(SimFault::no_space_allocate, "/log.");
            faults.set_odds(SimFault::no_space_allocate, 1);
            shared_.failures_allowed = true;
            break;
        case FaultProfile::disk_full:
            disk_.set_capacity(disk_.bytes_used() + rng_.below(3) * (1 << 20));
            shared_.failures_allowed = true;
            break;
        case FaultProfile::lost_writes:
            faults.only_paths_ending_with(SimFault::lost_write, "/data");
            faults.set_odds(SimFault::lost_write, 0.1 + 0.2 * static_cast<double>(rng_.below(3)));
            shared_.failures_allowed = true;
            break;
        case FaultProfile::data_failure:
            data_fails_at_ = 0.1 * static_cast<double>(rng_.below(6));
            shared_.failures_allowed = true;
            break;
        default: break;
    }
}

void FaultInjector::fail_data(Host& host) {
    disk_.faults().only_paths_ending_with(SimFault::write_error, "/data");
    disk_.faults().set_odds(SimFault::write_error, 1);
    data_fails_at_ = 2;
    shared_.liveness.faults_stopped(host.clock().now());  // no other fault excuses a wait
}

void FaultInjector::step(Host& host, const Work& work) {
    if (!active_) return;
    if (shared_.config.profile == FaultProfile::clock && rng_.chance(0.004)) {
        static constexpr Nanos kJumps[] = {kMillisecond, kSecond, 3600 * kSecond,
                                           1000000 * kSecond};
        host.clock().advance(kJumps[rng_.below(4)]);
        shared_.report.add(Count::clock_jump);
    }
    if (work.progress() >= data_fails_at_) fail_data(host);
    if (work.progress() > 0.6 && shared_.config.profile != FaultProfile::data_failure) stop(host);
}

void FaultInjector::end(Host& host) {
    if (active_) stop(host);
    // The next try of a write is due.
    if (shared_.config.profile == FaultProfile::data_failure)
        host.clock().advance(sm::WriteBackoff::kPauseMax);
    count();
}

void FaultInjector::stop(Host& host) {
    disk_.set_capacity(UINT64_MAX);
    disk_.faults().enable(false);
    active_ = false;
    shared_.liveness.faults_stopped(host.clock().now());
}

void FaultInjector::count() {
    const auto& faults = disk_.faults();
    const bool data = shared_.config.profile == FaultProfile::write_errors ||
                      shared_.config.profile == FaultProfile::data_failure;
    count_disturbances(disk_, shared_.report);
    shared_.report.add(data ? Count::write_error_data : Count::write_error_log,
                       faults.count(SimFault::write_error));
    const bool log = shared_.config.profile == FaultProfile::log_full;
    shared_.report.add(
        log ? Count::no_space_log : Count::no_space_data,
        faults.count(SimFault::no_space_write) + faults.count(SimFault::no_space_allocate));
    shared_.report.add(Count::disk_full, disk_.refusals());
    shared_.report.add(Count::lost_write, faults.count(SimFault::lost_write));
    shared_.report.add(Count::sync_error, faults.count(SimFault::sync_error));
    shared_.report.add(Count::torn_read, faults.count(SimFault::torn_read));
}

}  // namespace lockstep::sim
