// database.cc - creates and finds the TPC-C tables.
#include "tpcc/database.h"
#include "threads/base/try.h"
#include "tpcc/columns.h"

namespace lockstep::tpcc {

namespace {
constexpr char kMagic[8] = {'L', 'S', 'T', 'P', 'C', 'C', '0', '2'};

Result<void> find_tables(Database& db) {
    for (const TableName& table : kTables) {
        if (table.index) db.*table.index = TRY(db.store->index(table.name));
        else db.history = TRY(db.store->heap(table.name));
    }
    return {};
}

Result<ConfigRecord> read_config(Database& db) {
    TxnOptions options;
    options.read_only = true;
    return db.store->run(
        [&](Txn& txn) -> Result<ConfigRecord> {
            std::string value;
            if (!TRY(db.config.get(txn, "load", value)))
                return fail(ErrorCode::no_such_record, "tpcc_config: the load had not ended");
            ConfigRecord record;
            if (!read_record(value, record) ||
                std::memcmp(record.magic, kMagic, sizeof(kMagic)) != 0)
                return fail(ErrorCode::bad_version, "tpcc_config: not a database of this driver");
            return record;
        },
        options);
}

// Which warehouses the store has, if it has not all.
Result<void> read_shard(Database& db) {
    TxnOptions options;
    options.read_only = true;
    return db.store->run(
        [&](Txn& txn) -> Result<void> {
            std::string value;
            if (!TRY(db.config.get(txn, "shard", value))) return {};
            ShardRecord record;
            if (!read_record(value, record) || record.first == 0 || record.first > record.last ||
                record.last > db.scale.warehouses)
                return fail(ErrorCode::bad_version, "tpcc_config: impossible warehouses");
            db.scale.first = record.first;
            db.scale.last = record.last;
            return {};
        },
        options);
}

}  // namespace

bool has_tables(Store& store) {
    for (const auto& entry : store.list())
        for (const TableName& table : kTables)
            if (entry.name == table.name) return true;
    return false;
}

Result<void> create_tables(Database& db) {
    TRY(db.store->run([&](Txn& txn) -> Result<void> {
        for (const TableName& table : kTables) {
            if (table.index) TRY(db.store->create_index(txn, table.name));
            else TRY(db.store->create_heap(txn, table.name));
        }
        return describe_tables(*db.store, txn);
    }));
    return find_tables(db);
}

Result<void> describe_tables(Store& store, Txn& txn) {
    for (const TableColumns& table : kTableColumns)
        TRY(store.describe(txn, table.table, table.text));
    return {};
}

Result<Database> open_database(Store& store) {
    Database db;
    db.store = &store;
    TRY(find_tables(db));
    const ConfigRecord record = TRY(read_config(db));
    db.scale = {.warehouses = record.warehouses,
                .districts = record.districts,
                .customers = record.customers,
                .undelivered = record.undelivered,
                .items = record.items};
    db.constants = {record.c_last_load, record.c_last_run, record.c_id, record.ol_i_id};
    db.seed = record.seed;
    db.load_time = record.load_time;
    if (!db.constants.valid() || record.warehouses == 0)
        return fail(ErrorCode::bad_version, "tpcc_config: impossible values");
    TRY(read_shard(db));
    return db;
}

Result<void> write_config(Database& db) {
    ConfigRecord record{};
    std::memcpy(record.magic, kMagic, sizeof(kMagic));
    record.seed = db.seed;
    record.warehouses = db.scale.warehouses;
    record.districts = db.scale.districts;
    record.customers = db.scale.customers;
    record.undelivered = db.scale.undelivered;
    record.items = db.scale.items;
    record.c_last_load = db.constants.c_last_load;
    record.c_last_run = db.constants.c_last_run;
    record.c_id = db.constants.c_id;
    record.ol_i_id = db.constants.ol_i_id;
    record.load_time = db.load_time;
    const ShardRecord shard{db.scale.first, db.scale.last_here()};
    return db.store->run([&](Txn& txn) -> Result<void> {
        if (db.scale.warehouses_here() != db.scale.warehouses)
            TRY(db.config.insert(txn, "shard", bytes_of(shard)));
        return db.config.insert(txn, "load", bytes_of(record));
    });
}

}  // namespace lockstep::tpcc
