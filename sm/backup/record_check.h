// record_check.h - checks the records of a log that passes by in pieces.
#pragma once

#include <functional>
#include <span>
#include <string>
#include <vector>

#include <lockstep/result.h>
#include <lockstep/types.h>
#include "threads/base/check.h"
#include "txn/log/log_files.h"
#include "txn/log/log_record.h"

namespace lockstep::sm {

class RecordCheck {
public:
    // The first record begins at `from`.
    explicit RecordCheck(Lsn from) : at_(from) {}
    // The bytes of the log from `lsn` on, behind those of the call before, aligned to 8 bytes.
    // What lies below the first record is ignored. Error: corrupt_log, with the LSN of a record
    // that does not validate.
    Result<void> see(Lsn lsn, std::span<const std::byte> bytes);
    // The end of the last whole record.
    Lsn position() const { return at_; }
    // Is called for each whole record, in order; an error ends see(). Only before the first see().
    void on_record(std::function<Result<void>(const txn::LogRecordView&)> each) {
        each_ = std::move(each);
    }
    // The last see() failed because the function above did.
    bool refused() const { return refused_; }
    // Stops at the record that would end behind this point.
    void stop_at(Lsn end) {
        DCHECK(at_ <= end);
        stop_ = end;
    }

private:
    void assert_state() const {
        DCHECK(at_.value % 8 == 0 && at_ <= stop_);
        DCHECK(rest_.size() <= UINT64_MAX - at_.value);
    }
    bool complete_rest(std::span<const std::byte>& bytes);
    Result<size_t> see_records(std::span<const std::byte> bytes);

    Lsn at_;
    Lsn stop_ = kLsnMax;
    std::function<Result<void>(const txn::LogRecordView&)> each_;
    bool refused_ = false;
    std::vector<std::byte> rest_;  // from at_ on: the begin of a record
};

// Reads whole blocks of the log from `at` on, out of the file of their segment, and has `check` see
// the records in their first `useful` bytes. The rest becomes zeros. These bytes are durable, so
// they never change. Blocks the calling kernel thread. Errors: corrupt_log, io_error.
Result<void> read_checked_log(const txn::LogFiles& files, threads::FileId file, uint64_t at,
                              std::span<std::byte> to, uint64_t useful, RecordCheck& check);

// The files that a damaged record at `at` of a log that ends at `end` may lie in, for an error.
std::string files_of_record(const txn::LogFiles& files, uint64_t at, uint64_t end);

}  // namespace lockstep::sm
