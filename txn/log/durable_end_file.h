// durable_end_file.h - the durable end of the log, recorded apart from the records (LOG-4).
//
// Concepts   Written at most once in kMarkInterval, by a durable write of its own that nobody waits
//            for; always before the log is truncated or closed. It lags by that interval and a
//            write at most; for what is younger, commit records speak (log_stamp.cc).
// Layout     file log.mark: two slots of 4096 bytes, written in turn; only the first sector of a
//            slot is used, so a slot is old or new: offset 0 u64 magic, 8 u32 format version, 12
//            u32 reserved, 16 u64 sequence, 24 u64 durable end, 32 u64 segment bytes, 40 u64 XXH3
//            over bytes 0..40. The valid slot with the higher sequence counts.
// Invariants LM-A The recorded end never exceeds the durable end: it is written after the sync that
//            made it true, and never taken back. LM-B The recorded end is a record boundary, so a
//            reader can be asked to reach it exactly.
#pragma once

#include <optional>
#include <string>

#include "threads/io/io.h"

namespace lockstep::txn {

inline constexpr Nanos kMarkInterval = 10 * kMillisecond;

struct DurableEnd {
    uint64_t sequence = 0;
    uint64_t durable_end = 0;
    uint64_t segment_bytes = 0;

    static constexpr uint64_t kSlotBytes = 4096;
    static constexpr uint32_t kVersion = 1;
    uint64_t slot_offset() const { return (sequence & 1) * kSlotBytes; }
    // Fills a slot of kSlotBytes.
    void encode(std::byte* slot) const;
    // Nothing if the slot holds no valid mark. Error: bad_version.
    static Result<std::optional<DurableEnd>> decode(const std::byte* slot);

    // The newest mark of the file. Nothing if there is no file; corrupt_log if there is one without
    // a valid slot.
    static Result<std::optional<DurableEnd>> load(threads::Disk& disk, const std::string& path);
    // Writes and syncs; blocks the kernel thread.
    Result<void> store(threads::Disk& disk, threads::FileId file) const;
};

}  // namespace lockstep::txn
