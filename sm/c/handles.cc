// handles.cc - the table of handles: chunks that are made on demand, and a list of free entries.
#include "sm/c/handles.h"

#include <new>

#include "threads/base/check.h"

namespace lockstep::c {

namespace {

constexpr uint32_t kPlaceBits = 24, kGenerationBits = 35;
constexpr uint32_t kChunk = 1024, kChunks = (1u << kPlaceBits) / kChunk;
static_assert(kPlaceBits + kGenerationBits + 4 == 63, "kBusy is the bit above the kind");
static_assert(sizeof(HandleEntry) == kCacheLineBytes);

// The process has one table: a stray number tells of no store.
constinit std::atomic<HandleEntry*> chunks[kChunks] = {};
constinit std::atomic<uint32_t> places_used{1};  // place 0 ends the free list
// First free place, and a count of changes above it, which tells a list that has changed.
constinit std::atomic<uint64_t> free_list{0};
constexpr uint64_t kChange = 1ull << 32;

uint64_t number(Kind kind, uint64_t generation, uint32_t place) {
    CHECK(generation != 0 && generation < 1ull << kGenerationBits);
    DCHECK(place != 0 && place < 1u << kPlaceBits);
    return static_cast<uint64_t>(kind) << (kPlaceBits + kGenerationBits) |
           generation << kPlaceBits | place;
}

HandleEntry* entry_at(uint32_t place) {
    DCHECK(place / kChunk < kChunks);
    HandleEntry* const chunk = chunks[place / kChunk].load(std::memory_order_acquire);
    return chunk != nullptr ? chunk + place % kChunk : nullptr;
}

uint32_t take_free() {
    uint64_t first = free_list.load(std::memory_order_acquire);
    for (;;) {
        const auto place = static_cast<uint32_t>(first);
        if (place == 0) return 0;
        const uint32_t next = entry_at(place)->next_free.load(std::memory_order_relaxed);
        const uint64_t changed = (first & ~(kChange - 1)) + kChange;
        if (free_list.compare_exchange_weak(first, changed | next, std::memory_order_acq_rel))
            return place;
    }
}

uint32_t take_fresh() {
    uint32_t place = places_used.load(std::memory_order_relaxed);
    do {
        if (place >= 1u << kPlaceBits) return 0;
    } while (!places_used.compare_exchange_weak(place, place + 1, std::memory_order_relaxed));
    auto& chunk = chunks[place / kChunk];
    if (chunk.load(std::memory_order_acquire) == nullptr) {
        auto* const made = new (std::nothrow) HandleEntry[kChunk];
        if (made == nullptr) return 0;
        HandleEntry* none = nullptr;
        if (!chunk.compare_exchange_strong(none, made, std::memory_order_acq_rel)) delete[] made;
    }
    return place;
}

}  // namespace

uint64_t make_handle(Kind kind, void* object, const void* owner, uint64_t link) {
    DCHECK(object != nullptr);
    uint32_t place = take_free();
    if (place == 0) place = take_fresh();
    if (place == 0) return 0;
    HandleEntry& entry = *entry_at(place);
    CHECK(entry.word.load(std::memory_order_relaxed) == 0);  // HA-1
    const uint64_t handle = number(kind, ++entry.generation, place);
    entry.object.store(object, std::memory_order_relaxed);
    entry.owner.store(owner, std::memory_order_relaxed);
    entry.link.store(link, std::memory_order_relaxed);
    entry.release(handle);
    return handle;
}

void end_handle(uint64_t handle) {
    const auto place = static_cast<uint32_t>(handle & ((1u << kPlaceBits) - 1));
    HandleEntry& entry = *entry_at(place);
    DCHECK(entry.is(handle));
    entry.word.store(0, std::memory_order_release);
    if (entry.generation + 1 == 1ull << kGenerationBits) return;  // HA-3
    uint64_t first = free_list.load(std::memory_order_relaxed);
    do {
        entry.next_free.store(static_cast<uint32_t>(first), std::memory_order_relaxed);
    } while (!free_list.compare_exchange_weak(first, ((first & ~(kChange - 1)) + kChange) | place,
                                              std::memory_order_acq_rel));
}

HandleEntry* entry_of(const void* handle, Kind kind) {
    const uint64_t given = number_of(handle);
    if (given >> (kPlaceBits + kGenerationBits) != static_cast<uint64_t>(kind)) return nullptr;
    const auto place = static_cast<uint32_t>(given & ((1u << kPlaceBits) - 1));
    return place != 0 ? entry_at(place) : nullptr;
}

}  // namespace lockstep::c
