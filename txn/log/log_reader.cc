// log_reader.cc - sequential reading in chunks of 1 MB, over segment boundaries.
#include <algorithm>
#include <cstring>
#include <new>

#include "txn/log/log.h"
#include "txn/log/log_checksum.h"
#include "txn/log/log_files.h"

namespace lockstep::txn {

namespace {
constexpr uint64_t kChunk = 1ull << 20;   // more than a record: one refill completes it
constexpr uint64_t kLsnEnd = 1ull << 62;  // no log gets there; sums below it do not wrap
static_assert(kChunk >= block_ceil(kLogRecordMax) + kLogBlock);
// A record may begin in the last block.
constexpr uint64_t kBufferBytes = kChunk + block_ceil(kLogRecordMax) + kLogBlock;
struct alignas(kLogBlock) Buffer {
    std::byte bytes[kBufferBytes];
};
}  // namespace

struct LogReader::Impl {
    Impl(threads::Disk& disk, const LogOptions& options)
        : files(disk, options.directory, options.segment_bytes) {}
    ~Impl() { close(); }

    void close() {
        if (file.value >= 0) files.disk().close(file);
        file = threads::FileId{-1};
        open_segment = UINT64_MAX;
    }
    Result<bool> open(uint64_t number);
    Result<bool> have(uint64_t bytes);
    Result<void> refill();
    void assert_state() const {
        DCHECK(begin <= end && end - begin <= kBufferBytes && begin % kLogBlock == 0);
        DCHECK((file.value >= 0) == (open_segment != UINT64_MAX));
        DCHECK(buffer != nullptr || begin == end);
    }
    const LogRecordHeader* header() const {
        DCHECK(position >= begin && position + sizeof(LogRecordHeader) <= end);
        return reinterpret_cast<const LogRecordHeader*>(buffer->bytes + (position - begin));
    }

    LogFiles files;
    threads::FileId file{-1};
    uint64_t open_segment = UINT64_MAX;
    std::unique_ptr<Buffer> buffer;  // allocated by the first read
    uint64_t begin = 0, end = 0;     // LSNs held by the buffer
    uint64_t position = kLogFirst;
};

// False if there is no such segment.
Result<bool> LogReader::Impl::open(uint64_t number) {
    assert_state();
    if (number == open_segment) return true;
    close();
    if (!files.disk().exists(files.segment(number))) return false;
    file = TRY(files.open(number, threads::Disk::kReadOnly));
    open_segment = number;
    return true;
}

// Moves the unread rest to the front (kept on a block boundary) and reads up to a chunk behind it,
// or to the end of the log.
Result<void> LogReader::Impl::refill() {
    if (!buffer) buffer.reset(new (std::nothrow) Buffer);
    if (!buffer) return fail(ErrorCode::out_of_memory, "log reader", sizeof(Buffer));
    const uint64_t keep_from = block_floor(position);
    if (keep_from < begin || keep_from >= end) {
        begin = end = keep_from;
    } else {
        std::memmove(buffer->bytes, buffer->bytes + (keep_from - begin), end - keep_from);
        begin = keep_from;
    }
    uint64_t room = std::min(kChunk, kBufferBytes - (end - begin));
    while (room > 0) {
        if (!TRY(open(files.number_of(end)))) return {};
        const uint64_t bytes = std::min(room, files.segment_end(end) - end);
        const uint64_t got = TRY(files.disk().read_now(file, end % files.segment_bytes(),
                                                       buffer->bytes + (end - begin), bytes));
        DCHECK(got <= bytes);
        end += got;
        room -= got;
        assert_state();
        if (got < bytes) return {};
    }
    return {};
}

// True if `bytes` from the position on are in the buffer.
Result<bool> LogReader::Impl::have(uint64_t bytes) {
    if (position >= begin && position + bytes <= end) return true;
    TRY(refill());
    return position + bytes <= end;
}

LogReader::LogReader(threads::Disk& disk, const LogOptions& options)
    : impl_(std::make_unique<Impl>(disk, options)) {}
LogReader::~LogReader() = default;

void LogReader::seek(Lsn lsn) { impl_->position = lsn.value; }
Lsn LogReader::position() const { return Lsn{impl_->position}; }

Result<void> LogReader::require_end(Lsn end) const {
    if (position() == end) return {};
    return fail(ErrorCode::corrupt_log, "log", position().value, end.value);
}

Result<bool> LogReader::next(LogRecordView& record) {
    Impl& r = *impl_;
    if (r.position % 8 != 0 || r.position >= kLsnEnd || !TRY(r.have(sizeof(LogRecordHeader))))
        return false;
    const uint32_t bytes = r.header()->bytes;
    if (!log_size_plausible(bytes) || !TRY(r.have(bytes))) return false;
    if (!log_record_valid(r.header(), bytes, Lsn{r.position})) return false;
    record = LogRecordView{.lsn = Lsn{r.position}, .header = r.header()};
    r.position += bytes;
    return true;
}

}  // namespace lockstep::txn
