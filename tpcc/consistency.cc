// consistency.cc - checks a store that is open.
#include "tpcc/consistency.h"

#include "threads/base/try.h"
#include "tpcc/consistency_scan.h"

namespace lockstep::tpcc {

namespace {

constexpr uint64_t kRowsPerTurn = 128;

// The tables of a store within one transaction.
class StoreSource {
public:
    StoreSource(Database& db, Txn& txn) : db_(db), txn_(txn) {}

    Cursor rows(TableId table) const {
        return (db_.*kTables[static_cast<size_t>(table)].index).scan(txn_);
    }
    Result<void> each_history(FunctionRef<bool(Slice)> fn) const {
        return db_.history.scan(txn_, [&](RecordId, Slice value) { return fn(value); });
    }
    // Others run now and then: a check beside the terminals takes long.
    void row_read() {
        if (++rows_ % kRowsPerTurn == 0) yield();
    }

private:
    Database& db_;
    Txn& txn_;
    uint64_t rows_ = 0;
};

}  // namespace

bool ConsistencyReport::ok() const {
    const auto holds = [](const auto& check) { return check.ok(); };
    return index_faults.empty() && std::ranges::all_of(conditions, holds) &&
           std::ranges::all_of(stock, holds);
}

Result<ConsistencyReport> check_consistency(Database& db, Isolation isolation,
                                            const ForeignRows& foreign) {
    TxnOptions options;
    options.isolation = isolation;
    options.durability = Durability::lazy;
    options.read_only = true;
    const MonotonicClock clock;
    const Nanos start = clock.now();
    ConsistencyReport report = TRY(db.store->run(
        [&](Txn& txn) {
            StoreSource source(db, txn);
            return ConsistencyScan(source, RowSource::of(db)).run(foreign);
        },
        options));
    report.nanos = clock.now() - start;
    return report;
}

}  // namespace lockstep::tpcc
