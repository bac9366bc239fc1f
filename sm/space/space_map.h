// space_map.h - which pages of the volume are in use: bitmap pages at fixed places, growth, reuse.
//
// Layout     page 0 superblock, page 1 its second copy, page 2 first space map; a space map covers
//            the kPagesPerMap pages that begin with itself minus 2 (the first) or with itself.
//            Behind the page header (offset 32): u32 used (bits set), then zeros; at 64 the bitmap,
//            one bit a page, least significant first: 1 = used. The hole is the tail of zero bytes.
// Invariants SP-1 A page's bit is set by the same record that formats it first, and cleared by the
// record that unlinks it.
//            SP-2 No page is used twice. [checked: verify of the store]
//            SP-3 A map page is formatted by whoever first needs it: until then it reads as zeros
//            (kind free) and all its pages are free.
// Blocking   prepare() parks for latches, reads and file growth.
#pragma once

#include "sm/change/page_change.h"

namespace lockstep::sm {

inline constexpr PageId kFirstMapPage{2};
inline constexpr uint32_t kPagesPerMap = (kPageBytes - 64) * 8;

// Pages set aside for one structure change: the map page is exclusively held until the change is
// logged.
struct PageReservation {
    ExclusivePage map;
    PageId pages[8];  // contiguous or not
    uint32_t count = 0;
    uint32_t runs[16];  // payload of the map part: pairs (first, count)
    uint32_t run_count = 0;
    PageAction action = PageAction::space_set;
    ChangePart part();  // the part to put into the change; points into this object
};

class SpaceMap {
public:
    explicit SpaceMap(Env& env);
    // Finds `count` (1..8) free pages under one map page, growing the volume if need be. Nothing is
    // changed (other than growth) until the caller logs `part()` in its own record. Take it after
    // the latches of the pages that the change concerns (highest rank). Errors: no_space, ...
    Result<PageReservation> prepare(uint32_t count);
    // Exclusively holds the map page that covers `page`, for a part that clears its bit.
    // `first`/`count` as payload are kept inside.
    Result<PageReservation> prepare_free(PageId page);
    // Rollback of a record of `txn` that took pages and formatted them: one compensation record
    // frees them all.
    Result<void> undo_allocation(txn::Transaction& txn, const txn::LogRecordView& record);
    // Frees pages one by one, each with a record of its own (dropping an index or heap).
    Result<void> free_now(std::span<const PageId> pages);

    // Errors: those of reading the map. Whoever takes an unreadable map for an empty one forgets
    // pages that are in use.
    Result<bool> is_used(PageId page);
    uint64_t pages_used();         // counts bits; parks for reads
    uint64_t pages_total() const;  // of the volume file
    // Makes the volume file long enough for `page`: a crash may have lost the length that the log
    // relies on. Errors: no_space, io_error.
    Result<void> ensure_size(PageId page);
    Result<void> format_new_volume();  // pages 0..2 of a new store
    // Looks at the file's size after recovery; resets search hints.
    Result<void> open();

private:
    Env& env_;
    struct Impl;
    std::shared_ptr<Impl> impl_;
};

}  // namespace lockstep::sm
