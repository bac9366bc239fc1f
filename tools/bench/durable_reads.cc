// durable_reads.cc - what a durable commit costs a transaction that only reads, while other threads
// commit changes.
#include <fmt/core.h>

#include <algorithm>

#include "threads/base/rng.h"
#include "tools/bench/bench.h"
#include "tools/bench/quiet.h"

namespace lockstep::bench {
namespace {

struct Rates {
    double reads = 0, writes = 0;  // per second
};

// `threads` user threads: 95 of 100 transactions get one record, 5 update one durably.
Result<Rates> read_mostly(Store& store, Index index, uint64_t rows, uint32_t threads,
                          Durability readers, double seconds, uint64_t seed) {
    const MonotonicClock clock;
    const Nanos begin = clock.now(), end = begin + static_cast<Nanos>(seconds * 1e9);
    struct Counts {
        uint64_t reads = 0, writes = 0;
    };
    std::vector<Handle<Counts>> running;
    for (uint32_t t = 0; t < threads; ++t)
        running.push_back(store.start([&, t]() -> Result<Counts> {
            Rng rng(seed * 1000 + t);
            Counts counts;
            std::string value(kRowBytes, 'w');
            std::byte buffer[kRowBytes];
            while (clock.now() < end) {
                const bool writes = rng.below(100) < 5;
                Txn txn = TRY(store.begin(
                    {.durability = writes ? Durability::durable : readers, .read_only = !writes}));
                const Key key = Key().u64(rng.below(rows));
                if (writes) TRY(index.update(txn, key, value));
                else TRY(index.get(txn, key, buffer));
                TRY(txn.commit());
                ++(writes ? counts.writes : counts.reads);
            }
            return counts;
        }));
    Counts sum;
    for (auto& handle : running) {
        const Counts counts = TRY(handle.join());
        sum.reads += counts.reads;
        sum.writes += counts.writes;
    }
    const double elapsed = static_cast<double>(clock.now() - begin) / 1e9;
    return Rates{static_cast<double>(sum.reads) / elapsed,
                 static_cast<double>(sum.writes) / elapsed};
}

}  // namespace

Result<void> bench_reads(const Settings& settings, Report& report) {
    constexpr uint64_t kRows = 100'000;
    constexpr int kRounds = 9;
    const uint32_t threads = settings.threads != 0 ? settings.threads : 64;
    Store store = TRY(Store::open(settings.directory + "/reads", {.workers = settings.workers}));
    const Index index = TRY(load_rows(store, kRows));
    std::vector<double> reads[2], writes[2], ratio;
    for (int round = 0; round <= kRounds; ++round) {
        Rates rates[2];
        // The two take turns, each first in every other round.
        for (const int turn : {round % 2, 1 - round % 2})
            rates[turn] = TRY(read_mostly(store, index, kRows, threads,
                                          turn == 0 ? Durability::lazy : Durability::durable,
                                          settings.seconds / 4, static_cast<uint64_t>(round) + 1));
        if (round == 0) continue;  // the pool fills
        for (const int turn : {0, 1}) {
            reads[turn].push_back(rates[turn].reads);
            writes[turn].push_back(rates[turn].writes);
        }
        ratio.push_back(rates[1].reads / rates[0].reads);
    }
    for (const int turn : {0, 1}) {
        const char* const name = turn == 0 ? "lazy" : "durable";
        report.measurement(
            fmt::format("{} gets beside 5 % durable updates, {} user threads", name, threads),
            median(reads[turn]), "1/s");
        report.measurement("  updates", median(writes[turn]), "1/s");
    }
    report.measurement("durable gets : lazy gets, median of pairs", median(ratio), "", ">= 0.95");
    return store.close();
}

}  // namespace lockstep::bench
