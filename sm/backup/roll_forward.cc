// roll_forward.cc - see roll_forward.h.
#include "sm/backup/roll_forward.h"

#include <algorithm>
#include <cstring>
#include <ctime>
#include <optional>
#include <utility>

#include "sm/backup/combined_files.h"
#include "threads/base/check.h"
#include "threads/io/disk_file.h"
#include "txn/log/durable_end_file.h"

namespace lockstep::sm {

using threads::CopyBuffer, threads::CopyStream, threads::Disk, threads::DiskFile;

namespace {

constexpr uint64_t kMarkBytes = 2 * txn::kLogBlock;  // of file log.mark

std::string lsn(uint64_t value) { return "LSN " + std::to_string(value); }
// As `lockstep restore --until-time` takes it.
std::string at_time(Nanos time) {
    const auto seconds = static_cast<std::time_t>(time / kSecond);
    std::tm parts{};
    char text[32];
    if (gmtime_r(&seconds, &parts) == nullptr ||
        std::strftime(text, sizeof text, "%Y-%m-%dT%H:%M:%S.", &parts) == 0)
        return std::to_string(seconds) + " s after 1970";
    return text + std::to_string(kSecond + time % kSecond).substr(1) + "Z";
}

// Of a time record. Error: corrupt_log.
Result<std::optional<Nanos>> time_in(const txn::LogRecordView& record) {
    if (record.header->kind != static_cast<uint16_t>(txn::TxnLogKind::time))
        return std::optional<Nanos>();
    txn::TimePayload payload;
    if (record.payload_bytes() < sizeof payload)
        return fail(ErrorCode::corrupt_log, "time record", record.lsn.value);
    std::memcpy(&payload, record.payload(), sizeof payload);
    return std::optional<Nanos>(payload.time);
}

}  // namespace

RollForward::RollForward(Disk& disk, ArchiveIndex index, threads::Directory directory,
                         const BackupManifest& backup, const RestoreOptions& options)
    : disk_(&disk),
      index_(std::move(index)),
      directory_(std::move(directory)),
      backup_(backup),
      options_(options),
      chain_end_(index_.end_of_chain(backup.end)),
      end_(backup.end),
      end_time_(backup.ended_at),
      analysis_(Lsn{backup.superblock.checkpoint_lsn}) {}

Result<RollForward> RollForward::plan(Disk& disk, const threads::Directory& directory,
                                      const BackupManifest& backup, const RestoreOptions& options) {
    if (options.until && options.until_time)
        return fail(ErrorCode::bad_argument, "a restore goes to an LSN or to a time, not to both");
    if (options.until && options.until->value < backup.end)
        return bad_archive("point of the restore", lsn(options.until->value) +
                                                       " is before the backup's point, " +
                                                       lsn(backup.end) + ": use an earlier backup");
    if (options.until_time && *options.until_time < backup.ended_at)
        return bad_archive("point of the restore",
                           at_time(*options.until_time) + " is before the backup's end, " +
                               at_time(backup.ended_at) + ": use an earlier backup");
    RollForward roll(
        disk,
        TRY(ArchiveIndex::load(disk, threads::Directory::opened(disk, options.archive.value_or("")),
                               backup, options.history.value_or(backup.superblock.history))),
        directory, backup, options);
    const uint64_t end = roll.chain_end_;
    const auto behind = roll.index_.next_begin(end);
    const bool reached = options.until && end >= options.until->value;
    if (behind && !reached)
        return bad_archive("log archive",
                           roll.index_.directory().path() + " has a gap from " + lsn(end) + " to " +
                               lsn(*behind) +
                               ": bring the missing files back, restore to a point before the gap, "
                               "or use a backup made behind it");
    if (options.until && !reached) {
        const std::string others = roll.index_.other_histories();
        return bad_archive("point of the restore",
                           lsn(options.until->value) + " is behind the archive's end, " + lsn(end) +
                               (others.empty() ? std::string(": choose an earlier point")
                                               : "; it also has the histories " + others));
    }
    roll.assert_state();
    return roll;
}

// Sets the point to the end of the newest time record that is not later than the wanted time.
Result<void> RollForward::find_time(CopyStream& stream) {
    if (!by_time()) return {};
    DCHECK(directory_.is_open());
    RestoreLog log(*disk_, directory_, backup_, index_);
    RecordCheck records(Lsn{backup_.end});
    const Nanos until = options_.until_time.value_or(kNever);
    Nanos newest = backup_.ended_at;
    bool late = false;
    records.on_record([&](const txn::LogRecordView& record) -> Result<void> {
        const std::optional<Nanos> time = TRY(time_in(record));
        if (!time) return {};
        newest = std::max(newest, *time);
        late = late || *time > until;
        if (late) return {};
        end_ = record.end().value;
        end_time_ = std::max(end_time_, std::min(*time, until));
        return {};
    });
    const auto look = [&](const CopyBuffer& buffer) -> Result<bool> {
        TRY(log.check(records, buffer));
        return !late;
    };
    TRY(log.pass(backup_.end, chain_end_, stream, look,
                 [](CopyBuffer&) { return Result<void>(); }));
    assert_state();
    if (late) return {};
    return bad_archive("point of the restore",
                       at_time(until) + " is behind the archive's end, " + at_time(newest) +
                           ": restore without a time for the archive's end");
}

Result<void> RollForward::run(const threads::Directory& to, std::vector<uint64_t>& lsns,
                              CopyStream& stream) {
    RestoreLog log(*disk_, directory_, backup_, index_);
    {
        RestoredPages pages =
            TRY(RestoredPages::open(*disk_, to / "data", lsns, options_.memory_bytes));
        TRY(take_records(log, &pages, stream));
        TRY(pages.finish());
    }
    if (end_ > backup_.end) last_ = TRY(log.piece_at(end_ - 1));
    return keep_log(log, to, stream);
}

Result<void> RollForward::check(CopyStream& stream) {
    RestoreLog log(*disk_, directory_, backup_, index_);
    return take_records(log, nullptr, stream);
}

Result<void> RollForward::take_records(RestoreLog& log, RestoredPages* pages, CopyStream& stream) {
    const uint64_t begin = backup_.superblock.checkpoint_lsn;
    uint64_t stop = by_time() ? end_ : chain_end_;
    if (options_.until) stop = std::min(stop, options_.until->value);
    RecordCheck records{Lsn{begin}};
    records.stop_at(Lsn{stop});
    records.on_record([&](const txn::LogRecordView& record) -> Result<void> {
        TRY(note(record));
        return pages != nullptr ? pages->apply(record) : Result<void>();
    });
    const auto look = [&](const CopyBuffer& buffer) -> Result<bool> {
        TRY(log.check(records, buffer));
        return true;
    };
    TRY(log.pass(begin, stop, stream, look, [](CopyBuffer&) { return Result<void>(); }));
    DCHECK(end_ <= stop && (end_ == records.position().value || by_time()));
    return {};
}

Result<void> RollForward::note(const txn::LogRecordView& record) {
    assert_state();
    TRY(analysis_.see(record));
    last_record_ = record.lsn.value;
    if (by_time() || record.lsn.value < backup_.end) return {};
    DCHECK(record.lsn.value == end_);  // without a gap
    end_ = record.end().value;
    if (const std::optional<Nanos> time = TRY(time_in(record)))
        end_time_ = std::max(end_time_, *time);
    return {};
}

// The target's log has the last record, so that it is a log, and those that rollbacks need.
Result<void> RollForward::keep_log(RestoreLog& log, const threads::Directory& to,
                                   CopyStream& stream) {
    log_begin_ = last_record_;
    for (const Unended& unended : analysis_.unended())
        log_begin_ = std::min(log_begin_, unended.first.value);
    DCHECK(log_begin_ < end_ && log_begin_ >= backup_.superblock.log_start);
    const txn::LogFiles files(*disk_, to, backup_.superblock.log_segment_bytes);
    const auto write = [&](CopyBuffer& buffer) -> Result<void> {
        const uint64_t whole = txn::block_ceil(buffer.size);
        std::memset(buffer.bytes + buffer.size, 0, whole - buffer.size);
        return write_log(files, buffer.at, buffer.bytes, whole);
    };
    const auto look = [](CopyBuffer&) { return Result<bool>(true); };  // apply() has
    TRY(log.pass(log_begin_, end_, stream, look, write));
    for (const uint64_t number : TRY(files.list())) {
        const DiskFile file(*disk_, TRY(files.open(number, Disk::kDirect)));
        TRY(disk_->sync_now(file.id()));
    }
    return write_mark(*disk_, files, end_);
}

Result<void> RollForward::write_log(const txn::LogFiles& files, uint64_t at, const std::byte* from,
                                    uint64_t bytes) const {
    DCHECK(at % txn::kLogBlock == 0 && bytes % txn::kLogBlock == 0 && at < end_);
    while (bytes > 0) {
        const uint64_t some = std::min(bytes, files.segment_end(at) - at);
        const uint64_t begin = files.number_of(at) * files.segment_bytes();
        DCHECK(begin <= at && at + some <= begin + files.segment_bytes());
        const DiskFile file(*disk_,
                            TRY(files.open(files.number_of(at), Disk::kCreate | Disk::kDirect)));
        TRY(disk_->allocate(file.id(),
                            std::min(files.segment_bytes(), txn::block_ceil(end_) - begin)));
        TRY(disk_->write_now(file.id(), at - begin, from, some));
        at += some;
        from += some;
        bytes -= some;
    }
    return {};
}

void RollForward::note_in(BackupManifest& manifest) const {
    DCHECK(manifest.end == backup_.end && log_begin_ < end_);
    manifest.end = end_;
    manifest.ended_at = end_time_;
    manifest.log_bytes = txn::block_ceil(end_) - txn::block_floor(log_begin_) + kMarkBytes;
    Superblock& block = manifest.superblock;
    block.checkpoint_lsn = block.log_start = log_begin_;
    block.next_txn = std::max(block.next_txn, analysis_.next_txn().value);
    block.clean = 0;
    // The store may have been raised behind the backup, and its log be of the newer version.
    block.version = kFormatVersion;
    if (last_.end <= backup_.end || end_ <= last_.history_begin) return;
    block.history = last_.history;
    block.history_parent = last_.history_parent;
    block.history_begin = last_.history_begin;
}

}  // namespace lockstep::sm
