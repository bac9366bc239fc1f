// stack.h - stacks of user threads: pooled, guarded and coloured.
//
// Concepts   Stacks are cut from slabs of address space. The system provides memory on first touch,
//            and it stays with the stack. A guard lies below each stack, so an overflow is a
//            fault and not silent damage. It is larger than ordinary frames: a function may write
//            the lowest bytes of its frame first. With equal offsets in 4 KB pages, all threads
//            would compete for the same sets of the L1 data cache. Stack i therefore begins
//            320 * i bytes (mod 4096) lower.
// Layout     One slot, upwards: guard | stack_bytes usable | one page for the colour. A guard is
//            inaccessible address space: it takes no memory, and one mapping whatever its size.
// Invariants SK-1 Every stack has at least the configured bytes between its guard and its top.
//            [checked: add_slab]
//            SK-2 A stack is given back only when nothing runs on it. [Worker::reap]
// Blocking   take() may make system calls when the pool is empty. It does not hold the lock
//            meanwhile.
#pragma once

#include <cstddef>
#include <vector>

#include <lockstep/result.h>
#include "threads/base/mapping_cache.h"
#include "threads/base/spin_lock.h"

namespace lockstep::threads {

struct Stack {
    std::byte* base = nullptr;  // lowest usable byte, just above the guard
    std::byte* top = nullptr;   // first byte above; 64-byte aligned, coloured
    Stack* next = nullptr;      // free list
    void* fiber = nullptr;      // TSan's handle of the context here, else null
    unsigned valgrind_id = 0;
    size_t bytes() const { return static_cast<size_t>(top - base); }
    // Does `address` lie in the guard?
    bool guards(const void* address) const;
    // The bytes that the pool was asked for, in whole pages.
    size_t option_bytes() const;
};

class StackPool {
public:
    static constexpr size_t kBytesMin = 16 * 1024, kBytesMax = 64 * 1024 * 1024;
    // A frame up to this size cannot step over the guard. A guard of 1 MB would spread the stacks
    // over three times as many page tables.
    static constexpr size_t kGuardBytes = 256 * 1024;

    // Rounded up to whole pages. Slabs come from `cache` and go there, if there is one.
    explicit StackPool(size_t stack_bytes, MappingCache* cache = nullptr);
    ~StackPool();  // all stacks must be idle
    StackPool(const StackPool&) = delete;
    StackPool& operator=(const StackPool&) = delete;

    // The most recently used idle stack, or a new one. Error: out_of_memory. Any kernel thread.
    Result<Stack*> take();
    void give(Stack* stack);

private:
    struct Slab {
        std::byte* memory;
        size_t bytes;
        Stack* stacks;
        size_t count;
    };
    [[gnu::cold]] Result<Stack*> add_slab();
    size_t opened(std::byte* memory, size_t count) const;
    size_t slab_bytes() const;
    void assert_state(const Stack& stack) const;  // of a stack of this pool

    const size_t stack_bytes_;
    const size_t slot_bytes_;
    MappingCache* const cache_;
    SpinLock lock_;
    Stack* free_ = nullptr;    // under lock_
    std::vector<Slab> slabs_;  // under lock_
    size_t made_ = 0;          // under lock_: stacks so far, determines the colour
};

// The calling kernel thread's stack: base and top for the sanitizers; empty without one.
Stack kernel_stack();

}  // namespace lockstep::threads
