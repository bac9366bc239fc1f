// batching.h - which scans with large groups may run together without pushing each other out of the
// cache.
//
// Source     L. Qiao et al., "Main-Memory Scan Sharing For Multi-Core CPUs", VLDB 2008, section 5.
#pragma once

#include <lockstep/function_ref.h>
#include "sm/scan/policy.h"

namespace lockstep::sm::scan {

// With whom a scan may share: with all, because it has few rows left for its groups; with a batch
// whose groups fit the cache together; with none, because its own do not fit.
enum class Company : uint8_t { all, batch, none };
struct GroupEstimate {
    Company company = Company::none;
    size_t groups = 0;  // that most of its rows fall into; 0 but for `batch`
};
// Estimates it from rows of a sample in random order, numbered from 0: `group_of` gives the group
// of a row, or nothing if the row does not meet the scan's conditions. `groups_max` of them fit the
// cache. Each of the two decisions errs in at most one case of 20. (Algorithm 1.)
GroupEstimate estimate_groups(size_t rows, size_t groups_max,
                              FunctionRef<std::optional<uint64_t>(size_t row)> group_of);

// The staging area. While scans run and no waiting one has waited for Admission::wait_max, nothing
// happens. Else all are packed into batches, the largest first into the first that has room for it
// (first fit decreasing), with run times that differ by less than Admission::run_ratio. Batches
// with a scan that has waited too long begin; if nothing runs, at least one, by Admission::random.
// The rest waits on. A batch that runs never changes. (Section 5.3.)
void form_batches(const Admission& by, bool idle, std::span<Waiting> waiting);

// Whose turn is it? Each batch has as many tickets as scans. At least one scan.
inline uint32_t draw_batch(std::span<const ScanView> scans, uint64_t random) {
    DCHECK(!scans.empty());
    return scans[random % scans.size()].batch;
}

}  // namespace lockstep::sm::scan
