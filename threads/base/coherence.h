// coherence.h - what the counter of cache-line transfers must be told; nothing in a normal build.
//
// Concepts   In a build with LOCKSTEP_COHERENCE each access to memory calls tools/coherence, which
//            counts the lines that move between workers. Objects tell it here where they lie and
//            what they are called. Workers tell it when their kernel threads run and sleep. What
//            the compiler does not instrument, prefetches and pauses, is reported by hints.h.
// Blocking   sleeps() and wakes() let other workers run in such a build; the rest does not block.
#pragma once

#include <cstddef>
#include <cstdint>

namespace lockstep::coherence {

// The object (an index's or heap's number) that the memory at `at` serves at this moment.
using ObjectOf = uint32_t (*)(const void* at);

}  // namespace lockstep::coherence

#ifdef LOCKSTEP_COHERENCE

extern "C" {
void coherence_name(const char* structure, const char* field, const void* at, size_t bytes,
                    size_t element, lockstep::coherence::ObjectOf object_of);
void coherence_prefetch(const void* at, bool to_write);
void coherence_pause();
void coherence_attach(unsigned worker);
void coherence_detach();
void coherence_sleeps();
void coherence_wakes();
}
namespace lockstep::coherence {
// Names `bytes` of memory. Of ranges that contain an address, the one named last counts. `element`:
// bytes of an array's elements, so that places in them are told apart; 0: no array. `structure` is
// a static string.
inline void name(const char* structure, const void* at, size_t bytes, size_t element = 0,
                 ObjectOf object_of = nullptr) {
    coherence_name(structure, nullptr, at, bytes, element, object_of);
}
// Names a field of a structure. Both names are static strings.
template <class T>
void name_field(const char* structure, const char* field, const T& value) {
    coherence_name(structure, field, &value, sizeof(T), 0, nullptr);
}
inline void prefetched(const void* at, bool to_write) { coherence_prefetch(at, to_write); }
inline void paused() { coherence_pause(); }
// The calling kernel thread is worker `index` from now until detach().
inline void attach(unsigned index) { coherence_attach(index); }
inline void detach() { coherence_detach(); }
// Around a system call in which the worker sleeps.
inline void sleeps() { coherence_sleeps(); }
inline void wakes() { coherence_wakes(); }
}  // namespace lockstep::coherence

#else

namespace lockstep::coherence {
inline void name(const char*, const void*, size_t, size_t = 0, ObjectOf = nullptr) {}
template <class T>
void name_field(const char*, const char*, const T&) {}
inline void prefetched(const void*, bool) {}
inline void paused() {}
inline void attach(unsigned) {}
inline void detach() {}
inline void sleeps() {}
inline void wakes() {}
}  // namespace lockstep::coherence

#endif
