// durable_end_file.h - the durable-end record: the durable end of the log, recorded apart from the
// log records (LOG-4).
//
// Concepts   It is a durable write of its own, and no thread waits for it. While threads wait for
//            durable commits, or the log is at rest, one follows the durable end within
//            kMarkInterval and one write. While the log moves by lazy commits alone, the interval
//            is kLazyMarkInterval. One is always written before the log is truncated or closed.
//            Durable-LSN stamps cover the lag (log_stamp.cc). The code calls it the mark.
// Layout     File log.mark has two slots of 4096 bytes, written in turn. Only the first sector of
//            a slot is used, so a slot is either old or new as a whole. The valid slot with the
//            higher sequence counts. A log begins with one slot and a sequence up to
//            kFirstSequenceMax. Later an invalid slot is damage. It may have been the newer one.
//            The log behind the other one is then known by its records alone (`alone`). A slot:
//            offset  0 u64 magic
//                    8 u32 format version
//                   12 u32 reserved
//                   16 u64 sequence
//                   24 u64 durable end
//                   32 u64 segment bytes
//                   40 u64 XXH3 over bytes 0..40
// Invariants LM-A The recorded end never exceeds the durable end. It is written after the sync that
//                 made it true, and never taken back.
//            LM-B The recorded end is a record boundary, so a reader can reach it exactly.
#pragma once

#include <optional>
#include <string>

#include "threads/io/io.h"

namespace lockstep::txn {

inline constexpr Nanos kMarkInterval = 10 * kMillisecond;
inline constexpr Nanos kLazyMarkInterval = 100 * kMillisecond;

struct DurableEnd {
    uint64_t sequence = 0;
    uint64_t durable_end = 0;
    uint64_t segment_bytes = 0;
    // Of load(): the other slot is damaged, and may have had a later end.
    bool alone = false;

    // 1 in a new log, 2 in a backup, 3 in a restore from an archive.
    static constexpr uint64_t kFirstSequenceMax = 3;
    static constexpr uint64_t kSlotBytes = 4096;
    static constexpr uint32_t kVersion = 1;
    uint64_t slot_offset() const { return (sequence & 1) * kSlotBytes; }
    // Fills a slot of kSlotBytes.
    void encode(std::byte* slot) const;
    // Empty if the slot holds no valid record. Error: bad_version.
    static Result<std::optional<DurableEnd>> decode(const std::byte* slot);

    // The newest record of the file. Empty if there is no file. Error: corrupt_log if the file has
    // no valid slot.
    static Result<std::optional<DurableEnd>> load(threads::Disk& disk, const threads::Place& place);
    // Writes and syncs; blocks the kernel thread.
    Result<void> store(threads::Disk& disk, threads::FileId file) const;
};

}  // namespace lockstep::txn
