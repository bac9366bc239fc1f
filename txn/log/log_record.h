// log_record.h - the layout of a log record: one header, then bytes that belong to its kind.
//
// Layout     offset  0 u32 bytes      whole record with header; a multiple of 8.
//                    4 u32 checksum   see below.
//                    8 u64 prev       previous record of the transaction, 0 = first;
//                                     in a compensation record: undo-next.
//                   16 u64 txn        0 = no transaction (page allocation, splits, checkpoints).
//                   24 u16 kind       below 32: txn/; the others: sm/.
//                   26 u8  flags      LogFlags.
//                   27 u8  parts      number of page parts (sm/ kinds).
//                   28 u32 object     index or heap concerned, 0 = none;
//                                     in a commit, end or prepare record: durable-LSN stamp
//                                     (log_stamp.cc).
//
// Concepts   The checksum covers bytes 8.. of the record and `bytes`. It is CRC-32C, and
//            above kCrcBytesMax that of three CRCs (log_checksum.h). Its seed is the record's own
//            LSN, so old records in a recycled segment never validate.
// Source     C. Mohan et al., "ARIES", ACM TODS 1992.
#pragma once

#include <cstddef>
#include <cstdint>

#include <lockstep/types.h>

#include "threads/base/check.h"
#include "threads/base/on_disk.h"

namespace lockstep::txn {

enum LogFlags : uint8_t {
    kLogUndoable = 1,      // rollback must look at it
    kLogCompensation = 2,  // CLR: redo only; rollback continues at `prev`
};

struct LogRecordHeader {
    uint32_t bytes;
    uint32_t checksum;
    uint64_t prev;
    uint64_t txn;
    uint16_t kind;
    uint8_t flags;
    uint8_t parts;
    uint32_t object;
};
static_assert(kOnDisk<LogRecordHeader, 32> && offsetof(LogRecordHeader, prev) == 8);
static_assert(offsetof(LogRecordHeader, txn) == 16 && offsetof(LogRecordHeader, kind) == 24);
static_assert(offsetof(LogRecordHeader, flags) == 26 && offsetof(LogRecordHeader, parts) == 27);
static_assert(offsetof(LogRecordHeader, object) == 28);

inline constexpr uint32_t kLogRecordMax = 256 * 1024;  // bytes
// What a record, or a part of one, takes in the log: multiples of 8 bytes.
inline constexpr uint32_t log_align(uint32_t bytes) { return (bytes + 7) & ~7u; }
static_assert(log_align(kLogRecordMax) == kLogRecordMax && log_align(1) == 8);
static_assert(log_align(sizeof(LogRecordHeader)) == sizeof(LogRecordHeader));

// Kinds of txn/. Numbers are on disk: never reuse one.
enum class TxnLogKind : uint16_t {
    pad = 1,                 // fills space; no meaning
    commit = 2,              // transaction is committed
    end = 3,                 // rollback is complete
    savepoint_rollback = 4,  // reserved
    checkpoint_begin = 5,
    checkpoint_end = 6,  // payload: CheckpointPayload
    time = 7,            // payload: TimePayload; only while the log is archived
    prepare_locks = 8,   // locks of a transaction whose `prepare` follows (prepare_record.h)
    prepare = 9,         // the transaction waits for the decision of a coordinator
};
inline constexpr uint16_t kSmLogKindFirst = 32;
static_assert(static_cast<uint16_t>(TxnLogKind::prepare) < kSmLogKindFirst);

// All records below were reserved before this moment (LOG-7).
struct TimePayload {
    uint64_t time;  // nanoseconds since 1970, UTC
};
static_assert(kOnDisk<TimePayload, 8>);
inline constexpr uint32_t kTimeRecordBytes = sizeof(LogRecordHeader) + sizeof(TimePayload);
static_assert(log_align(kTimeRecordBytes) == kTimeRecordBytes);

// A record as read back: points into memory that the reader owns.
struct LogRecordView {
    Lsn lsn{};
    const LogRecordHeader* header = nullptr;
    const std::byte* payload() const { return reinterpret_cast<const std::byte*>(header + 1); }
    uint32_t payload_bytes() const {
        DCHECK(header->bytes >= sizeof(LogRecordHeader) && header->bytes <= kLogRecordMax);
        return header->bytes - static_cast<uint32_t>(sizeof(LogRecordHeader));
    }
    Lsn end() const { return Lsn{lsn.value + header->bytes}; }
};

}  // namespace lockstep::txn
