// database.h - the TPC-C tables of an open store, and what a reopened database must know about its
// load.
//
// Concepts   Ten indexes and one heap (history), and the index "tpcc_config" with one record. The
//            loader writes that record last. A database without it is incomplete and is refused.
#pragma once

#include <lockstep/store.h>
#include "tpcc/keys.h"
#include "tpcc/random.h"
#include "tpcc/schema.h"

namespace lockstep::tpcc {

// Cardinalities of clause 1.2.1. Tests make smaller databases; the command line changes
// `warehouses` only.
struct Scale {
    uint32_t warehouses = 4;
    uint32_t districts = 10;     // per warehouse
    uint32_t customers = 3000;   // per district; as many orders are loaded
    uint32_t undelivered = 900;  // the newest orders, in NEW-ORDER
    uint32_t items = 100000;
    // A store has the warehouses first..last of all, as a shard does; `last` 0: up to the end.
    uint32_t first = 1, last = 0;

    uint32_t last_here() const { return last == 0 ? warehouses : last; }
    uint32_t warehouses_here() const { return last_here() - first + 1; }
    bool holds(uint32_t w) const { return w - first < warehouses_here(); }
    uint32_t names() const { return std::min(customers, 1000u); }
    uint32_t delivered() const { return customers - undelivered; }
};

// The record of "tpcc_config" under the key "load".
struct [[gnu::packed]] ConfigRecord {
    char magic[8];
    uint64_t seed;
    uint32_t warehouses, districts, customers, undelivered, items;
    uint32_t c_last_load, c_last_run, c_id, ol_i_id;
    Time load_time;
};
static_assert(sizeof(ConfigRecord) == 60);

// The record under the key "shard", if the store has a part of the warehouses only.
struct [[gnu::packed]] ShardRecord {
    uint32_t first, last;
};
static_assert(sizeof(ShardRecord) == 8);

// How a transaction asks for several records of one table.
enum class Calls : uint8_t {
    many,    // in one call: modify, modify_many, get_many, insert_many
    single,  // one record and one step a call, as in the thesis: get, patch, insert
};

struct Database {
    Store* store = nullptr;
    Calls calls = Calls::many;
    Scale scale;
    RandomConstants constants;
    uint64_t seed = 1;  // of the load
    Time load_time = 0;
    Index warehouse, district, customer, customer_name, orders, orders_customer, new_order,
        order_line, item, stock, config;
    Heap history;
};

// The tables in the order of kTables.
enum class TableId : uint8_t {
    warehouse,
    district,
    customer,
    customer_name,
    orders,
    orders_customer,
    new_order,
    order_line,
    item,
    stock,
    config,
    history
};

// One table: its name and the member that holds its handle (null for history).
struct TableName {
    const char* name;
    Index Database::*index;
};
inline constexpr TableName kTables[] = {
    {"warehouse", &Database::warehouse}, {"district", &Database::district},
    {"customer", &Database::customer},   {"customer_name", &Database::customer_name},
    {"orders", &Database::orders},       {"orders_customer", &Database::orders_customer},
    {"new_order", &Database::new_order}, {"order_line", &Database::order_line},
    {"item", &Database::item},           {"stock", &Database::stock},
    {"tpcc_config", &Database::config},  {"history", nullptr},
};
static_assert(std::size(kTables) == static_cast<size_t>(TableId::history) + 1);

// True if the store holds any of the tables.
bool has_tables(Store& store);
// Creates all tables, empty. `db.store` is set.
Result<void> create_tables(Database& db);
// Finds all tables and reads the configuration. Error: no_such_record if the load had not ended.
Result<Database> open_database(Store& store);
Result<void> write_config(Database& db);

}  // namespace lockstep::tpcc
