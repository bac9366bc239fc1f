// loader.cc - fills an empty store: every index by bulk load in key order, history by inserts in
// batches.
#include "tpcc/loader.h"

#include <vector>

#include "threads/base/check.h"
#include "tpcc/feeds.h"

namespace lockstep::tpcc {

namespace {

constexpr uint32_t kHistoryBatch = 1000;  // below the escalation threshold of record locks
constexpr uint32_t kProgressStep = 1024;

template <class Feed>
Result<void> load_index(Database& db, Index index, const RowSource& rows, LoadProgress& progress) {
    return db.store->run([&](Txn& txn) -> Result<void> {
        Feed feed{rows};
        RowKey row_key;
        uint32_t unreported = 0;
        auto next = [&](Slice& key, Slice& value) {
            const bool more = feed.next(row_key, value);
            if (!more || ++unreported == kProgressStep)
                progress.rows.fetch_add(std::exchange(unreported, 0), std::memory_order_relaxed);
            key = row_key;
            return more;
        };
        return db.store->bulk_load(txn, index, next);
    });
}

Result<void> load_history(Database& db, const RowSource& rows, LoadProgress& progress) {
    TxnOptions options;
    options.durability = Durability::lazy;  // the checkpoint after the load makes it durable
    DistrictWalk walk{rows.scale, rows.scale.customers};
    bool more = walk.step();
    while (more) {
        const DistrictWalk start = walk;
        const uint32_t done = TRY(db.store->run(
            [&](Txn& txn) -> Result<uint32_t> {
                // A repetition begins where the first attempt did.
                walk.w = start.w, walk.d = start.d, walk.n = start.n;
                more = true;
                uint32_t n = 0;
                for (; more && n < kHistoryBatch; ++n, more = walk.step()) {
                    HistoryRecord record;
                    rows.history(walk.w, walk.d, walk.n, record);
                    TRY(db.history.insert(txn, bytes_of(record)));
                }
                return n;
            },
            options));
        progress.rows.fetch_add(done, std::memory_order_relaxed);
    }
    return {};
}

// Largest first, so that the workers end at about the same time.
Result<void> fill_tables(Database& db, const RowSource& rows, LoadProgress& progress) {
    std::vector<Handle<void>> handles;
    const auto workers = static_cast<int>(db.store->options().workers);
    auto start = [&](auto body) {
        handles.push_back(db.store->start(body, static_cast<int>(handles.size()) % workers));
    };
    start([&] { return load_index<StockFeed>(db, db.stock, rows, progress); });
    start([&] { return load_index<LineFeed>(db, db.order_line, rows, progress); });
    start([&] { return load_history(db, rows, progress); });
    start([&] { return load_index<CustomerFeed>(db, db.customer, rows, progress); });
    start([&] { return load_index<NameFeed>(db, db.customer_name, rows, progress); });
    start([&] { return load_index<OrderFeed>(db, db.orders, rows, progress); });
    start([&] { return load_index<CustomerOrderFeed>(db, db.orders_customer, rows, progress); });
    start([&] { return load_index<NewOrderFeed>(db, db.new_order, rows, progress); });
    start([&] { return load_index<ItemFeed>(db, db.item, rows, progress); });
    start([&] { return load_index<DistrictFeed>(db, db.district, rows, progress); });
    start([&] { return load_index<WarehouseFeed>(db, db.warehouse, rows, progress); });
    Result<void> outcome;
    for (auto& handle : handles) {
        // Joins all of them, since they use objects on this stack.
        Result<void> joined = handle.join();
        if (outcome && !joined) outcome = joined;
    }
    return outcome;
}

}  // namespace

uint64_t expected_rows(const Scale& scale) {
    const uint64_t districts = uint64_t{scale.warehouses_here()} * scale.districts;
    const uint64_t customers = districts * scale.customers;
    return customers * 5 + customers * 10 + districts * scale.undelivered +
           uint64_t{scale.items} * (scale.warehouses_here() + 1) + scale.warehouses_here() +
           districts;
}

Result<Database> load(Store& store, const LoadSettings& settings, LoadProgress& progress) {
    const Scale& scale = settings.scale;
    CHECK(scale.warehouses > 0 && scale.warehouses <= kWarehousesMax && scale.districts > 0 &&
          scale.districts <= 10 && scale.customers >= 15 && scale.customers <= 65535 &&
          scale.undelivered <= scale.customers && scale.items >= 100);
    CHECK(scale.first >= 1 && scale.first <= scale.last_here() &&
          scale.last_here() <= scale.warehouses);
    progress.rows_total = expected_rows(scale);
    Database db;
    db.store = &store;
    db.scale = scale;
    db.seed = settings.seed;
    db.constants = RandomConstants::choose(settings.seed);
    db.load_time = settings.load_time;
    const RowSource rows{settings.seed, scale, db.constants, settings.load_time};
    TRY(create_tables(db));
    TRY(fill_tables(db, rows, progress));
    TRY(write_config(db));
    TRY(store.checkpoint());
    return db;
}

}  // namespace lockstep::tpcc
