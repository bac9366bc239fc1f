// log_copy.cc - see log_copy.h.
#include "sm/backup/log_copy.h"

#include <algorithm>
#include <cstring>

#include "threads/base/check.h"
#include "threads/worker/offload.h"
#include "txn/log/durable_end_file.h"

namespace lockstep::sm {

using txn::block_ceil, txn::block_floor;

namespace {
static_assert(BackupTarget::kRoomBytes % txn::kLogBlock == 0);

Slice slice_of(const std::byte* bytes, size_t size) {
    return {reinterpret_cast<const char*>(bytes), size};
}
}  // namespace

LogCopy::LogCopy(threads::Disk& disk, const txn::Log& log, const txn::LogOptions& options,
                 txn::LogHold hold, Lsn from, threads::OffloadPool& reader)
    : files_(disk, options.directory, options.segment_bytes),
      log_(log),
      reader_(reader),
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

Result<void> LogCopy::catch_up(BackupTarget& target, uint64_t most) {
    const uint64_t end = block_floor(log_.durable().value);
    DCHECK(most > 0 && next_ % txn::kLogBlock == 0);
    return copy_to(target, std::min(end, next_ + block_ceil(most)));
}

// The open segment becomes that of the byte at `at`. A segment keeps its name while it is held.
Result<void> LogCopy::open_segment_of(uint64_t at) {
    assert_state();
    const uint64_t number = files_.number_of(at);
    if (number == open_segment_) return {};
    if (file_.value >= 0) files_.disk().close(std::exchange(file_, threads::FileId{-1}));
    open_segment_ = UINT64_MAX;
    file_ = TRY(files_.open(number, threads::Disk::kReadOnly | threads::Disk::kDirect));
    open_segment_ = number;
    return {};
}

// Bytes behind `end` in its block are zeros in the copy.
Result<void> LogCopy::copy_to(BackupTarget& target, uint64_t end) {
    DCHECK(end <= log_.durable().value);
    while (next_ < end) {
        const uint64_t begin = next_;
        const uint64_t bytes = std::min(
            {BackupTarget::kRoomBytes, block_ceil(end) - begin, files_.segment_end(begin) - begin});
        const uint64_t useful = std::min(bytes, end - begin);
        std::byte* const room = TRY(target.room());
        TRY(open_segment_of(begin));
        DCHECK(begin + useful <= log_.durable().value);
        TRY(threads::run_on(reader_, [&] {
            return read_checked_log(files_, file_, begin, {room, bytes}, useful, check_);
        }));
        TRY(target.write(txn::LogFiles::segment_name(files_.number_of(begin)),
                         begin % files_.segment_bytes(), slice_of(room, bytes)));
        next_ = begin + bytes;
        bytes_ += bytes;
        assert_state();
        if (useful == bytes) hold_.advance(Lsn{next_});  // BK-3
    }
    return {};
}

Result<void> LogCopy::finish(BackupTarget& target, Lsn end) {
    CHECK(log_.durable() >= end);  // BK-1
    TRY(copy_to(target, end.value));
    if (check_.position() != end)
        return fail(ErrorCode::corrupt_log, "log record", check_.position().value, end.value);
    constexpr uint64_t kSlot = txn::DurableEnd::kSlotBytes;
    std::byte* const mark = TRY(target.room());
    static_assert(2 * kSlot <= BackupTarget::kRoomBytes);
    std::memset(mark, 0, 2 * kSlot);
    const txn::DurableEnd known{
        .sequence = 2, .durable_end = end.value, .segment_bytes = files_.segment_bytes()};
    DCHECK(known.slot_offset() == 0);
    known.encode(mark + known.slot_offset());
    return target.write("log.mark", 0, slice_of(mark, 2 * kSlot));
}

}  // namespace lockstep::sm
