// log_checksum.h - the checksum of one log record, seeded with the record's LSN.
//
// Concepts   Nearly all records are short and have a CRC-32C: one instruction per eight bytes. Long
//            ones (page images, splits) have three, one for each third, which run side by side. The
//            length decides between the two. The seed ties a record to its LSN, so old bytes in a
//            recycled segment never validate. Before format version 4 (superblock.h), long records
//            had an XXH3. A reader accepts it too, because an older store is recovered from its log
//            as it stands. Internal to the log's sources.
#pragma once

#include <string>

#include <lockstep/result.h>
#include "threads/base/try.h"
#include "txn/log/crc32c.h"
#include "txn/log/log_files.h"
#include "txn/log/log_record.h"

namespace lockstep::txn {

inline constexpr uint32_t kCrcBytesMax = 1024;

[[gnu::noinline]] inline uint32_t log_checksum_long(const std::byte* body, uint32_t bytes,
                                                    uint64_t seed) {
    return crc32c_long(crc32c_word(~0u, seed), body, bytes);
}

inline uint64_t log_checksum_seed(uint32_t bytes, Lsn lsn) {
    return lsn.value + bytes * 0x9e3779b97f4a7c15ull;
}

// Over bytes 8 .. `bytes` of the record; the seed includes the length.
inline uint32_t log_checksum(const LogRecordHeader* header, uint32_t bytes, Lsn lsn) {
    DCHECK(bytes >= sizeof(LogRecordHeader) && bytes % 8 == 0);
    const auto* body = reinterpret_cast<const std::byte*>(header) + 8;
    const uint64_t seed = log_checksum_seed(bytes, lsn);
    if (bytes > kCrcBytesMax) [[unlikely]]
        return log_checksum_long(body, bytes - 8, seed);
    return crc32c(crc32c_word(~0u, seed), body, bytes - 8);
}

// The checksum of a long record (above kCrcBytesMax) that was written before format version 4.
[[gnu::cold, gnu::noinline]] uint32_t log_checksum_before_4(const LogRecordHeader* header, Lsn lsn);

// Has the record, which is readable as a whole, one of the checksums that it may have?
inline bool log_checksum_right(const LogRecordHeader* header, Lsn lsn) {
    if (header->checksum == log_checksum(header, header->bytes, lsn)) [[likely]]
        return true;
    return header->bytes > kCrcBytesMax && header->checksum == log_checksum_before_4(header, lsn);
}

inline bool log_size_plausible(uint32_t bytes) {
    return bytes >= sizeof(LogRecordHeader) && bytes <= kLogRecordMax && bytes % 8 == 0;
}

// True if `header` starts a whole valid record of the given LSN. `available` bytes may be read.
inline bool log_record_valid(const LogRecordHeader* header, uint64_t available, Lsn lsn) {
    return available >= sizeof(LogRecordHeader) && log_size_plausible(header->bytes) &&
           header->bytes <= available && header->kind != 0 && log_checksum_right(header, lsn);
}

// Copies the record at `lsn` into `buffer`, which is resized, by copy(lsn, bytes, out). Errors:
// corrupt_log, and those of copy().
template <class Copy>
Result<LogRecordView> copy_record(Lsn lsn, std::string& buffer, Copy copy) {
    if (lsn.value < kLogFirst || lsn.value % 8 != 0)
        return fail(ErrorCode::corrupt_log, "log record", lsn.value);
    LogRecordHeader head;
    TRY(copy(lsn.value, sizeof head, reinterpret_cast<std::byte*>(&head)));
    if (!log_size_plausible(head.bytes))
        return fail(ErrorCode::corrupt_log, "log record", lsn.value);
    buffer.resize(head.bytes);
    TRY(copy(lsn.value, head.bytes, reinterpret_cast<std::byte*>(buffer.data())));
    const auto* header = reinterpret_cast<const LogRecordHeader*>(buffer.data());
    if (!log_record_valid(header, head.bytes, lsn))
        return fail(ErrorCode::corrupt_log, "log record", lsn.value);
    return LogRecordView{.lsn = lsn, .header = header};
}

}  // namespace lockstep::txn
