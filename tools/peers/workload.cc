// workload.cc - the list of workloads, and reading whole tables.
#include "tools/peers/workload.h"

namespace lockstep::peers {

namespace {
constexpr size_t kBatchRows = 256;

template <char kLetter>
std::unique_ptr<Workload> make_ycsb_of(const Sizes& sizes) {
    return make_ycsb(sizes, kLetter);
}
}  // namespace

std::span<const WorkloadKind> workload_kinds() {
    static constexpr WorkloadKind kAll[] = {
        {"tpcc", "TPC-C", make_tpcc},
        {"ycsb-a", "YCSB A: 50% updates", make_ycsb_of<'A'>},
        {"ycsb-b", "YCSB B: 5% updates", make_ycsb_of<'B'>},
        {"ycsb-c", "YCSB C: reads only", make_ycsb_of<'C'>},
        {"ycsb-e", "YCSB E: short scans, 5% inserts", make_ycsb_of<'E'>},
        {"ycsb-f", "YCSB F: 50% read-modify-write", make_ycsb_of<'F'>},
        {"tatp", "TATP", make_tatp},
    };
    return kAll;
}

Result<bool> Rows::next() {
    if (++at_ < batch_.size()) return true;
    if (begun_ && batch_.size() < kBatchRows) return false;
    // The first key behind the last one that was seen.
    const std::string low = batch_.empty() ? std::string() : batch_.back().key + '\0';
    batch_.clear();
    TRY(session_->scan(table_, low, kKeyEnd, Order::ascending, Access::read,
                       [&](Slice key, Slice value) {
                           batch_.push_back({std::string(key), std::string(value)});
                           return batch_.size() < kBatchRows;
                       }));
    begun_ = true;
    at_ = 0;
    return !batch_.empty();
}

Result<uint64_t> count_rows(Session& session, Table table) {
    uint64_t rows = 0;
    TRY(session.scan(table, {}, kKeyEnd, Order::ascending, Access::read, [&](Slice, Slice) {
        ++rows;
        return true;
    }));
    return rows;
}

}  // namespace lockstep::peers
