// chunk_set.h - a set of a pass's chunks: one bit each, in words that policies count at once.
#pragma once

#include <bit>
#include <cstdint>
#include <vector>

#include "threads/base/check.h"

namespace lockstep::sm::scan {

class ChunkSet {
public:
    static constexpr size_t kWordBits = 64;

    explicit ChunkSet(size_t chunks = 0)
        : chunks_(chunks), words_((chunks + kWordBits - 1) / kWordBits) {}
    // Of how many chunks it may hold each.
    size_t chunks() const { return chunks_; }
    bool has(size_t chunk) const {
        DCHECK(chunk < chunks_);
        return (words_[chunk / kWordBits] >> chunk % kWordBits & 1) != 0;
    }
    void add(size_t chunk) {
        DCHECK(chunk < chunks_);
        words_[chunk / kWordBits] |= uint64_t{1} << chunk % kWordBits;
    }
    void remove(size_t chunk) {
        DCHECK(chunk < chunks_);
        words_[chunk / kWordBits] &= ~(uint64_t{1} << chunk % kWordBits);
    }
    size_t count() const {
        size_t sum = 0;
        for (const uint64_t word : words_) sum += static_cast<size_t>(std::popcount(word));
        DCHECK(sum <= chunks_);
        return sum;
    }
    bool empty() const {
        for (const uint64_t word : words_)
            if (word != 0) return false;
        return true;
    }
    // How many both have.
    size_t common(const ChunkSet& other) const {
        DCHECK(other.chunks_ == chunks_);
        size_t sum = 0;
        for (size_t i = 0; i < words_.size(); ++i)
            sum += static_cast<size_t>(std::popcount(words_[i] & other.words_[i]));
        return sum;
    }
    // The chunks of words() words of kWordBits bits; bits behind the last chunk are 0.
    size_t words() const { return words_.size(); }
    uint64_t word(size_t place) const {
        DCHECK(place < words_.size());
        return words_[place];
    }
    // The first member at or behind `from`, else the first of all; chunks() if there is none.
    size_t next(size_t from) const {
        return next_of(from, [this](size_t place) { return words_[place]; });
    }
    // The same among the members that `other` does not have.
    size_t next_not_in(const ChunkSet& other, size_t from) const {
        DCHECK(other.chunks_ == chunks_);
        return next_of(from, [&](size_t place) { return words_[place] & ~other.words_[place]; });
    }

private:
    template <class WordAt>
    size_t next_of(size_t from, WordAt word_at) const {
        DCHECK(from <= chunks_);
        if (from == chunks_) from = 0;
        const size_t begin = from / kWordBits;
        const uint64_t behind = ~uint64_t{0} << from % kWordBits;
        // The word of `from` comes twice: first its upper part, at the end its lower one.
        for (size_t i = 0; i <= words_.size() && !words_.empty(); ++i) {
            const size_t place = (begin + i) % words_.size();
            const uint64_t word = word_at(place) & (i == 0 ? behind : ~uint64_t{0});
            if (word != 0) return place * kWordBits + static_cast<size_t>(std::countr_zero(word));
        }
        return chunks_;
    }

    size_t chunks_;
    std::vector<uint64_t> words_;
};

}  // namespace lockstep::sm::scan
