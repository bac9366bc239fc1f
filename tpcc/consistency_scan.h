// consistency_scan.h - feeds the audits with one scan of each table, of a store or of anything else
// that has the tables. Orders, NEW-ORDER and ORDER-LINE are merged by their common key.
//
// Concepts   A secondary index is compared with its table by the number of entries and the sum of
//            their hashes. Equal sets give equal sums. A missing, extra or different entry changes
//            the number or the sum.
//            Of a shard the audits also get the rows of other shards that concern it.
#pragma once

#include <fmt/format.h>

#include "threads/base/try.h"
#include "tpcc/consistency.h"

namespace lockstep::tpcc {

// The number of keys in a set and the sum of their hashes.
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

// Rows and whether they stand on one; keys of the three order tables begin with (w, d, o).
template <class Rows>
class OrderedRows {
public:
    explicit OrderedRows(Rows rows) : cursor_(std::move(rows)) {}
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
    Rows cursor_;
    bool more_ = false;
};

// Feeds the audits from a source. It has
//   rows(TableId)      all rows in key order: next(), key() and value() as a Cursor has
//   each_history(fn)   calls fn(value) -> bool for each row of HISTORY, in any order
//   row_read()         called after each row
template <class Source>
class ConsistencyScan {
public:
    ConsistencyScan(Source& source, const RowSource& loaded)
        : source_(source), scale_(loaded.scale), audit_(loaded.scale), stock_audit_(loaded) {}

    Result<ConsistencyReport> run(const ForeignRows& foreign = {}) {
        TRY(scan_warehouses());
        TRY(scan_districts());
        TRY(scan_customers());
        TRY(scan_history());
        for (const HistoryRecord& record : foreign.payments)
            if (scale_.holds(record.c_w_id)) audit_.history(record);
        TRY(scan_orders());
        for (const ForeignRows::Line& line : foreign.lines)
            if (scale_.holds(line.record.supply_w_id))
                stock_audit_.order_line(line.w, line.o, line.record);
        TRY(scan_stock());
        TRY(compare_index(TableId::customer_name, names_));
        TRY(compare_index(TableId::orders_customer, customer_orders_));
        report_.conditions = audit_.finish();
        report_.stock = stock_audit_.finish();
        return std::move(report_);
    }

private:
    using Rows = decltype(std::declval<Source&>().rows(TableId::stock));

    void count_row() {
        ++report_.rows;
        source_.row_read();
    }
    Result<void> scan_warehouses() {
        Rows cursor = source_.rows(TableId::warehouse);
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
        Rows cursor = source_.rows(TableId::district);
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
        Rows cursor = source_.rows(TableId::customer);
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
        return source_.each_history([&](Slice value) {
            count_row();
            HistoryRecord record;
            if (read_record(value, record)) audit_.history(record);
            else audit_.misplaced(8, "history", 0, 0, 0);
            return true;
        });
    }

    Result<void> scan_orders() {
        OrderedRows orders(source_.rows(TableId::orders));
        OrderedRows news(source_.rows(TableId::new_order));
        OrderedRows lines(source_.rows(TableId::order_line));
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

    Result<void> feed_order(OrderedRows<Rows>& orders, OrderedRows<Rows>& news,
                            OrderedRows<Rows>& lines) {
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
        Rows cursor = source_.rows(TableId::stock);
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

    Result<void> compare_index(TableId index, const SetSum& table) {
        SetSum found;
        Rows cursor = source_.rows(index);
        while (TRY(cursor.next())) found.add(cursor.key());
        report_.rows += found.count;
        if (found != table)
            report_.index_faults.push_back(
                fmt::format("{} disagrees with its table: {} entries, {} rows",
                            kTables[static_cast<size_t>(index)].name, found.count, table.count));
        return {};
    }

    Source& source_;
    const Scale scale_;
    Audit audit_;
    StockAudit stock_audit_;
    SetSum names_, customer_orders_;  // what the secondary indexes must hold
    ConsistencyReport report_;
};

}  // namespace lockstep::tpcc
