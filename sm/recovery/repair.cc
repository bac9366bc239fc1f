// repair.cc - rebuilds one damaged page from the log.
//
// Argument   Every page that was changed since the checkpoint has its image in the log (PC-3). What
//            is on the volume was durable in the log before (BP-1). So the durable log holds every
//            change of such a page. One pass over it rebuilds the page; each image replaces what
//            was before. A pass that does not reach the durable end is an error: what it has found
//            is an old state then.
//            PC-3 holds from env.first_record on. The log may still have older records, and an
//            image among them serves as well. It is looked for if the newer ones have no image.
//            But the older ones may begin inside a record, and then they cannot be read.
//            Once the page is rebuilt, its image is logged again (log_repaired_page()). So a power
//            cut may tear the write that mends the volume, although the older log goes meanwhile.
#include <memory>

#include "sm/change/page_change.h"
#include "sm/recovery/recovery_parts.h"

namespace lockstep::sm {

namespace {

// Of the record of a repaired page: all but the image.
constexpr uint32_t kRepairRecordBytes = sizeof(txn::LogRecordHeader) + sizeof(PartHeader) + 8;

// The durable end may lie inside a record (LI-3). The log still has the whole of that record.
Result<void> require_end(RestartEnv& env, const txn::LogReader& reader, Lsn end) {
    if (reader.position() >= end) return {};
    DCHECK(end <= env.log->durable());
    std::string buffer;
    const auto last = env.log->read(reader.position(), buffer);
    if (last && last->end() > end) return {};
    return reader.require_end(end);
}

Result<bool> begins_record(const RestartEnv& env, Lsn at) {
    txn::LogReader reader(*env.disk, env.log_options);
    reader.seek(at);
    txn::LogRecordView record;
    return reader.next(record);
}

// `from` is a record boundary, and the log from there on is held.
Result<bool> repair_from(RestartEnv& env, Lsn from, PageId id, Page& page) {
    txn::LogReader reader(*env.disk, env.log_options);
    reader.seek(from);
    const Lsn end = env.log->durable();
    DCHECK(from.value >= txn::kLogFirst && from <= end);
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
            DCHECK(page.id() == id);
            found = true;
        }
    }
    TRY(require_end(env, reader, end));
    return found;
}

}  // namespace

Result<bool> repair_page(RestartEnv& env, PageId id, Page& page) {
    const txn::LogHold hold = TRY(env.log->hold());
    const Lsn oldest = hold.from(), first{env.first_record.load()};  // read in this order
    if (TRY(repair_from(env, first, id, page))) return true;
    if (oldest >= first || !TRY(begins_record(env, oldest))) return false;
    return repair_from(env, oldest, id, page);
}

bool log_repaired_page(Env& env, ExclusivePage& page) {
    const uint32_t size = image_bytes(*page);
    DCHECK(size > 2 * sizeof(uint16_t) && size <= 2 * sizeof(uint16_t) + kPageBytes);
    const auto image = std::make_unique<std::byte[]>(size);
    write_image(*page, image.get());
    ChangePart part{
        .page = &page,
        .action = PageAction::page_image,
        .flags = kPartFresh,
        .pieces = {Slice(reinterpret_cast<const char*>(image.get()), size), {}, {}, {}}};
    // No transaction has promised this record its space.
    txn::UndoCredit credit;
    if (!env.log->reserve_undo(credit, size + kRepairRecordBytes, 0)) return false;
    const bool logged = change_pages(env, nullptr, ChangeRole::system, LogKind::page_repair,
                                     ObjectId{page->header.object}, {&part, 1})
                            .has_value();
    env.log->release_undo(credit);
    return logged;
}

}  // namespace lockstep::sm
