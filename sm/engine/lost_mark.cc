// lost_mark.cc - see lost_mark.h.
#include "sm/engine/lost_mark.h"

#include "sm/buffer/written_lsns.h"
#include "threads/base/check.h"
#include "threads/base/error_detail.h"
#include "txn/log/durable_end_file.h"
#include "txn/log/log_files.h"

namespace lockstep::sm {

namespace {

Result<Lsn> newest_saved(threads::Disk& disk, threads::FileId lsns, uint64_t store) {
    const uint64_t bytes = lsns.value < 0 ? 0 : disk.size(lsns).value_or(0);
    if (bytes == 0) return kLsnNone;
    const uint64_t blocks = bytes / (2 * WrittenLsns::kSlotBytes) + 1;
    const auto known = TRY(WrittenLsns::create(blocks * WrittenLsns::kPagesPerBlock));
    (void)known->load(disk, lsns, store);
    return known->newest();
}

}  // namespace

Result<LostMark> look_for_lost_mark(threads::Disk& disk, const threads::Directory& directory,
                                    threads::FileId lsns, const Superblock& superblock) {
    const auto mark = TRY(txn::DurableEnd::load(disk, directory / txn::LogFiles::kMarkName));
    if (!mark || !mark->alone) return LostMark();
    DCHECK(mark->sequence > txn::DurableEnd::kFirstSequenceMax);
    return LostMark{
        .warning =
            "one copy of log.mark is damaged, perhaps the newer one. The log was durable at "
            "least up to LSN " +
            std::to_string(mark->durable_end) +
            ". If the log is damaged as well, commits behind that are lost, and nothing "
            "tells of them. The last record that is whole ends at LSN ",
        .durable = TRY(newest_saved(disk, lsns, superblock.store_number()))};
}

std::unexpected<Error> refuse_lost_end(const Error& why, const LostMark& known) {
    DCHECK(why.code == ErrorCode::corrupt_log && known.durable != kLsnNone);
    auto error = std::unexpected(why);
    set_error_detail(error.error(),
                     "the log is damaged at LSN " + std::to_string(why.a) +
                         ", a copy of log.mark is damaged too, and pages were written when the log "
                         "was durable up to LSN " +
                         std::to_string(known.durable.value) +
                         ": restore the store from a backup, or remove data.lsn to open what is "
                         "left");
    return error;
}

}  // namespace lockstep::sm
