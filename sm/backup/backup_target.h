// backup_target.h - where a backup goes: a directory of this machine, or a function of the caller.
//
// Concepts   A target takes pieces of files in order. begin() marks the backup as incomplete, and
//            finish() marks it as complete (BM-1).
// Blocking   All calls park, on a user thread of the store. Opening, listing and syncing
//            directories block the kernel thread for a moment.
#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "sm/backup/backup_manifest.h"
#include "threads/io/aligned_buffer.h"

namespace lockstep::sm {

// The path is that directory, or lies somewhere below it. Symbolic links are followed.
bool lies_within(std::string_view inner, std::string_view outer);

class BackupTarget {
public:
    virtual ~BackupTarget() = default;
    virtual Result<void> begin() = 0;
    // The file will have that many bytes.
    virtual Result<void> reserve(std::string_view file, uint64_t bytes) = 0;
    // Memory for the next write, kRoomBytes, valid until then. write() takes bytes from there
    // without copying them.
    static constexpr uint64_t kRoomBytes = 1 << 20;
    virtual Result<std::byte*> room() = 0;
    // `offset` and the size are multiples of 4096. The bytes may change when it returns.
    virtual Result<void> write(std::string_view file, uint64_t offset, Slice bytes) = 0;
    virtual Result<void> finish(const ManifestBlock& manifest) = 0;
    // The backup has failed: nothing follows.
    virtual void give_up() = 0;
};

// Writes files with direct I/O, several requests at once. The directory must be empty, or is made.
// begin() fails with bad_path if it is not. give_up() removes what was written.
class DirectoryTarget final : public BackupTarget {
public:
    DirectoryTarget(threads::Disk& disk, const std::string& path)
        : disk_(disk), directory_(threads::Directory::opened(disk, path)) {}
    ~DirectoryTarget() override;
    Result<void> begin() override;
    Result<void> reserve(std::string_view name, uint64_t bytes) override;
    Result<std::byte*> room() override;
    Result<void> write(std::string_view name, uint64_t offset, Slice bytes) override;
    Result<void> finish(const ManifestBlock& manifest) override;
    void give_up() override;
    // Where it is now.
    std::string path() const { return directory_.path(); }

private:
    static constexpr size_t kSlots = 4;
    struct File {
        std::string name;
        threads::FileId id;
    };
    struct Slot {
        threads::AlignedBuffer memory;
        threads::IoRequest request;
        bool busy = false;
    };
    void assert_state() const {
        DCHECK(next_ < kSlots);
        DCHECK(files_.empty() || files_.front().name == kManifestName);  // BM-1
    }
    Result<threads::FileId> file(std::string_view name);
    Result<void> wait(Slot& slot);
    Result<void> wait_all();
    void close_files();

    threads::Disk& disk_;
    threads::Directory directory_;  // open from begin() on
    std::vector<File> files_;
    Slot slots_[kSlots];
    size_t next_ = 0;
};

// Passes all on to the caller's function.
class SinkTarget final : public BackupTarget {
public:
    explicit SinkTarget(BackupSink sink) : sink_(sink) {}
    Result<void> begin() override;
    Result<void> reserve(std::string_view, uint64_t) override { return {}; }
    Result<std::byte*> room() override { return room_.get(); }
    Result<void> write(std::string_view file, uint64_t offset, Slice bytes) override {
        return call(file, offset, bytes);
    }
    Result<void> finish(const ManifestBlock& manifest) override;
    void give_up() override {}

private:
    Result<void> call(std::string_view file, uint64_t offset, Slice bytes);
    BackupSink sink_;
    threads::AlignedBuffer room_;
};

}  // namespace lockstep::sm
