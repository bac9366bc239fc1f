// foreign_rows.cc - finds the rows that concern other shards.
#include "tpcc/foreign_rows.h"

#include "threads/base/try.h"

namespace lockstep::tpcc {

namespace {

constexpr uint64_t kRowsPerTurn = 128;

Result<void> collect_payments(Database& db, Txn& txn, ForeignRows& out) {
    bool sound = true;
    TRY(db.history.scan(txn, [&](RecordId, Slice value) {
        HistoryRecord record{};
        sound = sound && read_record(value, record);
        if (sound && !db.scale.holds(record.c_w_id)) out.payments.push_back(record);
        return sound;
    }));
    if (!sound) return fail(ErrorCode::bad_version, "history: a row is malformed");
    return {};
}

Result<void> collect_lines(Database& db, Txn& txn, ForeignRows& out) {
    Cursor cursor = db.order_line.scan(txn);
    for (uint64_t rows = 1; TRY(cursor.next()); ++rows) {
        ForeignRows::Line line{};
        if (!read_record(cursor.value(), line.record))
            return fail(ErrorCode::bad_version, "order_line: a row is malformed");
        if (!db.scale.holds(line.record.supply_w_id)) {
            KeyReader key(cursor.key());
            line.w = key.u16();
            (void)key.u8();
            line.o = key.u32();
            out.lines.push_back(line);
        }
        if (rows % kRowsPerTurn == 0) yield();
    }
    return {};
}

}  // namespace

Result<ForeignRows> collect_foreign_rows(Database& db) {
    TxnOptions options;
    options.read_only = true;
    return db.store->run(
        [&](Txn& txn) -> Result<ForeignRows> {
            ForeignRows found;
            TRY(collect_payments(db, txn, found));
            TRY(collect_lines(db, txn, found));
            return found;
        },
        options);
}

}  // namespace lockstep::tpcc
