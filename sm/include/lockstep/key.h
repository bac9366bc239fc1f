// key.h - composes keys from integers and strings; memcmp order is the order of the parts.
#pragma once

#include <cstdint>

#include <lockstep/record.h>

namespace lockstep {

// A key under construction: kKeyBytesMax bytes of room within the object, no allocation. Two keys
// compare part by part if their parts have equal types in equal places. A key is never cut. If a
// part does not fit, the key has overflowed for good, and every operation that takes it returns
// key_too_long. Remedy: a shorter part, such as a hash of a long text. Never blocks.
class Key {
public:
    // The empty key. Not `= default`, which would make Key() clear the whole room.
    Key() {}
    // Copies the bytes so far, and whether the key has overflowed.
    Key(const Key& other) { copy(other); }
    Key& operator=(const Key& other) {
        if (this != &other) copy(other);
        return *this;
    }

    // Appends an unsigned integer, big-endian.
    Key& u8(uint8_t v) { return append_big_endian(v, 1); }
    Key& u16(uint16_t v) { return append_big_endian(v, 2); }
    Key& u32(uint32_t v) { return append_big_endian(v, 4); }
    Key& u64(uint64_t v) { return append_big_endian(v, 8); }
    // Appends a signed integer; negative numbers sort before positive ones.
    Key& i32(int32_t v) { return u32(static_cast<uint32_t>(v) ^ 0x80000000u); }
    Key& i64(int64_t v) { return u64(static_cast<uint64_t>(v) ^ 0x8000000000000000ull); }
    // Appends a string. Zero bytes within are escaped (0 -> 0 FF) and the end is marked (0 0), so
    // that "a" sorts before "ab". It takes two bytes more than the string, and one for each zero
    // byte within.
    Key& text(Slice s) {
        for (const char c : s) {
            // A byte that leaves no room for the end mark overflows at once.
            if (size_ + kEndMark > kRoom) [[unlikely]]
                return overflow();
            bytes_[size_++] = c;
            if (c == 0) bytes_[size_++] = '\xff';
        }
        if (size_ + kEndMark > kRoom) [[unlikely]]
            return overflow();
        bytes_[size_++] = 0;
        bytes_[size_++] = 0;
        return *this;
    }
    // The bytes so far; they belong to the key. An overflowed key gives kKeyBytesMax + 1 bytes.
    operator Slice() const { return {bytes_, size_}; }
    // Bytes so far; kKeyBytesMax + 1 if the key has overflowed.
    size_t size() const { return size_; }
    // True if a part did not fit. No operation takes the key then.
    bool overflowed() const { return size_ > kRoom; }

private:
    // The low n bytes of v: eight are written, n count.
    Key& append_big_endian(uint64_t v, unsigned n) {
        if (size_ + n > kRoom) [[unlikely]]
            return overflow();
        const uint64_t big_endian = __builtin_bswap64(v << (64 - 8 * n));
        __builtin_memcpy(bytes_ + size_, &big_endian, sizeof big_endian);
        size_ += n;
        return *this;
    }
    // One byte more than an index takes, so the index refuses the key; no part fits any more.
    [[gnu::cold, gnu::noinline]] Key& overflow() {
        if (size_ <= kRoom) __builtin_memset(bytes_ + size_, 0, kRoom + 1 - size_);
        size_ = kRoom + 1;
        return *this;
    }
    // Most keys are short: no call for those.
    void copy(const Key& other) {
        size_ = other.size_;
        __builtin_memcpy(bytes_, other.bytes_, kShort);
        if (size_ > kShort) [[unlikely]]
            __builtin_memcpy(bytes_ + kShort, other.bytes_ + kShort, size_ - kShort);
    }
    static constexpr size_t kRoom = kKeyBytesMax;
    static constexpr size_t kEndMark = 2;  // bytes
    static constexpr size_t kShort = 64;
    // First, so that it shares its cache line with a short key.
    size_t size_ = 0;
    // Behind the room: the byte of an overflowed key, and what append_big_endian() writes in vain.
    char bytes_[kRoom + 8];
    static_assert(kRoom + 1 <= sizeof bytes_ && kShort <= kRoom);
};

}  // namespace lockstep
