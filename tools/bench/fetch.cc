// fetch.cc - benchmarks of record operations through the public interface.
#include <fmt/core.h>

#include "tools/bench/bench.h"

namespace lockstep::bench {
namespace {

Result<void> fetch_from(const Settings& settings, Report& report, uint64_t bytes,
                        const std::string& name, const std::string& goal) {
    Store store = TRY(
        Store::open(settings.directory + "/fetch" + std::to_string(bytes),
                    {.pool_bytes = bytes + bytes / 3 + (64ull << 20), .log_bytes = 16ull << 30}));
    const uint64_t rows = rows_for(bytes);
    const Index index = TRY(load_rows(store, rows));
    TRY(on_user_thread(store, [&]() -> Result<void> {
        Rng rng(7);
        std::byte buffer[kRowBytes];
        // Ten fetches make a transaction, as long as TPC-C's: begin and commit are a small share,
        // printed measurements contain it.
        const Sliced s = measure(settings.seconds, [&](uint64_t n) {
            for (uint64_t i = 0; i < n;) {
                auto txn = store.begin({.durability = Durability::lazy});
                CHECK(txn);
                for (int k = 0; k < 10; ++k, ++i) {
                    auto got = index.get(*txn, Key().u64(rng.below(rows)), buffer);
                    CHECK(got && *got);
                }
                CHECK(txn->commit());
            }
        });
        add_measurement(report, name, s, goal);
        return {};
    }));
    return store.close();
}

}  // namespace

Result<void> bench_fetch(const Settings& settings, Report& report) {
    if (settings.bytes != 0)
        return fetch_from(settings, report, settings.bytes,
                          fmt::format("fetch, {} MB tree", settings.bytes >> 20), "");
    TRY(fetch_from(settings, report, 16ull << 20, "fetch, tree in L3 (16 MB)", "<= 450"));
    return fetch_from(settings, report, 2560ull << 20, "fetch, 2.5 GB tree", "<= 2000");
}

Result<void> bench_operations(const Settings& settings, Report& report) {
    const uint64_t bytes = settings.bytes != 0 ? settings.bytes : 64ull << 20;
    Store store =
        TRY(Store::open(settings.directory + "/operations",
                        {.pool_bytes = 2 * bytes + (256ull << 20), .log_bytes = 16ull << 30}));
    const uint64_t rows = rows_for(bytes);
    const Index index = TRY(load_rows(store, rows));
    TRY(on_user_thread(store, [&]() -> Result<void> {
        Rng rng(11);
        std::byte buffer[kRowBytes];
        std::string value(kRowBytes, 'w');
        const auto in_txns = [&](const char* name, auto&& operation) {
            add_measurement(report, name, measure(settings.seconds, [&](uint64_t n) {
                                for (uint64_t i = 0; i < n;) {
                                    auto txn = store.begin({.durability = Durability::lazy});
                                    CHECK(txn);
                                    for (int k = 0; k < 10; ++k, ++i) operation(*txn);
                                    CHECK(txn->commit());
                                }
                            }));
        };
        add_measurement(report, "begin + commit, nothing written",
                        measure(settings.seconds, [&](uint64_t n) {
                            for (uint64_t i = 0; i < n; ++i)
                                CHECK(store.begin({.durability = Durability::lazy})->commit());
                        }));
        in_txns("fetch",
                [&](Txn& txn) { CHECK(index.get(txn, Key().u64(rng.below(rows)), buffer)); });
        in_txns("fetch for update + update", [&](Txn& txn) {
            const Key key = Key().u64(rng.below(rows));
            CHECK(index.get(txn, key, buffer, Access::update));
            value[0] = static_cast<char>(rng.next());
            CHECK(index.update(txn, key, value).has_value());
        });
        uint64_t appended = rows;
        in_txns("insert at the end",
                [&](Txn& txn) { CHECK(index.insert(txn, Key().u64(appended++), value)); });
        in_txns("insert anywhere", [&](Txn& txn) {
            CHECK(index.insert(txn, Key().u64(rng.below(rows)).u64(rng.next()), value));
        });
        uint64_t erased = 0;
        in_txns("delete",
                [&](Txn& txn) { CHECK(index.erase(txn, Key().u64(erased++)).has_value()); });
        std::optional<Txn> txn;
        std::optional<Cursor> cursor;
        const auto restart = [&] {
            cursor.reset();
            if (txn) CHECK(txn->commit());
            txn.emplace(std::move(*store.begin({.durability = Durability::lazy})));
            cursor.emplace(index.scan(*txn));
        };
        restart();
        add_measurement(report, "scan step", measure(settings.seconds, [&](uint64_t n) {
                            for (uint64_t i = 0; i < n; ++i)
                                if (!*cursor->next()) restart();
                        }));
        cursor.reset();
        CHECK(txn->commit());
        return {};
    }));
    return store.close();
}

}  // namespace lockstep::bench
