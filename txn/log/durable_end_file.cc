// durable_end_file.cc - see durable_end_file.h.
#include "txn/log/durable_end_file.h"

#include <xxhash.h>

#include <cstring>

#include "threads/base/on_disk.h"
#include "txn/log/log.h"
#include "txn/log/log_files.h"

namespace lockstep::txn {

namespace {

constexpr uint64_t kMagic = 0x4b52414d474f4c4cull;  // "LLOGMARK"
struct MarkSlot {
    uint64_t magic;
    uint32_t version;
    uint32_t reserved;
    uint64_t sequence;
    uint64_t durable_end;
    uint64_t segment_bytes;
    uint64_t checksum;
};
static_assert(kOnDisk<MarkSlot, 48> && offsetof(MarkSlot, sequence) == 16 &&
              offsetof(MarkSlot, checksum) == 40);

uint64_t checksum_of(const MarkSlot& slot) {
    return XXH3_64bits(&slot, offsetof(MarkSlot, checksum));
}

struct alignas(DurableEnd::kSlotBytes) MarkImage {
    std::byte slot[2][DurableEnd::kSlotBytes];
};

}  // namespace

void DurableEnd::encode(std::byte* slot) const {
    MarkSlot s{.magic = kMagic,
               .version = kVersion,
               .reserved = 0,
               .sequence = sequence,
               .durable_end = durable_end,
               .segment_bytes = segment_bytes,
               .checksum = 0};
    s.checksum = checksum_of(s);
    std::memset(slot, 0, kSlotBytes);
    std::memcpy(slot, &s, sizeof s);
}

Result<std::optional<DurableEnd>> DurableEnd::decode(const std::byte* slot) {
    MarkSlot s;
    std::memcpy(&s, slot, sizeof s);
    if (s.magic != kMagic || s.checksum != checksum_of(s)) return std::nullopt;
    if (s.version != kVersion) return fail(ErrorCode::bad_version, "log.mark", s.version);
    return DurableEnd{
        .sequence = s.sequence, .durable_end = s.durable_end, .segment_bytes = s.segment_bytes};
}

Result<std::optional<DurableEnd>> DurableEnd::load(threads::Disk& disk,
                                                   const threads::Place& place) {
    if (!disk.exists(place)) return std::nullopt;
    const threads::FileId file = TRY(disk.open(place, threads::Disk::kReadOnly));
    auto image = std::make_unique<MarkImage>();
    std::memset(image->slot, 0, sizeof image->slot);
    const Result<size_t> got = disk.read_now(file, 0, image->slot, sizeof image->slot);
    disk.close(file);
    if (!got) return std::unexpected(got.error());
    std::optional<DurableEnd> newest;
    int valid = 0;
    for (const auto& slot : image->slot) {
        const std::optional<DurableEnd> mark = TRY(decode(slot));
        valid += mark.has_value();
        if (mark && (!newest || mark->sequence > newest->sequence)) newest = mark;
    }
    if (!newest) return fail(ErrorCode::corrupt_log, "log.mark");
    newest->alone = valid == 1 && newest->sequence > kFirstSequenceMax;
    return newest;
}

Result<void> DurableEnd::store(threads::Disk& disk, threads::FileId file) const {
    auto image = std::make_unique<MarkImage>();
    encode(image->slot[0]);
    TRY(disk.write_now(file, slot_offset(), image->slot[0], kSlotBytes));
    return disk.sync_now(file);
}

Result<Lsn> recorded_durable_end(threads::Disk& disk, const threads::Directory& directory) {
    const std::optional<DurableEnd> mark =
        TRY(DurableEnd::load(disk, directory / LogFiles::kMarkName));
    return mark ? Lsn{mark->durable_end} : kLsnNone;
}

}  // namespace lockstep::txn
