// archive_target.h - where the archiver puts its files: a directory, or a function of the caller.
//
// Concepts   One file at a time: begin(), write() in order, then finish() with the first block. The
//            directory is opened once (ArchivePlace), and stays the archive wherever it is moved.
//            If it is removed, or its device is gone, its path is looked up again.
// Blocking   All calls but look() park, on a user thread of the store. Opening, renaming and
//            syncing directories block the kernel thread for a moment. look() blocks for its reads.
#pragma once

#include <memory>
#include <optional>
#include <string>

#include <lockstep/archive.h>
#include "sm/backup/archive_file.h"
#include "threads/base/spin_lock.h"
#include "threads/io/directory.h"

namespace lockstep::sm {

// The directory of an archive, for all that read and write it. Any thread.
class ArchivePlace {
public:
    // A relative path begins in the directory that the process has now.
    ArchivePlace(threads::Disk& disk, std::string path);
    // Opens it if it is not open. Error: bad_path.
    Result<threads::Directory> open();
    // Makes it if it is missing, then as open().
    Result<threads::Directory> make();
    // After a failure: if what is open is no archive any more, the next open() looks for the path.
    void look_again();
    threads::Disk& disk() const { return disk_; }

private:
    threads::Place place() const;

    threads::Disk& disk_;
    const std::string path_;
    const threads::Directory begin_;  // of a relative path
    SpinLock lock_;
    threads::Directory directory_;  // under lock_
};

class ArchiveTarget {
public:
    virtual ~ArchiveTarget() = default;
    // The end of the newest piece of this history, or kLsnNone. Makes an archive of an empty
    // directory. Error: bad_archive if it is another store's.
    virtual Result<Lsn> look(const Superblock& store) = 0;
    virtual Result<void> begin(const std::string& name) = 0;
    // `offset` and the size are multiples of 4096, and the memory is aligned.
    virtual Result<void> write(uint64_t offset, Slice bytes) = 0;
    // AF-1: the file is durable and complete when it returns.
    virtual Result<void> finish(const ArchiveBlock& first) = 0;
    virtual void give_up() = 0;
};

class DirectoryArchive final : public ArchiveTarget {
public:
    DirectoryArchive(ArchivePlace& place, bool sync)
        : place_(place), disk_(place.disk()), sync_(sync) {}
    ~DirectoryArchive() override { give_up(); }
    Result<Lsn> look(const Superblock& store) override;
    Result<void> begin(const std::string& name) override;
    Result<void> write(uint64_t offset, Slice bytes) override;
    Result<void> finish(const ArchiveBlock& first) override;
    void give_up() override;

private:
    std::string new_name() const { return name_ + ".new"; }
    void assert_state() const {
        DCHECK((file_.value >= 0) == !name_.empty());
        DCHECK(file_.value < 0 || directory_.is_open());
    }

    ArchivePlace& place_;
    threads::Disk& disk_;
    threads::Directory directory_;     // of the open file, and of the last one
    std::optional<Superblock> store_;  // from look() on
    const bool sync_;
    std::string name_;  // of the open file
    threads::FileId file_{-1};
};

class SinkArchive final : public ArchiveTarget {
public:
    explicit SinkArchive(ArchiveSink sink) : sink_(std::move(sink)) {}
    Result<Lsn> look(const Superblock&) override { return kLsnNone; }
    Result<void> begin(const std::string& name) override {
        name_ = name;
        return {};
    }
    Result<void> write(uint64_t offset, Slice bytes) override;
    Result<void> finish(const ArchiveBlock& first) override { return write(0, first.slice()); }
    void give_up() override {}

private:
    const ArchiveSink sink_;
    std::string name_;
};

}  // namespace lockstep::sm
