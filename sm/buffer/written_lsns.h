// written_lsns.h - the lsn that each page has on the volume: detects writes that were acknowledged
// but never arrived.
//
// Concepts   An array beside the translation array holds, for each page, the lsn of its last
//            completed write, 0 if not known. A page that is read with a lower lsn is an old
//            version of itself: complete, with a valid checksum, and wrong.
//            The array is kept in the side file "data.lsn". Each checkpoint updates the file before
//            its superblock names it, and open loads it. Nothing depends on the file. Where it is
//            missing, torn or from another store, the pages are "not known", and a warning says so.
// Layout     File data.lsn: two slots of 4096 bytes for each block of 507 pages, written in turn.
//            Block b's slots begin at (2b) * 4096 and (2b + 1) * 4096. A slot:
//            offset  0 u64 checksum    XXH3 over bytes 8.., seeded with the block's number.
//                    8 u64 magic.
//                   16 u64 store       both halves of the store's uuid, exclusive or.
//                   24 u64 save        grows; the valid slot with the higher save counts.
//                   32 u32 version.
//                   36 u32 block.
//                   40 u64 lsn[507].
// Invariants LW-1 What a page must have is at most the lsn of its last completed write. It equals
//                 that lsn if the write was in this run. Where nothing was known, it is the lsn
//                 that the page was read with. [written() at the completion, while kWriting keeps
//                 the page in its frame; check_read()]
//            LW-2 A page with a lower lsn is never data: it is rebuilt from the log, or the error
//                 is lost_write. [checked: BufferPool::Impl::check_read()]
//            LW-3 A saved lsn is durable on the volume, or the page comes out of the log before any
//                 thread reads it. Let the checkpoint that begins at B save it. If it is not above
//                 B, the page was synced before the save (checkpoint.cc, (1)). If it is above B, a
//                 record above B has the page, and the first such record brings it: redo forgets
//                 what the page must have (forget()).
//            LW-4 A save never touches the slot that counts; the new slot counts once it is synced.
//                 An older slot asks for less and is never wrong, but for pages that were given up
//                 since (space_map_shrink.cc).
// Blocking   written(), forget() and of() never block. load() blocks the kernel thread; save()
//            parks. Only the checkpointer saves, one save at a time.
#pragma once

#include <algorithm>
#include <atomic>
#include <memory>
#include <span>
#include <string>

#include "sm/buffer/growing_map.h"
#include "threads/base/check.h"
#include "threads/io/io.h"

namespace lockstep::sm {

class WrittenLsns {
public:
    // For pages below `pages_max`, of which those below `pages` are open: 8 bytes a page, of which
    // the system gives what is touched. Error: out_of_memory.
    static Result<std::unique_ptr<WrittenLsns>> create(uint64_t pages_max, uint64_t pages);
    static Result<std::unique_ptr<WrittenLsns>> create(uint64_t pages) {
        return create(pages, pages);
    }
    ~WrittenLsns();
    // Opens the pages below `pages`; the others must not be asked for. One call at a time. Error:
    // out_of_memory.
    Result<void> open(uint64_t pages);
    WrittenLsns(const WrittenLsns&) = delete;
    WrittenLsns& operator=(const WrittenLsns&) = delete;

    // The least lsn that the page must have when it is read; 0: not known.
    uint64_t of(PageId page) const {
        DCHECK(page.value < blocks_ * kPagesPerBlock);
        return lsns_[page.value].load(std::memory_order_relaxed);
    }
    // A write of the page has completed. One write of a page at a time (BI-2); ordered before
    // readers by the page's latch.
    void written(PageId page, Lsn lsn) {
        DCHECK(page.value < blocks_ * kPagesPerBlock);
        // PG-1: a page does not go back, but that redo forgets where it was.
        DCHECK(lsn == Lsn{0} || lsns_[page.value].load(std::memory_order_relaxed) <= lsn.value);
        lsns_[page.value].store(lsn.value, std::memory_order_relaxed);
        const uint64_t block = page.value / kPagesPerBlock;
        // If a save misses this lsn, the flag makes the next save write the block.
        changed_[block].fetch_or(kChanged, std::memory_order_acq_rel);
        for (uint64_t used = used_.load(std::memory_order_relaxed); used <= block;)
            if (used_.compare_exchange_weak(used, block + 1, std::memory_order_acq_rel)) break;
    }
    // The highest lsn that is known, or kLsnNone.
    Lsn newest() const;
    // Redo takes the page from the log: the volume's copy does not count.
    void forget(PageId page) { written(page, Lsn{0}); }

    struct Loaded {
        bool missing = false;  // there is no file, or an empty one
        // Blocks that were ever saved, and how many of them have no valid slot. A first save that a
        // crash cut off is none: nothing was known before it either.
        uint64_t blocks = 0, unknown = 0;
    };
    // Reads the side file. `store` tells stores apart. Never fails: an unreadable block is "not
    // known".
    // Opens what it finds.
    Loaded load(threads::Disk& disk, threads::FileId file, uint64_t store);
    // Writes the blocks that have changed since the last save, syncs if `sync`. Errors: io_error,
    // no_space. The old slots then still count, and the next save writes those blocks again.
    Result<void> save(threads::FileId file, uint64_t store, bool sync);
    // Whether the last save succeeded. Else the file may ask for more than the array: forget() is
    // not in it.
    bool saved() const { return saved_.load(std::memory_order_acquire); }

    // Bytes of the side file of a volume of so many pages.
    static constexpr uint64_t file_bytes(uint64_t pages) {
        return (pages + kPagesPerBlock - 1) / kPagesPerBlock * 2 * kSlotBytes;
    }
    // Makes a part of a new side file: the blocks from `first` on, of pages with these lsns, each
    // as a slot that counts and one of zeros. `to` has room for them. Returns their bytes.
    static size_t make_slots(uint64_t store, uint32_t first, std::span<const uint64_t> lsns,
                             std::byte* to);
    // Makes a whole side file, in pieces of at most `most` bytes. Calls room() for the memory of
    // each, Result<std::byte*>, and put(offset, slots) for its place, Result<void>.
    template <class Room, class Put>
    static Result<void> make_file(uint64_t store, std::span<const uint64_t> lsns, size_t most,
                                  Room&& room, Put&& put) {
        const size_t blocks = most / (2 * kSlotBytes);
        DCHECK(store != 0 && !lsns.empty() && blocks != 0);
        for (size_t block = 0; block * kPagesPerBlock < lsns.size(); block += blocks) {
            const auto rest = lsns.subspan(block * kPagesPerBlock);
            std::byte* const to = TRY(room());
            const size_t bytes =
                make_slots(store, static_cast<uint32_t>(block),
                           rest.first(std::min(rest.size(), blocks * kPagesPerBlock)), to);
            TRY(put(block * 2 * kSlotBytes, std::span<const std::byte>(to, bytes)));
        }
        return {};
    }

    static constexpr uint32_t kPagesPerBlock = 507;
    static constexpr uint64_t kSlotBytes = 4096;

private:
    static constexpr uint8_t kChanged = 1, kSaving = 2;
    struct Slot;
    WrittenLsns() = default;
    void assert_state() const {  // the saver's
        DCHECK(used_.load(std::memory_order_relaxed) <= blocks_);
    }
    Result<void> save_changed(threads::FileId file, uint64_t store, bool sync);
    Result<void> save_some(threads::FileId file, uint64_t store, Slot* slots, uint64_t& next);
    void end_save(bool saved);

    std::atomic<uint64_t>* lsns_ = nullptr;  // by page
    // By block: kChanged = differs from the file, kSaving = is being written to it.
    std::atomic<uint8_t>* changed_ = nullptr;
    uint8_t* slot_ = nullptr;  // by block: the slot that counts; used by the saver only
    uint64_t blocks_ = 0;
    std::atomic<uint64_t> used_{0};  // blocks from here on were never changed
    GrowingMap map_;                 // of lsns_
    uint64_t save_ = 0;              // number of the last save
    std::atomic<bool> saved_{true};
};

}  // namespace lockstep::sm
