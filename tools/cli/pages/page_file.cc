// page_file.cc - reading and judging single pages.
#include "tools/cli/pages/page_file.h"

#include <algorithm>

#include "threads/base/try.h"
#include "tools/cli/opening.h"

namespace lockstep::cli {

const char* text_of(PageState state) {
    switch (state) {
        case PageState::good: return "sound";
        case PageState::zero: return "all zeros";
        case PageState::damaged: return "damaged: checksum or page number is wrong";
        case PageState::missing: return "beyond the end of the data file";
        case PageState::unreadable: return "cannot be read";
    }
    return "";
}

Result<std::unique_ptr<PageFile>> PageFile::open(const std::string& path) {
    TRY(require_store(path));
    std::unique_ptr<PageFile> file(new PageFile);
    file->path_ = path;
    file->data_ = TRY(file->disk_->open(path + "/data", threads::Disk::kReadOnly));
    if (file->disk_->exists(path + "/lock")) {
        file->lock_ = TRY(file->disk_->open(path + "/lock", threads::Disk::kReadOnly));
        TRY(file->disk_->lock_exclusive(file->lock_));
    }
    const uint64_t bytes = TRY(file->disk_->size(file->data_));
    file->pages_ = static_cast<uint32_t>(
        std::min<uint64_t>((bytes + kPageBytes - 1) / kPageBytes, kPageNone.value));
    return file;
}

PageFile::~PageFile() {
    if (data_.value >= 0) disk_->close(data_);
    if (lock_.value >= 0) disk_->close(lock_);
}

Result<sm::LogSinceCheckpoint> PageFile::log_since_checkpoint(const sm::Superblock& block) const {
    return sm::log_since_checkpoint(
        *disk_, {.directory = path_, .segment_bytes = block.log_segment_bytes}, block);
}

PageState PageFile::read(uint32_t number, sm::Page& page) const {
    if (number >= pages_) return PageState::missing;
    const auto got = disk_->read_now(data_, uint64_t{number} * kPageBytes, &page, kPageBytes);
    if (!got) return PageState::unreadable;
    if (*got < kPageBytes) return PageState::missing;
    const auto* words = reinterpret_cast<const uint64_t*>(page.bytes());
    if (page.header.checksum == 0 && std::all_of(words, words + kPageBytes / sizeof(uint64_t),
                                                 [](uint64_t w) { return w == 0; }))
        return PageState::zero;
    return page.header.checksum == sm::page_checksum(page, PageId{number}) &&
                   page.header.page_id == number
               ? PageState::good
               : PageState::damaged;
}

}  // namespace lockstep::cli
