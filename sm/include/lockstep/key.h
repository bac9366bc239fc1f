// key.h - composes keys from integers and strings; memcmp order is the order of the parts.
#pragma once

#include <concepts>
#include <cstddef>
#include <cstdint>
#include <utility>

#include <lockstep/record.h>

namespace lockstep {

namespace detail {

// The integers that a part of a key is made of: neither bool nor a character.
template <class T>
concept KeyNumber = std::integral<T> && !std::same_as<T, bool> && !std::same_as<T, char> &&
                    !std::same_as<T, wchar_t> && !std::same_as<T, char8_t> &&
                    !std::same_as<T, char16_t> && !std::same_as<T, char32_t>;

// Whether each value of From is a value of To.
template <class From, class To>
concept KeepsValue =
    (std::signed_integral<From> == std::signed_integral<To> && sizeof(From) <= sizeof(To)) ||
    (std::signed_integral<To> && sizeof(From) < sizeof(To));

// The value of a numeric part. What C++ would convert to another number does not compile: such a
// record would be found under no key that the application knows.
template <class To>
class KeyPart {
public:
    // From a type whose values all fit.
    template <KeyNumber From>
        requires KeepsValue<From, To>
    constexpr KeyPart(From v) : value_(v) {}
    // From a constant that fits, such as 5 or -1. Any other value needs a conversion that the
    // application writes, behind a check of its own.
    template <KeyNumber From>
        requires(!KeepsValue<From, To>)
    consteval KeyPart(From v) : value_(static_cast<To>(v)) {
        if (!std::in_range<To>(v)) the_constant_does_not_fit_into_this_part();
    }
    // The value.
    constexpr To value() const { return value_; }

private:
    static void the_constant_does_not_fit_into_this_part();  // cannot be called at compile time

    To value_;
};

}  // namespace detail

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

    // Appends an unsigned integer, big-endian. Takes integers whose type has no other values than
    // the part, and constants that fit. No other type compiles: no bool, character, enumeration or
    // floating-point number, and no wider integer without a static_cast.
    Key& u8(detail::KeyPart<uint8_t> v) { return append_big_endian(v.value(), 1); }
    Key& u16(detail::KeyPart<uint16_t> v) { return append_big_endian(v.value(), 2); }
    Key& u32(detail::KeyPart<uint32_t> v) { return append_big_endian(v.value(), 4); }
    Key& u64(detail::KeyPart<uint64_t> v) { return append_big_endian(v.value(), 8); }
    // Appends a signed integer; negative numbers sort before positive ones. Takes the same.
    Key& i32(detail::KeyPart<int32_t> v) {
        return u32(static_cast<uint32_t>(v.value()) ^ 0x80000000u);
    }
    Key& i64(detail::KeyPart<int64_t> v) {
        return u64(static_cast<uint64_t>(v.value()) ^ 0x8000000000000000ull);
    }
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
    // A null pointer is no text, and 0 is none.
    Key& text(std::nullptr_t) = delete;
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
