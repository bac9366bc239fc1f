// restore_log.cc - see restore_log.h.
#include "sm/backup/restore_log.h"

#include <algorithm>
#include <utility>

#include "threads/base/error_detail.h"

namespace lockstep::sm {

using threads::CopyBuffer, threads::CopyStream;

Result<void> RestoreLog::pass(uint64_t begin, uint64_t end, CopyStream& stream,
                              CopyStream::Look look, CopyStream::Write write) {
    DCHECK(begin <= end && begin >= backup_.superblock.log_start);
    // The next byte to read; the block that it lies in is read from its begin.
    uint64_t next = begin;
    const auto read_next = [&](CopyBuffer& buffer) -> Result<bool> {
        if (next >= end) return false;
        buffer.at = txn::block_floor(next);
        buffer.size = TRY(read(next, end, buffer.bytes));
        DCHECK(buffer.at + buffer.size > next);
        next = buffer.at + buffer.size;
        return true;
    };
    return stream.run(read_next, look, write);
}

// From the block of `next` on: as far as one file goes, and not beyond `end`.
Result<uint64_t> RestoreLog::read(uint64_t next, uint64_t end, std::byte* to) {
    const uint64_t from = txn::block_floor(next);
    const bool in_backup = next < backup_.end;
    const uint64_t got = in_backup ? TRY(read_backup(next, to))
                                   : TRY(archive_.read(from, next, to, CopyBuffer::kBytes));
    if (got == 0) return fail(ErrorCode::bad_archive, "a file has gone", next);
    return std::min(got, end - from);
}

Result<uint64_t> RestoreLog::read_backup(uint64_t next, std::byte* to) {
    const uint64_t from = txn::block_floor(next), number = files_.number_of(next);
    if (file_.value < 0 || number != number_) {
        close();
        file_ = TRY(files_.open(number, threads::Disk::kReadOnly | threads::Disk::kDirect));
        number_ = number;
    }
    const uint64_t bytes =
        std::min({CopyBuffer::kBytes, backup_.end - from, files_.segment_end(from) - from});
    DCHECK(from + bytes > next);
    const size_t got =
        TRY(disk_.read_now(file_, from % files_.segment_bytes(), to, txn::block_ceil(bytes)));
    if (got < bytes)
        return fail_with(ErrorCode::bad_backup, "a file of the backup is too short",
                         files_.segment_path(number) + "; " + kBackupRemedy);
    return bytes;
}

void RestoreLog::close() {
    if (file_.value >= 0) disk_.close(std::exchange(file_, threads::FileId{-1}));
}

Result<void> RestoreLog::check(RecordCheck& records, const CopyBuffer& buffer) const {
    const auto seen = records.see(Lsn{buffer.at}, {buffer.bytes, buffer.size});
    if (seen || seen.error().code != ErrorCode::corrupt_log) return seen;
    const uint64_t at = records.position().value;
    const std::string number = std::to_string(at);
    const std::string why =
        records.refused()
            ? "the record at LSN " + number + " cannot be applied: " + seen.error().text()
            : "no valid record at LSN " + number + ", the file is damaged";
    if (at < backup_.end)
        return fail_with(
            ErrorCode::bad_backup, "log of the backup",
            files_of_record(files_, at, backup_.end) + ": " + why + "; " + kBackupRemedy);
    return bad_archive("log archive", archive_.name_at(at) + ": " + why +
                                          "; bring it from a copy of the archive, or restore to a "
                                          "point before it");
}

}  // namespace lockstep::sm
