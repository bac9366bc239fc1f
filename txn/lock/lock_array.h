// lock_array.h - where the bucket of a lock name is: an array that grows and shrinks in place.
//
// Concepts   The array has address space for the largest table, of which the first 2^depth buckets
//            are in use. A name belongs to the bucket whose number is its bits from kNameShift on,
//            modulo 2^depth. So doubling splits bucket i into i and i + 2^depth, and no bucket
//            moves in memory. Protocol and invariants: lock_resize.cc.
#pragma once

#include <atomic>
#include <bit>
#include <cstdint>

#include <lockstep/types.h>
#include "threads/base/check.h"

namespace lockstep::txn {

struct LockBucket;  // one cache line of the table, lock_bucket.h

struct alignas(kCacheLineBytes) LockArray {
    static constexpr unsigned kNameShift = 6;  // a bucket has 64 bytes
    static constexpr uint32_t kDepthMax = 26;  // offsets have 32 bits
    static constexpr unsigned kDepthAt = 8;    // in the header of a bucket

    // The offsets of 2^depth buckets in bytes, as a mask.
    static constexpr uint64_t mask_of(uint32_t depth) {
        return ((uint64_t{1} << depth) - 1) << kNameShift;
    }
    // Low half: mask_of(depth). High half: the low 16 bits of the header of an empty, unlatched
    // bucket of this depth.
    static constexpr uint64_t shape_of(uint32_t depth) {
        return mask_of(depth) | uint64_t{depth} << (32 + kDepthAt);
    }
    static constexpr uint16_t empty_header(uint64_t shape) {
        return static_cast<uint16_t>(shape >> 32);
    }

    LockBucket& at(uint64_t offset) const {
        return *reinterpret_cast<LockBucket*>(reinterpret_cast<char*>(buckets) + offset);
    }
    // The bucket that `name` has if the table is of this shape.
    LockBucket& bucket(uint64_t shape, uint64_t name) const {
        return at(static_cast<uint32_t>(shape) & name);
    }
    uint64_t offset_of(const LockBucket& bucket) const {
        return static_cast<uint64_t>(reinterpret_cast<const char*>(&bucket) -
                                     reinterpret_cast<const char*>(buckets));
    }

    LockBucket* buckets = nullptr;  // constant
    // Of the whole table, or of most of it while it changes. A hint: the header of a bucket says
    // which names it has (LT-1).
    std::atomic<uint64_t> shape{0};
};

}  // namespace lockstep::txn
