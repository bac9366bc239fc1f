// hot_locks.h - the locks that were waited for most in the last seconds.
//
// Concepts   Each ended wait is noted: name, object, place, time. A shard has room for kEntries
//            names in each *period* of kPeriod. The report covers the present period and the one
//            before. In a full shard a new name takes the entry with the fewest waits and inherits
//            its counts ("space saving"). So a name with a larger share of the waits than
//            1 / kEntries is never missed, and no count is too low.
// Blocking   note() takes a spin lock for about 50 ns. It runs at the end of waits only.
// Source     A. Metwally, D. Agrawal, A. El Abbadi, "Efficient Computation of Frequent and Top-k
//            Elements in Data Streams", 2005.
#pragma once

#include <array>
#include <vector>

#include "threads/base/spin_lock.h"
#include "txn/lock/lock_owner.h"

namespace lockstep::txn {

struct HotLockEntry {
    LockName name{};
    ObjectId object{};
    uint64_t waits = 0;
    Nanos waited = 0;
    LockPlace place;
};

class HotLocks {
public:
    static constexpr size_t kShards = 16, kEntries = 16;
    static constexpr Nanos kPeriod = 5 * kSecond;

    // A wait of `waited` has ended at `now`. `place`: null if it is not known.
    [[gnu::cold]] void note(LockName name, ObjectId object, const LockPlace* place, Nanos waited,
                            Nanos now);
    // At most `max` of them, those with the longest waits first.
    std::vector<HotLockEntry> list(size_t max, Nanos now);
    // How far list() looks back: one to two periods.
    static Nanos looks_back(Nanos now) { return std::min(now, kPeriod + now % kPeriod); }

private:
    static_assert(kEntries > 0 && kPeriod >= kSecond);
    struct Table {
        size_t used = 0;
        std::array<HotLockEntry, kEntries> entries;
    };
    struct Shard {
        SpinLock latch;
        uint64_t period = 0;  // number of the present period
        Table present, before;
        void follow(uint64_t now_period);
    };
    std::array<Shard, kShards> shards_;
};

}  // namespace lockstep::txn
