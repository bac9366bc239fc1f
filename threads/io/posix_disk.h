// posix_disk.h - the machine's file system as a Disk.
//
// Concepts   A FileId is the file descriptor, so queues need no table. So is a DirectoryId, of a
//            descriptor that only names the directory (O_PATH). flock() belongs to one open file.
//            A second open conflicts, whether it comes from another process or from this one. A
//            child of fork() shares the open file, so close() gives the lock back explicitly.
// Blocking   Every call may block the kernel thread for a short operation of the file system.
#pragma once

#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "threads/io/file_rights.h"
#include "threads/io/io.h"
#include "threads/io/pool_queue.h"

namespace lockstep::threads {

// Error of a failed file-system call: no_space, bad_path, too_many, out_of_memory or io_error.
[[gnu::cold]] std::unexpected<Error> fail_file(int err, const char* what, uint64_t a = 0,
                                               uint64_t b = 0);

class PosixDisk : public Disk {
public:
    explicit PosixDisk(IoBackend backend) : backend_(backend) {}
    Result<FileId> open(const Place& place, uint32_t flags) override;
    void set_file_mode(uint32_t mode) override;
    Result<void> make_files_like(FileId file) override;
    Result<FileId> open_unnamed(const Place& directory) override;
    void close(FileId file) override;
    Result<uint64_t> size(FileId file) override;
    Result<void> allocate(FileId file, uint64_t bytes) override;
    Result<void> truncate(FileId file, uint64_t bytes) override;
    Result<void> rename(const Place& from, const Place& to) override;
    Result<void> unlink(const Place& place) override;
    Result<void> make_directory(const Place& place) override;
    Result<std::vector<std::string>> list(const Place& directory) override;
    bool exists(const Place& place) override;
    Result<void> sync_directory(const Place& directory) override;
    Result<DirectoryId> open_directory(const Place& directory) override;
    void close_directory(DirectoryId directory) override;
    std::string path_of(DirectoryId directory) override;
    Result<void> lock_exclusive(FileId file) override;
    Result<void> lock_shared(FileId file) override;
    Result<size_t> read_now(FileId file, uint64_t offset, void* data, size_t bytes) override;
    Result<void> write_now(FileId file, uint64_t offset, const void* data, size_t bytes) override;
    Result<void> sync_now(FileId file) override;
    Result<std::unique_ptr<IoQueue>> make_queue(uint32_t worker, const Clock& clock) override;
    bool syncs_after_write() const override { return syncs_->load(std::memory_order_relaxed); }

protected:
    FileRights rights();

private:
    int64_t create(const Place& place, int how, int direct);
    Result<std::unique_ptr<IoQueue>> make_pool_queue(const Clock& clock);
    Result<void> lock(FileId file, int operation);
    std::string text_of(const Place& place);
    Unexpected fail_at(int err, const char* what, const Place& place);

    const IoBackend backend_;
    // Set when the first file opens whose file system is not known to honour durable writes. The
    // queues share it, because they may outlive the disk.
    const SyncsAfterWrite syncs_ = std::make_shared<std::atomic<bool>>(false);
    std::mutex mutex_;
    FileRights rights_;         // under mutex_
    bool ring_probed_ = false;  // under mutex_
    Result<void> ring_works_;   // under mutex_
    // Under mutex_; the first queue that needs the pool makes it.
    std::shared_ptr<IoPool> pool_;
    std::vector<int32_t> locked_;  // under mutex_: files with an advisory lock
    // Under mutex_: open directories, each with the path that opened it.
    std::map<int32_t, std::string> directories_;
};

}  // namespace lockstep::threads
