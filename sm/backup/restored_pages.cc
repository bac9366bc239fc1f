// restored_pages.cc - see restored_pages.h.
#include "sm/backup/restored_pages.h"

#include <algorithm>
#include <cstring>
#include <numeric>
#include <utility>

#include "sm/backup/backup_pages.h"
#include "sm/recovery/recovery_parts.h"
#include "threads/base/error_detail.h"
#include "threads/base/limits.h"

namespace lockstep::sm {

namespace {

using threads::Disk, threads::DiskFile;

constexpr size_t kRunPages = limits::most::restored_run;

}  // namespace

// Not direct: of pages far from each other the system writes many at a time.
Result<RestoredPages> RestoredPages::open(Disk& disk, const threads::Place& place,
                                          std::vector<uint64_t>& lsns, uint64_t memory_bytes) {
    DCHECK(memory_bytes >= kPageBytes && lsns.size() >= kSuperblocks);
    return RestoredPages(disk, TRY(DiskFile::open(disk, place, 0)), lsns,
                         std::min<uint64_t>(memory_bytes / kPageBytes, kNotHere),
                         TRY(threads::make_aligned_buffer(kRunPages * kPageBytes)));
}

RestoredPages::RestoredPages(Disk& disk, DiskFile file, std::vector<uint64_t>& lsns,
                             size_t frames_max, threads::AlignedBuffer run)
    : disk_(&disk),
      file_(std::move(file)),
      lsns_(&lsns),
      frames_max_(frames_max),
      here_(lsns.size(), kNotHere),
      run_(std::move(run)) {
    assert_state();
}

Result<void> RestoredPages::apply(const txn::LogRecordView& record) {
    if (record.header->kind < txn::kSmLogKindFirst) return {};
    uint32_t cursor = 0;
    for (PartView part; TRY(next_part(record, cursor, part));) TRY(apply_part(part, record.end()));
    return {};
}

Result<void> RestoredPages::apply_part(const PartView& part, Lsn end) {
    assert_state();
    if (part.page.value < kSuperblocks)
        return fail(ErrorCode::corrupt_log, "log record of a superblock", end.value);
    if (part.page.value >= here_.size()) TRY(grow(part.page));
    const bool brings_page = (part.flags & kPartFresh) || !part.image.empty();
    const bool known = !brings_page || here_[part.page.value] != kNotHere;
    const uint32_t at = TRY(frame_for(part.page, brings_page));
    if (at == kNotHere) return {};  // RSP-3
    Page& page = page_of(at);
    if (!TRY(redo_part(page, known, part, end))) return {};
    DCHECK(page.id() == part.page);
    page.header.lsn = end.value;
    frames_[at].dirty = true;
    frames_[at].changed_at = ++changes_;
    return {};
}

// kNotHere: what the file has is no state of the page.
Result<uint32_t> RestoredPages::frame_for(PageId id, bool brings_page) {
    DCHECK(id.value < here_.size());
    if (here_[id.value] != kNotHere) return here_[id.value];
    if (!brings_page && unknown_.contains(id.value)) return kNotHere;
    const uint32_t at = TRY(take_frame());
    Page& page = page_of(at);
    if (brings_page) {
        std::memset(page.bytes(), 0, kPageBytes);
        page.header.page_id = id.value;
        unknown_.erase(id.value);
    } else if (!TRY(read(id, page))) {
        unknown_.insert(id.value);
        free_.push_back(at);
        return kNotHere;
    }
    frames_[at] = {.page = id, .changed_at = changes_, .dirty = false};
    here_[id.value] = at;
    return at;
}

Result<bool> RestoredPages::read(PageId id, Page& page) {
    const uint64_t offset = uint64_t{id.value} * kPageBytes;
    if (TRY(disk_->read_now(file_.id(), offset, page.bytes(), kPageBytes)) < kPageBytes)
        return false;
    return page_fault(page, id, (*lsns_)[id.value], UINT64_MAX) == nullptr &&
           page.header.page_id == id.value;
}

Result<void> RestoredPages::grow(PageId id) {
    const uint64_t pages =
        (uint64_t{id.value} / limits::restored_growth() + 1) * limits::restored_growth();
    DCHECK(pages > here_.size());
    TRY(disk_->allocate(file_.id(), pages * kPageBytes));
    here_.resize(pages, kNotHere);
    lsns_->resize(pages, 0);
    return {};
}

Result<uint32_t> RestoredPages::take_frame() {
    if (free_.empty() && frames_.size() == frames_max_) TRY(make_room());
    if (free_.empty()) {
        if (frames_.size() == chunks_.size() * kFramesOfChunk)
            chunks_.push_back(TRY(threads::make_aligned_buffer(kFramesOfChunk * kPageBytes)));
        frames_.emplace_back();
        return static_cast<uint32_t>(frames_.size() - 1);
    }
    const uint32_t at = free_.back();
    free_.pop_back();
    DCHECK(at < frames_.size());
    return at;
}

Result<void> RestoredPages::make_room() {
    DCHECK(free_.empty() && !frames_.empty());
    std::vector<uint32_t> old(frames_.size());
    std::iota(old.begin(), old.end(), 0);
    const auto half = old.begin() + static_cast<ptrdiff_t>((old.size() + 1) / 2);
    std::nth_element(old.begin(), half - 1, old.end(), [this](uint32_t a, uint32_t b) {
        return frames_[a].changed_at < frames_[b].changed_at;
    });
    old.erase(half, old.end());
    TRY(write(old));
    for (const uint32_t at : old) {
        here_[frames_[at].page.value] = kNotHere;
        frames_[at] = {};
    }
    free_ = std::move(old);
    assert_state();
    return {};
}

// Those that are dirty; neighbours at once.
Result<void> RestoredPages::write(std::vector<uint32_t> frames) {
    std::erase_if(frames, [this](uint32_t at) { return !frames_[at].dirty; });
    std::ranges::sort(frames, {}, [this](uint32_t at) { return frames_[at].page.value; });
    const auto page_number = [&](size_t i) { return frames_[frames[i]].page.value; };
    for (size_t i = 0, n = 0; i < frames.size(); i += n) {
        const uint32_t first = page_number(i);
        for (n = 0;
             i + n < frames.size() && n < limits::restored_run() && page_number(i + n) == first + n;
             ++n) {
            Page& page = page_of(frames[i + n]);
            page.assert_state();
            CHECK(page.header.page_id == first + n);  // BI-4
            page.header.checksum = page_checksum(page, page.id());
            std::memcpy(run_.get() + n * kPageBytes, page.bytes(), kPageBytes);
            (*lsns_)[first + n] = page.header.lsn;
            frames_[frames[i + n]].dirty = false;
        }
        TRY(disk_->write_now(file_.id(), uint64_t{first} * kPageBytes, run_.get(), n * kPageBytes));
    }
    return {};
}

Result<void> RestoredPages::finish() {
    assert_state();
    if (!unknown_.empty())
        return fail_with(ErrorCode::bad_backup, "a page is damaged, and the log does not bring it",
                         "page " + std::to_string(*unknown_.begin()));
    std::vector<uint32_t> all(frames_.size());
    std::iota(all.begin(), all.end(), 0);
    TRY(write(std::move(all)));
    return disk_->sync_now(file_.id());
}

}  // namespace lockstep::sm
