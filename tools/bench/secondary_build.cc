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

Result<double> build(const std::string& path) {
    Store store = TRY(Store::open(path, build_options()));
    double seconds = 0;
    const auto done = store.run([&](Txn& txn) -> Result<void> {
        // In memory before: the device is not measured.
        const Index index = TRY(store.index(txn, "bench"));
        Cursor all = index.scan(txn);
        while (TRY(all.next())) {}
        const MonotonicClock clock;
        const Nanos begin = clock.now();
        TRY(store.create_index(txn, "secondary", {.of = index, .key = scattered}));
        seconds = static_cast<double>(clock.now() - begin) / 1e9;
        return fail(ErrorCode::rolled_back);
    });
    if (!done && done.error().code != ErrorCode::rolled_back) return Unexpected(done.error());
    TRY(store.close());
    return seconds;
}

// Runs fn() in a child process; what it returns.
template <class F>
Result<double> in_child(F fn) {
    int ends[2];
    if (pipe(ends) != 0) return fail_os(ErrorCode::io_error, errno, "pipe");
    const pid_t child = fork();
    if (child == 0) {
        const Result<double> got = fn();
        if (!got) fmt::print(stderr, "{}\n", got.error().text());
        const bool told = got && write(ends[1], &*got, sizeof *got) == sizeof *got;
        _exit(told ? 0 : 1);
    }
    double got = 0;
    ::close(ends[1]);
    const bool told = read(ends[0], &got, sizeof got) == sizeof got;
    ::close(ends[0]);
    int status = 0;
    waitpid(child, &status, 0);
    if (!told) return fail(ErrorCode::io_error, "the child", static_cast<uint64_t>(status));
    return got;
}

double median(std::vector<double> of) {
    std::ranges::sort(of);
    return of[of.size() / 2];
}

}  // namespace

Result<void> bench_secondary_build(const Settings& settings, Report& report) {
    const uint64_t rows = rows_for(settings.bytes != 0 ? settings.bytes : 256ull << 20);
    const std::string path = settings.directory + "/secondary-build";
    TRY(in_child([&]() -> Result<double> {
        Store store = TRY(Store::open(path, build_options()));
        TRY(load_rows(store, rows));
        TRY(store.close());
        return 0.0;
    }));
    cpu_set_t allowed;
    sched_getaffinity(0, sizeof allowed, &allowed);
    const int cores = CPU_COUNT(&allowed);
    const auto on_one_core = [&]() -> Result<double> {
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
        one.push_back(TRY(in_child(on_one_core)));
        all.push_back(TRY(in_child([&] { return build(path); })));
        ratios.push_back(one.back() / all.back());
        report.note(
            fmt::format("one core {:.3f} s, {} cores {:.3f} s", one.back(), cores, all.back()));
    }
    report.measurement(fmt::format("{} records, one core", rows), median(one), "s");
    report.measurement(fmt::format("{} records, {} cores", rows, cores), median(all), "s");
    report.measurement("times as fast", median(ratios), "", cores == 2 ? ">= 1.7" : "");
    return {};
}

}  // namespace lockstep::bench
