// switch.cc - makes contexts, and tells sanitizers about switches.
#include "threads/thread/switch.h"

#include <cstdint>

#include "threads/base/check.h"

#ifdef LOCKSTEP_TSAN
#include <sanitizer/tsan_interface.h>
#endif
#ifdef LOCKSTEP_ASAN
#include <sanitizer/asan_interface.h>
#include <sanitizer/common_interface_defs.h>
#endif

namespace lockstep::threads {

using boost::context::detail::jump_fcontext;
using boost::context::detail::make_fcontext;

void* make_context(Stack& stack, ContextEntry entry) {
    DCHECK(reinterpret_cast<uintptr_t>(stack.top) % 64 == 0);
    DCHECK(stack.base != nullptr && stack.base < stack.top);
#ifdef LOCKSTEP_ASAN
    // Unpoisons the frames of an abandoned thread.
    __asan_unpoison_memory_region(stack.base, stack.bytes());
#endif
#ifdef LOCKSTEP_TSAN
    forget_stack(stack);
    stack.fiber = __tsan_create_fiber(0);
#endif
    return make_fcontext(stack.top, stack.bytes(), entry);
}

void forget_stack(Stack& stack) {
#ifdef LOCKSTEP_TSAN
    if (stack.fiber != nullptr) __tsan_destroy_fiber(stack.fiber);
#endif
    stack.fiber = nullptr;
}

void* current_fiber() {
#ifdef LOCKSTEP_TSAN
    return __tsan_get_current_fiber();
#else
    return nullptr;
#endif
}

#ifdef LOCKSTEP_ASAN
[[gnu::noinline]] __attribute__((no_sanitize_address)) void arrived(Transfer transfer) {
    __sanitizer_finish_switch_fiber(nullptr, nullptr, nullptr);
    *static_cast<void**>(transfer.data) = transfer.fctx;
}

[[gnu::noinline]] __attribute__((no_sanitize_address)) void switch_context(void** save, void* to,
                                                                           Stack& to_stack) {
    void* fake_frames = nullptr;
    __sanitizer_start_switch_fiber(&fake_frames, to_stack.base, to_stack.bytes());
    const Transfer from = jump_fcontext(to, save);
    __sanitizer_finish_switch_fiber(fake_frames, nullptr, nullptr);
    *static_cast<void**>(from.data) = from.fctx;
}

[[gnu::noinline]] __attribute__((no_sanitize_address)) void switch_last(void* to, Stack& to_stack) {
    void* nowhere = nullptr;
    __sanitizer_start_switch_fiber(nullptr, to_stack.base, to_stack.bytes());  // SW-2
    jump_fcontext(to, &nowhere);
    __builtin_unreachable();
}
#elif defined(LOCKSTEP_TSAN)
[[gnu::noinline]] __attribute__((no_sanitize("thread"))) void arrived(Transfer transfer) {
    *static_cast<void**>(transfer.data) = transfer.fctx;
}

[[gnu::noinline]] __attribute__((no_sanitize("thread"))) void switch_context(void** save, void* to,
                                                                             Stack& to_stack) {
    __tsan_switch_to_fiber(to_stack.fiber, 0);
    const Transfer from = jump_fcontext(to, save);
    *static_cast<void**>(from.data) = from.fctx;
}

[[gnu::noinline]] __attribute__((no_sanitize("thread"))) void switch_last(void* to,
                                                                          Stack& to_stack) {
    void* nowhere = nullptr;
    __tsan_switch_to_fiber(to_stack.fiber, 0);
    jump_fcontext(to, &nowhere);
    __builtin_unreachable();
}
#else
void arrived(Transfer transfer) {
    DCHECK(transfer.data != nullptr && transfer.fctx != nullptr);  // who left, and where it saves
    *static_cast<void**>(transfer.data) = transfer.fctx;
}

void switch_last(void* to, Stack&) {
    DCHECK(to != nullptr);
    void* nowhere = nullptr;  // on the ending thread's stack, which stays mapped
    jump_fcontext(to, &nowhere);
    __builtin_unreachable();
}
#endif

}  // namespace lockstep::threads
