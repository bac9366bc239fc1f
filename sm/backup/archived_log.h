// archived_log.h - records of a store's log that only its archive still has, in any order.
//
// Concepts   Bytes come through two windows, so that a reader may follow a chain backward from the
//            records that it meets going forward. A window lies within one piece. After a restore
//            the archive has two histories: that of the store, and below its begin that of its
//            parent. Earlier ones are not looked for.
// Blocking   Both calls park on a user thread and block any other; open() and list() of files block
//            for a moment.
#pragma once

#include <memory>
#include <string>

#include "sm/backup/archive_index.h"
#include "sm/backup/archive_target.h"
#include "threads/io/aligned_buffer.h"
#include "txn/log/log_record.h"

namespace lockstep::sm {

class ArchivedLog {
public:
    // Both outlive the object.
    ArchivedLog(ArchivePlace& place, const Superblock& store) : place_(place), store_(store) {}
    // Whether a piece has the byte. Errors: bad_archive, bad_path, those of the disk.
    Result<bool> has(Lsn lsn);
    // Copies the record, whose first byte it has, into `buffer`. Errors: the same, corrupt_log.
    Result<txn::LogRecordView> read(Lsn lsn, std::string& buffer);

private:
    struct Window {
        threads::AlignedBuffer bytes;  // from `base` on
        uint64_t base = 0, begin = 0, end = 0;
    };
    Result<void> load();
    Result<const Window*> window_of(uint64_t lsn);
    Result<void> copy(uint64_t lsn, uint64_t bytes, std::byte* out);

    ArchivePlace& place_;
    const Superblock& store_;
    std::unique_ptr<ArchiveIndex> index_;
    Window windows_[2];
    size_t last_ = 0;  // the window that was used last
};

}  // namespace lockstep::sm
