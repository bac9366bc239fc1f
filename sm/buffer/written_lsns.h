// written_lsns.h - which lsn each page has on the volume, so that a write that was acknowledged and
// never arrived is noticed.
//
// Concepts   An array beside the translation array: for each page the lsn of its last completed
//            write, 0 if that is not known. A page that is read with a lower lsn is an old version
//            of itself: whole, with the right checksum, and wrong. The array outlives the store in
//            the side file "data.lsn", brought up to date by each checkpoint before its superblock
//            names it, and loaded at open. Nothing relies on the file: where it is missing, torn or
//            from another store, the pages are "not known", which a warning says.
// Layout     data.lsn: two slots of 4096 bytes for each block of 507 pages, block b's at (2b) *
//            4096 and (2b + 1) * 4096, written in turn: offset 0 u64 checksum (XXH3 over bytes 8..,
//            seeded with the block's number), 8 u64 magic, 16 u64 store (both halves of its uuid,
//            exclusive or), 24 u64 save (grows; the valid slot with the higher one counts), 32 u32
//            version, 36 u32 block, 40 u64 lsn[507].
// Invariants LW-1 What a page must have is at most the lsn of its last completed write, and equal
//                 to it if that was in this run; or, where nothing was known, the lsn that it was
//                 read with. [written() at the completion, while kWriting keeps the page in its
//                 frame; check_read()]
//            LW-2 A page with a lower lsn is never data: rebuilt from the log, or lost_write.
//            [checked: BufferPool::Impl::check_read()]
//            LW-3 A saved lsn is durable on the volume, or the page comes out of the log before
//                 anybody reads it. Saved by the checkpoint that begins at B, it was synced before
//                 (checkpoint.cc, (1)) if it is not above B; if it is, a record above B has the
//                 page, and the first such record brings it: redo forgets what the page must have
//                 (forget()).
//            LW-4 A save never touches the slot that counts; it counts when it is synced. An older
//            slot asks for less and is never wrong.
// Blocking   written(), forget(), of(): never. load() blocks the kernel thread, save() parks; one
//            save at a time, the checkpointer's.
#pragma once

#include <atomic>
#include <memory>
#include <string>

#include "threads/base/mutants.h"
#include "threads/io/io.h"

namespace lockstep::sm {

class WrittenLsns {
public:
    // For pages below `pages_max`: reserved virtual memory, 8 bytes a page touched. Error:
    // out_of_memory.
    static Result<std::unique_ptr<WrittenLsns>> create(uint64_t pages_max);
    ~WrittenLsns();
    WrittenLsns(const WrittenLsns&) = delete;
    WrittenLsns& operator=(const WrittenLsns&) = delete;

    // What the page must at least have when it is read; 0: not known.
    uint64_t of(PageId page) const {
        return MUTANT(lost_write_unseen) ? 0 : lsns_[page.value].load(std::memory_order_relaxed);
    }
    // A write of the page has completed. One write of a page at a time (BI-2); ordered before
    // readers by the page's latch.
    void written(PageId page, Lsn lsn) {
        lsns_[page.value].store(lsn.value, std::memory_order_relaxed);
        const uint64_t block = page.value / kPagesPerBlock;
        // A save that does not see the lsn leaves this for the next.
        changed_[block].fetch_or(kChanged, std::memory_order_acq_rel);
        for (uint64_t used = used_.load(std::memory_order_relaxed); used <= block;)
            if (used_.compare_exchange_weak(used, block + 1, std::memory_order_acq_rel)) break;
    }
    // Redo takes the page from the log: whatever lies on the volume does not count.
    void forget(PageId page) { written(page, Lsn{0}); }

    struct Loaded {
        bool missing = false;  // there is no file, or an empty one
        // Blocks that ever were saved; of those, without any valid slot.
        uint64_t blocks = 0, unknown = 0;
    };
    // Reads the side file. `store` tells stores apart. Never fails: what cannot be read is not
    // known.
    Loaded load(threads::Disk& disk, threads::FileId file, uint64_t store);
    // Writes the blocks that have changed since the last save, syncs if `sync`. Errors: io_error,
    // no_space: those blocks are saved again by the next save, the old slots go on to count.
    Result<void> save(threads::FileId file, uint64_t store, bool sync);

    static constexpr uint32_t kPagesPerBlock = 507;
    static constexpr uint64_t kSlotBytes = 4096;

private:
    static constexpr uint8_t kChanged = 1, kSaving = 2;
    struct Slot;
    WrittenLsns() = default;
    Result<void> save_some(threads::FileId file, uint64_t store, Slot* slots, uint64_t& next);
    void end_save(bool saved);

    std::atomic<uint64_t>* lsns_ = nullptr;  // by page
    // By block: kChanged = differs from the file, kSaving = is on its way there.
    std::atomic<uint8_t>* changed_ = nullptr;
    uint8_t* slot_ = nullptr;  // by block: the slot that counts. The saver's
    uint64_t blocks_ = 0;
    std::atomic<uint64_t> used_{0};  // blocks from here on were never changed
    size_t bytes_ = 0;
    uint64_t save_ = 0;  // number of the last save
};

}  // namespace lockstep::sm
