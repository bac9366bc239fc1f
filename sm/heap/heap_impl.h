// heap_impl.h - what the parts of the heap file share; private to heap_*.cc.
//
// Concepts   Space is found in three steps. The first is the worker's own insert page. The second
//            is a page among the candidates in memory. They are filled from the map pages once,
//            then by each thread that leaves or empties a page. The third is a new page. The class
//            in the map is a hint, checked again under the page's latch.
// Invariants HF-4 A page is the insert page of at most one worker. [kept by: find_page(), extend()]
//            HF-5 Several data pages are latched in ascending order of their numbers. A map page is
//                 latched only while no data page is held, the space map last. A thread never waits
//                 for a lock under a latch.
//            HF-6 Undo restores state and bytes of a slot; capacity and place may differ.
#pragma once

#include <deque>

#include "sm/change/page_change.h"
#include "sm/heap/heap_file.h"
#include "sm/heap/heap_page.h"
#include "threads/base/check.h"
#include "threads/sync/latch.h"

namespace lockstep::sm {

// Hints about free space, in memory only; rebuilt from the map pages after open.
struct HeapFile::Hints {
    struct alignas(kCacheLineBytes) Worker {
        // Insert page; changed under `latch`, read without it.
        std::atomic<uint32_t> page{kPageNone.value};
    };
    std::unique_ptr<Worker[]> workers;
    uint32_t worker_count = 0;

    threads::Latch latch{40, "heap room"};
    bool loaded = false;  // all below: under latch
    // Per class of free bytes. The front is tried first: its eraser has most probably ended. A page
    // whose class grows gets a further place, and the earlier ones stay until prune().
    std::deque<PageId> candidates[heap::kClasses];
    size_t prune_at = kPruneLeast;  // places
    PageId last_map = kPageNone;

    static constexpr size_t kPruneLeast = 1024;
    size_t places() const {  // under latch
        size_t all = 0;
        for (const auto& list : candidates) all += list.size();
        return all;
    }
    void offer(PageId id, uint32_t of) {  // under latch
        candidates[of].push_back(id);
        if (places() > prune_at) [[unlikely]]
            prune();
    }
    // heap_space.cc; under latch. Each page keeps one place, of its highest class.
    [[gnu::cold, gnu::noinline]] void prune();

    bool is_insert_page(PageId id) const {  // under latch
        for (uint32_t w = 0; w < worker_count; ++w)
            if (workers[w].page.load(std::memory_order_relaxed) == id.value) return true;
        return false;
    }
    // heap_space.cc; under latch. Takes the next page out of the lists, of class `lowest` or more,
    // and sets `lowest` to its class. Stops in a class at its first refused page. kPageNone: there
    // is no further page.
    PageId next_candidate(uint32_t& lowest, PageId& refused);
    void assert_state() const {  // under latch
        DCHECK(loaded == (last_map != kPageNone));
        [[maybe_unused]] const auto insert_pages_differ = [&] {
            for (uint32_t a = 0; a < worker_count; ++a)
                for (uint32_t b = 0; b < a; ++b)
                    if (workers[a].page.load() != kPageNone.value &&
                        workers[a].page.load() == workers[b].page.load())
                        return false;
            return true;
        };
        DCHECK(insert_pages_differ());  // HF-4
    }
};
// The longest record fits an empty page, also as a moved copy.
static_assert((kHeapRecordBytesMax + sizeof(heap::Link) + 3) / 4 * 4 + sizeof(heap::Slot) <=
              kPageBytes - heap::kSlotsAt);

// Bytes that a page must have free for a record of `length` in a new slot.
inline uint32_t room_for(size_t length) {
    return heap::capacity_for(length) + static_cast<uint32_t>(sizeof(heap::Slot));
}

inline uint32_t free_now(const Page& page) { return heap::data(page).free_bytes; }

// Up to three data pages, latched in ascending order (HF-5).
struct LatchedPages {
    PageId ids[3];
    ExclusivePage pages[3];
    uint32_t count = 0;

    void want(PageId id) {
        DCHECK(id != kPageNone && !pages[0]);  // before any is latched
        for (uint32_t i = 0; i < count; ++i)
            if (ids[i] == id) return;
        DCHECK(count < std::size(ids));
        uint32_t at = count++;
        for (; at > 0 && ids[at - 1] > id; --at) ids[at] = ids[at - 1];
        ids[at] = id;
    }
    Result<void> latch(BufferPool& pool) {
        for (uint32_t i = 0; i < count; ++i) {
            DCHECK(i == 0 || ids[i - 1] < ids[i]);  // HF-5
            pages[i] = TRY(pool.fix_exclusive(ids[i]));
        }
        return {};
    }
    ExclusivePage& of(PageId id) {
        for (uint32_t i = 0; i < count; ++i)
            if (ids[i] == id) return pages[i];
        CHECK(!"page was latched");
        __builtin_unreachable();
    }
};

}  // namespace lockstep::sm
