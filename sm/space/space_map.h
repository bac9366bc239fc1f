// space_map.h - which pages of the volume are in use: bitmap pages at fixed places, growth, reuse.
//
// Layout     Page 0 is the superblock, page 1 its second copy, page 2 the first space map. A space
//            map covers kPagesPerMap pages. They begin with the map itself, or with page 0 for the
//            first map.
//            Behind the page header (offset 32): u32 used (bits set), then zeros. At 64 the bitmap,
//            one bit a page, least significant first: 1 = used. The hole is the tail of zero bytes.
// Invariants SP-1 A page's bit is set by the same record that formats the page first. It is cleared
//                 by the record that unlinks the page.
//            SP-2 No page is used twice. [checked: verify of the store]
//            SP-3 The first change that needs a map page formats it. Until then it reads as zeros
//                 (kind free) and all its pages are free.
//            SP-4 No page in use, and no map that says so, lies behind the end of the volume.
//                 [checked: verify of the store]
// Blocking   prepare() parks for latches, reads and file growth.
#pragma once

#include "sm/change/page_change.h"

namespace lockstep::sm {

inline constexpr PageId kFirstMapPage{2};
inline constexpr uint32_t kPagesPerMap = (kPageBytes - 64) * 8;

inline bool is_map_page(PageId page) {
    return page == kFirstMapPage || (page.value != 0 && page.value % kPagesPerMap == 0);
}
// Makes `page` what its first formatting makes it: a map that uses nothing but itself. With
// checksum.
void make_empty_map(Page& page, PageId id, Lsn lsn);

// Pages reserved for one structure change. The map page is exclusively held until the change is
// logged.
struct PageReservation {
    static constexpr uint32_t kPagesMax = 8;
    ExclusivePage map;
    PageId pages[kPagesMax];  // contiguous or not
    uint32_t count = 0;
    uint32_t runs[2 * kPagesMax];  // payload of the map part: pairs (first, count)
    uint32_t run_count = 0;
    PageAction action = PageAction::space_set;
    void assert_state() const;
    void add(PageId page);  // behind those that it has
    ChangePart part();      // the part to put into the change; points into this object
};

class SpaceMap {
public:
    explicit SpaceMap(Env& env);
    // Finds `count` (1..8) free pages under one map page and grows the volume if necessary. Nothing
    // but the file's size changes until the caller logs `part()` in its own record. Call it after
    // latching the pages that the change concerns (highest rank). Errors: no_space, and those of
    // reading the map.
    Result<PageReservation> prepare(uint32_t count);
    // Exclusively holds the map page that covers the pages (1..8 under one map), for a part that
    // clears their bits. The result keeps the payload.
    Result<PageReservation> prepare_free(std::span<const PageId> pages);
    Result<PageReservation> prepare_free(PageId page) { return prepare_free({&page, 1}); }
    // Rollback of a record of `txn` that took pages and formatted them: one compensation record
    // frees them all.
    Result<void> undo_allocation(txn::Transaction& txn, const txn::LogRecordView& record);
    // Frees pages in that order, up to eight with one record. Reads none of them.
    Result<void> free_now(std::span<const PageId> pages);

    // Errors: those of reading the map. A caller that takes an unreadable map for an empty one
    // loses pages that are in use.
    Result<bool> is_used(PageId page);
    uint64_t pages_used();         // counts bits; parks for reads
    uint64_t pages_total() const;  // of the volume file
    // Makes the volume file long enough for `page`: a crash may have lost a length that the log
    // relies on. Errors: no_space, io_error.
    Result<void> ensure_size(PageId page);
    Result<void> format_new_volume();  // pages 0..2 of a new store
    // Looks at the file's size after recovery; resets search hints.
    Result<void> open();

    // Giving back the free end of the file while the store is open (space_map_shrink.cc), in three
    // steps with a checkpoint between them. The caller holds this latch meanwhile.
    threads::Latch& giving_back();
    // First the volume ends behind its last page in use; the result is its new length in pages. The
    // file stays as long as it is.
    Result<uint64_t> lower_end();
    // Forgets which LSNs the pages from `end` to `before` have. False: the volume has grown since.
    Result<bool> forget_end(uint64_t end, uint64_t before);
    // Cuts the file. False: the volume has grown since, and nothing is cut. Error io_error also if
    // the last checkpoint could not save the LSNs of pages.
    Result<bool> cut_file(uint64_t end);

private:
    // One map from the end: the volume ends behind its last page in use, or before the map. False:
    // it ends here.
    Result<bool> lower_by_one_map();
    Env& env_;
    struct Impl;
    std::shared_ptr<Impl> impl_;
};

}  // namespace lockstep::sm
