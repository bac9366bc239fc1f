// crc32c.h - CRC-32C (Castagnoli) over whole 64-bit words, by the processor's instruction where
// there is one.
//
// Concepts   The same function everywhere: files move between machines. Internal to the log's
//            sources.
// Source     G. Castagnoli et al., "Optimization of cyclic redundancy-check codes with 24 and 32
//            parity bits", 1993; RFC 3720 for the polynomial.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>

#include "threads/base/check.h"

#if defined(__aarch64__) && defined(__ARM_FEATURE_CRC32)
#include <arm_acle.h>
#endif

namespace lockstep::txn {

namespace crc32c_portable {
struct Table {
    uint32_t of[256] = {};
    constexpr Table() {
        for (uint32_t byte = 0; byte < 256; ++byte) {
            uint32_t rest = byte;
            for (int bit = 0; bit < 8; ++bit) rest = rest >> 1 ^ (rest & 1 ? 0x82f63b78u : 0);
            of[byte] = rest;
        }
    }
};
inline constexpr Table kTable;
static_assert(kTable.of[1] == 0xf26b8303u && kTable.of[128] == 0x82f63b78u);  // Castagnoli

inline uint32_t word(uint32_t crc, uint64_t word) {
    for (int byte = 0; byte < 8; ++byte, word >>= 8)
        crc = kTable.of[(crc ^ word) & 0xff] ^ crc >> 8;
    return crc;
}
}  // namespace crc32c_portable

// The register's state after one more word, without the usual inversions at begin and end. It has
// 32 bits; kept in 64, because the instruction takes and gives 64.
inline uint64_t crc32c_next(uint64_t crc, uint64_t word) {
#if defined(__SSE4_2__)
    return __builtin_ia32_crc32di(crc, word);
#elif defined(__aarch64__) && defined(__ARM_FEATURE_CRC32)
    return __crc32cd(static_cast<uint32_t>(crc), word);
#else
    return crc32c_portable::word(static_cast<uint32_t>(crc), word);
#endif
}
inline uint32_t crc32c_word(uint32_t crc, uint64_t word) {
    return static_cast<uint32_t>(crc32c_next(crc, word));
}

// `bytes` is a multiple of 8.
inline uint32_t crc32c(uint32_t crc, const void* data, size_t bytes) {
    DCHECK(bytes % 8 == 0);
    const char* at = static_cast<const char*>(data);
    uint64_t state = crc;
    const auto next = [&] {
        uint64_t word;
        std::memcpy(&word, at, 8);
        state = crc32c_next(state, word);
        at += 8;
    };
    const char* const end = at + bytes;
    if (bytes & 8) next();
    if (bytes & 16) next(), next();
    while (at != end) next(), next(), next(), next();
    return static_cast<uint32_t>(state);
}

// For long data: three thirds at once, because the instruction takes three cycles and starts one
// each cycle. The result is the CRC of the three CRCs, so not that of crc32c().
inline uint32_t crc32c_long(uint32_t crc, const void* data, size_t bytes) {
    DCHECK(bytes % 8 == 0);
    const char* at = static_cast<const char*>(data);
    const size_t third = bytes / 24 * 8;
    const auto word = [](const char* from) {
        uint64_t w;
        std::memcpy(&w, from, 8);
        return w;
    };
    uint64_t a = crc, b = crc, c = crc;
    const char *second = at + third, *last = second + third;
#pragma GCC unroll 4
    for (const char* const end = second; at != end; at += 8, second += 8, last += 8) {
        a = crc32c_next(a, word(at));
        b = crc32c_next(b, word(second));
        c = crc32c_next(c, word(last));
    }
    const uint64_t all = crc32c_next(crc32c_next(a, b), c);
    return crc32c(static_cast<uint32_t>(all), last, bytes - 3 * third);
}

}  // namespace lockstep::txn
