// feeds.h - the rows of each table of the initial population, one after the other in key order.
//
// Concepts   next() makes the next row in `key` and `value`; false at the end. `value` points into
//            the feed. Some facts are shared by several tables, such as the customer and the number
//            of lines of an order. Each feed computes them from the seed, so that no feed waits for
//            another.
#pragma once

#include <string>
#include <vector>

#include "tpcc/rows.h"

namespace lockstep::tpcc {

// Walks (w, d, n) with n = 1..per_district.
struct DistrictWalk {
    const Scale& scale;
    uint32_t per_district;
    uint32_t w = scale.first, d = 1, n = 0;
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
        return w <= scale.last_here();
    }
};

struct WarehouseFeed {
    const RowSource& rows;
    uint32_t w = rows.scale.first - 1;
    WarehouseRecord record{};
    bool next(RowKey& key, Slice& value) {
        if (++w > rows.scale.last_here()) return false;
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
    uint32_t w = rows.scale.first, i = 0;
    StockRecord record{};
    bool next(RowKey& key, Slice& value) {
        if (++i > rows.scale.items) {
            i = 1;
            ++w;
        }
        if (w > rows.scale.last_here()) return false;
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

}  // namespace lockstep::tpcc
