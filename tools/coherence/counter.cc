// counter.cc - what the compiler calls at each access, in place of the thread sanitizer's runtime,
// and what the engine calls (threads/base/coherence.h).
//
// Concepts   A program compiled with -fsanitize=thread calls __tsan_read8() and so on. The calls
//            here do the operation and tell the model of the caches. Not seen: assembly, the C
//            library except for copies of memory, the kernel.
#include "tools/coherence/counter.h"

#include <pthread.h>
#include <time.h>

#include <cstring>
#include <mutex>

namespace lockstep::coherence {
namespace {

// Never destroyed: threads of the program may outlive main(). Made at first use, as constructors
// of the program call the counter.
struct Counter {
    Caches caches;
    Turns turns;
    uint64_t locked = 0;
    bool counting = false;
    std::mutex names_lock;  // before the turns start
};
Counter& counter() {
    static Counter* const made = new Counter;
    return *made;
}

[[gnu::noinline]] bool enters() {
    Turns::Self& self = Turns::self;
    if (self.worker < 0 || self.inside || self.asleep || !counter().turns.started()) return false;
    counter().turns.enter();
    return true;
}

// This program's own accesses are not the engine's.
struct Inside {
    Inside() : before(Turns::self.inside) { Turns::self.inside = true; }
    ~Inside() { Turns::self.inside = before; }
    Inside(const Inside&) = delete;
    Inside& operator=(const Inside&) = delete;
    const bool before;
};

inline void touch(const volatile void* at, size_t bytes, Access kind, void* pc) {
    Turns::Self& self = Turns::self;
    if (self.inside) return;
    if (!self.in_round && !enters()) return;
    const Inside inside;
    if (--self.left <= 0) [[unlikely]]
        counter().turns.hand_on();
    counter().caches.access(static_cast<unsigned>(self.worker), reinterpret_cast<uint64_t>(at),
                            bytes, kind, reinterpret_cast<uint64_t>(pc));
}
inline void touch_locked(const volatile void* at, size_t bytes, void* pc) {
    if (Turns::self.in_round && counter().counting) ++counter().locked;
    touch(at, bytes, Access::write, pc);
}

}  // namespace

void start_turns(const TurnSettings& settings) { counter().turns.start(settings); }
void begin_counting() {
    counter().locked = 0;
    counter().caches.begin();
    counter().counting = true;
}
void end_counting() {
    counter().counting = false;
    counter().caches.end();
}
const Caches& counted_caches() { return counter().caches; }
uint64_t locked_operations() { return counter().locked; }

}  // namespace lockstep::coherence

using lockstep::coherence::Access;
using lockstep::coherence::counter;
using lockstep::coherence::Inside;
using lockstep::coherence::touch;
using lockstep::coherence::touch_locked;
using lockstep::coherence::Turns;

#define PC __builtin_return_address(0)
#define EXPORT extern "C" __attribute__((noinline))

// --- what the engine calls
EXPORT void coherence_name(const char* structure, const char* field, const void* at, size_t bytes,
                           size_t element, lockstep::coherence::ObjectOf object_of) {
    const Inside inside;
    const std::lock_guard guard(counter().names_lock);
    const auto from = reinterpret_cast<uint64_t>(at);
    counter().caches.names().add({structure, field, from, from + bytes, element, object_of});
}
EXPORT void coherence_prefetch(const void* at, bool to_write) {
    touch(at, 1, to_write ? Access::prefetch_to_write : Access::prefetch, PC);
}
// A pause of the processor lasts about as long as so many accesses.
EXPORT void coherence_pause() {
    Turns::Self& self = Turns::self;
    if (!self.in_round || self.inside) return;
    self.left -= 20;
    if (self.left <= 0) counter().turns.hand_on();
}
EXPORT void coherence_attach(unsigned worker) { counter().turns.attach(static_cast<int>(worker)); }
EXPORT void coherence_detach() {
    counter().turns.leave();
    Turns::self.worker = -1;
}
EXPORT void coherence_sleeps() {
    Turns::self.asleep = true;
    counter().turns.leave();
}
EXPORT void coherence_wakes() { Turns::self.asleep = false; }

// --- what the compiler calls
EXPORT void __tsan_init() {}
EXPORT void __tsan_func_entry(void*) {}
EXPORT void __tsan_func_exit() {}
#define PLAIN(n)                                                                       \
    EXPORT void __tsan_read##n(void* p) { touch(p, n, Access::read, PC); }             \
    EXPORT void __tsan_write##n(void* p) { touch(p, n, Access::write, PC); }           \
    EXPORT void __tsan_unaligned_read##n(void* p) { touch(p, n, Access::read, PC); }   \
    EXPORT void __tsan_unaligned_write##n(void* p) { touch(p, n, Access::write, PC); } \
    EXPORT void __tsan_volatile_read##n(void* p) { touch(p, n, Access::read, PC); }    \
    EXPORT void __tsan_volatile_write##n(void* p) { touch(p, n, Access::write, PC); }
PLAIN(1) PLAIN(2) PLAIN(4) PLAIN(8) PLAIN(16) EXPORT void __tsan_read_range(void* p, long n) {
    touch(p, size_t(n), Access::read, PC);
}
EXPORT void __tsan_write_range(void* p, long n) { touch(p, size_t(n), Access::write, PC); }
EXPORT void __tsan_vptr_update(void** p, void*) { touch(p, 8, Access::write, PC); }
EXPORT void __tsan_vptr_read(void** p) { touch(p, 8, Access::read, PC); }
#define EXCHANGES(bits, T, kind)                                                                \
    EXPORT bool __tsan_atomic##bits##_compare_exchange_##kind(volatile T* p, T* e, T v, int,    \
                                                              int) {                            \
        touch_locked(p, sizeof(T), PC);                                                         \
        return __atomic_compare_exchange_n(p, e, v, false, __ATOMIC_SEQ_CST, __ATOMIC_SEQ_CST); \
    }
#define CHANGES(bits, T, name)                                             \
    EXPORT T __tsan_atomic##bits##_fetch_##name(volatile T* p, T v, int) { \
        touch_locked(p, sizeof(T), PC);                                    \
        return __atomic_fetch_##name(p, v, __ATOMIC_SEQ_CST);              \
    }
#define ATOMIC(bits, T)                                                                      \
    EXPORT T __tsan_atomic##bits##_load(const volatile T* p, int) {                          \
        touch(p, sizeof(T), Access::read, PC);                                               \
        return __atomic_load_n(p, __ATOMIC_SEQ_CST);                                         \
    }                                                                                        \
    EXPORT void __tsan_atomic##bits##_store(volatile T* p, T v, int) {                       \
        touch(p, sizeof(T), Access::write, PC);                                              \
        __atomic_store_n(p, v, __ATOMIC_SEQ_CST);                                            \
    }                                                                                        \
    EXPORT T __tsan_atomic##bits##_exchange(volatile T* p, T v, int) {                       \
        touch_locked(p, sizeof(T), PC);                                                      \
        return __atomic_exchange_n(p, v, __ATOMIC_SEQ_CST);                                  \
    }                                                                                        \
    EXPORT T __tsan_atomic##bits##_compare_exchange_val(volatile T* p, T e, T v, int, int) { \
        touch_locked(p, sizeof(T), PC);                                                      \
        __atomic_compare_exchange_n(p, &e, v, false, __ATOMIC_SEQ_CST, __ATOMIC_SEQ_CST);    \
        return e;                                                                            \
    }                                                                                        \
    EXCHANGES(bits, T, strong)                                                               \
    EXCHANGES(bits, T, weak)                                                                 \
    CHANGES(bits, T, add)                                                                    \
    CHANGES(bits, T, sub)                                                                    \
    CHANGES(bits, T, and)                                                                    \
    CHANGES(bits, T, or)                                                                     \
    CHANGES(bits, T, xor)                                                                    \
    CHANGES(bits, T, nand)
ATOMIC(8, uint8_t)
ATOMIC(16, uint16_t)
ATOMIC(32, uint32_t) ATOMIC(64, uint64_t) EXPORT void __tsan_atomic_thread_fence(int) {
    __atomic_thread_fence(__ATOMIC_SEQ_CST);
}
EXPORT void __tsan_atomic_signal_fence(int) {}

// --- what the linker puts before the C library (--wrap)
extern "C" {
void* __real_memcpy(void*, const void*, size_t);
void* __real_memmove(void*, const void*, size_t);
void* __real_memset(void*, int, size_t);
int __real_memcmp(const void*, const void*, size_t);
int __real_pthread_mutex_lock(pthread_mutex_t*);
int __real_clock_gettime(clockid_t, timespec*);
}
EXPORT void* __wrap_memcpy(void* to, const void* from, size_t n) {
    touch(from, n, Access::read, PC);
    touch(to, n, Access::write, PC);
    return __real_memcpy(to, from, n);
}
EXPORT void* __wrap_memmove(void* to, const void* from, size_t n) {
    touch(from, n, Access::read, PC);
    touch(to, n, Access::write, PC);
    return __real_memmove(to, from, n);
}
EXPORT void* __wrap_memset(void* to, int v, size_t n) {
    touch(to, n, Access::write, PC);
    return __real_memset(to, v, n);
}
EXPORT int __wrap_memcmp(const void* a, const void* b, size_t n) {
    touch(a, n, Access::read, PC);
    touch(b, n, Access::read, PC);
    return __real_memcmp(a, b, n);
}
// The worker that holds the mutex may have handed the turn on: it must get it back.
EXPORT int __wrap_pthread_mutex_lock(pthread_mutex_t* mutex) {
    if (!Turns::self.in_round || Turns::self.inside) return __real_pthread_mutex_lock(mutex);
    if (pthread_mutex_trylock(mutex) == 0) return 0;
    counter().turns.leave();
    return __real_pthread_mutex_lock(mutex);
}
EXPORT int __wrap_clock_gettime(clockid_t id, timespec* t) {
    if (id != CLOCK_MONOTONIC) return __real_clock_gettime(id, t);
    const uint64_t now = counter().turns.now();
    t->tv_sec = static_cast<time_t>(now / 1'000'000'000);
    t->tv_nsec = static_cast<long>(now % 1'000'000'000);
    return 0;
}
