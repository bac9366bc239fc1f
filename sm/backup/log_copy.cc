// log_copy.cc - see log_copy.h.
#include "sm/backup/log_copy.h"

#include <algorithm>
#include <cstring>

#include "threads/base/check.h"
#include "threads/base/mutants.h"
#include "threads/worker/io_wait.h"
#include "txn/log/durable_end_file.h"

namespace lockstep::sm {

using txn::block_ceil, txn::block_floor;

namespace {
constexpr uint64_t kPieceBytes = 1 << 20;
static_assert(kPieceBytes % txn::kLogBlock == 0);

Slice slice_of(const std::byte* bytes, size_t size) {
    return {reinterpret_cast<const char*>(bytes), size};
}
}  // namespace

LogCopy::LogCopy(threads::Disk& disk, const txn::Log& log, const txn::LogOptions& options,
                 txn::LogHold hold, Lsn from)
    : files_(disk, options.directory, options.segment_bytes),
      log_(log),
      hold_(std::move(hold)),
      check_(from),
      next_(block_floor(from.value)) {
    DCHECK(hold_.from() <= from);  // BK-3
    DCHECK(from.value >= txn::kLogFirst && from <= log.durable());
    hold_.advance(from);
    assert_state();
}

LogCopy::~LogCopy() {
    if (file_.value >= 0) files_.disk().close(file_);
}

Result<void> LogCopy::catch_up(BackupTarget& target) {
    return copy_to(target, block_floor(log_.durable().value));
}

// Durable bytes never change, and a segment keeps its name while it is held.
Result<void> LogCopy::read(uint64_t at, uint64_t bytes) {
    assert_state();
    DCHECK(bytes > 0 && bytes <= kPieceBytes && bytes % txn::kLogBlock == 0);
    if (!buffer_) buffer_ = TRY(threads::make_aligned_buffer(kPieceBytes));
    const uint64_t number = files_.number_of(at);
    if (number != open_segment_) {
        if (file_.value >= 0) files_.disk().close(std::exchange(file_, threads::FileId{-1}));
        open_segment_ = UINT64_MAX;
        file_ = TRY(files_.open(number, threads::Disk::kReadOnly | threads::Disk::kDirect));
        open_segment_ = number;
    }
    const size_t got = TRY(threads::io_read(file_, at % files_.segment_bytes(), buffer_.get(),
                                            bytes, "log segment", threads::ParkReason::io));
    if (got < bytes) return fail(ErrorCode::corrupt_log, "log segment is too short", at);
    return {};
}

// Bytes behind `end` in its block are zeros in the copy.
Result<void> LogCopy::copy_to(BackupTarget& target, uint64_t end) {
    DCHECK(end <= log_.durable().value);
    while (next_ < end) {
        const uint64_t begin = next_;
        const uint64_t bytes =
            std::min({kPieceBytes, block_ceil(end) - begin, files_.segment_end(begin) - begin});
        TRY(read(begin, bytes));
        DCHECK(files_.number_of(begin) == files_.number_of(begin + bytes - 1));
        const uint64_t useful = std::min(bytes, end - begin);
        std::memset(buffer_.get() + useful, 0, bytes - useful);
        TRY(check_.see(Lsn{begin}, {buffer_.get(), useful}));
        const std::string path = files_.segment_path(files_.number_of(begin));
        TRY(target.write(path.substr(files_.directory().size() + 1), begin % files_.segment_bytes(),
                         slice_of(buffer_.get(), bytes)));
        next_ = begin + bytes;
        bytes_ += bytes;
        assert_state();
        if (useful == bytes) hold_.advance(Lsn{next_});  // BK-3
    }
    return {};
}

Result<void> LogCopy::finish(BackupTarget& target, Lsn end) {
    CHECK(log_.durable() >= end);  // BK-1
    TRY(copy_to(target, MUTANT(backup_log_short) ? block_floor(end.value) : end.value));
    if (check_.position() != end && !MUTANT(backup_log_short))
        return fail(ErrorCode::corrupt_log, "log record", check_.position().value, end.value);
    constexpr uint64_t kSlot = txn::DurableEnd::kSlotBytes;
    const auto mark = TRY(threads::make_aligned_buffer(2 * kSlot));
    const txn::DurableEnd known{
        .sequence = 2, .durable_end = end.value, .segment_bytes = files_.segment_bytes()};
    DCHECK(known.slot_offset() == 0);
    known.encode(mark.get() + known.slot_offset());
    return target.write("log.mark", 0, slice_of(mark.get(), 2 * kSlot));
}

}  // namespace lockstep::sm
