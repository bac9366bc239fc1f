// switch.cc - makes contexts, and tells sanitizers about switches.
#include "threads/thread/switch.h"

#include <cstdint>

#include "threads/base/check.h"

// Functions of the sanitizers' interface (<sanitizer/common_interface_defs.h>, asan_interface.h,
// tsan_interface.h). Null without the sanitizer.
// NOLINTBEGIN(bugprone-reserved-identifier,readability-identifier-naming)
extern "C" {
[[gnu::weak]] void __sanitizer_start_switch_fiber(void** fake_frames, const void* base,
                                                  size_t bytes);
[[gnu::weak]] void __sanitizer_finish_switch_fiber(void* fake_frames, const void** base,
                                                   size_t* bytes);
[[gnu::weak]] void __asan_unpoison_memory_region(const volatile void* base, size_t bytes);
[[gnu::weak]] void* __tsan_get_current_fiber();
[[gnu::weak]] void* __tsan_create_fiber(unsigned flags);
[[gnu::weak]] void __tsan_destroy_fiber(void* fiber);
[[gnu::weak]] void __tsan_switch_to_fiber(void* fiber, unsigned flags);
}
// NOLINTEND(bugprone-reserved-identifier,readability-identifier-naming)

#define LOCKSTEP_SWITCHES __attribute__((no_sanitize("address", "thread"), noinline))

namespace lockstep::threads {

using boost::context::detail::jump_fcontext;
using boost::context::detail::make_fcontext;

namespace {

[[gnu::always_inline]] inline bool has_asan() { return __sanitizer_start_switch_fiber != nullptr; }
[[gnu::always_inline]] inline bool has_tsan() { return __tsan_switch_to_fiber != nullptr; }

// `fake_frames`: where ASan keeps what it has of the running context; null if that ends (SW-2).
// Inlined: clang tells TSan also of calls of functions that are not sanitized, and the return from
// this one would count on the other fiber.
[[gnu::always_inline]] inline void tell_switch(void** fake_frames, Stack& to_stack) {
    DCHECK(to_stack.base < to_stack.top && (!has_tsan() || to_stack.fiber != nullptr));
    if (has_asan()) __sanitizer_start_switch_fiber(fake_frames, to_stack.base, to_stack.bytes());
    if (has_tsan()) __tsan_switch_to_fiber(to_stack.fiber, 0);
}
[[gnu::always_inline]] inline void tell_arrival(void* fake_frames) {
    if (has_asan()) __sanitizer_finish_switch_fiber(fake_frames, nullptr, nullptr);
}

}  // namespace

const bool switches_announced = has_asan() || has_tsan();

void* make_context(Stack& stack, ContextEntry entry) {
    DCHECK(reinterpret_cast<uintptr_t>(stack.top) % 64 == 0);
    DCHECK(stack.base != nullptr && stack.base < stack.top);
    if (switches_announced) [[unlikely]] {
        forget_stack(stack);  // of an abandoned thread
        if (has_tsan()) stack.fiber = __tsan_create_fiber(0);
    }
    return make_fcontext(stack.top, stack.bytes(), entry);
}

void forget_stack(Stack& stack) {
    DCHECK(stack.fiber == nullptr || has_tsan());
    if (has_asan()) __asan_unpoison_memory_region(stack.base, stack.bytes());
    if (stack.fiber != nullptr) __tsan_destroy_fiber(stack.fiber);
    stack.fiber = nullptr;
}

void* current_fiber() { return has_tsan() ? __tsan_get_current_fiber() : nullptr; }

LOCKSTEP_SWITCHES void arrived(Transfer transfer) {
    DCHECK(transfer.data != nullptr && transfer.fctx != nullptr);  // who left, and where it saves
    if (switches_announced) [[unlikely]]
        tell_arrival(nullptr);
    *static_cast<void**>(transfer.data) = transfer.fctx;
#ifdef __aarch64__
    FloatModes::set_default();
#endif
}

LOCKSTEP_SWITCHES void switch_announced(void** save, void* to, Stack& to_stack) {
    DCHECK(switches_announced && save != nullptr && to != nullptr);
    void* fake_frames = nullptr;
    tell_switch(&fake_frames, to_stack);
#ifdef __aarch64__
    const FloatModes modes;
#endif
    const Transfer from = jump_fcontext(to, save);
    tell_arrival(fake_frames);
    *static_cast<void**>(from.data) = from.fctx;
}

LOCKSTEP_SWITCHES void switch_last(void* to, Stack& to_stack) {
    DCHECK(to != nullptr);
    void* nowhere = nullptr;  // on the ending thread's stack, which stays mapped
    if (switches_announced) [[unlikely]]
        tell_switch(nullptr, to_stack);  // SW-2
    jump_fcontext(to, &nowhere);
    __builtin_unreachable();
}

}  // namespace lockstep::threads
