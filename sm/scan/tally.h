// tally.h - counts for the 64 chunks of a word at once.
//
// Concepts   Slice i has bit i of the count of each chunk. Adding a set of chunks is a chain of
//            half adders over whole words, which mostly ends early. The chunks with the greatest
//            count are found from the highest slice down. So a policy that weighs every chunk
//            against every scan costs some operations a word and scan, not a chunk and scan.
#pragma once

#include <array>
#include <cstdint>

#include "threads/base/check.h"

namespace lockstep::sm::scan {

class Tally {
public:
    // One more for each chunk of the set. At most 65,535 sets.
    void add(uint64_t set) {
        size_t slice = 0;
        for (; set != 0; ++slice) {
            DCHECK(slice < kSlices);
            const uint64_t carry = slices_[slice] & set;
            slices_[slice] ^= set;
            set = carry;
        }
        used_ = slice > used_ ? slice : used_;
    }
    uint64_t at(unsigned bit) const {
        DCHECK(bit < 64);
        uint64_t count = 0;
        for (size_t slice = 0; slice < used_; ++slice)
            count |= (slices_[slice] >> bit & 1) << slice;
        return count;
    }
    // Of a set that is not empty, those with the greatest or the least count.
    uint64_t most(uint64_t among) const {
        return narrow(among, [](uint64_t slice) { return slice; });
    }
    uint64_t least(uint64_t among) const {
        return narrow(among, [](uint64_t slice) { return ~slice; });
    }

private:
    static constexpr size_t kSlices = 16;

    template <class Better>
    uint64_t narrow(uint64_t among, Better better) const {
        DCHECK(among != 0);
        for (size_t slice = used_; slice-- > 0;)
            if (const uint64_t left = among & better(slices_[slice])) among = left;
        return among;
    }

    std::array<uint64_t, kSlices> slices_{};
    size_t used_ = 0;  // slices above are 0
};

}  // namespace lockstep::sm::scan
