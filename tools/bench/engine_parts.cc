// engine_parts.cc - benchmarks of single mechanisms: switch, lock, log insert.
#include <fmt/core.h>

#include <cstring>

#include "sm/api/engine_of.h"
#include "threads/steps/ctx.h"
#include "threads/thread/thread.h"
#include "tools/bench/bench.h"

namespace lockstep::bench {

namespace {

// Two threads in one team pass the CPU to and fro at a CTX point: the check, the switch and the
// counter.
Result<void> ping_pong(const Settings& settings, Report& report) {
    Store store = TRY(Store::open(settings.directory + "/ctx", {.steps = {.mode = StepsMode::on}}));
    const auto join_team = [] {
        threads::worker_local.steps->boundary(*threads::current(), threads::OpKind::fetch, 1);
    };
    return on_user_thread(store, [&]() -> Result<void> {
        bool stop = false;
        auto partner = store.start(
            [&]() -> Result<void> {
                join_team();
                while (!stop) CTX(btree_leaf);
                return {};
            },
            0);
        join_team();
        const Sliced s = measure(settings.seconds, [](uint64_t n) {
            for (uint64_t i = 0; i < n; ++i) CTX(btree_leaf);
        });
        stop = true;
        TRY(partner.join());
        report.measurement("CTX in a team of two", s.ns_median / 2, "ns");
        return {};
    });
}

}  // namespace

Result<void> bench_switch(const Settings& settings, Report& report) {
    TRY(ping_pong(settings, report));
    Store store = TRY(Store::open(settings.directory + "/switch"));
    return on_user_thread(store, [&]() -> Result<void> {
        // One yield with one partner is two switches.
        bool stop = false;
        auto partner = store.start(
            [&]() -> Result<void> {
                while (!stop) threads::yield();
                return {};
            },
            0);
        const Sliced s = measure(settings.seconds, [](uint64_t n) {
            for (uint64_t i = 0; i < n; ++i) threads::yield();
        });
        stop = true;
        TRY(partner.join());
        report.measurement("regular switch (Boost.Context, ready queue)", s.ns_median / 2, "ns");
        return {};
    });
}

Result<void> bench_locks(const Settings& settings, Report& report) {
    Store store = TRY(Store::open(settings.directory + "/locks"));
    return on_user_thread(store, [&]() -> Result<void> {
        sm::Engine& e = sm::engine_of(store);
        txn::Transaction* t = TRY(e.txns->begin({.durability = Durability::lazy}));
        txn::ObjectLock table;
        table.id = ObjectId{99};
        uint64_t next = 0;
        // 16 locks, then all of them released: what a transaction does. Time per lock + unlock.
        const Sliced s = measure(settings.seconds, [&](uint64_t n) {
            for (uint64_t i = 0; i < n; ++i) {
                const uint64_t number = next++ % 4096;
                const Slice key(reinterpret_cast<const char*>(&number), sizeof(number));
                CHECK(e.locks->lock_record(t->locks, table, txn::key_lock_name(table.id, key),
                                           txn::LockMode::X));
                if (i % 16 == 15) e.locks->release_all(t->locks);
            }
            e.locks->release_all(t->locks);
        });
        add_measurement(report, "lock + unlock, uncontended", s, "<= 60");
        TRY(e.txns->commit(*t));
        return {};
    });
}

// Insertion alone, then what the disk takes: the ring is empty before each slice of the first part
// and full all through the second.
Result<void> bench_log(const Settings& settings, Report& report) {
    Store store = TRY(Store::open(settings.directory + "/log",
                                  {.log_bytes = 8ull << 30, .log_ring_bytes = 512ull << 20}));
    return on_user_thread(store, [&]() -> Result<void> {
        txn::Log& log = *sm::engine_of(store).log;
        char bytes[100 - sizeof(txn::LogRecordHeader)];
        std::memset(bytes, 'x', sizeof(bytes));
        const auto insert = [&](uint64_t n) {
            for (uint64_t i = 0; i < n; ++i) {
                const txn::LogSpace space = log.reserve(100);
                *space.header() = {.bytes = 0,
                                   .checksum = 0,
                                   .prev = 0,
                                   .txn = 0,
                                   .kind = static_cast<uint16_t>(txn::TxnLogKind::pad),
                                   .flags = 0,
                                   .parts = 0,
                                   .object = 0};
                std::memcpy(space.payload(), bytes, sizeof(bytes));
                log.publish(space);
            }
        };
        const auto make_room = [&] {
            if (log.used_bytes() > log.capacity_bytes() / 2) log.truncate_before(log.durable());
            CHECK(log.wait_durable(log.tail()));
        };
        const uint64_t waits = log.stats().ring_full_waits;
        const Sliced s = measure(settings.seconds, insert, make_room);
        const uint64_t waited = log.stats().ring_full_waits - waits;
        add_measurement(report, "log insert, 100 bytes, room in the ring", s, "<= 60");
        report.note(fmt::format("slices' waits for a full ring: {}", waited));
        const MonotonicClock clock;
        const Nanos begin = clock.now(), end = begin + static_cast<Nanos>(settings.seconds * 1e9);
        const Lsn from = log.durable();
        while (clock.now() < end) {
            insert(10'000);
            if (log.used_bytes() > log.capacity_bytes() / 2) log.truncate_before(log.durable());
            threads::yield();
        }
        const auto took = static_cast<double>(clock.now() - begin);
        const auto written = static_cast<double>(log.durable() - from);
        report.measurement("log, as fast as the disk takes it", written / took * 1e9 / 1048576.0,
                           "MB/s");
        report.measurement("  the same for each record", took / (written / 104), "ns");
        return {};
    });
}

}  // namespace lockstep::bench
