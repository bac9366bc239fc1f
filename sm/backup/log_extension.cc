// log_extension.cc - see log_extension.h.
#include "sm/backup/log_extension.h"

#include <algorithm>
#include <cstring>
#include <memory>
#include <utility>

#include "threads/base/check.h"
#include "threads/base/mutants.h"
#include "threads/io/disk_file.h"
#include "txn/log/durable_end_file.h"

namespace lockstep::sm {

using threads::CopyBuffer, threads::CopyStream, threads::Disk, threads::DiskFile;

namespace {

std::string lsn(uint64_t value) { return "LSN " + std::to_string(value); }
std::string at_time(Nanos time) {
    return std::to_string(time / kSecond) + "." +
           std::to_string(kSecond + time % kSecond).substr(1) + " s after 1970";
}

}  // namespace

LogExtension::LogExtension(Disk& disk, ArchiveIndex index, const BackupManifest& backup,
                           const RestoreOptions& options)
    : disk_(&disk),
      index_(std::move(index)),
      backup_(backup),
      options_(options),
      chain_end_(index_.end_of_chain(backup.end)),
      end_(backup.end),
      copied_(txn::block_floor(backup.end)),
      end_time_(backup.ended_at) {}

Result<LogExtension> LogExtension::plan(Disk& disk, const BackupManifest& backup,
                                        const RestoreOptions& options) {
    if (options.until != kLsnNone && options.until_time != 0)
        return fail(ErrorCode::bad_argument, "a restore goes to an LSN or to a time, not to both");
    if (options.until != kLsnNone && options.until.value < backup.end)
        return bad_archive("point of the restore", lsn(options.until.value) +
                                                       " is before the backup's point, " +
                                                       lsn(backup.end) + ": use an earlier backup");
    if (options.until_time != 0 && options.until_time < backup.ended_at)
        return bad_archive("point of the restore",
                           at_time(options.until_time) + " is before the backup's end, " +
                               at_time(backup.ended_at) + ": use an earlier backup");
    const uint64_t history =
        options.history == kHistoryOfBackup ? backup.superblock.history : options.history;
    LogExtension extension(
        disk, TRY(ArchiveIndex::load(disk, std::string(options.archive), backup, history)), backup,
        options);
    const uint64_t end = extension.chain_end_;
    const auto behind = extension.index_.next_begin(end);
    const bool reached = options.until != kLsnNone && end >= options.until.value;
    if (behind && !reached && !MUTANT(archive_gap_unseen))
        return bad_archive("log archive",
                           extension.index_.directory() + " has a gap from " + lsn(end) + " to " +
                               lsn(*behind) +
                               ": bring the missing files back, restore to a point before the gap, "
                               "or use a backup made behind it");
    if (options.until != kLsnNone && !reached) {
        const std::string others = extension.index_.other_histories();
        return bad_archive("point of the restore",
                           lsn(options.until.value) + " is behind the archive's end, " + lsn(end) +
                               (others.empty() ? std::string(": choose an earlier point")
                                               : "; it also has the histories " + others));
    }
    extension.assert_state();
    return extension;
}

Result<void> LogExtension::run(const std::string& to, CopyStream& stream) {
    ArchiveReader reader(*disk_, index_, backup_.superblock, false);
    TRY(copy(txn::LogFiles(*disk_, to, backup_.superblock.log_segment_bytes), reader, stream));
    TRY(check_end());
    return cut(to);
}

Result<void> LogExtension::see(const txn::LogRecordView& record) {
    assert_state();
    DCHECK(record.lsn.value >= backup_.end && record.end().value <= chain_end_);
    if (record.header->kind == static_cast<uint16_t>(txn::TxnLogKind::time)) {
        txn::TimePayload payload;
        if (record.payload_bytes() < sizeof payload)
            return fail(ErrorCode::corrupt_log, "time record", record.lsn.value);
        std::memcpy(&payload, record.payload(), sizeof payload);
        newest_time_ = std::max(newest_time_, payload.time);
        late_ = late_ || (by_time() && payload.time > options_.until_time);
        if (!late_ || MUTANT(time_point_late)) {
            end_time_ = std::min(std::max(end_time_, payload.time),
                                 by_time() ? options_.until_time : kNever);
            if (by_time()) end_ = record.end().value;
        }
    }
    if (!by_time()) end_ = record.end().value;
    return {};
}

Result<void> LogExtension::copy(const txn::LogFiles& files, ArchiveReader& reader,
                                CopyStream& stream) {
    RecordCheck records(Lsn{backup_.end});
    if (options_.until != kLsnNone) records.stop_at(options_.until);
    records.on_record([this](const txn::LogRecordView& record) { return see(record); });
    const uint64_t stop =
        options_.until != kLsnNone ? std::min(options_.until.value, chain_end_) : chain_end_;
    // The next byte to read; the block that it lies in is read from its begin.
    uint64_t next = backup_.end;
    const auto read = [&](CopyBuffer& buffer) -> Result<bool> {
        if (next >= stop) return false;
        buffer.at = txn::block_floor(next);
        buffer.size = TRY(reader.read(buffer.at, next, buffer.bytes, CopyBuffer::kBytes));
        if (buffer.size == 0) return fail(ErrorCode::bad_archive, "a file has gone", next);
        DCHECK(buffer.at + buffer.size > next);
        next = buffer.at + buffer.size;
        return true;
    };
    uint64_t end = backup_.end;  // of what was copied
    const auto write = [&](CopyBuffer& buffer) -> Result<void> {
        const uint64_t whole = txn::block_ceil(buffer.size);
        std::memset(buffer.bytes + buffer.size, 0, whole - buffer.size);
        TRY(write_log(files, buffer.at, buffer.bytes, whole, stop));
        end = buffer.at + buffer.size;
        return {};
    };
    const auto look = [&](const CopyBuffer& buffer) -> Result<bool> {
        TRY(check(records, buffer));
        return !late_;
    };
    TRY(stream.run(read, look, write));
    DCHECK(end <= next && (end == next || late_));
    copied_ = txn::block_ceil(end);
    if (end > backup_.end) last_ = TRY(reader.header_at(end - 1));
    return {};
}

Result<void> LogExtension::check(RecordCheck& records, const CopyBuffer& buffer) {
    const auto seen = records.see(Lsn{buffer.at}, {buffer.bytes, buffer.size});
    if (seen || seen.error().code != ErrorCode::corrupt_log) return seen;
    return bad_archive("log archive", "no valid record at " + lsn(records.position().value) +
                                          ": the file that has it is damaged");
}

// `stop`: where the log ends, so that the files get their blocks at once.
Result<void> LogExtension::write_log(const txn::LogFiles& files, uint64_t at, const std::byte* from,
                                     uint64_t bytes, uint64_t stop) {
    DCHECK(at % txn::kLogBlock == 0 && bytes % txn::kLogBlock == 0 && at < stop);
    while (bytes > 0) {
        const uint64_t some = std::min(bytes, files.segment_end(at) - at);
        const uint64_t begin = files.number_of(at) * files.segment_bytes();
        DCHECK(begin <= at && at + some <= begin + files.segment_bytes());
        const DiskFile file(*disk_,
                            TRY(files.open(files.number_of(at), Disk::kCreate | Disk::kDirect)));
        TRY(disk_->allocate(file.id(),
                            std::min(files.segment_bytes(), txn::block_ceil(stop) - begin)));
        TRY(disk_->write_now(file.id(), at - begin, from, some));
        at += some;
        from += some;
        bytes -= some;
    }
    return {};
}

Result<void> LogExtension::check_end() const {
    assert_state();
    if (!by_time() || late_) return {};
    return bad_archive("point of the restore",
                       at_time(options_.until_time) + " is behind the archive's end, " +
                           at_time(std::max(newest_time_, backup_.ended_at)) +
                           ": restore without a time for the archive's end");
}

// RS-3. What lies behind the end would be read as log.
Result<void> LogExtension::cut(const std::string& to) const {
    const txn::LogFiles files(*disk_, to, backup_.superblock.log_segment_bytes);
    const uint64_t last = files.number_of(end_), offset = end_ % files.segment_bytes();
    const uint64_t length = txn::block_ceil(offset);
    DCHECK(end_ % 8 == 0 && length <= files.segment_bytes());
    DCHECK(options_.until == kLsnNone || end_ <= options_.until.value);  // RS-3
    for (const uint64_t number : TRY(files.list())) {
        if (number > last || (number == last && length == 0)) {
            TRY(disk_->unlink(files.segment_path(number)));
            continue;
        }
        const DiskFile file(*disk_, TRY(files.open(number, Disk::kDirect)));
        if (number == last && !MUTANT(restore_uncut)) TRY(cut_file(file.id(), offset));
        TRY(disk_->sync_now(file.id()));
    }
    const DiskFile file =
        TRY(DiskFile::open(*disk_, files.mark_path(), Disk::kCreate | Disk::kDirect));
    const txn::DurableEnd mark{
        .sequence = 3, .durable_end = end_, .segment_bytes = files.segment_bytes()};
    return mark.store(*disk_, file.id());
}

// The last segment ends with zeros in its last block.
Result<void> LogExtension::cut_file(threads::FileId file, uint64_t offset) const {
    DCHECK(file.value >= 0 && offset % 8 == 0);
    TRY(disk_->truncate(file, txn::block_ceil(offset)));
    const uint64_t at = txn::block_floor(offset);
    if (at == offset) return {};
    const auto block = std::make_unique<ArchiveBlock>();
    TRY(disk_->read_now(file, at, block->bytes, sizeof block->bytes));
    std::memset(block->bytes + (offset - at), 0, sizeof block->bytes - (offset - at));
    return disk_->write_now(file, at, block->bytes, sizeof block->bytes);
}

void LogExtension::note_in(BackupManifest& manifest) const {
    const uint64_t more = copied_ - txn::block_floor(backup_.end);
    DCHECK(manifest.end == backup_.end && copied_ >= txn::block_floor(end_));
    manifest.end = end_;
    manifest.ended_at = end_time_;
    manifest.log_bytes += more;
    manifest.bytes += more;
    if (last_.end <= backup_.end || end_ <= last_.history_begin) return;
    manifest.superblock.history = last_.history;
    manifest.superblock.history_parent = last_.history_parent;
    manifest.superblock.history_begin = last_.history_begin;
}

}  // namespace lockstep::sm
