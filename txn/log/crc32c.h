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

// The register's state after one more word, without the usual inversions at begin and end.
inline uint32_t crc32c_word(uint32_t crc, uint64_t word) {
#if defined(__SSE4_2__)
    return static_cast<uint32_t>(__builtin_ia32_crc32di(crc, word));
#elif defined(__aarch64__) && defined(__ARM_FEATURE_CRC32)
    return __crc32cd(crc, word);
#else
    return crc32c_portable::word(crc, word);
#endif
}

// `bytes` is a multiple of 8.
inline uint32_t crc32c(uint32_t crc, const void* data, size_t bytes) {
    DCHECK(bytes % 8 == 0);
    const char* at = static_cast<const char*>(data);
#pragma GCC unroll 4
    for (const char* const end = at + bytes; at != end; at += 8) {
        uint64_t word;
        std::memcpy(&word, at, 8);
        crc = crc32c_word(crc, word);
    }
    return crc;
}

}  // namespace lockstep::txn
