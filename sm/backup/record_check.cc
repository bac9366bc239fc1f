// record_check.cc - see record_check.h.
#include "sm/backup/record_check.h"

#include <algorithm>
#include <cstring>

#include "threads/base/check.h"
#include "txn/log/log_checksum.h"

namespace lockstep::sm {

Result<void> RecordCheck::see(Lsn lsn, std::span<const std::byte> bytes) {
    assert_state();
    DCHECK(lsn.value % 8 == 0);
    if (at_ == stop_) return {};
    const uint64_t seen = at_.value + rest_.size();
    if (lsn.value < seen) bytes = bytes.subspan(std::min<uint64_t>(bytes.size(), seen - lsn.value));
    // A call before has failed, or bytes are missing.
    if (!bytes.empty() && lsn.value > seen)
        return fail(ErrorCode::corrupt_log, "log record", at_.value);
    if (!rest_.empty()) {
        if (!complete_rest(bytes)) return {};
        if (TRY(see_records(rest_)) != rest_.size()) return {};  // stopped
        rest_.clear();
    }
    const size_t used = TRY(see_records(bytes));
    if (at_ < stop_) rest_.assign(bytes.begin() + static_cast<ptrdiff_t>(used), bytes.end());
    assert_state();
    return {};
}

// Takes what the record in rest_ lacks off the begin of `bytes`. False: they have not all of it. A
// record whose size is not plausible is complete with its header: it does not validate.
bool RecordCheck::complete_rest(std::span<const std::byte>& bytes) {
    DCHECK(!rest_.empty() && at_ < stop_);
    const auto take_up_to = [&](size_t size) {
        const size_t some = std::min(size - std::min(size, rest_.size()), bytes.size());
        rest_.insert(rest_.end(), bytes.begin(), bytes.begin() + static_cast<ptrdiff_t>(some));
        bytes = bytes.subspan(some);
        return rest_.size() >= size;
    };
    if (!take_up_to(sizeof(txn::LogRecordHeader))) return false;
    const auto* header = reinterpret_cast<const txn::LogRecordHeader*>(rest_.data());
    return !txn::log_size_plausible(header->bytes) || take_up_to(header->bytes);
}

// Looks at the whole records in `bytes`, which begin at at_. Returns how many bytes they have.
Result<size_t> RecordCheck::see_records(std::span<const std::byte> bytes) {
    size_t used = 0;
    DCHECK(reinterpret_cast<uintptr_t>(bytes.data()) % 8 == 0);
    while (at_ < stop_ && bytes.size() - used >= sizeof(txn::LogRecordHeader)) {
        const auto* header = reinterpret_cast<const txn::LogRecordHeader*>(bytes.data() + used);
        const uint64_t left = bytes.size() - used;
        if (txn::log_size_plausible(header->bytes) && header->bytes > left) break;
        if (!txn::log_record_valid(header, left, at_))
            return fail(ErrorCode::corrupt_log, "log record", at_.value);
        if (at_ + header->bytes > stop_) {
            stop_ = at_;
            break;
        }
        DCHECK(header->bytes <= left && header->kind != 0);
        if (each_) {
            const auto taken = each_({.lsn = at_, .header = header});
            refused_ = !taken;
            TRY(taken);
        }
        used += header->bytes;
        at_ = at_ + header->bytes;
    }
    DCHECK(used <= bytes.size());
    return used;
}

Result<void> read_checked_log(const txn::LogFiles& files, threads::FileId file, uint64_t at,
                              std::span<std::byte> to, uint64_t useful, RecordCheck& check) {
    DCHECK(at % txn::kLogBlock == 0 && to.size() % txn::kLogBlock == 0);
    DCHECK(useful > 0 && useful <= to.size());
    DCHECK(files.number_of(at) == files.number_of(at + to.size() - 1));
    const size_t got =
        TRY(files.disk().read_now(file, at % files.segment_bytes(), to.data(), to.size()));
    if (got < to.size()) return fail(ErrorCode::corrupt_log, "log segment is too short", at);
    std::memset(to.data() + useful, 0, to.size() - useful);
    return check.see(Lsn{at}, to.first(useful));
}

std::string files_of_record(const txn::LogFiles& files, uint64_t at, uint64_t end) {
    DCHECK(at < end);
    const uint64_t number = files.number_of(at), next = files.segment_end(at);
    std::string names = files.segment_path(number);
    if (next < std::min(end, at + txn::kLogRecordMax))
        names += " or " + files.segment_path(number + 1);
    return names;
}

}  // namespace lockstep::sm
