// repair.cc - rebuilds one damaged page from the log.
//
// Argument   Every page that was changed since the checkpoint has its image in the log (PC-3). What
//            is on the volume was durable in the log before (BP-1). So the durable log holds every
//            change of such a page. One pass from its start rebuilds the page; each image replaces
//            what was before.
#include "sm/recovery/recovery_parts.h"

namespace lockstep::sm {

Result<bool> repair_page(RestartEnv& env, PageId id, Page& page) {
    txn::LogReader reader(*env.disk, env.log_options);
    reader.seek(env.log->start());
    const Lsn end = env.log->durable();
    bool found = false;
    for (txn::LogRecordView record; reader.position() < end && TRY(reader.next(record));) {
        if (record.header->kind < txn::kSmLogKindFirst) continue;
        uint32_t cursor = 0;
        for (PartView part; TRY(next_part(record, cursor, part));) {
            if (part.page != id) continue;
            const bool brings_page = (part.flags & kPartFresh) || !part.image.empty();
            if (!found && !brings_page) continue;
            // An image is the page's state at that moment: it replaces everything before.
            TRY(redo_part(page, false, part, record.end()));
            page.header.lsn = record.end().value;
            found = true;
        }
    }
    return found;
}

}  // namespace lockstep::sm
