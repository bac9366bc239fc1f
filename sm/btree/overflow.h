// overflow.h - values too large for a B-tree page: chains of overflow pages.
//
// Concepts   A record whose slot has the overflow bit holds an OverflowRef instead of its value. A
//            chain is written once, before a record refers to it, and never changed: an update
//            writes a new chain. Writing is a change of the transaction, whose rollback frees the
//            pages. Whoever takes the reference out of a record puts the old chain on the drop list
//            and gives it to the ghost cleaner, which frees it when the key's lock is free and the
//            record does not refer to it (so it works for commit and rollback alike). A ghost may
//            refer to a chain that is gone.
// Layout     behind the page header: u64 chain, u32 next page, u32 bytes here; data from offset 48.
//            The chain number is the log's tail when writing began: with the first page's number it
//            names a chain for ever.
// Invariants OV-1 A chain's pages carry its number and sum up to the reference's bytes. [checked:
// read_overflow()]
#pragma once

#include <string>
#include <vector>

#include "sm/change/page_change.h"
#include "sm/core/env.h"
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

// Parks for space, pages and log. `txn` null: for good, and the caller must know how to find the
// pages after a crash. On an error pages written so far are freed.
Result<OverflowRef> write_overflow(Env& env, txn::Transaction* txn, ObjectId store, Slice value);
// Bytes [offset, offset + bytes) of the value. Errors: corrupt_page.
Result<void> read_overflow(BufferPool& pool, ObjectId store, const OverflowRef& ref, size_t offset,
                           char* out, size_t bytes);
// The whole value. Errors: corrupt_page, out_of_memory.
Result<void> read_overflow(BufferPool& pool, ObjectId store, const OverflowRef& ref,
                           std::string& out);
// Pages of the chain in order; checks OV-1.
Result<std::vector<PageId>> overflow_pages(BufferPool& pool, ObjectId store,
                                           const OverflowRef& ref);
// The reference has been taken out of the record of `key` by `txn`: the chain goes when the
// transaction has committed.
Result<void> release_overflow(Env& env, txn::Transaction& txn, ObjectId store, Slice key,
                              const OverflowRef& ref);
// Does the chain exist, or has it been freed?
Result<bool> overflow_exists(Env& env, ObjectId store, PageId first, uint64_t chain);
// Pages of a chain of which a crash may have left only the beginning, as far as it goes.
Result<std::vector<PageId>> overflow_remains(Env& env, ObjectId store, PageId first,
                                             uint64_t chain);
// Frees the chain if its first page still carries its number; otherwise it has been freed already.
Result<void> free_overflow(Env& env, ObjectId store, PageId first, uint64_t chain);

}  // namespace lockstep::sm
