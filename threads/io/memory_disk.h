// memory_disk.h - a directory whose files lie in memory, beside those of the machine.
//
// Concepts   The directory is called kMemoryPath and belongs to one disk: two disks share nothing.
//            Its files have descriptors of the kernel (memfd_create), so transfers and queues are
//            those of PosixDisk. The pages of a file are free once its name and all its FileIds are
//            gone, at the latest with the process. All other paths are the machine's.
// Blocking   Never for long: no call waits for a device.
#pragma once

#include <map>
#include <mutex>
#include <string>
#include <vector>

#include "threads/io/posix_disk.h"

namespace lockstep::threads {

class MemoryDisk final : public PosixDisk {
public:
    using PosixDisk::PosixDisk;
    ~MemoryDisk() override;
    bool outlives_process() const override { return false; }
    Result<FileId> open(const Place& place, uint32_t flags) override;
    Result<FileId> open_unnamed(const Place& directory) override;
    Result<void> rename(const Place& from, const Place& to) override;
    Result<void> unlink(const Place& place) override;
    Result<void> make_directory(const Place& place) override;
    Result<std::vector<std::string>> list(const Place& directory) override;
    bool exists(const Place& place) override;
    Result<void> sync_directory(const Place& directory) override;
    Result<DirectoryId> open_directory(const Place& directory) override;
    void close_directory(DirectoryId directory) override;
    std::string path_of(DirectoryId directory) override;

private:
    using Names = std::map<std::string, int, std::less<>>;  // to the descriptor that keeps the file

    Result<int> make_file(const Place& place);
    Names::iterator find(const Place& place);  // under names_mutex_

    std::mutex names_mutex_;
    Names names_;  // under names_mutex_
};

}  // namespace lockstep::threads
