// key_reader.h - takes a key apart that Key has composed.
#pragma once

#include <string>

#include <lockstep/record.h>

namespace lockstep {

// Reads the parts of a key one after the other, as Key (key.h) has appended them. The types are
// those that the application knows: a key does not name them. If the key has no such part at its
// place, the call gives 0 or an empty text, and ok() is false for good. So one look at the end
// suffices: `if (!reader.at_end())` the key is another one. The bytes of the key must live as long
// as the reader. Never blocks; only text() allocates.
class KeyReader {
public:
    // At the first part.
    explicit KeyReader(Slice key) : rest_(key) {}

    // The next part, an unsigned integer.
    uint8_t u8() { return static_cast<uint8_t>(big_endian(1)); }
    uint16_t u16() { return static_cast<uint16_t>(big_endian(2)); }
    uint32_t u32() { return static_cast<uint32_t>(big_endian(4)); }
    uint64_t u64() { return big_endian(8); }
    // The next part, a signed integer.
    int32_t i32() {
        return static_cast<int32_t>(static_cast<uint32_t>(signed_part(4, 0x80000000u)));
    }
    int64_t i64() { return static_cast<int64_t>(signed_part(8, 0x8000000000000000ull)); }
    // The next part, a string, without its escapes and its end mark.
    std::string text() {
        KeyReader measured = *this;
        std::string part(measured.text(nullptr, 0), '\0');
        text(part.data(), part.size());
        return part;
    }
    // The same into `buffer`: the bytes that `room` has place for. Returns the bytes of the part.
    size_t text(char* buffer, size_t room) {
        size_t bytes = 0;
        for (size_t at = 0; at + 1 < rest_.size(); ++at, ++bytes) {
            const char byte = rest_[at];
            if (byte == 0 && rest_[++at] != '\xff') {
                if (rest_[at] != 0) break;
                rest_.remove_prefix(at + 1);
                return bytes;
            }
            if (bytes < room) buffer[bytes] = byte;
        }
        lose();
        return 0;
    }

    // What is behind the parts that were read.
    Slice rest() const { return rest_; }
    // Each part was there.
    bool ok() const { return ok_; }
    // The same, and nothing is behind them.
    bool at_end() const { return ok_ && rest_.empty(); }

private:
    uint64_t big_endian(size_t bytes) {
        if (rest_.size() < bytes) {
            lose();
            return 0;
        }
        uint64_t value = 0;
        for (size_t at = 0; at < bytes; ++at)
            value = value << 8 | static_cast<unsigned char>(rest_[at]);
        rest_.remove_prefix(bytes);
        return value;
    }
    // 0 if the part is not there.
    uint64_t signed_part(size_t bytes, uint64_t sign) {
        const uint64_t value = big_endian(bytes);
        return ok_ ? value ^ sign : 0;
    }
    void lose() {
        ok_ = false;
        rest_ = {};
    }

    Slice rest_;
    bool ok_ = true;
};

}  // namespace lockstep
