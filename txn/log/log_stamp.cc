// log_stamp.cc - durable-LSN stamps: commit, end and prepare records tell how far the log was
// durable when they were appended.
//
// Concepts   log.mark lags by kMarkInterval and a write, so damage in that range would look like a
//            torn tail. But a torn tail lies in one flush (LI-3), and no record in that flush knows
//            of anything durable beyond the flush's begin. Suppose a whole record stands *behind*
//            the apparent end of the log and stamps a durable end beyond that end. Then the missing
//            bytes were durable once and were lost later.
//            Every commit, rollback and prepare ends with such a record. It does not need its field
//            `object` otherwise. The field holds the distance back to the durable end, in units of
//            8 bytes, plus 1. The value 0 means no stamp.
//            Restart uses the highest of the mark and all stamps, because each is a lower bound of
//            what was durable.
//            Limits: damage newer than the mark stays unnoticed in the last flush, and in earlier
//            flushes if no transaction ended after them. On the disk this equals a flush that was
//            never finished. Only a second sync for each flush could tell them apart.
// Invariants LA-L1 A record stamps only what a completed sync covered before the record was
//                 appended, and only a record boundary. Reason: a record that the durable end cuts
//                 in two may be torn without any damage. [stamped: advance()]
#include <algorithm>
#include <cstring>

#include "threads/base/zero_bytes.h"
#include "txn/log/log_checksum.h"
#include "txn/log/log_impl.h"

namespace lockstep::txn {

namespace {
constexpr uint64_t kUnit = 8;
// Range behind the end to search: the lost flush and the flush after it. The lost flush began
// within a record of the end (LI-3).
constexpr uint64_t kWindow = kLogRecordMax + 2 * kFlushMax;
constexpr uint64_t kPiece = 256 * 1024;
constexpr uint64_t kZeroStep = 4096;  // most of the window was never written
static_assert(kZeroStep % kUnit == 0 && kPiece % kZeroStep == 0);
}  // namespace

uint32_t Log::durable_stamp(Lsn lsn) const {
    const uint64_t end = impl_->stamped.load(std::memory_order_acquire);
    DCHECK(end <= lsn.value && (lsn.value - end) % kUnit == 0);
    const uint64_t distance = (lsn.value - end) / kUnit + 1;
    return end == 0 || distance > UINT32_MAX ? 0 : static_cast<uint32_t>(distance);
}

Lsn stamped_durable_end(const LogRecordHeader& header, Lsn lsn) {
    const bool stamps = header.kind == static_cast<uint16_t>(TxnLogKind::commit) ||
                        header.kind == static_cast<uint16_t>(TxnLogKind::end) ||
                        header.kind == static_cast<uint16_t>(TxnLogKind::prepare);
    const uint64_t distance =
        stamps && header.object != 0 ? (header.object - 1) * kUnit : UINT64_MAX;
    return distance <= lsn.value ? Lsn{lsn.value - distance} : kLsnNone;
}

// The durable end that a whole record at `lsn` stamps, or 0 if it is not above `known`. Of the
// record, `available` bytes are in memory. A prepare record may reach beyond them, and is then read
// once more. Old prepare records may lie everywhere in a recycled segment, so most must need no
// read.
Result<uint64_t> Log::Impl::stamp_of(const LogRecordHeader& header, uint64_t available,
                                     uint64_t lsn, uint64_t known) const {
    DCHECK(log_size_plausible(header.bytes) && lsn % kUnit == 0);
    const uint64_t stamped = stamped_durable_end(header, Lsn{lsn}).value;
    if (header.flags != 0 || header.parts != 0 || stamped <= known) return 0;
    const bool prepares = header.kind == static_cast<uint16_t>(TxnLogKind::prepare);
    if (!prepares && header.bytes != kEndRecordBytes) return 0;
    if (header.bytes <= available)
        return log_record_valid(&header, available, Lsn{lsn}) ? stamped : 0;
    LogReader reader(files.disk(), options);
    reader.seek(Lsn{lsn});
    LogRecordView record;
    return TRY(reader.next(record)) ? stamped : 0;
}

// The highest durable end that a record behind `end` stamps, or 0. A record whose header spans two
// files is ignored.
Result<uint64_t> Log::Impl::stamped_behind(uint64_t end) const {
    const auto piece = std::make_unique_for_overwrite<std::byte[]>(kPiece);
    uint64_t highest = 0;
    for (uint64_t at = end; at < end + kWindow;) {
        const uint64_t number = files.number_of(at);
        if (!files.disk().exists(files.segment(number))) break;
        const threads::FileId file = TRY(files.open(number, threads::Disk::kReadOnly));
        const uint64_t want = std::min(kPiece, files.segment_end(at) - at);
        const Result<size_t> got =
            files.disk().read_now(file, at % files.segment_bytes(), piece.get(), want);
        files.disk().close(file);
        if (!got) return std::unexpected(got.error());
        for (uint64_t i = 0; i + kEndRecordBytes <= *got; i += kUnit) {
            if (i % kZeroStep == 0 &&
                all_zero(piece.get() + i, std::min<uint64_t>(kZeroStep, *got - i))) {
                i += kZeroStep - kUnit;
                continue;
            }
            const auto& header = *reinterpret_cast<const LogRecordHeader*>(piece.get() + i);
            if (!log_size_plausible(header.bytes)) continue;
            const uint64_t known = std::max(end, highest);
            highest = std::max(highest, TRY(stamp_of(header, *got - i, at + i, known)));
        }
        if (*got < want) break;
        const bool apart = want < kPiece;
        at = apart ? at + want : at + want - (kEndRecordBytes - kUnit);
    }
    return highest;
}

}  // namespace lockstep::txn
