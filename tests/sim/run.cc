// run.cc - the main run of a seed.
#include "tests/sim/run.h"

#include <fmt/format.h>

#include <algorithm>

#include "tests/sim/faults.h"
#include "threads/base/limits.h"

namespace lockstep::sim {

namespace {
constexpr uint64_t kRunStepsMax = 30'000'000;  // of one run: a run that needs more hangs
// Of an image more that is damaged, at each chosen event.
constexpr double kInjuryOdds = 0.5;
constexpr uint64_t kSwitchStream = 5, kLimitsStream = 6;

// Length of the file of the log's first segment; 0 if it is gone.
uint64_t first_segment_bytes(threads::SimDisk& disk) {
    const auto file = disk.open("/store/log.00000000", threads::Disk::kReadOnly);
    if (!file) return 0;
    const uint64_t bytes = disk.size(*file).value_or(0);
    disk.close(*file);
    return bytes;
}
}  // namespace

Run::Run(const Config& config, const Arguments& arguments, Report& report, Progress& progress)
    : config_(config),
      arguments_(arguments),
      report_(report),
      progress_(progress),
      shared_{config, report, digest_},
      crash_(stream(config.seed, Stream::crash)),
      switches_(stream(config.seed, Stream::configuration).fork(kSwitchStream)) {}

uint64_t Run::execute(const Plan& plan) {
    limits::draw(stream(config_.seed, Stream::configuration).fork(kLimitsStream));
    Report first_report;  // of the first pass: its counters would count twice
    uint64_t first;
    {
        Run counting(config_, arguments_, first_report, progress_);
        first = counting.pass(plan, false);
        if (first_report.failed()) {
            report_.fail(first_report.failure);
            report_.failure_event = first_report.failure_event;
            return first;
        }
    }
    choose_events(first_report.get(Count::events));
    const uint64_t second = pass(plan, true);
    if (!report_.failed() && arguments_.until == 0 && first != second)
        report_.fail("two runs of this seed give different digests");
    return second;
}

void Run::choose_events(uint64_t total) {
    if (arguments_.until > 0) {
        chosen_ = {arguments_.until};
        return;
    }
    for (uint32_t i = 0; i < arguments_.crash_points && total > 0; ++i)
        chosen_.push_back(1 + crash_.below(total));
    std::sort(chosen_.rbegin(), chosen_.rend());
    chosen_.erase(std::unique(chosen_.begin(), chosen_.end()), chosen_.end());
}

void Run::observe(Host& host, const threads::SimEvent& event) {
    report_.add(Count::events);
    progress_.event.store(event.number, std::memory_order_relaxed);
    digest_.note(event.path);
    digest_.add(static_cast<uint64_t>(event.kind) * 4 + static_cast<uint64_t>(event.io),
                host.clock().now(), event.offset, event.bytes, static_cast<uint64_t>(event.result),
                hash_of(event.path));
    if (taking_ && !chosen_.empty() && chosen_.back() == event.number) {
        chosen_.pop_back();
        report_.add(Count::crash_events);
        images_.push_back({nullptr, event.number, {}, work_->moment(), {}});
    }
}

// What each image costs is one recovery; its outcome depends on (seed, event, number of the
// outcome) alone.
void Run::take_images(threads::SimDisk& disk, uint64_t event, uint64_t at) {
    Rng rng = stream(config_.seed, Stream::crash).fork(event);
    for (uint32_t i = 0; i < arguments_.outcomes; ++i) {
        const threads::SimCrash mode =
            threads::kSimCrashes[rng.below(std::size(threads::kSimCrashes))];
        images_.push_back({disk.image(rng.next(), mode), event, mode, at, {}});
    }
    // A killed process leaves the lengths of the moment.
    const uint64_t now = first_segment_bytes(*disk.image(0, threads::SimCrash::keep_all));
    if (now > 0 && now < config_.log_segment_bytes) report_.add(Count::short_log);
    for (const Image& image : images_) {
        const uint64_t left = first_segment_bytes(*image.disk);
        if (left > 0 && left < now) report_.add(Count::log_cut_off);
    }
    if (rng.chance(kInjuryOdds) && config_.profile != FaultProfile::lost_writes)
        images_.push_back({disk.image(rng.next(), threads::SimCrash::keep_all), event,
                           threads::SimCrash::keep_all, at,
                           static_cast<Injury>(rng.below(static_cast<uint64_t>(Injury::kCount)))});
    // There is room again after the crash.
    for (Image& image : images_) image.disk->set_capacity(UINT64_MAX);
}

uint64_t Run::pass(const Plan& plan, bool images) {
    taking_ = images;
    const std::unique_ptr<std::FILE, int (*)(std::FILE*)> trace(
        arguments_.trace.empty()
            ? nullptr
            : std::fopen((arguments_.trace + (images ? ".2" : ".1")).c_str(), "w"),
        [](std::FILE* f) { return std::fclose(f); });
    digest_.trace_to(trace.get());
    threads::SimDisk disk({.seed = stream(config_.seed, Stream::io).next(),
                           .latency_max = config_.latency_max,
                           .syncs_after_write = config_.syncs_after_write});
    disk_ = &disk;
    FaultInjector faults(disk, shared_);
    Host host(disk, config_, 0);
    std::unique_ptr<Work> work =
        config_.workload == Workload::tpcc ? make_tpcc(shared_) : make_records(shared_, plan);
    work_ = work.get();
    disk.observe([&](const threads::SimEvent& event) {
        const size_t before = images_.size();
        observe(host, event);
        if (images_.size() > before) {
            const Image wanted = std::move(images_.back());
            images_.pop_back();
            take_images(disk, wanted.event, wanted.at);
        }
    });
    if (images) host.after_step([&] { digests_.look(host.engine(), report_); });
    if (auto opened = host.open(); !opened) report_.fail("creation: " + opened.error().text());
    if (!report_.failed()) work->prepare(host);
    recover_images(*work);
    if (!report_.failed()) {
        work->start(host);
        faults.begin(host);
        for (uint64_t n = 0; !work->done() && !stopped_ && !report_.failed(); ++n) {
            if (n > kRunStepsMax) report_.fail("liveness: the transactions do not end");
            faults.step(host, *work);
            switch_steps(host);
            host.step();
            if (const auto thread = shared_.liveness.late(host.clock().now()))
                report_.fail(
                    fmt::format("liveness: a transaction of thread {} has not ended {} s "
                                "after its begin and the end of the faults",
                                *thread, Liveness::kLongest / kSecond));
            recover_images(*work);
        }
        faults.end(host);
        count_at_end(host);
    }
    if (!report_.failed() && !stopped_) finish(host, *work);
    disk.observe(nullptr);
    host.abandon();
    recover_images(*work);
    work_ = nullptr;
    return digest_.value();
}

// In the middle of whatever the threads do. As Store::set_steps(), which would wait for them: this
// thread runs them.
void Run::switch_steps(Host& host) {
    if (!switches_.chance(config_.variety.steps_odds)) return;
    static constexpr StepsMode kModes[] = {
        StepsMode::on,       StepsMode::off,     StepsMode::ctx,     StepsMode::on,
        StepsMode::grouping, StepsMode::fastctx, StepsMode::prefetch};
    StepsOptions steps = config_.steps;
    steps.mode = kModes[switches_.below(std::size(kModes))];
    steps.team_max = 1 + static_cast<uint32_t>(switches_.below(16));
    steps.window_records = switches_.chance(0.5) ? 2 : 0;
    host.engine().steps_now = steps;
    host.engine().steps_mode.store(steps.mode, std::memory_order_relaxed);
    for (uint32_t w = 0; w < config_.workers; ++w)
        host->start(
            [steps]() -> Result<void> {
                threads::set_steps(steps);
                return {};
            },
            static_cast<int>(w));
    report_.add(Count::steps_switched);
}

void Run::count_at_end(Host& host) {
    const StoreStats stats = host->stats();
    report_.add(Count::interruptions, host.engine().runtime->stats().interruptions);
    if (config_.variety.small_pool) report_.add(Count::pages_evicted, stats.evictions);
    if (config_.variety.crowd)
        report_.add(Count::begins_delayed, stats.waits[kWaitCauses - 1].count);
}

void Run::recover_images(Work& work) {
    while (!images_.empty() && !report_.failed()) {
        Image image = std::move(images_.back());
        images_.pop_back();
        const uint64_t event = image.event;
        Rng rng = stream(config_.seed, Stream::crash)
                      .fork(event ^ static_cast<uint64_t>(image.mode) << 40);
        if (image.injury) {
            Digest apart;
            Shared own{config_, report_, apart};
            injure_and_judge(*image.disk, *image.injury, work, image.at, own, rng);
        } else {
            report_.add(Count::crash_points);
            if (config_.profile == FaultProfile::lost_writes)
                judge_lost_writes(*image.disk, work, image.at, shared_);
            else recover_and_judge(std::move(image), work, shared_, arguments_, rng, 1, &digests_);
        }
        if (report_.failed() && report_.failure_event == 0) report_.failure_event = event;
        if (arguments_.until > 0 && event >= arguments_.until && images_.empty()) stopped_ = true;
    }
}

// Everything has ended. The store that lived through it is sound, and holds what it held when it is
// closed and opened again.
void Run::finish(Host& host, Work& work) {
    report_.add(Count::liveness_checks);
    const bool failed = host.engine().failed();
    if (failed && !shared_.failures_allowed) return report_.fail("the store has failed");
    if (config_.profile == FaultProfile::lost_writes) return finish_with_lost_writes(host, work);
    if (!failed) {
        auto faults = host->verify();
        // After a shortage the first request for log space is still refused, but it starts the
        // log keeper. The archive tries again after a pause.
        const bool short_of_room =
            config_.profile == FaultProfile::log_full || config_.profile == FaultProfile::disk_full;
        const auto passes = [&](ErrorCode code) {
            return code == ErrorCode::archive_failed ||
                   (short_of_room && (code == ErrorCode::log_full || code == ErrorCode::no_space));
        };
        for (int n = 0; n < 1000 && !faults && passes(faults.error().code); ++n) {
            host.step();
            if (n % 100 == 99) faults = host->verify();
        }
        // Of a secondary index of records that are in doubt nothing can be said.
        const bool in_doubt = config_.secondary && !host->prepared().empty() && !faults &&
                              faults.error().code == ErrorCode::lock_timeout;
        if (!faults && !in_doubt) return report_.fail("verify: " + faults.error().text());
        if (faults)
            for (const std::string& fault : *faults) report_.fail("verify: " + fault);
        if (report_.failed()) return;
    }
    const Result<void> closed = host.close();
    // A failed write of the durable-end record may not have been reported yet.
    const bool may_fail =
        failed || (config_.profile == FaultProfile::log_failure && shared_.failures_allowed);
    if (!closed && !(may_fail && closed.error().code == ErrorCode::store_failed))
        return report_.fail("close: " + closed.error().text());
    if (!host.errors().empty() && !shared_.failures_allowed)
        return report_.fail("the store complained: " + host.errors());
    // Records that a failed store has lost leave their lsns to others: one lsn would stand for two
    // pages, also in images that are taken from now on.
    recover_images(work);
    host.after_step({});
    if (!closed) digests_ = {};
    if (auto opened = host.open(); !opened)
        return report_.fail("opening again: " + opened.error().text());
    work.will_be_judged();
    (void)work.judge(host, work.moment(), 0, shared_);
    if (taking_ && !report_.failed()) work.judge_copies(*disk_);
}

// Pages that still lie in memory hide what has become of them: close, and see what a new engine
// finds.
void Run::finish_with_lost_writes(Host& host, Work& work) {
    const Result<void> closed = host.close();
    // A page that cannot be rebuilt ends the store if a rollback needs it.
    const auto is_lost_page = [](const Error& e) {
        return sm::is_bad_page(e.code) || (e.code == ErrorCode::store_failed &&
                                           std::string_view(e.what) == "read of data file");
    };
    if (!closed && !is_lost_page(closed.error()))
        return report_.fail("close: " + closed.error().text());
    Shared apart{config_, report_, digest_};
    work.will_be_judged();
    judge_lost_writes(*disk_, work, work.moment(), apart);
}

}  // namespace lockstep::sim
