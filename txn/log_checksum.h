// log_checksum.h - the checksum of one log record, seeded with the place where the record stands.
//
// Internal to the log's sources. The seed ties a record to its LSN: bytes that a recycled segment still holds from an earlier turn
// never validate. Included only by log*.cc, because it takes xxHash's inline form: a call would cost more than a short hash.
#pragma once

#include <xxhash.h>

#include "txn/log_record.h"

namespace lockstep::txn {

// Over bytes 8 .. `bytes` of the record; the length takes part through the seed.
inline uint32_t log_checksum(const LogRecordHeader* header, uint32_t bytes, Lsn lsn) {
    const auto* body = reinterpret_cast<const std::byte*>(header) + 8;
    return static_cast<uint32_t>(XXH3_64bits_withSeed(body, bytes - 8, lsn.value + bytes * 0x9e3779b97f4a7c15ull));
}

inline bool log_size_plausible(uint32_t bytes) {
    return bytes >= sizeof(LogRecordHeader) && bytes <= kLogRecordMax && bytes % 8 == 0;
}

// True if `header` starts a whole valid record of the given LSN; `available` bytes may be looked at.
inline bool log_record_valid(const LogRecordHeader* header, uint64_t available, Lsn lsn) {
    return available >= sizeof(LogRecordHeader) && log_size_plausible(header->bytes) && header->bytes <= available && header->kind != 0 &&
           header->checksum == log_checksum(header, header->bytes, lsn);
}

}  // namespace lockstep::txn
