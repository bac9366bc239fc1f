// record_check.cc - see record_check.h.
#include "sm/backup/record_check.h"

#include "threads/base/check.h"
#include "txn/log/log_checksum.h"

namespace lockstep::sm {

Result<void> RecordCheck::see(Lsn lsn, std::span<const std::byte> bytes) {
    assert_state();
    DCHECK(lsn.value % 8 == 0);
    const uint64_t seen = at_.value + rest_.size();
    if (lsn.value < seen) bytes = bytes.subspan(std::min<uint64_t>(bytes.size(), seen - lsn.value));
    DCHECK(bytes.empty() || lsn.value <= seen);
    rest_.insert(rest_.end(), bytes.begin(), bytes.end());
    size_t used = 0;
    while (at_ < stop_ && rest_.size() - used >= sizeof(txn::LogRecordHeader)) {
        const auto* header = reinterpret_cast<const txn::LogRecordHeader*>(rest_.data() + used);
        const uint64_t left = rest_.size() - used;
        if (txn::log_size_plausible(header->bytes) && header->bytes > left) break;
        if (!txn::log_record_valid(header, left, at_))
            return fail(ErrorCode::corrupt_log, "log record", at_.value);
        if (at_ + header->bytes > stop_) break;
        DCHECK(header->bytes <= left && header->kind != 0);
        if (each_) TRY(each_({.lsn = at_, .header = header}));
        used += header->bytes;
        at_ = at_ + header->bytes;
    }
    DCHECK(used <= rest_.size());
    rest_.erase(rest_.begin(), rest_.begin() + static_cast<ptrdiff_t>(used));
    assert_state();
    return {};
}

}  // namespace lockstep::sm
