// key_table.h - a hash table of keys, each some 64-bit numbers, that gives them numbers from 0 on.
#pragma once

#include <algorithm>
#include <cstdint>
#include <span>
#include <vector>

#include "threads/base/check.h"
#include "threads/base/hints.h"

namespace lockstep::sm::report {

class KeyTable {
public:
    static constexpr uint32_t kNone = UINT32_MAX;

    // `width`: numbers of a key, at least 1.
    explicit KeyTable(size_t width) : width_(width), slots_(64) { DCHECK(width > 0); }
    size_t size() const { return keys_.size() / width_; }
    const int64_t* key(uint32_t number) const {
        DCHECK(number < size());
        return keys_.data() + number * width_;
    }
    // The key's number, or kNone.
    uint32_t find(const int64_t* key) const {
        assert_state();
        return slots_[slot_of(key)] - 1;
    }
    // The same; a new key gets the next number.
    uint32_t add(const int64_t* key) {
        const size_t slot = slot_of(key);
        if (slots_[slot] != 0) return slots_[slot] - 1;
        keys_.insert(keys_.end(), key, key + width_);
        const auto number = static_cast<uint32_t>(size() - 1);
        slots_[slot] = number + 1;
        if (2 * size() > slots_.size()) grow();
        DCHECK(find(this->key(number)) == number && number != kNone);
        return number;
    }
    // Of many keys, one behind the other, and their numbers. What each needs of a table that is
    // larger than the cache is fetched ahead.
    void add_all(std::span<const int64_t> keys, std::span<uint32_t> numbers) {
        DCHECK(keys.size() == numbers.size() * width_);
        constexpr size_t kAtOnce = 16;
        for (size_t from = 0; from < numbers.size(); from += kAtOnce) {
            const size_t end = std::min(numbers.size(), from + kAtOnce);
            for (size_t i = from; i < end; ++i)
                prefetch_line(&slots_[first_slot(&keys[i * width_])]);
            for (size_t i = from; i < end; ++i)
                if (const uint32_t at = slots_[first_slot(&keys[i * width_])]; at != 0)
                    prefetch_line(key(at - 1));
            for (size_t i = from; i < end; ++i) numbers[i] = add(&keys[i * width_]);
        }
    }

private:
    void assert_state() const {
        DCHECK(keys_.size() % width_ == 0 && 2 * size() <= slots_.size());
        DCHECK((slots_.size() & (slots_.size() - 1)) == 0);
    }
    // Keys are short: a call of memcmp costs more.
    bool equal(const int64_t* a, const int64_t* b) const {
        size_t i = 0;
        while (i < width_ && a[i] == b[i]) ++i;
        return i == width_;
    }
    size_t first_slot(const int64_t* key) const {
        uint64_t h = width_;
        for (size_t i = 0; i < width_; ++i) {
            h = (h ^ static_cast<uint64_t>(key[i])) * 0x9e3779b97f4a7c15;
            h ^= h >> 32;
        }
        return h & (slots_.size() - 1);
    }
    size_t slot_of(const int64_t* key) const {
        for (size_t slot = first_slot(key);; slot = (slot + 1) & (slots_.size() - 1)) {
            if (slots_[slot] == 0 || equal(key, keys_.data() + (slots_[slot] - 1) * width_))
                return slot;
        }
    }
    void grow() {
        slots_.assign(2 * slots_.size(), 0);
        for (uint32_t number = 0; number < size(); ++number) {
            const size_t slot = slot_of(key(number));
            DCHECK(slots_[slot] == 0);
            slots_[slot] = number + 1;
        }
        assert_state();
    }

    size_t width_;
    std::vector<int64_t> keys_;
    std::vector<uint32_t> slots_;  // number + 1; 0: free
};

}  // namespace lockstep::sm::report
