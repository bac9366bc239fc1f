// handles.h - the table behind the handles of the C interface: recognises those that have ended.
//
// Concepts   A handle is a number in the form of a pointer: place in the table, generation, kind.
//            No address of a user process looks like it. An entry is never freed, so a look at it
//            is safe with any number. A handle that has ended differs in its generation.
// States     free -> live (make) -> busy (claim) -> live (release); live or busy -> free (end), or
//            used up (HA-3).
// Invariants HA-1 An entry's generation grows each time it is made, so no two handles of a process
//            are equal. [checked: make()]
//            HA-2 The object of a busy entry is used by the claimer alone.
//            [test: CSession.OneCallOfASessionAtATime]
//            HA-3 A place whose generations are used up is not used again, since the next one would
//            be part of the kind. [checked: number()]
// Blocking   Never.
#pragma once

#include <atomic>
#include <cstdint>

#include <lockstep/types.h>

namespace lockstep::c {

enum class Kind : uint8_t { store = 1, txn, index, heap, cursor, report, feed };

struct alignas(kCacheLineBytes) HandleEntry {
    static constexpr uint64_t kBusy = 1ull << 63;

    // The handle if it lives, with kBusy if it is claimed; 0 if the entry is free.
    std::atomic<uint64_t> word{0};
    std::atomic<void*> object{nullptr};
    // Of a transaction: its user thread. Of a session: null, but while a body of lockstep_run_in()
    // runs its user thread. Of an index or heap: its store.
    // Of a report or feed: the handle of its store.
    std::atomic<const void*> owner{nullptr};
    std::atomic<uint64_t> link{
        0};  // of a cursor: its transaction's handle; of a report: what it sees; else: an id
    std::atomic<uint32_t> pins{0};  // of a store: calls that use it
    std::atomic<uint32_t> next_free{0};
    uint64_t generation = 0;  // written by make()

    // The handle lives, claimed or not.
    bool is(uint64_t handle) const {
        return (word.load(std::memory_order_acquire) & ~kBusy) == handle;
    }
    // Live to busy. False: it has ended, or is busy.
    bool claim(uint64_t handle) {
        return word.compare_exchange_strong(handle, handle | kBusy, std::memory_order_acq_rel);
    }
    void release(uint64_t handle) { word.store(handle, std::memory_order_release); }
};

inline uint64_t number_of(const void* handle) { return reinterpret_cast<uint64_t>(handle); }
template <class Handle>
Handle* handle_of(uint64_t number) {
    return reinterpret_cast<Handle*>(number);
}

// A live handle, or 0 if the table is full or no memory is left.
uint64_t make_handle(Kind kind, void* object, const void* owner = nullptr, uint64_t link = 0);
// Ends a handle that lives. Its object is the caller's.
void end_handle(uint64_t handle);
// The entry that a handle of this kind has or had; null if there never was such a handle.
HandleEntry* entry_of(const void* handle, Kind kind);

}  // namespace lockstep::c
