// stack.cc - slabs of guarded stacks.
#include "threads/thread/stack.h"

#include <errno.h>
#include <pthread.h>
#include <sys/mman.h>

#include <new>

#include "threads/base/check.h"
#include "threads/thread/switch.h"

#if __has_include(<valgrind/valgrind.h>)
#include <valgrind/valgrind.h>
#else
#define VALGRIND_STACK_REGISTER(start, end) 0u
#define VALGRIND_STACK_DEREGISTER(id) (void)(id)
#endif

namespace lockstep::threads {
namespace {
constexpr size_t kPage = 4096;
// Measured: strides of 128, 320 and 448 bytes avoid conflicts, 64 does not.
constexpr size_t kColourStride = 320;
constexpr size_t kSlabStacks = 64;
// A sanitizer's frames are several times as large.
size_t factor() { return switches_announced ? 4 : 1; }
constexpr size_t round_up(size_t n) { return (n + kPage - 1) / kPage * kPage; }
}  // namespace

bool Stack::guards(const void* address) const {
    DCHECK(base != nullptr && base < top);
    DCHECK(reinterpret_cast<uintptr_t>(base) > StackPool::kGuardBytes);
    const auto at = reinterpret_cast<uintptr_t>(address), end = reinterpret_cast<uintptr_t>(base);
    return at < end && end - at <= StackPool::kGuardBytes;
}

// The colour takes less than the page that a slot has for it.
size_t Stack::option_bytes() const {
    DCHECK(base != nullptr && top > base + kPage);
    return (bytes() - 1) / kPage * kPage / factor();
}

StackPool::StackPool(size_t stack_bytes, MappingCache* cache)
    : stack_bytes_(round_up(stack_bytes) * factor()),
      slot_bytes_(kGuardBytes + stack_bytes_ + kPage),
      cache_(cache) {
    DCHECK(stack_bytes >= kBytesMin && stack_bytes <= kBytesMax);
}

inline void StackPool::assert_state(const Stack& stack) const {
    DCHECK(reinterpret_cast<uintptr_t>(stack.base) % kPage == 0);  // above a guard
    DCHECK(reinterpret_cast<uintptr_t>(stack.top) % 64 == 0);
    DCHECK(stack.bytes() >= stack_bytes_ && stack.bytes() <= stack_bytes_ + kPage);  // SK-1
    DCHECK(stack.option_bytes() == stack_bytes_ / factor());
}

StackPool::~StackPool() {
    for (const Slab& slab : slabs_) {
        for (size_t i = 0; i < slab.count; ++i) {
            VALGRIND_STACK_DEREGISTER(slab.stacks[i].valgrind_id);
            forget_stack(slab.stacks[i]);
        }
        if (cache_ != nullptr && slab.count == kSlabStacks)
            cache_->give(MappingUse::stacks, slab.memory, slab.bytes);
        else munmap(slab.memory, slab.bytes);
        delete[] slab.stacks;
    }
}

Result<Stack*> StackPool::take() {
    {
        SpinGuard guard(lock_);
        if (free_ != nullptr) {
            Stack* stack = free_;
            free_ = stack->next;
            assert_state(*stack);
            return stack;
        }
    }
    return add_slab();
}

void StackPool::give(Stack* stack) {
    assert_state(*stack);
    SpinGuard guard(lock_);
    DCHECK(stack != free_);  // given back once
    stack->next = free_;
    free_ = stack;
}

// Makes the slots accessible above their guards. Returns how many it opened before the kernel
// refused: it limits the number of mappings.
size_t StackPool::opened(std::byte* memory, size_t count) const {
    DCHECK(memory != nullptr && slot_bytes_ > kGuardBytes + stack_bytes_);
    DCHECK(count > 0 && count <= kSlabStacks);
    for (size_t i = 0; i < count; ++i)
        if (mprotect(memory + i * slot_bytes_ + kGuardBytes, stack_bytes_ + kPage,
                     PROT_READ | PROT_WRITE) != 0)
            return i;
    return count;
}

size_t StackPool::slab_bytes() const {
    DCHECK(slot_bytes_ % kPage == 0);
    return kSlabStacks * slot_bytes_;
}

// Two concurrent callers may each add a slab; both slabs are used.
Result<Stack*> StackPool::add_slab() {
    const size_t bytes = slab_bytes();
    DCHECK(bytes > 0 && bytes % kPage == 0);
    void* memory = cache_ != nullptr ? cache_->take(MappingUse::stacks, bytes) : nullptr;
    const bool is_open = memory != nullptr;
    if (!is_open)  // what stays inaccessible is not charged as memory
        memory = mmap(nullptr, bytes, PROT_NONE,
                      MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_STACK, -1, 0);
    if (memory == MAP_FAILED)
        return fail_os(ErrorCode::out_of_memory, errno,
                       "memory for stacks: raise vm.max_map_count or RLIMIT_AS, or relax "
                       "vm.overcommit_memory",
                       bytes);
    auto* start = static_cast<std::byte*>(memory);
    const size_t count = is_open ? kSlabStacks : opened(start, kSlabStacks);
    DCHECK(count <= kSlabStacks);
    auto* stacks = count == 0 ? nullptr : new (std::nothrow) Stack[count];
    if (stacks == nullptr) {
        munmap(memory, bytes);
        return fail_os(ErrorCode::out_of_memory, ENOMEM,
                       count == 0 ? "stack: raise vm.max_map_count or RLIMIT_DATA, or relax "
                                    "vm.overcommit_memory"
                                  : "stack",
                       bytes);
    }
    SpinGuard guard(lock_);
    for (size_t i = 0; i < count; ++i) {
        Stack& stack = stacks[i];
        stack.base = start + i * slot_bytes_ + kGuardBytes;
        stack.top = start + (i + 1) * slot_bytes_ - (made_++ * kColourStride) % kPage;
        CHECK(stack.bytes() >= stack_bytes_);  // SK-1
        assert_state(stack);
        stack.valgrind_id = VALGRIND_STACK_REGISTER(stack.base, stack.top);
        if (i > 0) {
            stack.next = free_;
            free_ = &stack;
        }
    }
    slabs_.push_back({start, bytes, stacks, count});
    return &stacks[0];
}

Stack kernel_stack() {
    Stack stack;
    if (!switches_announced) return stack;
    pthread_attr_t attr;
    CHECK(pthread_getattr_np(pthread_self(), &attr) == 0);
    void* base = nullptr;
    size_t bytes = 0;
    CHECK(pthread_attr_getstack(&attr, &base, &bytes) == 0);
    pthread_attr_destroy(&attr);
    stack.base = static_cast<std::byte*>(base);
    stack.top = stack.base + bytes;
    stack.fiber = current_fiber();
    return stack;
}

}  // namespace lockstep::threads
