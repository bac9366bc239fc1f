// places.h - where a transaction will find records that it announced (<lockstep/need.h>).
//
// Concepts   A walk ahead notes the leaf and the slot of each key under the name of the key's lock.
//            The operation that comes later takes its place from here. Operations mostly come in
//            the order of the needs, so the search begins behind the place that was taken last.
//            Each worker has a pool of these objects. A transaction has at most one.
// Invariants PL-1 A place is only a hint, as every LeafHint: BT-6 decides whether it counts.
//            [test: Needs.OldPlacesAreNotTrusted]
//            PL-2 An object is on the pool's list, or one transaction or packet has it.
// Blocking   never.
#pragma once

#include <bit>
#include <memory>
#include <utility>
#include <vector>

#include "sm/core/txn_local.h"
#include "threads/base/check.h"
#include "txn/lock/lock_owner.h"

namespace lockstep::sm {

inline constexpr uint32_t kPlacesMax = 64;
// LeafHint::score of a hint that a walk has noted: higher than what operations give.
inline constexpr int16_t kScoreOfWalk = 5;
// LeafHint::slot of a place whose leaf is known, but not searched.
inline constexpr uint16_t kSlotUnknown = UINT16_MAX;

struct Places {
    uint64_t objects = 0;  // bit i: there is a place in an index with number i modulo 64
    uint32_t count = 0, next = 0;
    uint32_t asked = 0;      // needs walked since clear(), also those that lead nowhere
    uint32_t used = 0;       // operations that took their place from here
    Places* free = nullptr;  // the pool's list
    txn::LockName names[kPlacesMax];
    LeafHint hints[kPlacesMax];

    bool has(ObjectId object) const { return objects >> object.value % 64 & 1; }
    bool full() const { return count == kPlacesMax; }
    // Further needs are ignored.
    bool asked_enough() const { return asked >= kPlacesMax; }
    void add(txn::LockName name, const LeafHint& hint) {
        DCHECK(count < kPlacesMax && hint.object.value != 0 && hint.page != kPageNone);
        objects |= uint64_t{1} << hint.object.value % 64;
        names[count] = name;
        hints[count++] = hint;
    }
    // The place of the key whose lock has this name, or null. May be that of an equal name in
    // another index, so the caller compares.
    const LeafHint* find(txn::LockName name) {
        DCHECK(next <= count && count <= kPlacesMax);
        for (uint32_t n = 0, at = next; n < count; ++n, at = at + 1 == count ? 0 : at + 1)
            if (names[at] == name) {
                next = at + 1 == count ? 0 : at + 1;
                return &hints[at];
            }
        return nullptr;
    }
    void clear() { objects = 0, count = 0, next = 0, asked = 0; }
};

// The free objects of one worker.
class PlacesPool {
public:
    Places* take() {
        if (free_ == nullptr) {
            made_.push_back(std::make_unique<Places>());
            return made_.back().get();
        }
        Places* const places = free_;
        free_ = std::exchange(places->free, nullptr);
        DCHECK(places->count == 0 && places->used == 0);  // PL-2
        return places;
    }
    void give(Places& places) {
        DCHECK(places.free == nullptr && &places != free_);  // PL-2
        places.clear();
        places.used = 0;
        places.free = free_;
        free_ = &places;
    }

private:
    Places* free_ = nullptr;
    std::vector<std::unique_ptr<Places>> made_;
};

}  // namespace lockstep::sm
