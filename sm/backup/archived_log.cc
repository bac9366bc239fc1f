// archived_log.cc - see archived_log.h.
#include "sm/backup/archived_log.h"

#include <algorithm>
#include <cstring>

#include "sm/backup/backup_manifest.h"
#include "threads/thread/thread.h"
#include "txn/log/log_checksum.h"

namespace lockstep::sm {

namespace {

constexpr uint64_t kWindowBytes = 256 * 1024;
static_assert(kWindowBytes % txn::kLogBlock == 0);

}  // namespace

// The index is made of names, and the archiver adds files.
Result<void> ArchivedLog::load() {
    BackupManifest oldest{};
    oldest.superblock = store_;
    if (store_.history != 0) oldest.superblock.history = store_.history_parent;
    const threads::Directory directory = TRY(place_.open());
    index_ = std::make_unique<ArchiveIndex>(
        TRY(ArchiveIndex::load(place_.disk(), directory, oldest, store_)));
    return {};
}

Result<bool> ArchivedLog::has(Lsn lsn) {
    if (index_ && index_->at(lsn.value)) return true;
    TRY(load());
    return index_->at(lsn.value).has_value();
}

Result<const ArchivedLog::Window*> ArchivedLog::window_of(uint64_t lsn) {
    for (size_t i = 0; i < std::size(windows_); ++i) {
        if (lsn < windows_[i].begin || lsn >= windows_[i].end) continue;
        last_ = i;
        return &windows_[i];
    }
    if (!TRY(has(Lsn{lsn})))
        return bad_archive("log archive",
                           "it lacks the log from LSN " + std::to_string(lsn) + " on");
    const PieceName piece = index_->at(lsn).value_or(ArchiveIndex::Place{}).piece;
    last_ = 1 - last_;
    Window& window = windows_[last_];
    window.begin = window.end = 0;
    if (window.bytes == nullptr) window.bytes = TRY(threads::make_aligned_buffer(kWindowBytes));
    window.base = std::max(piece.first_block(), lsn / kWindowBytes * kWindowBytes);
    ArchiveReader reader(place_.disk(), *index_, store_, threads::current() != nullptr);
    const uint64_t got = TRY(reader.read(window.base, lsn, window.bytes.get(), kWindowBytes));
    window.begin = std::max(window.base, piece.begin);
    window.end = window.base + got;
    DCHECK(window.begin <= lsn && lsn < window.end);
    return &window;
}

Result<void> ArchivedLog::copy(uint64_t lsn, uint64_t bytes, std::byte* out) {
    while (bytes > 0) {
        const Window& window = *TRY(window_of(lsn));
        const uint64_t part = std::min(bytes, window.end - lsn);
        std::memcpy(out, window.bytes.get() + (lsn - window.base), part);
        lsn += part;
        out += part;
        bytes -= part;
    }
    return {};
}

Result<txn::LogRecordView> ArchivedLog::read(Lsn lsn, std::string& buffer) {
    return txn::copy_record(lsn, buffer, [this](uint64_t from, uint64_t bytes, std::byte* out) {
        return copy(from, bytes, out);
    });
}

}  // namespace lockstep::sm
