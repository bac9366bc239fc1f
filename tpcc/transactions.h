// transactions.h - the bodies of the five transactions (clauses 2.4 to 2.8).
//
// Concepts   The caller begins and commits; a body runs between. It reads into buffers on its stack
//            and allocates nothing of its own. Rows that will change are locked exclusively when
//            they are fetched.
// Blocking   Every body may park the calling user thread for locks, pages and log space.
// Errors     Errors of the store. A value of false (New-Order) means: roll back, as the input
//            demanded. no_such_record names a missing row that must exist: the database is damaged.
#pragma once

#include "threads/base/try.h"
#include "threads/base/unmade.h"
#include "tpcc/input.h"

namespace lockstep::tpcc {

struct NewOrderOutput {
    uint32_t o_id;
    Time entry_d;
    int32_t w_tax, d_tax, discount;  // 1/10000
    Text<16> last;
    char credit[2];
    Cents total;
    struct Line {
        Text<24> i_name;
        Cents price, amount;
        int32_t stock_quantity;
        char brand_generic;  // 'B' or 'G'
    } lines[15];             // at [number - 1]
};

struct PaymentOutput {
    Address warehouse, district;
    CustomerRecord customer;  // as stored after the payment
    uint32_t c_id;
    Time date;
};

struct OrderStatusOutput {
    uint32_t c_id, o_id;  // o_id 0: no order
    Cents balance;
    Text<16> first, last;
    char middle[2];
    OrderRecord order;
    OrderLineRecord lines[15];
};

struct DeliveryOutput {
    uint32_t o_id[10];  // per district; 0: it had no undelivered order
    uint32_t skipped;
};

struct StockLevelOutput {
    uint32_t low_stock;
};

// What a stock row of another shard tells an order, after it has supplied a line.
struct [[gnu::packed]] RemoteStock {
    int32_t quantity;
    char dist_info[24];
    uint8_t original;
};

// `remote`: null if all stock is in this store. Else its places of the lines whose warehouse is on
// another shard are filled, by supply_remote() there.
Result<bool> new_order(Database& db, Txn& txn, const NewOrderInput& in, Time now,
                       NewOrderOutput& out, const RemoteStock* remote = nullptr);
// The part of a New-Order of another shard: takes the lines' items from the stock of this store's
// warehouses, and fills out[i] of each such line i.
Result<void> supply_remote(Database& db, Txn& txn, const NewOrderInput& in, RemoteStock* out);
Result<void> payment(Database& db, Txn& txn, const PaymentInput& in, Time now, PaymentOutput& out);
// The two parts of a Payment whose customer is on another shard: of the customer, which is done
// first and sets out.c_id and out.customer, and of the warehouse, which reads out.c_id.
Result<void> pay_customer(Database& db, Txn& txn, const PaymentInput& in, PaymentOutput& out);
Result<void> pay_warehouse(Database& db, Txn& txn, const PaymentInput& in, Time now,
                           PaymentOutput& out);
Result<void> order_status(Database& db, Txn& txn, const OrderStatusInput& in,
                          OrderStatusOutput& out);
// All ten districts in one transaction, in ascending order.
Result<void> delivery(Database& db, Txn& txn, const DeliveryInput& in, Time now,
                      DeliveryOutput& out);
Result<void> stock_level(Database& db, Txn& txn, const StockLevelInput& in, StockLevelOutput& out);

// The number of the chosen customer. For a name: the one at position ceil(n/2) among the customers
// of that name, sorted by first name (clause 2.5.2.2).
Result<uint32_t> find_customer(Database& db, Txn& txn, const CustomerChoice& choice);

// The error for a missing row. `what` names the table.
[[gnu::cold, gnu::noinline]] std::unexpected<Error> missing_row(const char* what, Slice key);

// Fetches the first `bytes` of a row that must exist into `record`.
template <class R>
Result<void> fetch(const Index& index, Txn& txn, const RowKey& key, R& record, const char* what,
                   Access access = Access::read, size_t bytes = sizeof(R)) {
    const auto size =
        TRY(index.get(txn, key, std::span(reinterpret_cast<std::byte*>(&record), bytes), access));
    if (!size || *size < bytes_min<R>()) [[unlikely]]
        return missing_row(what, key);
    return {};
}

// Overwrites the bytes [from, to) of a stored row with those of `record`.
template <class R>
Result<void> patch_row(const Index& index, Txn& txn, const RowKey& key, const R& record,
                       size_t from, size_t to, const char* what) {
    if (!TRY(index.patch(txn, key, from,
                         Slice(reinterpret_cast<const char*>(&record) + from, to - from))))
        [[unlikely]]
        return missing_row(what, key);
    return {};
}

// Fetches a row that must exist into `record`, calls change(), and stores the row's bytes
// [from, to) if change() returns true. It must change no other bytes of the row.
template <class R, class F>
Result<void> modify_row(const Database& db, const Index& index, Txn& txn, const RowKey& key,
                        R& record, size_t from, size_t to, const char* what, F change) {
    if (db.calls == Calls::single) [[unlikely]] {
        TRY(fetch(index, txn, key, record, what, Access::write));
        if (!change()) return {};
        return patch_row(index, txn, key, record, from, to, what);
    }
    bool whole = false;
    const auto change_whole = [&](std::span<std::byte> value) -> ByteRange {
        whole = value.size() >= bytes_min<R>();
        if (!whole || !change()) [[unlikely]]
            return {};
        return {from, to - from};
    };
    TRY(index.modify(txn, key, std::span(reinterpret_cast<std::byte*>(&record), sizeof(R)),
                     change_whole));
    if (!whole) [[unlikely]]
        return missing_row(what, key);
    return {};
}

// Up to N rows of one table, fetched together. A batch of few rows does not pay for N.
template <class R, size_t N>
class RowBatch {
public:
    // `bytes`: length of the part of the row to fetch.
    void add(const RowKey& key, size_t bytes = sizeof(R)) {
        new (&keys_.items[size_]) RowKey(key);
        new (&lookups_.items[size_]) Lookup{
            .key = keys_.items[size_],
            .buffer = std::span(reinterpret_cast<std::byte*>(&records_.items[size_]), bytes)};
        ++size_;
    }
    void clear() { size_ = 0; }
    bool full() const { return size_ == N; }
    size_t size() const { return size_; }
    R& operator[](size_t i) { return records_.items[i]; }
    const RowKey& key(size_t i) const { return keys_.items[i]; }
    bool found(size_t i) const { return lookups_.items[i].found; }
    // Does the row exist, with at least the length of its kind?
    bool good(size_t i) const {
        return lookups_.items[i].found && lookups_.items[i].bytes >= bytes_min<R>();
    }

    // A missing row is not an error here.
    Result<void> look_up(const Database& db, const Index& index, Txn& txn,
                         Access access = Access::read) {
        if (db.calls == Calls::single) [[unlikely]]
            return look_up_singly(index, txn, access);
        TRY(index.get_many(txn, {lookups_.items, size_}, access));
        return {};
    }
    // A missing row is an error.
    Result<void> fetch(const Database& db, const Index& index, Txn& txn, const char* what,
                       Access access = Access::read) {
        TRY(look_up(db, index, txn, access));
        return missing(what);
    }

    // The same; then calls change(i) for each row i in order, which must change no other bytes of
    // it than [from, to), and stores those.
    template <class F>
    Result<void> modify(const Database& db, const Index& index, Txn& txn, size_t from, size_t to,
                        const char* what, F change) {
        if (db.calls == Calls::single) [[unlikely]]
            return modify_singly(db, index, txn, from, to, what, change);
        const auto change_good = [&](size_t i, std::span<std::byte> value) -> ByteRange {
            if (value.size() < bytes_min<R>()) [[unlikely]]
                return {};
            change(i);
            return {from, to - from};
        };
        TRY(index.modify_many(txn, {lookups_.items, size_}, change_good));
        return missing(what);
    }

private:
    Result<void> missing(const char* what) const {
        for (size_t i = 0; i < size_; ++i)
            if (!good(i)) [[unlikely]]
                return missing_row(what, keys_.items[i]);
        return {};
    }
    template <class F>
    [[gnu::noinline]] Result<void> modify_singly(const Database& db, const Index& index, Txn& txn,
                                                 size_t from, size_t to, const char* what,
                                                 F change) {
        TRY(fetch(db, index, txn, what, Access::write));
        for (size_t i = 0; i < size_; ++i) {
            // The same row again: it was fetched before the one before was changed.
            if (i > 0 && Slice(keys_.items[i]) == Slice(keys_.items[i - 1])) [[unlikely]]
                records_.items[i] = records_.items[i - 1];
            change(i);
            TRY(patch_row(index, txn, keys_.items[i], records_.items[i], from, to, what));
        }
        return {};
    }
    [[gnu::noinline]] Result<void> look_up_singly(const Index& index, Txn& txn, Access access) {
        for (Lookup& lookup : std::span(lookups_.items, size_)) {
            const auto bytes = TRY(index.get(txn, lookup.key, lookup.buffer, access));
            lookup.found = bytes.has_value();
            lookup.bytes = bytes.value_or(0);
        }
        return {};
    }

    size_t size_ = 0;
    Unmade<R, N> records_;  // what is fetched into one makes it
    Unmade<RowKey, N> keys_;
    Unmade<Lookup, N> lookups_;
};

}  // namespace lockstep::tpcc
