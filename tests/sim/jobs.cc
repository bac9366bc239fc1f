// jobs.cc - children, shared counters, and the line that replays a failure.
#include "tests/sim/jobs.h"

#include <fmt/format.h>
#include <malloc.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <cstring>

#include "tests/end_child.h"
#include "tests/sim/run.h"
#include "tests/sim/shrink.h"
#include "threads/base/limits.h"

namespace lockstep::sim {

namespace {

// A child's exit status: it has done its share, another goes on.
constexpr int kSpent = 64;
// An abandoned engine leaves behind what its threads owned: some MB a seed in time.
constexpr uint64_t kSeedsPerChild = 200;
constexpr Nanos kTellEvery = 60 * kSecond;

// Written by children, read by the parent.
struct Child {
    Progress progress;
    bool failed = false;
    uint64_t failure_event = 0;
    char failure[2000] = {};
};
struct Board {
    std::atomic<uint64_t> next_seed{0}, seeds_done{0};
    std::atomic<uint64_t> counts[kCounts] = {};
    std::atomic<uint64_t> digest{0};
    std::atomic<bool> stop{false};
    Child children[64];
};

void add_up(Board& board, const Report& report) {
    for (size_t i = 0; i < kCounts; ++i)
        board.counts[i].fetch_add(report.counts[i], std::memory_order_relaxed);
}

// Everything that a replay needs on top of the seed.
std::string replay_options(const Arguments& a) {
    std::string line;
    if (a.workload != Workload::mixed)
        line += a.workload == Workload::records ? " --workload records" : " --workload tpcc";
    if (a.profile >= 0)
        line += fmt::format(" --faults {}", profile_name(static_cast<FaultProfile>(a.profile)));
    if (a.transactions > 0) line += fmt::format(" --transactions {}", a.transactions);
    if (a.steps >= 0) line += a.steps ? " --steps on" : " --steps off";
    if (a.workers > 0) line += fmt::format(" --workers {}", a.workers);
    if (a.keys > 0) line += fmt::format(" --keys {}", a.keys);
    if (a.syncs_after_write) line += " --sync-after-write";
    if (a.secondary) line += " --secondary";
    if (a.variety != kVarietyNewest) line += fmt::format(" --variety {}", a.variety);
    if (a.depth != 3) line += fmt::format(" --depth {}", a.depth);
    if (a.outcomes != 2) line += fmt::format(" --outcomes {}", a.outcomes);
    return line;
}

std::string replay_line(const Arguments& a, uint64_t seed, uint64_t event) {
    const std::string until = event > 0 ? fmt::format(" --until {}", event)
                                        : fmt::format(" --crash-points {}", a.crash_points);
    return fmt::format("lockstep-sim --seed {}{}{}", seed, until, replay_options(a));
}

bool run_seed(const Arguments& arguments, uint64_t seed, Board& board, Child& child) {
    child.progress.seed.store(seed);
    child.progress.event.store(0);
    const Config config = draw_config(seed, arguments);
    if (arguments.verbose) fmt::print("seed {}: {}\n", seed, config.text());
    Report report;
    const Plan plan = draw_plan(config, stream(seed, Stream::work));
    const uint64_t digest = Run(config, arguments, report, child.progress).execute(plan);
    if (arguments.digest) fmt::print("seed {} digest {:016x}\n", seed, digest);
    std::fflush(stdout);
    board.digest.fetch_add(digest * (seed * 2 + 1));  // order of seeds does not matter
    add_up(board, report);
    const std::string drawn = limits::text();
    if (arguments.verbose && !drawn.empty()) fmt::print("seed {}: limits {}\n", seed, drawn);
    if (!report.failed()) return true;
    if (!drawn.empty()) report.failure += " (limits " + drawn + ")";
    child.failure_event = report.failure_event;
    std::strncpy(child.failure, report.failure.c_str(), sizeof child.failure - 1);
    child.failed = true;
    return false;
}

[[noreturn]] void be_child(const Arguments& arguments, Board& board, Child& child) {
    // An engine a few milliseconds: its memory is kept for the next one.
    mallopt(M_MMAP_THRESHOLD, 64 << 20);
    mallopt(M_TRIM_THRESHOLD, 512 << 20);
    for (uint64_t done = 0;; ++done) {
        if (done == kSeedsPerChild) end_child(kSpent);
        const uint64_t n = board.next_seed.fetch_add(1);
        if (n >= arguments.seeds || board.stop.load()) end_child(0);
        if (!run_seed(arguments, arguments.first_seed + n, board, child)) end_child(1);
        board.seeds_done.fetch_add(1);
    }
}

pid_t start_child(const Arguments& arguments, Board& board, Child& child) {
    std::fflush(stdout);
    const pid_t parent = getpid();
    const pid_t pid = fork();
    if (pid == 0) {
        prctl(PR_SET_PDEATHSIG, SIGKILL);  // a killed run leaves no children behind
        if (getppid() != parent) end_child(1);
        be_child(arguments, board, child);
    }
    return pid;
}

uint64_t crash_points(const Board& board) {
    return board.counts[static_cast<size_t>(Count::crash_points)].load();
}

// The child's own words, or the signal that ended it.
Failure note_failure(const Arguments& arguments, Board& board, Child& child, int status) {
    if (!arguments.keep_going) board.stop.store(true);
    const uint64_t seed = child.progress.seed.load();
    std::string text = child.failure;
    uint64_t event = child.failure_event;
    if (!child.failed) {
        text = WIFSIGNALED(status) ? fmt::format("died of signal {} after event {}",
                                                 WTERMSIG(status), child.progress.event.load())
                                   : fmt::format("ended with status {}", WEXITSTATUS(status));
        event = 0;
    }
    Failure failure{seed, text, replay_line(arguments, seed, event), {}};
    fmt::print("FAILED seed {}: {}\n  replay: {}\n", seed, text, failure.replay);
    std::fflush(stdout);
    if (arguments.shrink && draw_config(seed, arguments).workload == Workload::records) {
        failure.shrunk = shrink(arguments, seed);
        fmt::print("{}", failure.shrunk);
        std::fflush(stdout);
    }
    child.failed = false;
    std::memset(child.failure, 0, sizeof child.failure);
    return failure;
}

}  // namespace

Outcome run_share(const Arguments& arguments) {
    Outcome outcome;
    void* memory =
        mmap(nullptr, sizeof(Board), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    CHECK(memory != MAP_FAILED);
    Board& board = *new (memory) Board;
    const MonotonicClock clock;
    const Nanos began = clock.now();
    Nanos tell_at = began + kTellEvery;
    std::vector<pid_t> pids;
    for (uint32_t j = 0; j < arguments.jobs; ++j)
        pids.push_back(start_child(arguments, board, board.children[j]));
    size_t living = pids.size();
    while (living > 0) {
        int status = 0;
        const pid_t ended = waitpid(-1, &status, WNOHANG);
        if (ended <= 0) {
            usleep(2000);
            const Nanos now = clock.now();
            if (arguments.seconds > 0 && static_cast<double>(now - began) > arguments.seconds * 1e9)
                board.stop.store(true);
            if (now < tell_at) continue;
            tell_at = now + kTellEvery;
            fmt::print(stderr, "{} min: {} seeds, {} crash points\n",
                       (now - began) / (60 * kSecond), board.seeds_done.load(),
                       crash_points(board));
            continue;
        }
        for (size_t j = 0; j < pids.size(); ++j) {
            if (pids[j] != ended) continue;
            pids[j] = -1;
            --living;
            if (status == 0) continue;
            if (!WIFEXITED(status) || WEXITSTATUS(status) != kSpent)
                outcome.failures.push_back(
                    note_failure(arguments, board, board.children[j], status));
            if (!board.stop.load()) {
                pids[j] = start_child(arguments, board, board.children[j]);
                ++living;
            }
        }
    }
    outcome.seconds = static_cast<double>(clock.now() - began) / 1e9;
    outcome.seeds = board.seeds_done.load();
    outcome.digest = board.digest.load();
    for (size_t i = 0; i < kCounts; ++i) outcome.counts[i] = board.counts[i].load();
    munmap(memory, sizeof(Board));
    return outcome;
}

void print_counts(const std::array<uint64_t, kCounts>& counts, bool all) {
    for (size_t i = 0; i < kCounts; ++i)
        if (counts[i] > 0 || all)
            fmt::print("  {:<22}{:>12}\n", count_name(static_cast<Count>(i)), counts[i]);
}

int run_seeds(const Arguments& arguments) {
    const Outcome outcome = run_share(arguments);
    fmt::print("{} seeds in {:.1f} s, {} failures, digest {:016x}\n", outcome.seeds,
               outcome.seconds, outcome.failures.size(), outcome.digest);
    print_counts(outcome.counts, arguments.verbose);
    fmt::print("{:.1f} crash points a second\n", outcome.crash_points_a_second());
    return outcome.failures.empty() ? 0 : 1;
}

}  // namespace lockstep::sim
