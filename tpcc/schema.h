// schema.h - the nine tables of TPC-C as fixed-layout records (revision 5.11, clause 1.3).
//
// Concepts   A record is a packed struct; its bytes are the stored value. The fields that a
//            transaction changes stand side by side at the front, so that one patch() of a few
//            bytes changes them all. A text of variable length carries its length (Text<N>). The
//            long ones (C_DATA, I_DATA, S_DATA, H_DATA) stand last, and only their used bytes are
//            stored. Money is in cents, rates in 1/10000, times in nanoseconds. A time or carrier
//            of 0 is null.
// Invariants SC-1 Sizes and the offsets of patched fields are fixed: they are on disk. [checked:
//                 static_assert below]
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>

#include <lockstep/types.h>

namespace lockstep::tpcc {

using Cents = int64_t;
using Time = int64_t;

template <size_t N>
struct [[gnu::packed]] Text {
    uint8_t size = 0;
    char bytes[N] = {};

    void assign(Slice s) {
        size = static_cast<uint8_t>(std::min(s.size(), N));
        std::memcpy(bytes, s.data(), size);
    }
    // NOLINTNEXTLINE(google-explicit-constructor)
    operator Slice() const { return {bytes, std::min<size_t>(size, N)}; }
    Slice view() const { return *this; }
};

struct [[gnu::packed]] Address {
    Text<20> street_1, street_2, city;
    char state[2];
    char zip[9];
};

struct [[gnu::packed]] WarehouseRecord {
    Cents ytd;  // patched by Payment
    int32_t tax;
    Text<10> name;
    Address address;
};

struct [[gnu::packed]] DistrictRecord {
    Cents ytd;           // patched by Payment
    uint32_t next_o_id;  // patched by New-Order
    int32_t tax;
    Text<10> name;
    Address address;
};

struct [[gnu::packed]] CustomerRecord {
    Cents balance;  // the first four are patched by Payment and Delivery
    Cents ytd_payment;
    uint32_t payment_cnt;
    uint32_t delivery_cnt;
    int32_t discount;  // what New-Order reads ends with `last`
    char credit[2];
    Text<16> last;
    char middle[2];
    Text<16> first;
    Cents credit_lim;
    Time since;
    Address address;
    char phone[16];
    uint16_t data_size;
    char data[500];
    size_t stored_bytes() const {
        return offsetof(CustomerRecord, data) + std::min<size_t>(data_size, sizeof(data));
    }
};

struct [[gnu::packed]] HistoryRecord {
    uint32_t c_id;
    uint32_t c_w_id;
    uint32_t w_id;
    uint8_t c_d_id;
    uint8_t d_id;
    Time date;
    Cents amount;
    Text<24> data;
    size_t stored_bytes() const { return offsetof(HistoryRecord, data) + 1 + data.view().size(); }
};

struct [[gnu::packed]] OrderRecord {
    uint8_t carrier_id;  // 0 = null; patched by Delivery
    uint8_t ol_cnt;
    uint8_t all_local;
    uint32_t c_id;
    Time entry_d;
};

struct [[gnu::packed]] OrderLineRecord {
    Time delivery_d;  // 0 = null; patched by Delivery
    Cents amount;
    uint32_t i_id;
    uint32_t supply_w_id;
    uint8_t quantity;
    char dist_info[24];
};

struct [[gnu::packed]] ItemRecord {
    Cents price;
    uint32_t im_id;
    Text<24> name;
    Text<50> data;
    size_t stored_bytes() const { return offsetof(ItemRecord, data) + 1 + data.view().size(); }
};

struct [[gnu::packed]] StockRecord {
    int32_t quantity;  // the first four are patched by New-Order
    uint32_t order_cnt;
    uint32_t remote_cnt;
    int64_t ytd;
    char dist[10][24];
    Text<50> data;
    size_t stored_bytes() const { return offsetof(StockRecord, data) + 1 + data.view().size(); }
};

// SC-1
static_assert(sizeof(Text<10>) == 11 && sizeof(Address) == 74);
static_assert(sizeof(WarehouseRecord) == 97 && sizeof(DistrictRecord) == 101);
static_assert(offsetof(DistrictRecord, next_o_id) == 8);
static_assert(offsetof(CustomerRecord, discount) == 24 && offsetof(CustomerRecord, middle) == 47);
static_assert(offsetof(CustomerRecord, data) == 174 && sizeof(CustomerRecord) == 674);
static_assert(offsetof(HistoryRecord, data) == 30 && sizeof(OrderRecord) == 15 &&
              sizeof(OrderLineRecord) == 49);
static_assert(offsetof(ItemRecord, data) == 37 && offsetof(StockRecord, dist) == 20 &&
              sizeof(StockRecord) == 311);

// The bytes of a record as a stored value.
template <class R>
Slice bytes_of(const R& record) {
    if constexpr (requires { record.stored_bytes(); }) {
        return {reinterpret_cast<const char*>(&record), record.stored_bytes()};
    } else {
        return {reinterpret_cast<const char*>(&record), sizeof(R)};
    }
}

// The least length a stored value of this kind can have.
template <class R>
constexpr size_t bytes_min() {
    if constexpr (requires(R r) { r.stored_bytes(); }) return offsetof(R, data);
    else return sizeof(R);
}

// Copies a stored value into a record; false if its length is impossible.
template <class R>
bool read_record(Slice value, R& record) {
    if (value.size() < bytes_min<R>() || value.size() > sizeof(R)) return false;
    std::memcpy(static_cast<void*>(&record), value.data(), value.size());
    return true;
}

inline bool is_bad_credit(const CustomerRecord& c) { return c.credit[0] == 'B'; }

}  // namespace lockstep::tpcc
