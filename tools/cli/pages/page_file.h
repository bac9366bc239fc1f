// page_file.h - the pages of a store that nobody has open, read straight from the data file.
//
// Concepts   A page counts only with a right checksum for its own place (sm/buffer/page.h). Nothing
//            here recovers, changes or locks pages.
// Blocking   Blocks the kernel thread. Safe from several threads.
#pragma once

#include <memory>
#include <string>

#include "sm/buffer/page.h"
#include "sm/buffer/superblock.h"
#include "sm/recovery/recovery.h"
#include "threads/io/io.h"

namespace lockstep::cli {

enum class PageState : uint8_t {
    good,
    zero,     // never written
    damaged,  // checksum or page number
    missing,  // beyond the end of the file
    unreadable,
};
const char* text_of(PageState state);

class PageFile {
public:
    // Locks the store against other processes; `path` is its directory. Errors: bad_path,
    // store_locked, io_error.
    static Result<std::unique_ptr<PageFile>> open(const std::string& path);
    ~PageFile();

    uint32_t pages() const { return pages_; }  // begun ones count
    PageState read(uint32_t number, sm::Page& page) const;
    Result<sm::Superblock> superblock() const { return sm::read_superblock(*disk_, data_); }
    // What the log has that the data file may lack.
    Result<sm::LogSinceCheckpoint> log_since_checkpoint(const sm::Superblock& block) const;

private:
    PageFile() = default;
    std::unique_ptr<threads::Disk> disk_ = threads::make_disk(threads::IoBackend::pool);
    std::string path_;
    threads::FileId data_{-1}, lock_{-1};
    uint32_t pages_ = 0;
};

}  // namespace lockstep::cli
