// page.h - the header of every page of the volume.
//
// Layout     offset  0 u64 checksum    XXH3 over bytes 8..8191, seeded with the page id;
//                                      stamped when written, checked when read.
//                    8 u64 lsn         end of the last log record that changed the page.
//                   16 u32 page_id     detects a misdirected write.
//                   20 u32 object      index or heap that the page belongs to, 0 = none.
//                   24 u8  kind        PageKind.
//                   25 u8  level       B-tree: 0 = leaf.
//                   26 u16 hole_begin  bytes [hole_begin, hole_end) mean nothing:
//                   28 u16 hole_end    page images leave them out.
//                   30 u16 flags       belongs to the kind.
//                   32 ...             belongs to the kind.
// Invariants PG-1 A page's lsn is the end LSN of a record that has a part for it.
//            PG-2 32 <= hole_begin <= hole_end <= 8192.
#pragma once

#include <cstddef>
#include <cstring>

#include <lockstep/result.h>
#include <lockstep/types.h>

#include "threads/base/check.h"
#include "threads/base/on_disk.h"

namespace lockstep::sm {

// Numbers are on disk: never reuse one.
enum class PageKind : uint8_t {
    free = 0,
    superblock = 1,
    space_map = 2,
    btree = 3,     // inner or leaf, by level
    overflow = 4,  // large values
    heap = 5,
    heap_map = 6,  // free-space map of a heap file
};

struct PageHeader {
    uint64_t checksum;
    uint64_t lsn;
    uint32_t page_id;
    uint32_t object;
    uint8_t kind;
    uint8_t level;
    uint16_t hole_begin;
    uint16_t hole_end;
    uint16_t flags;
};
static_assert(kOnDisk<PageHeader, 32>);
static_assert(offsetof(PageHeader, lsn) == 8 && offsetof(PageHeader, page_id) == 16);
static_assert(offsetof(PageHeader, object) == 20 && offsetof(PageHeader, kind) == 24);
static_assert(offsetof(PageHeader, level) == 25 && offsetof(PageHeader, hole_begin) == 26);
static_assert(offsetof(PageHeader, hole_end) == 28 && offsetof(PageHeader, flags) == 30);

struct alignas(kPageBytes) Page {
    PageHeader header;
    std::byte body[kPageBytes - sizeof(PageHeader)];

    PageId id() const { return PageId{header.page_id}; }
    Lsn lsn() const { return Lsn{header.lsn}; }
    PageKind kind() const { return static_cast<PageKind>(header.kind); }
    std::byte* bytes() { return reinterpret_cast<std::byte*>(this); }
    const std::byte* bytes() const { return reinterpret_cast<const std::byte*>(this); }
    void assert_state() const {  // PG-2
        DCHECK(header.hole_begin >= sizeof(PageHeader) && header.hole_begin <= header.hole_end);
        DCHECK(header.hole_end <= kPageBytes);
    }
};
static_assert(sizeof(Page) == kPageBytes && offsetof(Page, body) == sizeof(PageHeader));
static_assert(alignof(Page) == kPageBytes);  // direct I/O
static_assert(kPageBytes <= UINT16_MAX);     // offsets in a page are 16 bits

// Makes an empty page of a kind: everything zero but the header; hole = whole body. Keeps no old
// byte.
inline void format_page(Page& page, PageId id, ObjectId object, PageKind kind, uint8_t level = 0) {
    DCHECK(id != kPageNone && (level == 0 || kind == PageKind::btree));
    std::memset(static_cast<void*>(&page), 0, kPageBytes);
    page.header.page_id = id.value;
    page.header.object = object.value;
    page.header.kind = static_cast<uint8_t>(kind);
    page.header.level = level;
    page.header.hole_begin = sizeof(PageHeader);
    page.header.hole_end = kPageBytes;
}

// Errors that concern one page of the volume only.
constexpr bool is_bad_page(ErrorCode code) {
    return code == ErrorCode::corrupt_page || code == ErrorCode::lost_write ||
           code == ErrorCode::io_error;
}

uint64_t page_checksum(const Page& page, PageId id);  // over the bytes as they are
// True if the page was allocated and never written: the file's zeros.
bool never_written(const Page& page);

}  // namespace lockstep::sm
