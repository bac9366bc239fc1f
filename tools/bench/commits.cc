// commits.cc - durable commits: what group commit makes of many user threads.
#include <fmt/core.h>

#include "tools/bench/bench.h"

namespace lockstep::bench {
namespace {

// `threads` user threads commit one-record transactions until the time is over.
Result<void> commit_with(Store& store, Index index, uint32_t threads, const Settings& settings, Report& report) {
    const StoreStats before = store.stats();
    const MonotonicClock clock;
    const Nanos begin = clock.now(), end = begin + static_cast<Nanos>(settings.seconds * 1e9);
    std::vector<Handle<uint64_t>> running;
    for (uint32_t t = 0; t < threads; ++t)
        running.push_back(store.start([&, t]() -> Result<uint64_t> {
            uint64_t commits = 0;
            std::string value(kRowBytes, 'c');
            while (clock.now() < end) {
                Txn txn = TRY(store.begin());
                value[commits % kRowBytes] ^= 1;
                TRY(index.update(txn, Key().u64(t), value));
                TRY(txn.commit());
                ++commits;
            }
            return commits;
        }));
    uint64_t commits = 0;
    for (auto& handle : running) commits += TRY(handle.join());
    const double seconds = static_cast<double>(clock.now() - begin) / 1e9;
    const StoreStats after = store.stats();
    report.figure(fmt::format("durable commits, {} user threads", threads), static_cast<double>(commits) / seconds, "1/s");
    report.figure("  syncs per commit", static_cast<double>(after.log_syncs - before.log_syncs) / static_cast<double>(commits), "");
    return {};
}

}  // namespace

Result<void> bench_commits(const Settings& settings, Report& report) {
    Store store = TRY(Store::open(settings.directory + "/commits"));
    const Index index = TRY(load_rows(store, 1000));
    for (const uint32_t threads : {1u, 8u, 64u}) TRY(commit_with(store, index, threads, settings, report));
    return store.close();
}

}  // namespace lockstep::bench
