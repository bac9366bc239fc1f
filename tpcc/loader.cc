// loader.cc - fills an empty store: every index by bulk load in key order, history by inserts in
// batches.
//
// Concepts   A feed produces the rows of one table in key order; bulk_load pulls from it. Some
//            facts are shared by several tables, such as the customer and the number of lines of an
//            order. Each feed computes them from the seed, so that no feed waits for another.
#include "tpcc/loader.h"

#include <string>
#include <vector>

#include "threads/base/check.h"

namespace lockstep::tpcc {

namespace {

constexpr uint32_t kHistoryBatch = 1000;  // below the escalation threshold of record locks
constexpr uint32_t kProgressStep = 1024;

// Walks (w, d, n) with n = 1..per_district.
struct DistrictWalk {
    const Scale& scale;
    uint32_t per_district;
    uint32_t w = 1, d = 1, n = 0;
    bool new_district = false;  // this step entered a district

    bool step() {
        new_district = n == 0;
        if (++n <= per_district) return true;
        n = 1;
        new_district = true;
        if (++d > scale.districts) {
            d = 1;
            ++w;
        }
        return w <= scale.warehouses;
    }
};

// Feeds: next() makes the next row in `key` and `value`; false at the end.
struct WarehouseFeed {
    const RowSource& rows;
    uint32_t w = 0;
    WarehouseRecord record{};
    bool next(RowKey& key, Slice& value) {
        if (++w > rows.scale.warehouses) return false;
        rows.warehouse(w, record);
        key = warehouse_key(w);
        value = bytes_of(record);
        return true;
    }
};

struct DistrictFeed {
    const RowSource& rows;
    DistrictWalk walk{rows.scale, 1};
    DistrictRecord record{};
    bool next(RowKey& key, Slice& value) {
        if (!walk.step()) return false;
        rows.district(walk.w, walk.d, record);
        key = district_key(walk.w, walk.d);
        value = bytes_of(record);
        return true;
    }
};

struct ItemFeed {
    const RowSource& rows;
    uint32_t i = 0;
    ItemRecord record{};
    bool next(RowKey& key, Slice& value) {
        if (++i > rows.scale.items) return false;
        rows.item(i, record);
        key = item_key(i);
        value = bytes_of(record);
        return true;
    }
};

struct StockFeed {
    const RowSource& rows;
    uint32_t w = 1, i = 0;
    StockRecord record{};
    bool next(RowKey& key, Slice& value) {
        if (++i > rows.scale.items) {
            i = 1;
            ++w;
        }
        if (w > rows.scale.warehouses) return false;
        rows.stock(w, i, record);
        key = stock_key(w, i);
        value = bytes_of(record);
        return true;
    }
};

struct CustomerFeed {
    const RowSource& rows;
    DistrictWalk walk{rows.scale, rows.scale.customers};
    CustomerRecord record{};
    bool next(RowKey& key, Slice& value) {
        if (!walk.step()) return false;
        rows.customer(walk.w, walk.d, walk.n, record);
        key = customer_key(walk.w, walk.d, walk.n);
        value = bytes_of(record);
        return true;
    }
};

// Customers of one district at a time, sorted by (last, first, number).
struct NameFeed {
    const RowSource& rows;
    DistrictWalk walk{rows.scale, rows.scale.customers};
    std::vector<std::string> sorted{};
    bool next(RowKey& key, Slice& value) {
        if (!walk.step()) return false;
        if (walk.new_district) sort_district();
        key = district_key(walk.w, walk.d);
        const Slice rest = Slice(sorted[walk.n - 1]).substr(Slice(key).size());
        for (const char c : rest) key.u8(static_cast<uint8_t>(c));
        value = {};
        return true;
    }
    void sort_district() {
        sorted.clear();
        for (uint32_t c = 1; c <= rows.scale.customers; ++c) {
            Text<16> last, first;
            rows.customer_names(walk.w, walk.d, c, last, first);
            sorted.emplace_back(Slice(name_key(walk.w, walk.d, last, first, c)));
        }
        std::sort(sorted.begin(), sorted.end());
    }
};

struct OrderFeed {
    const RowSource& rows;
    DistrictWalk walk{rows.scale, rows.scale.customers};
    std::vector<uint32_t> customers{};
    OrderRecord record{};
    bool next(RowKey& key, Slice& value) {
        if (!walk.step()) return false;
        if (walk.new_district) customers = rows.order_customers(walk.w, walk.d);
        rows.order(walk.w, walk.d, walk.n, customers[walk.n - 1], record);
        key = order_key(walk.w, walk.d, walk.n);
        value = bytes_of(record);
        return true;
    }
};

struct CustomerOrderFeed {
    const RowSource& rows;
    DistrictWalk walk{rows.scale, rows.scale.customers};
    std::vector<uint32_t> order_of{};  // at [c - 1]: the customer's one order
    bool next(RowKey& key, Slice& value) {
        if (!walk.step()) return false;
        if (walk.new_district) {
            const auto customers = rows.order_customers(walk.w, walk.d);
            order_of.resize(customers.size());
            for (uint32_t o = 1; o <= customers.size(); ++o) order_of[customers[o - 1] - 1] = o;
        }
        key = customer_order_key(walk.w, walk.d, walk.n, order_of[walk.n - 1]);
        value = {};
        return true;
    }
};

struct NewOrderFeed {
    const RowSource& rows;
    DistrictWalk walk{rows.scale, rows.scale.undelivered};
    bool next(RowKey& key, Slice& value) {
        if (rows.scale.undelivered == 0 || !walk.step()) return false;
        key = order_key(walk.w, walk.d, rows.scale.delivered() + walk.n);
        value = {};
        return true;
    }
};

struct LineFeed {
    const RowSource& rows;
    DistrictWalk walk{rows.scale, rows.scale.customers};
    uint32_t line = 0, lines = 0;
    OrderLineRecord record{};
    bool next(RowKey& key, Slice& value) {
        if (line == lines) {
            if (!walk.step()) return false;
            OrderRecord order;
            rows.order(walk.w, walk.d, walk.n, 0, order);
            lines = order.ol_cnt;
            line = 0;
        }
        ++line;
        rows.order_line(walk.w, walk.d, walk.n, line, record);
        key = line_key(walk.w, walk.d, walk.n, line);
        value = bytes_of(record);
        return true;
    }
};

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
    const uint64_t customers = uint64_t{scale.warehouses} * scale.districts * scale.customers;
    const uint64_t undelivered = uint64_t{scale.warehouses} * scale.districts * scale.undelivered;
    return customers * 5 + customers * 10 + undelivered +
           uint64_t{scale.items} * (scale.warehouses + 1) +
           uint64_t{scale.warehouses} * (scale.districts + 1);
}

Result<Database> load(Store& store, const LoadSettings& settings, LoadProgress& progress) {
    const Scale& scale = settings.scale;
    CHECK(scale.warehouses > 0 && scale.warehouses <= kWarehousesMax && scale.districts > 0 &&
          scale.districts <= 10 && scale.customers >= 15 && scale.customers <= 65535 &&
          scale.undelivered <= scale.customers && scale.items >= 100);
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
