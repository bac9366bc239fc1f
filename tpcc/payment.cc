// payment.cc - the Payment transaction (clause 2.5), and how a customer is found by last name.
//
// Operations  modify W, D; by name: scan C's names; modify C; insert H.
#include <fmt/compile.h>

#include "threads/base/try.h"
#include "tpcc/row_changes.h"

namespace lockstep::tpcc {

namespace {

Result<void> pay(Database& db, Txn& txn, const PaymentInput& in, PaymentOutput& out) {
    const RowKey key = customer_key(in.customer.w, in.customer.d, out.c_id);
    CustomerRecord& customer = out.customer;
    const auto pay_amount = [&] {
        customer.balance -= in.amount;
        customer.ytd_payment += in.amount;
        customer.payment_cnt += 1;
        return !is_bad_credit(customer);
    };
    TRY(modify_row(db, db.customer, txn, key, customer, 0, offsetof(CustomerRecord, delivery_cnt),
                   "customer", pay_amount));
    if (!is_bad_credit(customer)) return {};
    note_in_customer_data(in, out.c_id, customer);
    if (!TRY(db.customer.update(txn, key, bytes_of(customer)))) return missing_row("customer", key);
    return {};
}

// As if written into its two callers: a Payment is counted in instructions.
[[gnu::always_inline]] inline Result<void> insert_history(Database& db, Txn& txn,
                                                          const PaymentInput& in,
                                                          const PaymentOutput& out,
                                                          const Text<10>& w_name,
                                                          const Text<10>& d_name) {
    const HistoryRecord history = history_row(in, out.c_id, out.date, w_name, d_name);
    TRY(db.history.insert(txn, bytes_of(history)));
    return {};
}

// Adds the amount to the warehouse and the district.
[[gnu::always_inline]] inline Result<void> take_payment(Database& db, Txn& txn,
                                                        const PaymentInput& in,
                                                        WarehouseRecord& warehouse,
                                                        DistrictRecord& district) {
    const auto add_to = [&](auto& row) {
        return [&] {
            row.ytd += in.amount;
            return true;
        };
    };
    TRY(modify_row(db, db.warehouse, txn, warehouse_key(in.w), warehouse, 0, sizeof(Cents),
                   "warehouse", add_to(warehouse)));
    return modify_row(db, db.district, txn, district_key(in.w, in.d), district, 0, sizeof(Cents),
                      "district", add_to(district));
}

void show(const WarehouseRecord& warehouse, const DistrictRecord& district, Time now,
          PaymentOutput& out) {
    out.warehouse = warehouse.address;
    out.district = district.address;
    out.date = now;
}

}  // namespace

Result<void> payment(Database& db, Txn& txn, const PaymentInput& in, Time now, PaymentOutput& out) {
    // Whole rows are read into them.
    Unmade<WarehouseRecord, 1> warehouse_room;
    Unmade<DistrictRecord, 1> district_room;
    WarehouseRecord& warehouse = warehouse_room.items[0];
    DistrictRecord& district = district_room.items[0];
    TRY(take_payment(db, txn, in, warehouse, district));
    show(warehouse, district, now, out);
    TRY(pay_customer(db, txn, in, out));
    return insert_history(db, txn, in, out, warehouse.name, district.name);
}

Result<void> pay_customer(Database& db, Txn& txn, const PaymentInput& in, PaymentOutput& out) {
    out.c_id = TRY(find_customer(db, txn, in.customer));
    return pay(db, txn, in, out);
}

Result<void> pay_warehouse(Database& db, Txn& txn, const PaymentInput& in, Time now,
                           PaymentOutput& out) {
    WarehouseRecord warehouse;
    DistrictRecord district;
    TRY(take_payment(db, txn, in, warehouse, district));
    show(warehouse, district, now, out);
    return insert_history(db, txn, in, out, warehouse.name, district.name);
}

Result<uint32_t> find_customer(Database& db, Txn& txn, const CustomerChoice& choice) {
    if (!choice.by_name) return choice.c;
    const RowKey low = name_low(choice.w, choice.d, choice.last);
    Cursor cursor = db.customer_name.scan(txn, low, name_high(choice.w, choice.d, choice.last));
    uint16_t found[1024];
    size_t n = 0;
    while (n < std::size(found) && TRY(cursor.next()))
        found[n++] = static_cast<uint16_t>(last_u16(cursor.key()));
    if (n == 0) return missing_row("customer_name", low);
    return found[(n - 1) / 2];
}

void note_in_customer_data(const PaymentInput& in, uint32_t c_id, CustomerRecord& customer) {
    char note[80];
    const auto end = fmt::format_to_n(note, sizeof(note), FMT_COMPILE("{} {} {} {} {} {}.{:02}|"),
                                      c_id, in.customer.d, in.customer.w, in.d, in.w,
                                      in.amount / 100, in.amount % 100);
    const size_t n = std::min(end.size, sizeof(note));
    const size_t size = std::min<size_t>(customer.data_size, sizeof(customer.data));
    const size_t kept = std::min(size, sizeof(customer.data) - n);
    std::memmove(customer.data + n, customer.data, kept);
    std::memcpy(customer.data, note, n);
    customer.data_size = static_cast<uint16_t>(n + kept);
}

HistoryRecord history_row(const PaymentInput& in, uint32_t c_id, Time date, const Text<10>& w_name,
                          const Text<10>& d_name) {
    HistoryRecord history;
    history.c_id = c_id;
    history.c_w_id = in.customer.w;
    history.c_d_id = static_cast<uint8_t>(in.customer.d);
    history.w_id = in.w;
    history.d_id = static_cast<uint8_t>(in.d);
    history.date = date;
    history.amount = in.amount;
    // The names with four spaces between them. Whole texts are copied: a length that the compiler
    // knows takes no call. Behind a name are zeros, over which the next part goes.
    constexpr size_t kSpaces = 4;
    Text<24>& data = history.data;
    static_assert(sizeof data.bytes == sizeof w_name.bytes + kSpaces + sizeof d_name.bytes);
    const size_t spaces_at = w_name.view().size(), d_name_at = spaces_at + kSpaces;
    std::memcpy(data.bytes, w_name.bytes, sizeof w_name.bytes);
    std::memset(data.bytes + spaces_at, ' ', kSpaces);
    std::memcpy(data.bytes + d_name_at, d_name.bytes, sizeof d_name.bytes);
    data.size = static_cast<uint8_t>(d_name_at + d_name.view().size());
    return history;
}

std::unexpected<Error> missing_row(const char* what, Slice key) {
    uint64_t first = 0, second = 0;  // the key's bytes as two numbers, for the message
    for (size_t i = 0; i < key.size() && i < 16; ++i)
        (i < 8 ? first : second) = (i < 8 ? first : second) << 8 | static_cast<uint8_t>(key[i]);
    return fail(ErrorCode::no_such_record, what, first, second);
}

}  // namespace lockstep::tpcc
