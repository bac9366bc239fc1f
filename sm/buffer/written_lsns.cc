// written_lsns.cc - the side file: loading what the last checkpoint saved, and saving what has
// changed since.
#include "sm/buffer/written_lsns.h"

#include <sys/mman.h>
#include <xxhash.h>

#include <algorithm>
#include <bit>
#include <cstring>
#include <vector>

#include "threads/base/check.h"
#include "threads/base/limits.h"
#include "threads/base/on_disk.h"
#include "threads/base/zero_bytes.h"
#include "threads/io/aligned_buffer.h"
#include "threads/worker/io_wait.h"

namespace lockstep::sm {

namespace {

constexpr uint64_t kLsnFileMagic = 0x534e534c50534b4cull;
constexpr uint32_t kLsnFileVersion = 1;
constexpr uint32_t kSlotsAtOnce = limits::most::lsn_blocks_written;

}  // namespace

struct WrittenLsns::Slot {
    uint64_t checksum;
    uint64_t magic;
    uint64_t store;
    uint64_t save;
    uint32_t version;
    uint32_t block;
    uint64_t lsn[kPagesPerBlock];

    uint64_t right_checksum(uint64_t number) const {
        return XXH3_64bits_withSeed(reinterpret_cast<const std::byte*>(this) + sizeof checksum,
                                    sizeof(Slot) - sizeof checksum, number);
    }
    bool valid(uint64_t number, uint64_t of_store) const {
        return magic == kLsnFileMagic && version == kLsnFileVersion && block == number &&
               store == of_store && checksum == right_checksum(number);
    }
};

Result<std::unique_ptr<WrittenLsns>> WrittenLsns::create(uint64_t pages_max, uint64_t pages) {
    static_assert(kOnDisk<Slot, kSlotBytes> && offsetof(Slot, save) == 24 &&
                  offsetof(Slot, lsn) == 40);
    std::unique_ptr<WrittenLsns> made(new WrittenLsns);
    made->blocks_ = (pages_max + kPagesPerBlock - 1) / kPagesPerBlock;
    const size_t of_blocks = made->blocks_ * 2;
    void* at = mmap(nullptr, of_blocks, PROT_READ | PROT_WRITE,
                    MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (at == MAP_FAILED) return fail(ErrorCode::out_of_memory, "lsns of pages", of_blocks);
    made->changed_ = static_cast<std::atomic<uint8_t>*>(at);
    made->slot_ = reinterpret_cast<uint8_t*>(made->changed_ + made->blocks_);
    const size_t bytes = made->blocks_ * kPagesPerBlock * sizeof(uint64_t);
    if (!made->map_.reserve(bytes, kSlotBytes))
        return fail(ErrorCode::out_of_memory, "lsns of pages", bytes);
    made->lsns_ = reinterpret_cast<std::atomic<uint64_t>*>(made->map_.begin());
    TRY(made->open(pages));
    made->assert_state();
    DCHECK(made->blocks_ * kPagesPerBlock >= pages_max);
    return made;
}

WrittenLsns::~WrittenLsns() {
    if (changed_ != nullptr) munmap(static_cast<void*>(changed_), blocks_ * 2);
}

Result<void> WrittenLsns::open(uint64_t pages) {
    const uint64_t blocks = (pages + kPagesPerBlock - 1) / kPagesPerBlock;
    DCHECK(blocks <= blocks_);
    const size_t bytes = blocks * kPagesPerBlock * sizeof(uint64_t);
    if (map_.open(bytes)) return {};
    return fail(ErrorCode::out_of_memory, "lsns of pages", bytes);
}

WrittenLsns::Loaded WrittenLsns::load(threads::Disk& disk, threads::FileId file, uint64_t store) {
    assert_state();
    Loaded loaded;
    const uint64_t bytes = disk.size(file).value_or(0);
    const uint64_t blocks = std::min(blocks_, (bytes + 2 * kSlotBytes - 1) / (2 * kSlotBytes));
    loaded.missing = blocks == 0;
    if (!open(blocks * kPagesPerBlock)) return {.missing = true};
    auto buffer = threads::make_aligned_buffer(
        std::min<uint64_t>(limits::lsn_blocks_read(), blocks) * 2 * kSlotBytes);
    if (!buffer) return {.missing = true};
    const auto* slots = reinterpret_cast<const Slot*>(buffer->get());
    for (uint64_t first = 0; first < blocks; first += limits::lsn_blocks_read()) {
        const uint64_t n = std::min<uint64_t>(limits::lsn_blocks_read(), blocks - first),
                       want = n * 2 * kSlotBytes;
        auto got = disk.read_now(file, first * 2 * kSlotBytes, buffer->get(), want);
        if (!got) got = disk.read_now(file, first * 2 * kSlotBytes, buffer->get(), want);
        std::memset(buffer->get() + got.value_or(0), 0, want - got.value_or(0));
        for (uint64_t i = 0; i < n; ++i) {
            const uint64_t b = first + i;
            const Slot* pair = slots + 2 * i;
            const bool valid[2] = {pair[0].valid(b, store), pair[1].valid(b, store)};
            // A block's first save goes to the second slot. A crash may cut it off.
            const auto* first_slot = reinterpret_cast<const std::byte*>(pair);
            const bool written = !got || valid[1] || !all_zero(first_slot, kSlotBytes);
            loaded.blocks += written;
            loaded.unknown += written && !valid[0] && !valid[1];
            if (!valid[0] && !valid[1]) continue;
            slot_[b] = !valid[0] || (valid[1] && pair[1].save > pair[0].save);
            const Slot& slot = pair[slot_[b]];
            save_ = std::max(save_, slot.save);
            used_ = b + 1;
            for (uint32_t p = 0; p < kPagesPerBlock; ++p)
                lsns_[b * kPagesPerBlock + p].store(slot.lsn[p], std::memory_order_relaxed);
        }
    }
    return loaded;
}

Lsn WrittenLsns::newest() const {
    uint64_t newest = 0;
    const uint64_t pages = used_.load(std::memory_order_acquire) * kPagesPerBlock;
    DCHECK(pages <= blocks_ * kPagesPerBlock);
    for (uint64_t p = 0; p < pages; ++p)
        newest = std::max(newest, lsns_[p].load(std::memory_order_relaxed));
    return Lsn{newest};
}

// Up to kSlotsAtOnce changed blocks from `next` on. What changes meanwhile is for the next save.
Result<void> WrittenLsns::save_some(threads::FileId file, uint64_t store, Slot* slots,
                                    uint64_t& next) {
    DCHECK(save_ > 0);  // 0: never written
    threads::IoRequest requests[kSlotsAtOnce];
    uint32_t count = 0;
    for (const uint64_t used = used_.load(std::memory_order_acquire);
         next < used && count < limits::lsn_blocks_written(); ++next) {
        if (!(changed_[next].load(std::memory_order_relaxed) & kChanged)) continue;
        changed_[next].exchange(kSaving, std::memory_order_acq_rel);
        DCHECK(slot_[next] <= 1);
        Slot& slot = slots[count];
        slot = {.checksum = 0,
                .magic = kLsnFileMagic,
                .store = store,
                .save = save_,
                .version = kLsnFileVersion,
                .block = static_cast<uint32_t>(next),
                .lsn = {}};
        for (uint32_t p = 0; p < kPagesPerBlock; ++p)
            slot.lsn[p] = lsns_[next * kPagesPerBlock + p].load(std::memory_order_relaxed);
        slot.checksum = slot.right_checksum(next);
        threads::IoRequest& request = requests[count++] = {};
        request.kind = threads::IoKind::write;
        request.io_class = threads::IoClass::write_back;
        request.file = file;
        request.offset = (2 * next + (slot_[next] ^ 1u)) * kSlotBytes;  // LW-4
        request.iov[0] = {&slot, kSlotBytes};
        request.iov_count = 1;
        threads::io_start(request);
    }
    Result<void> result;
    for (uint32_t i = 0; i < count; ++i) {
        threads::io_wait(requests[i], threads::ParkReason::io);
        if (requests[i].result >= 0) continue;
        result = threads::fail_request(requests[i], "data.lsn", slots[i].block);
    }
    return result;
}

size_t WrittenLsns::make_slots(uint64_t store, uint32_t first, std::span<const uint64_t> lsns,
                               std::byte* to) {
    DCHECK(reinterpret_cast<uintptr_t>(to) % alignof(Slot) == 0 && !lsns.empty());
    DCHECK(store != 0);
    size_t bytes = 0;
    for (uint32_t block = first; !lsns.empty(); ++block, bytes += 2 * kSlotBytes) {
        std::memset(to + bytes, 0, 2 * kSlotBytes);
        Slot& made = *new (to + bytes) Slot{.checksum = 0,
                                            .magic = kLsnFileMagic,
                                            .store = store,
                                            .save = 1,
                                            .version = kLsnFileVersion,
                                            .block = block,
                                            .lsn = {}};
        const auto own = lsns.first(std::min<size_t>(lsns.size(), kPagesPerBlock));
        std::ranges::copy(own, made.lsn);
        made.checksum = made.right_checksum(block);
        lsns = lsns.subspan(own.size());
    }
    return bytes;
}

// LW-4: a slot counts when it is certain to be durable; else the same slot is written again next
// time.
void WrittenLsns::end_save(bool saved) {
    for (uint64_t b = 0, used = used_.load(std::memory_order_acquire); b < used; ++b) {
        if (!(changed_[b].load(std::memory_order_relaxed) & kSaving)) continue;
        slot_[b] ^= saved;
        DCHECK(slot_[b] <= 1);
        if (!saved) changed_[b].fetch_or(kChanged, std::memory_order_relaxed);
        changed_[b].fetch_and(static_cast<uint8_t>(~kSaving), std::memory_order_relaxed);
    }
}

Result<void> WrittenLsns::save(threads::FileId file, uint64_t store, bool sync) {
    DCHECK(file.value >= 0);
    const Result<void> result = save_changed(file, store, sync);
    saved_.store(result.has_value(), std::memory_order_release);
    return result;
}

Result<void> WrittenLsns::save_changed(threads::FileId file, uint64_t store, bool sync) {
    const auto buffer = TRY(threads::make_aligned_buffer(kSlotsAtOnce * kSlotBytes));
    assert_state();
    ++save_;
    Result<void> result;
    bool wrote = false;
    for (uint64_t next = 0; result && next < used_.load(std::memory_order_acquire);) {
        const uint64_t from = next;
        result = save_some(file, store, reinterpret_cast<Slot*>(buffer.get()), next);
        wrote = wrote || next > from;
    }
    if (result && sync && wrote) result = threads::io_sync(file, "data.lsn");
    end_save(result.has_value());
    return result;
}

}  // namespace lockstep::sm
