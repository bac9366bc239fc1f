// secondary_build.cc - building a secondary index over existing records: on one core against all.
//
// Concepts   Each build is a child process of its own, because oneTBB looks at the allowed cores
//            once. The children take turns: one core, all cores, one core. The result is the median
//            of the ratios of neighbours. The build is rolled back, so all children do the same.
#include <fmt/core.h>
#include <sched.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>

#include "tools/bench/bench.h"
#include "tools/bench/paired.h"

namespace lockstep::bench {
namespace {

// No sync: the device is not measured.
Options build_options() {
    return {.pool_bytes = 2ull << 30,
            .log_bytes = 8ull << 30,
            .log_ring_bytes = 256ull << 20,
            .sync = false};
}

// A text of sixteen bytes from the value: scattered, as names are.
void scattered(Slice key, Slice value, SecondaryKeys& keys) {
    uint64_t mixed = 0;
    std::memcpy(&mixed, key.data(), std::min(key.size(), sizeof mixed));
    mixed *= 0x9e3779b97f4a7c15;
    char text[16];
    for (int n = 0; n < 8; ++n) text[n] = static_cast<char>('a' + (mixed >> 8 * n) % 26);
    std::memcpy(text + 8, value.data(), std::min<size_t>(8, value.size()));
    keys.add(Slice(text, sizeof text));
}

// Of one build, in seconds.
struct Times {
    double first = 0, all = 0;  // until the first sorted entries came, and the last were loaded
    double cpu = 0;             // of all threads
};

Result<Times> build(const std::string& path) {
    Store store = TRY(Store::open(path, build_options()));
    Times times;
    const auto done = store.run([&](Txn& txn) -> Result<void> {
        // In memory before: the device is not measured.
        const Index index = TRY(store.index(txn, "bench"));
        Cursor all = index.scan(txn);
        while (TRY(all.next())) {}
        const MonotonicClock clock;
        const Nanos begin = clock.now(), cpu = cpu_time();
        const auto seconds = [&] { return static_cast<double>(clock.now() - begin) / 1e9; };
        const auto progress = [&](const BuildProgress& state) {
            if (state.entries_loaded == 0) times.first = seconds();
        };
        TRY(store.create_index(txn, "secondary",
                               {.of = index, .key = scattered, .progress = progress}));
        times.all = seconds();
        times.cpu = static_cast<double>(cpu_time() - cpu) / 1e9;
        return fail(ErrorCode::rolled_back);
    });
    if (!done && done.error().code != ErrorCode::rolled_back) return Unexpected(done.error());
    TRY(store.close());
    return times;
}

std::string text(const Times& t) {
    return fmt::format("{:.3f} s (first entries {:.3f}, CPU {:.3f})", t.all, t.first, t.cpu);
}

// Runs fn() in a child process; what it returns.
template <class F>
Result<Times> in_child(F fn) {
    int ends[2];
    if (pipe(ends) != 0) return fail_os(ErrorCode::io_error, errno, "pipe");
    const pid_t child = fork();
    if (child == 0) {
        const Result<Times> got = fn();
        if (!got) fmt::print(stderr, "{}\n", got.error().text());
        const bool told = got && write(ends[1], &*got, sizeof *got) == sizeof *got;
        _exit(told ? 0 : 1);
    }
    Times got;
    ::close(ends[1]);
    const bool told = read(ends[0], &got, sizeof got) == sizeof got;
    ::close(ends[0]);
    int status = 0;
    waitpid(child, &status, 0);
    if (!told) return fail(ErrorCode::io_error, "the child", static_cast<uint64_t>(status));
    return got;
}

}  // namespace

Result<void> bench_secondary_build(const Settings& settings, Report& report) {
    const uint64_t rows = rows_for(settings.bytes != 0 ? settings.bytes : 256ull << 20);
    const std::string path = settings.directory + "/secondary-build";
    TRY(in_child([&]() -> Result<Times> {
        Store store = TRY(Store::open(path, build_options()));
        TRY(load_rows(store, rows));
        TRY(store.close());
        return Times{};
    }));
    cpu_set_t allowed;
    sched_getaffinity(0, sizeof allowed, &allowed);
    const int cores = CPU_COUNT(&allowed);
    const auto on_one_core = [&]() -> Result<Times> {
        cpu_set_t one;
        CPU_ZERO(&one);
        for (int cpu = 0; CPU_COUNT(&one) == 0; ++cpu)
            if (CPU_ISSET(cpu, &allowed)) CPU_SET(cpu, &one);
        sched_setaffinity(0, sizeof one, &one);
        return build(path);
    };
    std::vector<double> one, all, ratios;
    const int rounds = std::max(3, static_cast<int>(settings.seconds * 4));
    for (int n = 0; n < rounds; ++n) {
        const Times alone = TRY(in_child(on_one_core));
        const Times together = TRY(in_child([&] { return build(path); }));
        one.push_back(alone.all);
        all.push_back(together.all);
        ratios.push_back(alone.all / together.all);
        report.note(fmt::format("one core {}; {} cores {}", text(alone), cores, text(together)));
    }
    report.measurement(fmt::format("{} records, one core", rows), median(one), "s");
    report.measurement(fmt::format("{} records, {} cores", rows, cores), median(all), "s");
    report.measurement("times as fast", median(ratios), "", cores == 2 ? ">= 1.7" : "");
    return {};
}

}  // namespace lockstep::bench
