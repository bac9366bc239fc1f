// disk_file.h - a file of a Disk that is closed when its owner ends.
#pragma once

#include <utility>

#include "threads/base/check.h"
#include "threads/io/io.h"

namespace lockstep::threads {

class DiskFile {
public:
    // `flags`: Disk::OpenFlags. Errors: those of Disk::open().
    static Result<DiskFile> open(Disk& disk, const Place& place, uint32_t flags) {
        return DiskFile(disk, TRY(disk.open(place, flags)));
    }
    // Takes over a file that is open.
    DiskFile(Disk& disk, FileId id) : disk_(disk), id_(id) { DCHECK(id.value >= 0); }
    DiskFile(DiskFile&& o) noexcept : disk_(o.disk_), id_(std::exchange(o.id_, FileId{-1})) {}
    DiskFile& operator=(DiskFile&&) = delete;
    ~DiskFile() {
        if (id_.value >= 0) disk_.close(id_);
    }
    FileId id() const {
        DCHECK(id_.value >= 0);  // not moved away
        return id_;
    }

private:
    Disk& disk_;
    FileId id_;
};

}  // namespace lockstep::threads
