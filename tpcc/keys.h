// keys.h - primary and secondary keys: big-endian parts side by side, so that memcmp order is the
// order of the parts.
//
// Layout     warehouse: (w)                 district: (w,d)
//            customer: (w,d,c)              customer_name: (w,d,last,first,c)
//            orders, new_order: (w,d,o)     orders_customer: (w,d,c,o)
//            order_line: (w,d,o,ol)         item: (i)         stock: (w,i)
//            Widths: o: u32; i: u24; w, c: u16; d, ol: u8.
//
// Concepts   Names end with a zero byte, which no name contains. Keys are as narrow as the numbers
//            allow: a B-tree decides most comparisons by four bytes of the key, and leading zeros
//            would waste them. RowKey replaces the Key of sm/include/lockstep/key.h, which appends
//            byte by byte with a bounds check. A New-Order makes 60 keys, and a RowKey takes two
//            or three stores.
#pragma once

#include <bit>
#include <cstring>

#include <lockstep/types.h>
#include "tpcc/schema.h"

namespace lockstep::tpcc {

class RowKey {
public:
    RowKey& u8(uint8_t v) {
        bytes_[size_++] = static_cast<char>(v);
        return *this;
    }
    RowKey& u16(uint16_t v) { return put(__builtin_bswap16(v)); }
    RowKey& u24(uint32_t v) {
        return u8(static_cast<uint8_t>(v >> 16)).u16(static_cast<uint16_t>(v));
    }
    RowKey& u32(uint32_t v) { return put(__builtin_bswap32(v)); }
    // The text and the end mark. `end` = 1 gives the first key behind all keys that begin with the
    // same text. Copies all of `s`: a length that the compiler knows takes no call.
    RowKey& text(const Text<16>& s, char end = 0) {
        std::memcpy(bytes_ + size_, s.bytes, sizeof s.bytes);
        size_ += static_cast<uint32_t>(s.view().size());
        bytes_[size_++] = end;
        return *this;
    }
    // NOLINTNEXTLINE(google-explicit-constructor)
    operator Slice() const { return {bytes_, size_}; }

private:
    template <class T>
    RowKey& put(T big_endian) {
        std::memcpy(bytes_ + size_, &big_endian, sizeof(T));
        size_ += sizeof(T);
        return *this;
    }
    char bytes_[44];  // the longest: 2 + 1 + 17 + 17 + 2, and room to spare
    uint32_t size_ = 0;
};

inline constexpr uint32_t kWarehousesMax = 65535;  // as u16

// Each key is built in a local variable: a chain of calls ends in a reference, and returning that
// would copy the key.
inline RowKey warehouse_key(uint32_t w) {
    RowKey key;
    key.u16(static_cast<uint16_t>(w));
    return key;
}
inline RowKey district_key(uint32_t w, uint32_t d) {
    RowKey key;
    key.u16(static_cast<uint16_t>(w)).u8(static_cast<uint8_t>(d));
    return key;
}
inline RowKey customer_key(uint32_t w, uint32_t d, uint32_t c) {
    RowKey key;
    key.u16(static_cast<uint16_t>(w)).u8(static_cast<uint8_t>(d)).u16(static_cast<uint16_t>(c));
    return key;
}
inline RowKey name_key(uint32_t w, uint32_t d, const Text<16>& last, const Text<16>& first,
                       uint32_t c) {
    RowKey key = district_key(w, d);
    key.text(last).text(first).u16(static_cast<uint16_t>(c));
    return key;
}
inline RowKey name_low(uint32_t w, uint32_t d, const Text<16>& last) {
    RowKey key = district_key(w, d);
    key.text(last);
    return key;
}
inline RowKey name_high(uint32_t w, uint32_t d, const Text<16>& last) {
    RowKey key = district_key(w, d);
    key.text(last, 1);
    return key;
}
inline RowKey order_key(uint32_t w, uint32_t d, uint32_t o) {
    RowKey key;
    key.u16(static_cast<uint16_t>(w)).u8(static_cast<uint8_t>(d)).u32(o);
    return key;
}
inline RowKey customer_order_key(uint32_t w, uint32_t d, uint32_t c, uint32_t o) {
    RowKey key;
    key.u16(static_cast<uint16_t>(w))
        .u8(static_cast<uint8_t>(d))
        .u16(static_cast<uint16_t>(c))
        .u32(o);
    return key;
}
inline RowKey line_key(uint32_t w, uint32_t d, uint32_t o, uint32_t ol) {
    RowKey key;
    key.u16(static_cast<uint16_t>(w))
        .u8(static_cast<uint8_t>(d))
        .u32(o)
        .u8(static_cast<uint8_t>(ol));
    return key;
}
inline RowKey item_key(uint32_t i) {
    RowKey key;
    key.u24(i);
    return key;
}
inline RowKey stock_key(uint32_t w, uint32_t i) {
    RowKey key;
    key.u16(static_cast<uint16_t>(w)).u24(i);
    return key;
}

// Reads the parts of a key, front to back. On a key that is too short it returns zeros, and ok() is
// false.
class KeyReader {
public:
    explicit KeyReader(Slice key) : rest_(key) {}
    uint8_t u8() { return static_cast<uint8_t>(take(1)); }
    uint16_t u16() { return static_cast<uint16_t>(take(2)); }
    uint32_t u24() { return static_cast<uint32_t>(take(3)); }
    uint32_t u32() { return static_cast<uint32_t>(take(4)); }
    Slice text() {
        const size_t n = rest_.find('\0');
        if (n == Slice::npos) {
            ok_ = false;
            return {};
        }
        const Slice s = rest_.substr(0, n);
        rest_.remove_prefix(n + 1);
        return s;
    }
    bool ok() const { return ok_ && rest_.empty(); }  // the key had exactly the parts read

private:
    uint64_t take(size_t n) {
        if (rest_.size() < n) {
            ok_ = false;
            rest_ = {};
            return 0;
        }
        uint64_t v = 0;
        for (size_t i = 0; i < n; ++i) v = v << 8 | static_cast<uint8_t>(rest_[i]);
        rest_.remove_prefix(n);
        return v;
    }
    Slice rest_;
    bool ok_ = true;
};

// The customer number that ends a customer_name key (u16) or a customer's order number (u32).
inline uint32_t last_u16(Slice key) {
    uint16_t v = 0;
    if (key.size() >= 2) std::memcpy(&v, key.data() + key.size() - 2, 2);
    return __builtin_bswap16(v);
}
inline uint32_t last_u32(Slice key) {
    uint32_t v = 0;
    if (key.size() >= 4) std::memcpy(&v, key.data() + key.size() - 4, 4);
    return __builtin_bswap32(v);
}

}  // namespace lockstep::tpcc
