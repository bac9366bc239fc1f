// log_open.cc - creates a log; opens an existing one: finds its end, refuses damage, clears a torn
// tail.
//
// Where the end is looked for. What the mark calls durable ends with a record (LM-B). So open()
// looks for the end from there on, and a restart reads the log once. The restart notices damage
// below the mark (LogReader::require_end()). open_to_read() is not followed by a restart, so it
// looks at everything.
//
// Why a torn tail is cleared. Behind the end there may be records of the torn tail that are valid
// by themselves. A new record could end exactly where one of them begins, and a second crash would
// read on into old records. By LI-3 they lie within kTornMax bytes of the end, or of the begin of
// the next segment if the torn record reaches it. So open() zeroes these ranges and syncs them
// before anything is appended.
#include <algorithm>
#include <bit>
#include <cstring>

#include "threads/base/zero_bytes.h"
#include "txn/log/log_checksum.h"
#include "txn/log/log_impl.h"

namespace lockstep::txn {

namespace {

using threads::Disk;
using threads::FileId;

// How far behind the end that open() finds a lost flush may reach. The flush began at the durable
// end, which may lie inside the first record that is lost (LI-3).
constexpr uint64_t kTornMax = kLogRecordMax + kFlushMax;

Result<void> check_options(const LogOptions& o) {
    if (o.segment_bytes < 4 * kLogBlock || o.segment_bytes % kLogBlock != 0)
        return fail(ErrorCode::bad_option, "log_segment_bytes", o.segment_bytes);
    if (o.capacity_bytes / o.segment_bytes < 4 || o.capacity_bytes < 4ull << 20)
        return fail(ErrorCode::bad_option, "log_bytes", o.capacity_bytes);
    if (!std::has_single_bit(o.ring_bytes) || o.ring_bytes < kLogBlock ||
        o.ring_bytes > o.capacity_bytes / 4)
        return fail(ErrorCode::bad_option, "log_ring_bytes", o.ring_bytes);
    return {};
}

// Zeroes the bytes [from, to) of a file that are not zero already; true if it had to write. Blocks.
Result<bool> clear(Disk& disk, FileId file, uint64_t from, uint64_t to) {
    constexpr uint64_t kPiece = 256 * 1024;
    struct alignas(kLogBlock) Piece {
        std::byte bytes[kPiece];
    };
    const auto piece = std::make_unique_for_overwrite<Piece>();
    bool wrote = false;
    for (uint64_t at = block_floor(from); at < to; at += kPiece) {
        const uint64_t want = std::min(kPiece, to - at);
        const uint64_t got = TRY(disk.read_now(file, at, piece->bytes, want));
        const uint64_t skip = at < from ? from - at : 0;
        if (got > skip && !all_zero(piece->bytes + skip, got - skip)) {
            std::memset(piece->bytes + skip, 0, got - skip);
            TRY(disk.write_now(file, at, piece->bytes, block_ceil(got)));
            wrote = true;
        }
        if (got < want) break;
    }
    return wrote;
}

// Writes the bytes [from, to) of a file again as they are. Blocks.
Result<void> write_again(Disk& disk, FileId file, uint64_t from, uint64_t to) {
    constexpr uint64_t kPiece = 256 * 1024;
    struct alignas(kLogBlock) Piece {
        std::byte bytes[kPiece];
    };
    const auto piece = std::make_unique_for_overwrite<Piece>();
    for (uint64_t at = from; at < to; at += kPiece) {
        const uint64_t want = std::min(kPiece, to - at);
        if (TRY(disk.read_now(file, at, piece->bytes, want)) < want)
            return fail(ErrorCode::corrupt_log, "log segment is too short", at);
        TRY(disk.write_now(file, at, piece->bytes, want));
    }
    return {};
}

Result<void> zero_new_file(Disk& disk, FileId file, uint64_t bytes) {
    constexpr uint64_t kPiece = 256 * 1024;
    struct alignas(kLogBlock) Piece {
        std::byte bytes[kPiece];
    };
    const auto piece = std::make_unique<Piece>();
    std::memset(piece->bytes, 0, kPiece);
    for (uint64_t at = 0; at < bytes; at += kPiece)
        TRY(disk.write_now(file, at, piece->bytes, std::min(kPiece, bytes - at)));
    return disk.sync_now(file);
}

// The durable-end record, which must fit the options.
Result<DurableEnd> known_end(const LogFiles& files) {
    const std::optional<DurableEnd> mark = TRY(DurableEnd::load(files.disk(), files.mark()));
    if (!mark) return fail(ErrorCode::corrupt_log, "log.mark is missing");
    if (mark->segment_bytes != files.segment_bytes())
        return fail(ErrorCode::bad_option, "log_segment_bytes", files.segment_bytes(),
                    mark->segment_bytes);
    return *mark;
}

}  // namespace

// Sets the LSN where the empty ring begins, and all values that depend on it.
void Log::Impl::begin_at(uint64_t lsn) {
    DCHECK(lsn >= kLogFirst && lsn % 8 == 0);
    DCHECK(lsn <= prepared_end.load() && start.load() <= lsn);
    DCHECK(reserved.load() == 0 && !running.load());
    tail.store(lsn);
    durable.store(lsn);
    if (options.sync) stamped.store(lsn);  // open() has synced everything below
    flushed = boundary = first_tail = lsn;
    ring_valid_from = block_floor(lsn);
    update_limits();
    update_promise_limit();
}

Result<std::unique_ptr<Log>> Log::create(threads::Runtime& runtime, const LogOptions& options) {
    TRY(check_options(options));
    auto impl = std::make_unique<Impl>(
        runtime, options,
        TRY(LogRing::make(ring_bytes_for(options, runtime.workers()), options.mappings)));
    const LogFiles& files = impl->files;
    Disk& disk = files.disk();
    if (!TRY(files.list()).empty()) return fail(ErrorCode::already_exists, "log");
    // Filled with zeros, so that early commits are as fast as later ones.
    const uint64_t bytes = std::min(options.first_bytes, options.segment_bytes);
    const FileId file = TRY(files.start_new(bytes));
    const Result<void> zeroed = zero_new_file(disk, file, bytes);
    disk.close(file);
    TRY(zeroed);
    TRY(files.place_new(0));
    impl->mark_file = TRY(disk.open(files.mark(), Disk::kCreate | Disk::kDirect));
    impl->mark =
        DurableEnd{.sequence = 1, .durable_end = kLogFirst, .segment_bytes = options.segment_bytes};
    TRY(impl->mark.store(disk, impl->mark_file));
    TRY(files.sync_directory());
    impl->prepared_end = bytes;
    impl->begin_at(kLogFirst);
    return std::unique_ptr<Log>(new Log(std::move(impl)));
}

// The length of a segment's file, at most a segment. A crash may leave part of a block at its end,
// which becomes a whole one. Blocks.
Result<uint64_t> Log::Impl::adopt_length(uint64_t number, bool sync) {
    const FileId file = TRY(files.open(number, Disk::kDirect));
    Disk& disk = files.disk();
    Result<uint64_t> bytes = disk.size(file);
    Result<void> done{};
    if (bytes) {
        *bytes = std::min(block_ceil(*bytes), files.segment_bytes());
        done = disk.allocate(file, *bytes);
        if (done && sync) done = disk.sync_now(file);
    }
    disk.close(file);
    TRY(done);
    return bytes;
}

// Finds the unbroken row of segments around the segment of `end` and keeps it. Behind `end` it ends
// with the first segment that is not whole. Other segments are removed: they are names left by a
// recycling that a crash interrupted.
Result<void> Log::Impl::adopt_segments(uint64_t from, uint64_t end) {
    DCHECK(from <= end && write_file.value < 0);
    const std::vector<uint64_t> numbers = TRY(files.list());
    const auto exists = [&](uint64_t n) {
        return std::binary_search(numbers.begin(), numbers.end(), n);
    };
    if (disk_has_new()) TRY(files.disk().unlink(files.new_segment()));
    uint64_t first = files.number_of(from);
    // May be missing if `end` is a segment's first byte.
    uint64_t last = files.number_of(end);
    if (!exists(first)) return lockstep::fail(ErrorCode::corrupt_log, "log segment", from);
    while (first > 0 && exists(first - 1)) --first;
    uint64_t length = files.segment_bytes();
    for (; exists(last) && length == files.segment_bytes(); ++last) {
        // LI-5; secure_tail() syncs the segment of `end`.
        length = TRY(adopt_length(last, options.sync && last > files.number_of(end)));
    }
    DCHECK(first < last);
    first_segment = first;
    prepared_end = (last - 1) * files.segment_bytes() + length;
    if (prepared_end < end)
        return lockstep::fail(ErrorCode::corrupt_log, "log segment", prepared_end.load(), end);
    start = std::max(kLogFirst, first * files.segment_bytes());
    for (const uint64_t n : numbers)
        if (n < first || n >= last) TRY(files.disk().unlink(files.segment(n)));
    return {};
}

bool Log::Impl::disk_has_new() const { return files.disk().exists(files.new_segment()); }

// The records that were read may exist in a cache only, if a killed process had not synced them.
// They must be durable before new records follow. A sync alone does not suffice: after an earlier
// failed sync, the system may treat pages as clean that never reached the device. So they are
// written again.
Result<void> Log::Impl::secure_tail(uint64_t from, uint64_t end) {
    DCHECK(from <= end && end <= prepared_end.load());
    Disk& disk = files.disk();
    const uint64_t reach = end + kLogRecordMax;
    for (uint64_t n = files.number_of(from);
         n * files.segment_bytes() <= reach && n * files.segment_bytes() < prepared_end; ++n) {
        const FileId file = TRY(files.open(n, Disk::kDirect));
        const uint64_t begin = n * files.segment_bytes(),
                       first = std::max(begin, block_floor(from));
        const uint64_t last = std::min(begin + files.segment_bytes(), block_ceil(end));
        Result<void> done{};
        if (first < last && from < end) done = write_again(disk, file, first - begin, last - begin);
        if (done && n >= files.number_of(end)) {
            const uint64_t offset = std::max(begin, end) - begin;
            const uint64_t torn_end = block_ceil(offset) + kTornMax;
            const Result<bool> cleared =
                clear(disk, file, offset, std::min(files.segment_bytes(), torn_end));
            if (!cleared.has_value()) done = std::unexpected(cleared.error());
        }
        if (done) done = disk.sync_now(file);
        disk.close(file);
        TRY(done);
    }
    return files.sync_directory();
}

// A run without syncs (LogOptions::sync) may have written the segments below `lsn`. From now on
// commits are durable, and so must be what they build upon.
Result<void> Log::Impl::sync_below(uint64_t lsn) {
    DCHECK(first_segment <= files.number_of(lsn));
    if (!options.sync) return {};
    for (uint64_t n = first_segment; n < files.number_of(lsn); ++n) {
        if (!files.disk().exists(files.segment(n))) continue;  // the restart misses it
        const FileId file = TRY(files.open(n, Disk::kDirect));
        const Result<void> done = files.disk().sync_now(file);
        files.disk().close(file);
        TRY(done);
    }
    return {};
}

// The next flush writes the last block again, so the ring must hold its beginning.
Result<void> Log::Impl::load_last_block(uint64_t end) {
    if (end == block_floor(end)) return {};
    const FileId file = TRY(files.open(files.number_of(end), Disk::kDirect));
    const Result<size_t> got = files.disk().read_now(file, block_floor(end) % files.segment_bytes(),
                                                     buffers->last_block, kLogBlock);
    files.disk().close(file);
    if (!got) return std::unexpected(got.error());
    first_tail = end;  // also if open() fails: what ~Impl() clears
    std::memcpy(ring.at(block_floor(end)), buffers->last_block, end - block_floor(end));
    return {};
}

// Reads on from there; the place where no record begins.
Result<uint64_t> Log::Impl::read_records(uint64_t from) const {
    LogReader reader(files.disk(), options);
    reader.seek(Lsn{from});
    LogRecordView record;
    while (TRY(reader.next(record))) {}
    DCHECK(reader.position().value >= from);
    return reader.position().value;
}

// The end of the last valid record, looked for from `sound` on. Both are record boundaries, and
// `from` is not above. LOG-4: the end is not below a durable end that is recorded, here or by
// another file (`durable`).
Result<uint64_t> Log::Impl::find_end(uint64_t from, uint64_t sound, const DurableEnd& known,
                                     Lsn durable) const {
    DCHECK(from <= sound);
    const uint64_t end = TRY(read_records(sound));
    uint64_t least = std::max(known.durable_end, durable.value);
    if (const uint64_t stamped = TRY(stamped_behind(end)); stamped > end) least = stamped;
    // Also, `from` must hold a record, unless the recorded end is exactly there.
    if (end >= least && (end != from || end == known.durable_end)) return end;
    // The damage may begin below `sound`.
    return lockstep::fail(ErrorCode::corrupt_log, "log", TRY(read_records(from)), least);
}

Result<std::unique_ptr<Log>> Log::open_to_read(threads::Runtime& runtime, const LogOptions& options,
                                               Lsn from, Lsn durable) {
    LogOptions small = options;  // nothing is appended, so the least ring does
    small.ring_bytes = kLogBlock;
    auto impl = std::make_unique<Impl>(
        runtime, small,
        TRY(LogRing::make(ring_bytes_for(small, runtime.workers()), small.mappings)));
    from = std::max(from, Lsn{kLogFirst});
    const DurableEnd mark = TRY(known_end(impl->files));
    const uint64_t end = TRY(impl->find_end(from.value, from.value, mark, durable));
    impl->first_segment = impl->files.number_of(from.value);
    impl->start = from.value;
    impl->prepared_end = block_ceil(end);
    impl->begin_at(end);
    impl->ring_valid_from = end;  // the last block stays in its file
    impl->reserved.store(options.capacity_bytes);
    impl->appends = false;
    impl->find_plenty();
    return std::unique_ptr<Log>(new Log(std::move(impl)));
}

Result<std::unique_ptr<Log>> Log::open(threads::Runtime& runtime, const LogOptions& options,
                                       Lsn from, Lsn durable) {
    TRY(check_options(options));
    auto impl = std::make_unique<Impl>(
        runtime, options,
        TRY(LogRing::make(ring_bytes_for(options, runtime.workers()), options.mappings)));
    Disk& disk = impl->files.disk();
    const DurableEnd mark = TRY(known_end(impl->files));
    from = std::max(from, Lsn{kLogFirst});
    const uint64_t sound = std::max(from.value, mark.durable_end);
    const uint64_t end = TRY(impl->find_end(from.value, sound, mark, durable));
    DCHECK(end >= sound && end >= durable.value);
    TRY(impl->adopt_segments(from.value, end));
    const uint64_t secure = std::max(from.value, std::min(mark.durable_end, end));
    TRY(impl->sync_below(secure));
    TRY(impl->secure_tail(secure, end));
    TRY(impl->load_last_block(end));
    impl->mark_file = TRY(disk.open(impl->files.mark(), Disk::kDirect));
    impl->mark = DurableEnd{
        .sequence = mark.sequence + 1, .durable_end = end, .segment_bytes = options.segment_bytes};
    TRY(impl->mark.store(disk, impl->mark_file));
    impl->begin_at(end);
    return std::unique_ptr<Log>(new Log(std::move(impl)));
}

}  // namespace lockstep::txn
