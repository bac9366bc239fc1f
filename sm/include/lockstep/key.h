// key.h - composes keys whose memcmp order is the order of their parts: integers, strings, one
// after the other.
#pragma once

#include <cstdint>
#include <cstring>

#include <lockstep/types.h>

namespace lockstep {

// Fixed room of 128 bytes, no allocation. Order is kept for parts of equal types in equal places.
class Key {
public:
    Key& u8(uint8_t v) { return append_big_endian(v, 1); }
    Key& u16(uint16_t v) { return append_big_endian(v, 2); }
    Key& u32(uint32_t v) { return append_big_endian(v, 4); }
    Key& u64(uint64_t v) { return append_big_endian(v, 8); }
    // Negative before positive.
    Key& i32(int32_t v) { return u32(static_cast<uint32_t>(v) ^ 0x80000000u); }
    Key& i64(int64_t v) { return u64(static_cast<uint64_t>(v) ^ 0x8000000000000000ull); }
    // A string part: zero bytes within are escaped (0 -> 0 FF) and the end is marked (0 0), so that
    // "a" sorts before "ab".
    Key& text(Slice s) {
        for (const char c : s) {
            put(c);
            if (c == 0) put('\xff');
        }
        put(0);
        put(0);
        return *this;
    }
    operator Slice() const { return {bytes_, size_}; }
    size_t size() const { return size_; }
    // True if something did not fit; the key is then not to be used.
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
