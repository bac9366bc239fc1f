// lock_pool.h - pools of small objects that are never freed before the pool is destroyed.
//
// Concepts   Free objects form a list through one of their own fields. Slabs of a few kilobytes
//            supply it. An object keeps its type for ever, so a stale pointer still points to an
//            object of that type. The deadlock search relies on this.
// Invariants LK-10 A pool's memory returns to the system only in its destructor.
// Blocking   Spins; get() calls the allocator only when a slab is used up.
#pragma once

#include <cstdlib>
#include <new>

#include <lockstep/types.h>
#include "threads/base/check.h"
#include "threads/base/spin_lock.h"

namespace lockstep::txn {

template <class T, T* T::*Link, size_t kSlabBytes = 16 * 1024>
class LockPool {
    static_assert(alignof(T) == kCacheLineBytes && sizeof(T) % kCacheLineBytes == 0);
    static_assert(sizeof(T) + kCacheLineBytes <= kSlabBytes);  // behind the slab's header

public:
    LockPool() = default;
    LockPool(const LockPool&) = delete;
    LockPool& operator=(const LockPool&) = delete;
    ~LockPool() {
        while (slabs_) {
            Slab* before = slabs_->before;
            std::free(slabs_);
            slabs_ = before;
        }
    }

    // Null if memory ran out. Fields hold what the last user left, except the link.
    T* get() {
        const SpinGuard guard(latch_);
        if (!free_ && !grow()) [[unlikely]]
            return nullptr;
        T* taken = free_;
        DCHECK(taken != nullptr && taken->*Link != taken);
        free_ = taken->*Link;
        taken->*Link = nullptr;
        return taken;
    }
    void put(T* object) {
        DCHECK(reinterpret_cast<uintptr_t>(object) % kCacheLineBytes == 0);
        const SpinGuard guard(latch_);
        DCHECK(object != free_);  // given back once
        object->*Link = free_;
        free_ = object;
    }
    size_t memory_bytes() const {
        const SpinGuard guard(latch_);
        return slab_count_ * kSlabBytes;
    }
    // Objects that were taken and not given back. Walks all others: for checks.
    size_t in_use() const {
        const SpinGuard guard(latch_);
        size_t free = 0;
        for (const T* at = free_; at != nullptr; at = at->*Link) ++free;
        DCHECK(free <= slab_count_ * kPerSlab);
        return slab_count_ * kPerSlab - free;
    }

private:
    struct alignas(kCacheLineBytes) Slab {
        Slab* before;
    };
    static constexpr size_t kPerSlab = (kSlabBytes - sizeof(Slab)) / sizeof(T);

    [[gnu::cold, gnu::noinline]] bool grow() {
        void* memory = std::aligned_alloc(kCacheLineBytes, kSlabBytes);
        if (!memory) return false;
        slabs_ = new (memory) Slab{slabs_};
        ++slab_count_;
        char* at = static_cast<char*>(memory) + sizeof(Slab);
        for (char* end = static_cast<char*>(memory) + kSlabBytes; at + sizeof(T) <= end;
             at += sizeof(T)) {
            T* object = new (at) T;
            object->*Link = free_;
            free_ = object;
        }
        return true;
    }

    mutable SpinLock latch_;
    T* free_ = nullptr;      // under latch_
    Slab* slabs_ = nullptr;  // under latch_
    size_t slab_count_ = 0;  // under latch_
};

}  // namespace lockstep::txn
