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
    std::vector<PageId> candidates[heap::kClasses];
    PageId last_map = kPageNone;

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

struct HeapFile::Ops {
    // Bytes that a page must have free for a record of `length` in a new slot.
    static uint32_t room_for(size_t length) {
        return heap::capacity_for(length) + static_cast<uint32_t>(sizeof(heap::Slot));
    }
    static uint32_t room(const Page& page) { return heap::data(page).free_bytes; }

    // --- heap_space.cc
    // Exclusively held page of this heap with `bytes` free; becomes the worker's insert page.
    static Result<ExclusivePage> page_with_room(HeapFile& heap, txn::Transaction& txn,
                                                uint32_t bytes);
    static Result<ExclusivePage> find_page(HeapFile& heap, txn::Transaction& txn, uint32_t bytes);
    static Result<void> extend(HeapFile& heap);
    static Result<void> load_hints(HeapFile& heap);
    // Frees what ended transactions left on the page, until `bytes` are free or nothing more can be
    // freed.
    static Result<void> reclaim(HeapFile& heap, txn::Transaction& txn, ExclusivePage& page,
                                uint32_t bytes);
    // Writes the page's class to the map; `offer`: other workers may insert there.
    static Result<void> note_class(HeapFile& heap, PageId page, bool offer);

    // --- heap_access.cc
    // False: no such page of this heap.
    static bool plausible(HeapFile& heap, RecordId id);
    static const heap::Slot* record_at(HeapFile& heap, const Page& page, SlotNo slot);
    static bool copy_at(HeapFile& heap, const Page& page, SlotNo number, RecordId home);
    static Result<bool> read(HeapFile& heap, RecordId id,
                             std::move_only_function<void(Slice)> take);
    // True if the read lock on the name must be released after the read: read committed, and not
    // held before.
    static bool gives_back(HeapFile& heap, txn::Transaction& txn, txn::LockName name);
    using Each = std::move_only_function<bool(RecordId, Slice)>;
    // One page of a scan; false: `each` returned false.
    static Result<bool> scan_locked(HeapFile& heap, PageId id, Each& each);
    static Result<bool> scan_records(HeapFile& heap, txn::Transaction& txn, PageId id, Each& each);

    // --- heap_change.cc
    enum class Outcome : uint8_t { done, missing, no_room };
    static Result<Outcome> update_in_place(HeapFile& heap, txn::Transaction& txn, RecordId id,
                                           Slice record);
    // False: the pages changed, so start over.
    static Result<bool> move(HeapFile& heap, txn::Transaction& txn, RecordId id, Slice record);
    static Result<bool> move_home(HeapFile& heap, txn::Transaction& txn, RecordId id, RecordId copy,
                                  Slice record);
    static Result<bool> move_away(HeapFile& heap, txn::Transaction& txn, RecordId id, RecordId copy,
                                  PageId fresh, Slice record);
    static Result<Outcome> splice(HeapFile& heap, txn::Transaction& txn, ExclusivePage& page,
                                  SlotNo slot, uint32_t skip, Slice record);

    static txn::LockName lock_of(const HeapFile& heap, PageId page, uint32_t index,
                                 const heap::Slot& s, const Page& bytes);
    // True if no transaction, this one included, holds a lock on the name.
    static bool unlocked(HeapFile& heap, txn::Transaction& txn, txn::LockName name);
};

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
