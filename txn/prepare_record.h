// prepare_record.h - the log records of a prepared transaction: its global name and its locks.
//
// Concepts   A prepare leaves one record of the kind `prepare`. Locks that it has no room for stand
//            in records of the kind `prepare_locks` before it. All are in the transaction's chain,
//            and `prepare` is its last record for as long as it is in doubt. So a restart knows an
//            in-doubt transaction by its last record, wherever a checkpoint has listed it.
// Layout     Payload: PreparePayload, the gid, `objects` PreparedObject, `names` u64, `names` u8
//            (LockMode). A record `prepare_locks` has no gid, and zeros for `time` and
//            `undo_bytes`.
// Invariants PP-1 The records list every right that the transaction holds, read locks too. It is
//                 released behind the commit record only, as without prepare: the argument in
//                 txn/README.md that a prefix of the log is a serializable state needs that.
// Source     C. Mohan, B. Lindsay, R. Obermarck, "Transaction management in the R* distributed
//            database management system", ACM TODS 1986; C. Mohan et al., "ARIES", 1992, section
//            on in-doubt transactions.
#pragma once

#include <string>
#include <vector>

#include <lockstep/prepared.h>
#include <lockstep/result.h>
#include "threads/base/limits.h"
#include "threads/base/on_disk.h"
#include "txn/lock/lock_list.h"
#include "txn/log/log_record.h"

namespace lockstep::txn {

struct PreparePayload {
    uint64_t time;        // of the prepare: nanoseconds since 1970, UTC
    uint64_t undo_bytes;  // log space that is promised for the rollback
    uint32_t objects, names;
    uint32_t gid_bytes;
    uint32_t reserved;
};
static_assert(kOnDisk<PreparePayload, 32> && offsetof(PreparePayload, undo_bytes) == 8);
static_assert(offsetof(PreparePayload, objects) == 16 && offsetof(PreparePayload, gid_bytes) == 24);

struct PreparedObject {
    uint32_t object;
    uint32_t mode;  // LockMode
};
static_assert(kOnDisk<PreparedObject, 8>);

inline constexpr size_t kPreparedObjectsMax = limits::most::prepared_objects,
                        kPreparedNamesMax = limits::most::prepared_names;  // of one record
static_assert(sizeof(LogRecordHeader) + sizeof(PreparePayload) + kGidBytesMax +
                  kPreparedObjectsMax * sizeof(PreparedObject) +
                  kPreparedNamesMax * (sizeof(uint64_t) + 1) <=
              kLogRecordMax);

// What the records of one transaction say.
struct Prepared {
    std::string gid;
    uint64_t time = 0, undo_bytes = 0;
    LockList locks;
};

// The payloads of the records, in the order of the log; the last one is that of `prepare`.
std::vector<std::string> prepare_payloads(const Prepared& prepared);
// Adds what the record says. Error: corrupt_log.
Result<void> read_prepare(const LogRecordView& record, Prepared& prepared);

inline bool is_prepare(const LogRecordView& record) {
    return record.header->kind == static_cast<uint16_t>(TxnLogKind::prepare);
}

}  // namespace lockstep::txn
