// lost_mark.h - what open knows of the log's durable end if one copy of the durable-end record is
// damaged.
//
// Concepts   The copy that is left may be the older one (txn/log/durable_end_file.h). Then data.lsn
//            may know more: a page is written only when the log is durable up to its lsn (BP-1). So
//            each saved lsn is a lower bound of the durable end, and a log that ends below it has
//            lost records. The store is refused then, before any of its files changes.
// Invariants LE-1 Where the newer copy may be lost, no log is opened that ends below a saved lsn.
//                 [checked: Log::Impl::find_end()]
#pragma once

#include <string>

#include "sm/buffer/superblock.h"
#include "txn/log/log.h"

namespace lockstep::sm {

struct LostMark {
    std::string warning;  // for the logger, up to the log's end; empty: no copy is damaged
    Lsn durable{};        // what data.lsn knows; kLsnNone: nothing
};
// `lsns`: the file data.lsn; negative: there is none. Blocking reads. Errors: corrupt_log,
// bad_version, io_error, out_of_memory.
Result<LostMark> look_for_lost_mark(threads::Disk& disk, const threads::Directory& directory,
                                    threads::FileId lsns, const Superblock& superblock);
// The error of a log that ends below `known.durable`, with the remedy.
[[gnu::cold]] std::unexpected<Error> refuse_lost_end(const Error& why, const LostMark& known);

}  // namespace lockstep::sm
