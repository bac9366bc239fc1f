// consistency.cc - feeds the audit with one scan of each table. Orders, NEW-ORDER and ORDER-LINE
// are merged by their common key.
//
// Concepts   A secondary index is compared with its table by the number of entries and the sum of
//            their hashes. Equal sets give equal sums. A missing, extra or different entry changes
//            the number or the sum.
#include "tpcc/consistency.h"
#include "threads/base/try.h"

#include <fmt/format.h>

namespace lockstep::tpcc {

namespace {

constexpr uint64_t kRowsPerTurn = 128;

struct SetSum {
    uint64_t count = 0, sum = 0;
    void add(Slice key) {
        uint64_t h = key.size();
        for (const char c : key) h = (h ^ static_cast<uint8_t>(c)) * 0x100000001b3;
        h ^= h >> 32;
        sum += h * 0x9e3779b97f4a7c15;
        ++count;
    }
    bool operator==(const SetSum&) const = default;
};

// A cursor and whether it stands on a row; keys of the three order tables begin with (w, d, o).
class OrderedRows {
public:
    OrderedRows(const Index& index, Txn& txn) : cursor_(index.scan(txn)) {}
    Result<void> step() {
        more_ = TRY(cursor_.next());
        if (!more_) return {};
        KeyReader key(cursor_.key().substr(0, 7));
        w = key.u16();
        d = key.u8();
        o = key.u32();
        return {};
    }
    bool more() const { return more_; }
    bool at(const OrderedRows& other) const {
        return more_ && w == other.w && d == other.d && o == other.o;
    }
    bool before(const OrderedRows& other) const {
        if (!more_ || !other.more_) return more_;
        return std::tie(w, d, o) < std::tie(other.w, other.d, other.o);
    }
    Slice value() const { return cursor_.value(); }
    uint32_t w = 0, d = 0, o = 0;

private:
    Cursor cursor_;
    bool more_ = false;
};

class Scanner {
public:
    Scanner(Database& db, Txn& txn)
        : db_(db), txn_(txn), audit_(db.scale), stock_audit_(RowSource::of(db)) {}

    Result<ConsistencyReport> run() {
        TRY(scan_warehouses());
        TRY(scan_districts());
        TRY(scan_customers());
        TRY(scan_history());
        TRY(scan_orders());
        TRY(scan_stock());
        TRY(compare_index(db_.customer_name, "customer_name", names_));
        TRY(compare_index(db_.orders_customer, "orders_customer", customer_orders_));
        report_.conditions = audit_.finish();
        report_.stock = stock_audit_.finish();
        return std::move(report_);
    }

private:
    // Others run now and then: a check beside the terminals takes long.
    void count_row() {
        if (++report_.rows % kRowsPerTurn == 0) yield();
    }
    Result<void> scan_warehouses() {
        Cursor cursor = db_.warehouse.scan(txn_);
        while (TRY(cursor.next())) {
            count_row();
            const uint32_t w = KeyReader(cursor.key()).u16();
            WarehouseRecord record;
            if (read_record(cursor.value(), record)) audit_.warehouse(w, record);
            else audit_.misplaced(1, "warehouse", w, 0, 0);
        }
        return {};
    }

    Result<void> scan_districts() {
        Cursor cursor = db_.district.scan(txn_);
        while (TRY(cursor.next())) {
            count_row();
            KeyReader key(cursor.key());
            const uint32_t w = key.u16(), d = key.u8();
            DistrictRecord record;
            if (read_record(cursor.value(), record)) audit_.district(w, d, record);
            else audit_.misplaced(1, "district", w, d, 0);
        }
        return {};
    }

    Result<void> scan_customers() {
        Cursor cursor = db_.customer.scan(txn_);
        CustomerRecord record;
        while (TRY(cursor.next())) {
            count_row();
            KeyReader key(cursor.key());
            const uint32_t w = key.u16(), d = key.u8(), c = key.u16();
            if (read_record(cursor.value(), record)) {
                audit_.customer(w, d, c, record);
                names_.add(name_key(w, d, record.last, record.first, c));
            } else {
                audit_.misplaced(10, "customer", w, d, c);
            }
        }
        return {};
    }

    Result<void> scan_history() {
        return db_.history.scan(txn_, [&](RecordId, Slice value) {
            count_row();
            HistoryRecord record;
            if (read_record(value, record)) audit_.history(record);
            else audit_.misplaced(8, "history", 0, 0, 0);
            return true;
        });
    }

    Result<void> scan_orders() {
        OrderedRows orders(db_.orders, txn_), news(db_.new_order, txn_),
            lines(db_.order_line, txn_);
        TRY(orders.step());
        TRY(news.step());
        TRY(lines.step());
        while (orders.more() || news.more() || lines.more()) {
            count_row();
            if (news.before(orders)) {
                audit_.orphan_new_order(news.w, news.d, news.o);
                TRY(news.step());
            } else if (lines.before(orders)) {
                audit_.orphan_line(lines.w, lines.d, lines.o);
                TRY(lines.step());
            } else {
                TRY(feed_order(orders, news, lines));
            }
        }
        return {};
    }

    Result<void> feed_order(OrderedRows& orders, OrderedRows& news, OrderedRows& lines) {
        OrderRecord order;
        if (read_record(orders.value(), order)) {
            audit_.order(orders.w, orders.d, orders.o, order);
            customer_orders_.add(customer_order_key(orders.w, orders.d, order.c_id, orders.o));
        } else {
            audit_.misplaced(6, "orders", orders.w, orders.d, orders.o);
        }
        if (news.at(orders)) {
            audit_.new_order();
            TRY(news.step());
            count_row();
        }
        for (; lines.at(orders); ++report_.rows) {
            OrderLineRecord line;
            if (read_record(lines.value(), line)) {
                audit_.order_line(line);
                stock_audit_.order_line(lines.w, lines.o, line);
            } else audit_.misplaced(6, "order_line", lines.w, lines.d, lines.o);
            TRY(lines.step());
        }
        return orders.step();
    }

    Result<void> scan_stock() {
        Cursor cursor = db_.stock.scan(txn_);
        StockRecord record;
        while (TRY(cursor.next())) {
            count_row();
            KeyReader key(cursor.key());
            const uint32_t w = key.u16(), i = key.u24();
            if (read_record(cursor.value(), record)) stock_audit_.stock(w, i, record);
            else stock_audit_.misplaced(w, i);
        }
        return {};
    }

    Result<void> compare_index(const Index& index, const char* name, const SetSum& table) {
        SetSum found;
        Cursor cursor = index.scan(txn_);
        while (TRY(cursor.next())) found.add(cursor.key());
        report_.rows += found.count;
        if (found != table)
            report_.index_faults.push_back(
                fmt::format("{} disagrees with its table: {} entries, {} rows", name, found.count,
                            table.count));
        return {};
    }

    Database& db_;
    Txn& txn_;
    Audit audit_;
    StockAudit stock_audit_;
    SetSum names_, customer_orders_;  // what the secondary indexes must hold
    ConsistencyReport report_;
};

}  // namespace

bool ConsistencyReport::ok() const {
    const auto holds = [](const auto& check) { return check.ok(); };
    return index_faults.empty() && std::ranges::all_of(conditions, holds) &&
           std::ranges::all_of(stock, holds);
}

Result<ConsistencyReport> check_consistency(Database& db, Isolation isolation) {
    TxnOptions options;
    options.isolation = isolation;
    options.durability = Durability::lazy;
    options.read_only = true;
    const MonotonicClock clock;
    const Nanos start = clock.now();
    ConsistencyReport report =
        TRY(db.store->run([&](Txn& txn) { return Scanner(db, txn).run(); }, options));
    report.nanos = clock.now() - start;
    return report;
}

}  // namespace lockstep::tpcc
