// random.h - the random values of the specification: NURand, last names, strings, shuffles (clauses
// 2.1.6, 4.3.2).
#pragma once

#include <array>
#include <span>

#include "threads/base/rng.h"
#include "tpcc/schema.h"

namespace lockstep::tpcc {

// The constant C of NURand for each field; chosen once for the load and once for the runs.
struct RandomConstants {
    uint32_t c_last_load = 0, c_last_run = 0;  // 0..255
    uint32_t c_id = 0;                         // 0..1023
    uint32_t ol_i_id = 0;                      // 0..8191
    // Clause 2.1.6.1: |c_last_run - c_last_load| lies in [65, 119] and is neither 96 nor 112.
    static RandomConstants choose(uint64_t seed);
    bool valid() const;
};

// Non-uniform random number in [x, y] (clause 2.1.6).
inline uint32_t nurand(Rng& rng, uint32_t a, uint32_t x, uint32_t y, uint32_t c) {
    const auto high = static_cast<uint32_t>(rng.below(uint64_t{a} + 1));
    const auto low = static_cast<uint32_t>(rng.between(x, y));
    return ((high | low) + c) % (y - x + 1) + x;
}

// C_LAST from a number in [0, 999]: three syllables (clause 4.3.2.3).
Text<16> last_name(uint32_t number);

// Fill `out` with letters and digits, or with digits only.
void random_letters(Rng& rng, std::span<char> out);
void random_digits(Rng& rng, std::span<char> out);
// A text of random length in [low, high].
template <size_t N>
void random_text(Rng& rng, uint32_t low, uint32_t high, Text<N>& out) {
    out.size = static_cast<uint8_t>(rng.between(low, high));
    random_letters(rng, {out.bytes, out.size});
}
// I_DATA and S_DATA: 26..50 letters, with "ORIGINAL" at a random place if `original`.
void random_data(Rng& rng, bool original, Text<50>& out);
bool is_original(Slice data);
void random_address(Rng& rng, Address& out);

template <class T>
void shuffle(Rng& rng, std::span<T> values) {
    for (size_t i = values.size(); i > 1; --i) std::swap(values[i - 1], values[rng.below(i)]);
}

// An independent stream for one row, so that any row can be made again without its neighbours.
inline Rng row_rng(uint64_t seed, uint64_t table, uint64_t w, uint64_t d = 0, uint64_t id = 0) {
    uint64_t h = seed * 0x9e3779b97f4a7c15 + table;
    for (const uint64_t part : {w, d, id})
        h = (h ^ (h >> 29) ^ part) * 0xbf58476d1ce4e5b9 + 0x94d049bb133111eb;
    return Rng(h);
}

}  // namespace lockstep::tpcc
