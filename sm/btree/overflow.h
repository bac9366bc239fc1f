// overflow.h - values too large for a B-tree page: chains of overflow pages.
//
// Concepts   A record whose slot has the overflow bit holds an OverflowRef instead of its value. A
//            chain is written once, before a record refers to it, and never changed. An update
//            writes a new chain. Writing is a change of the transaction, whose rollback frees the
//            pages.
//            An operation that removes the reference from a record puts the old chain on the drop
//            list and gives it to the ghost cleaner. The cleaner frees the chain when the key's
//            lock is free and the record does not refer to it. This rule serves commit and rollback
//            alike. A ghost may refer to a chain that is gone.
// Layout     Behind the page header: u64 chain, u32 next page, u32 bytes here; data from offset 48.
//            The chain number comes from the log's end and the page that was reserved first.
// Invariants OV-1 A chain's pages carry its number, and their bytes sum up to the reference's
//                 bytes. [checked: read_overflow()]
//            OV-2 No two chains have the same number, also not one after the other. Else what is
//                 noted of a chain that a rollback has freed would free another one later, whose
//                 pages lie there now. [checked: sm_overflow_chain_test, simulator seed 24739]
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

// From a record's value; safe on any bytes.
inline OverflowRef overflow_ref(Slice value) {
    OverflowRef ref{kPageNone.value, 0, 0};
    if (value.size() == sizeof ref) std::memcpy(&ref, value.data(), sizeof ref);
    return ref;
}
inline Slice bytes_of(const OverflowRef& ref) {
    return {reinterpret_cast<const char*>(&ref), sizeof ref};
}

// Parks for space, pages and log. With `txn` null the pages are permanent, and the caller must be
// able to find them after a crash. On an error pages written so far are freed.
Result<OverflowRef> write_overflow(Env& env, txn::Transaction* txn, ObjectId object, Slice value);
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
// `txn` has removed the reference from the record of `key`: the chain is freed after the
// transaction has committed.
Result<void> release_overflow(Env& env, txn::Transaction& txn, ObjectId object, Slice key,
                              const OverflowRef& ref);
// Does the chain exist, or has it been freed?
Result<bool> overflow_exists(Env& env, ObjectId object, PageId first, uint64_t chain);
// Pages of a chain that a crash may have cut short, as far as it reaches.
Result<std::vector<PageId>> overflow_remains(Env& env, ObjectId object, PageId first,
                                             uint64_t chain);
// Frees the chain if its first page still carries its number; otherwise it has been freed already.
Result<void> free_overflow(Env& env, ObjectId object, PageId first, uint64_t chain);

}  // namespace lockstep::sm
