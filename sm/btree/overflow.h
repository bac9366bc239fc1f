// overflow.h - values too large for a B-tree page: chains of overflow pages.
//
// Concepts   A record whose slot has the overflow bit holds a reference instead of its value: an
//            OverflowRef and the runs of the chain's pages, in order. A chain is written once,
//            before a record refers to it, and never changed. An update writes a new chain. Writing
//            is a change of the transaction, whose rollback frees the pages.
//            An operation that replaces the value or erases the record puts the old chain on the
//            drop list and among what its transaction has released (sm/change/deferred.h). After
//            the commit that transaction's thread frees the pages, which the reference lists: none
//            is read. After a crash the drop list names them.
//            References of stores before format version 6 list no pages: is_unlisted(). Their
//            chains are walked. A ghost with such a reference owns its chain, and the ghost cleaner
//            frees it. The chain of any other ghost belongs to the transaction that erased the
//            record.
// Layout     Reference: OverflowRef, then up to 120 runs (u32 first page, u32 pages). The chain
//            goes on behind the last run if there are more.
//            Page: behind the page header u64 chain, u32 next page, u32 bytes here; data from
//            offset 48.
//            The chain number comes from the log's end and the page that was reserved first.
// Invariants OV-1 A chain's pages carry its number, and their bytes sum up to the reference's
//                 bytes. [checked: read_overflow()]
//            OV-2 No two chains have the same number, also not one after the other. Else what is
//                 noted of a chain that a rollback has freed would free another one later, whose
//                 pages lie there now. [checked: sm_overflow_chain_test, simulator seed 24739]
//            OV-3 A chain is freed once: by the rollback of its writing, by the transaction that
//                 released it, or by what looks first whether its pages are still there
//                 (free_overflow()). The last two exclude each other. [checked: CHECK in
//                 apply_space_clear(), SpaceReuse.*]
#pragma once

#include <string>
#include <vector>

#include "sm/change/page_change.h"
#include "sm/core/env.h"
#include "sm/core/record.h"
#include "threads/base/on_disk.h"

namespace lockstep::sm {

struct OverflowRef {
    uint32_t first;
    uint32_t bytes;
    uint64_t chain;
};
static_assert(kOnDisk<OverflowRef, 16> && offsetof(OverflowRef, chain) == 8);

struct OverflowHeader {
    uint64_t chain;
    uint32_t next;  // kPageNone: last
    uint32_t bytes;
};
static_assert(kOnDisk<OverflowHeader, 16> && offsetof(OverflowHeader, bytes) == 12);
inline constexpr size_t kOverflowDataAt = sizeof(PageHeader) + sizeof(OverflowHeader);
inline constexpr size_t kOverflowCapacity = kPageBytes - kOverflowDataAt;

struct OverflowRun {
    uint32_t first, count;
};
static_assert(kOnDisk<OverflowRun, 8>);
// A reference fits beside the longest key.
inline constexpr size_t kOverflowRunsMax = 120;

// From a record's value; safe on any bytes.
inline OverflowRef overflow_ref(Slice value) {
    OverflowRef ref{kPageNone.value, 0, 0};
    if (value.size() >= sizeof ref && (value.size() - sizeof ref) % sizeof(OverflowRun) == 0)
        std::memcpy(&ref, value.data(), sizeof ref);
    return ref;
}
// The reference lists no pages.
inline bool is_unlisted(Slice value) { return value.size() <= sizeof(OverflowRef); }

// The piece of a value in the payload of an action overflow_format, and its chain's number.
Slice overflow_piece(Slice payload, uint64_t& chain);
// Writes a chain and returns the reference to it. Parks for space, pages and log. With `txn` null
// the pages are permanent, and the caller must be able to find them after a crash. On an error
// pages written so far are freed.
Result<std::string> write_overflow(Env& env, txn::Transaction* txn, ObjectId object, Slice value);
// Bytes [offset, offset + bytes) of the value. Errors: corrupt_page.
Result<void> read_overflow(BufferPool& pool, ObjectId object, const OverflowRef& ref, size_t offset,
                           char* out, size_t bytes);
// The whole value. Errors: corrupt_page, out_of_memory.
Result<void> read_overflow(BufferPool& pool, ObjectId object, const OverflowRef& ref,
                           std::string& out);
// The value, or as much of it as `out` takes.
[[gnu::cold, gnu::noinline]] Result<void> read_overflow(BufferPool& pool, ObjectId object,
                                                        const OverflowRef& ref, ValueOut& out);
// Pages of the chain in order; checks OV-1.
Result<std::vector<PageId>> overflow_pages(BufferPool& pool, ObjectId object,
                                           const OverflowRef& ref);
// `txn` has just removed the only reference from a record: the chain is freed after its commit.
Result<void> release_overflow(Env& env, txn::Transaction& txn, ObjectId object, Slice ref);
// The pages of a chain that exists, in order. Reads only those that the reference does not list.
// Errors: corrupt_page, those of reading.
Result<std::vector<PageId>> listed_pages(Env& env, ObjectId object, Slice ref);
// Does the chain exist, or has it been freed?
Result<bool> overflow_exists(Env& env, ObjectId object, PageId first, uint64_t chain);
// Pages of a chain that a crash may have cut short, as far as it reaches.
Result<std::vector<PageId>> overflow_remains(Env& env, ObjectId object, PageId first,
                                             uint64_t chain);
// Frees pages of chains, given in the order of the chains, from the end: what a crash leaves still
// hangs on the first page.
Result<void> free_from_end(Env& env, std::vector<PageId> pages);
// Frees the chain if its first page still carries its number; otherwise it has been freed already.
Result<void> free_overflow(Env& env, ObjectId object, PageId first, uint64_t chain);

}  // namespace lockstep::sm
