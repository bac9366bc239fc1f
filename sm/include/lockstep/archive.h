// archive.h - the log archive: what a store gives away before it recycles its log, and what a
// backup needs to become the state of any later moment.
//
// Concepts   The archive holds pieces of the log, each a file that never changes again. A piece
//            lies in one segment of the log and begins where the piece before ended. So a backup
//            and the pieces from its point on give the state of every later point
//            (restore_backup()).
//            A restored store keeps the store's number, and its log goes on from the point of the
//            restore. It draws a new history, a number that each piece has in its name. So stores
//            that came from one backup may share an archive.
// Source     PostgreSQL's continuous archiving and timelines.
#pragma once

#include <cstdint>
#include <string_view>

#include <lockstep/function.h>
#include <lockstep/result.h>
#include <lockstep/types.h>

namespace lockstep {

// Takes the archive's files instead of a directory: `bytes` belong into the file of that name at
// `offset`. The bytes from 4096 on come first, in order; those at offset 0 come last, and then the
// file must be durable when the call returns. A file that has no bytes at offset 0 is incomplete
// and is sent again from its begin. After an open, files may come again under names that overlap.
// The bytes are valid until it returns. It runs on a user thread of the store and must not block
// its kernel thread; offload.h does what blocks. An error is tried again after a second.
using ArchiveSink = Function<Result<void>(std::string_view file, uint64_t offset, Slice bytes)>;

// What happens when the archive fails and the log that it lacks reaches
// Options::archive_backlog_bytes. `stop_writers`: every write is the error archive_failed until the
// archive works again; reads go on. `go_on`: the oldest log is recycled. The archive then has a
// gap: the points behind it need a backup that was made behind it.
enum class ArchiveFailure : uint8_t { stop_writers, go_on };

}  // namespace lockstep
