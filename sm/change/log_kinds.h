// log_kinds.h - the one table where recovery meets B-tree, heap and space map: log-record kinds and
// page actions.
//
// Concepts   A record of sm/ has a kind and parts. The kind says what happened, and how to undo and
//            describe it. Each part names one page and the action that changes it. The forward path
//            and redo apply the same action to the same bytes, so they cannot differ.
// Layout     Part: u32 page, u8 action, u8 flags, u16 image_bytes, u32 payload_bytes, u32
//            reserved(0). Then the image, if any: u16 hole_begin, u16 hole_end, bytes before and
//            behind the hole. A packed image is compressed (page_image.h). It is the state BEFORE
//            the action. Then the payload. Both are padded to 8 bytes.
// Invariants KI-1 apply(page, payload) depends on nothing but its arguments.
//            KI-2 It never fails on bytes that were logged.
//            KI-3 Undo of a kind is logical: it finds the record again by key or record id, and
//                 logs a compensation record.
#pragma once

#include <string>

#include "sm/buffer/page.h"
#include "threads/base/on_disk.h"
#include "txn/log/log_record.h"
#include "txn/transaction.h"

namespace lockstep::sm {

struct Env;

// clang-format off
// Kinds: number on disk, name, undo. Undo is null for records that are redo-only.
#define LOCKSTEP_SM_LOG_KINDS(X)                            \
    X(32, btree_insert,        undo_btree_insert)           \
    X(33, btree_update,        undo_btree_update)           \
    X(34, btree_erase,        undo_btree_erase)           \
    X(35, btree_undo_insert,   nullptr)                     \
    X(36, btree_undo_update,   nullptr)                     \
    X(37, btree_undo_erase,   nullptr)                     \
    X(38, btree_split,         nullptr)                     \
    X(39, btree_merge,         nullptr)                     \
    X(40, btree_ghost_removal, nullptr)                     \
    X(41, btree_create,        undo_allocation)                  \
    X(42, btree_bulk,          undo_btree_bulk)             \
    X(43, overflow_write,      undo_allocation)                  \
    X(44, overflow_free,       nullptr)                     \
    X(45, btree_grow,          nullptr)                     \
    X(46, btree_insert_many,   undo_btree_insert_many)      \
    X(47, btree_update_many,   undo_btree_update_many)      \
    X(48, btree_erase_many,    undo_btree_erase_many)       \
    X(50, heap_insert,         undo_heap_insert)            \
    X(51, heap_update,         undo_heap_update)            \
    X(52, heap_erase,         undo_heap_erase)            \
    X(53, heap_undo_insert,    nullptr)                     \
    X(54, heap_undo_update,    nullptr)                     \
    X(55, heap_undo_erase,    nullptr)                     \
    X(56, heap_extend,         nullptr)                     \
    X(57, heap_free_space,     nullptr)                     \
    X(58, heap_create,         undo_allocation)                  \
    X(59, heap_reclaim,        nullptr)                     \
    X(70, space_grow,          nullptr)                     \
    X(71, space_free,          nullptr)                     \
    X(72, page_repair,         nullptr)

// Actions on one page: number on disk, name, function `void apply_<name>(Page&, Slice payload)`.
#define LOCKSTEP_PAGE_ACTIONS(X)                            \
    X(1,  space_set)             /* payload u32 first page, u32 count: mark as used */      \
    X(2,  space_clear)           /* the same: mark as free */                               \
    X(3,  space_format)          /* fresh space-map page */                                 \
    X(4,  page_image)            /* payload: whole page, hole left out */                   \
    X(5,  page_free)             /* page becomes kind free */                               \
    X(10, btree_put)             /* new slot with key and value */                          \
    X(11, btree_replace)         /* change a byte range of a value, or its length */        \
    X(12, btree_set_ghost)       /* set or clear the ghost bit of a slot */                 \
    X(13, btree_remove)          /* remove slots */                                         \
    X(14, btree_format)          /* fresh page: level, fences, right sibling, records */    \
    X(15, btree_truncate)        /* left part of a split: keep slots below n, new high fence */ \
    X(16, btree_absorb)          /* merge: append records of the right page, new high fence */ \
    X(17, btree_set_child)       /* change child pointer or right sibling */                \
    X(18, btree_revive)          /* ghost becomes a live record with a new value */         \
    X(19, btree_put_many)        /* new slots side by side, with keys and values */         \
    X(20, overflow_format)       /* fresh overflow page with its piece of the value */      \
    X(21, btree_replace_many)    /* change byte ranges of values, whose lengths stay */     \
    X(22, btree_set_ghosts)      /* set or clear the ghost bits of several slots */         \
    X(30, heap_format)           /* fresh heap page */                                      \
    X(31, heap_put)              /* record into a given slot */                             \
    X(32, heap_replace)          /* change a record */                                      \
    X(33, heap_remove)           /* empty a slot */                                         \
    X(34, heap_map_format)       /* fresh free-space-map page */                            \
    X(35, heap_map_set)          /* free-space class of a page */                           \
    X(36, heap_set_link)         /* next page of a heap's page list, header fields */
// clang-format on

enum class LogKind : uint16_t {
#define X(number, name, undo) name = (number),
    LOCKSTEP_SM_LOG_KINDS(X)
#undef X
};
enum class PageAction : uint8_t {
#define X(number, name) name = (number),
    LOCKSTEP_PAGE_ACTIONS(X)
#undef X
};

#define X(number, name, undo) static_assert((number) >= txn::kSmLogKindFirst);
LOCKSTEP_SM_LOG_KINDS(X)
#undef X
#define X(number, name) static_assert((number) > 0 && (number) <= UINT8_MAX);
LOCKSTEP_PAGE_ACTIONS(X)
#undef X

enum PartFlags : uint8_t {
    kPartImage = 1,  // a page image precedes the payload
    kPartFresh = 2,  // the action overwrites the whole page: redo need not read it
    // The image is compressed; only beside kPartImage. Since format version 3.
    kPartPacked = 4,
};

struct PartHeader {
    uint32_t page;
    uint8_t action;
    uint8_t flags;
    // 0; or 4 + page bytes without the hole; or the length of a packed image. Before padding.
    uint16_t image_bytes;
    uint32_t payload_bytes;  // before padding
    uint32_t reserved;
};
static_assert(kOnDisk<PartHeader, 16> && offsetof(PartHeader, action) == 4);
static_assert(offsetof(PartHeader, flags) == 5 && offsetof(PartHeader, image_bytes) == 6);
static_assert(offsetof(PartHeader, payload_bytes) == 8);
static_assert(2 * sizeof(uint16_t) + kPageBytes <= UINT16_MAX);  // image_bytes

// One part of a record.
struct PartView {
    PageId page;
    PageAction action;
    uint8_t flags;
    Slice image;
    Slice payload;
};
// Walks a record's parts; false at the end. `cursor` starts at 0. Checked against the record's
// size: corrupt bytes give an error.
Result<bool> next_part(const txn::LogRecordView& record, uint32_t& cursor, PartView& part);

inline constexpr uint32_t kPackedHeadBytes = 8;
// The longest packed image instead of a plain one of `plain` bytes (PI-1).
constexpr uint32_t packed_bytes_max(uint32_t plain) { return plain - plain / 8; }

// Puts `image` (a plain one, as PartHeader describes) over the page. For any image of a part:
// bring_image().
void install_image(Page& page, Slice image);
uint32_t image_bytes(const Page& page);  // size of such an image
void write_image(const Page& page, std::byte* out);

// Runs the action: the page is exclusively held or private.
void apply_action(PageAction action, Page& page, Slice payload);

// Undoes one record of `txn` and logs the compensation with undo-next = the record's prev. Parks.
// Never fails for lack of log space.
Result<void> undo_record(Env& env, txn::Transaction& txn, const txn::LogRecordView& record);

// Txn/ kinds too; "?" if unknown.
const char* log_kind_name(uint16_t kind);
const char* page_action_name(PageAction action);
std::string describe_record(const txn::LogRecordView& record);  // one line for people

}  // namespace lockstep::sm
