// hot_locks.cc - counts waits by lock.
#include "txn/lock/hot_locks.h"

#include <algorithm>

#include "threads/base/check.h"

namespace lockstep::txn {

// Under the latch. Clocks of workers differ a little: an older time counts as the present.
void HotLocks::Shard::follow(uint64_t now_period) {
    DCHECK(latch.is_held());
    DCHECK(present.used <= kEntries && before.used <= kEntries);
    if (now_period <= period) return;
    if (now_period == period + 1) before = present;
    else before.used = 0;
    present.used = 0;
    period = now_period;
}

void HotLocks::note(LockName name, ObjectId object, const LockPlace* place, Nanos waited,
                    Nanos now) {
    DCHECK(name.value != 0);
    Shard& shard = shards_[(name.value >> 32) % kShards];
    const SpinGuard guard(shard.latch);
    shard.follow(now / kPeriod);
    DCHECK(shard.period >= now / kPeriod);
    Table& table = shard.present;
    HotLockEntry* const end = table.entries.data() + table.used;
    HotLockEntry* entry = std::find_if(table.entries.data(), end,
                                       [&](const HotLockEntry& e) { return e.name == name; });
    if (entry == end) {
        if (table.used < kEntries) {
            *entry = {};
            ++table.used;
        } else {
            entry = std::min_element(
                table.entries.data(), end,
                [](const HotLockEntry& a, const HotLockEntry& b) { return a.waits < b.waits; });
        }
        entry->name = name;
        entry->place = {};
    }
    DCHECK(table.used <= kEntries && entry < table.entries.data() + table.used);
    entry->object = object;
    if (place != nullptr) entry->place = *place;
    ++entry->waits;
    entry->waited += waited;
}

std::vector<HotLockEntry> HotLocks::list(size_t max, Nanos now) {
    std::vector<HotLockEntry> all;
    all.reserve(2 * kShards * kEntries);
    for (Shard& shard : shards_) {
        const size_t first = all.size();
        const SpinGuard guard(shard.latch);
        shard.follow(now / kPeriod);
        for (const Table* table : {&shard.present, &shard.before})
            for (size_t i = 0; i < table->used; ++i) {
                const HotLockEntry& entry = table->entries[i];
                const auto same =
                    std::find_if(all.begin() + static_cast<std::ptrdiff_t>(first), all.end(),
                                 [&](const HotLockEntry& e) { return e.name == entry.name; });
                DCHECK(entry.waits > 0 && entry.name.value != 0);
                if (same == all.end()) {
                    all.push_back(entry);
                    continue;
                }
                same->waits += entry.waits;
                same->waited += entry.waited;
                if (same->place.kind == PlaceKind::unknown) same->place = entry.place;
            }
    }
    DCHECK(all.size() <= 2 * kShards * kEntries);
    std::ranges::sort(all, [](const HotLockEntry& a, const HotLockEntry& b) {
        return a.waited != b.waited ? a.waited > b.waited : a.name.value < b.name.value;
    });
    if (all.size() > max) all.resize(max);
    return all;
}

}  // namespace lockstep::txn
