// key.h - composes keys from integers and strings; memcmp order is the order of the parts.
#pragma once

#include <cstdint>
#include <cstring>

#include <lockstep/types.h>

namespace lockstep {

// A key under construction: 128 bytes of room, no allocation. Two keys compare part by part if
// their parts have equal types in equal places. Never blocks.
class Key {
public:
    // Appends an unsigned integer, big-endian.
    Key& u8(uint8_t v) { return append_big_endian(v, 1); }
    Key& u16(uint16_t v) { return append_big_endian(v, 2); }
    Key& u32(uint32_t v) { return append_big_endian(v, 4); }
    Key& u64(uint64_t v) { return append_big_endian(v, 8); }
    // Appends a signed integer; negative numbers sort before positive ones.
    Key& i32(int32_t v) { return u32(static_cast<uint32_t>(v) ^ 0x80000000u); }
    Key& i64(int64_t v) { return u64(static_cast<uint64_t>(v) ^ 0x8000000000000000ull); }
    // Appends a string. Zero bytes within are escaped (0 -> 0 FF) and the end is marked (0 0), so
    // that "a" sorts before "ab".
    Key& text(Slice s) {
        for (const char c : s) {
            put(c);
            if (c == 0) put('\xff');
        }
        put(0);
        put(0);
        return *this;
    }
    // The bytes so far; they belong to the key.
    operator Slice() const { return {bytes_, size_}; }
    // Bytes so far.
    size_t size() const { return size_; }
    // True if a part did not fit; the key must then not be used.
    bool overflowed() const { return overflowed_; }

private:
    // The low n bytes of v: eight are written, n count.
    Key& append_big_endian(uint64_t v, unsigned n) {
        if (size_ + n > kRoom) {
            overflowed_ = true;
            return *this;
        }
        const uint64_t big_endian = __builtin_bswap64(v << (64 - 8 * n));
        std::memcpy(bytes_ + size_, &big_endian, sizeof big_endian);
        size_ += n;
        return *this;
    }
    void put(char c) {
        if (size_ == kRoom) {
            overflowed_ = true;
            return;
        }
        bytes_[size_++] = c;
    }
    static constexpr uint32_t kRoom = 128;
    char bytes_[kRoom + 8];
    uint32_t size_ = 0;
    bool overflowed_ = false;
};

}  // namespace lockstep
