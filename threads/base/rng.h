// rng.h - seeded random numbers (xoshiro256**): the only source of randomness in the project.
//
// Source: D. Blackman, S. Vigna, "Scrambled linear pseudorandom number generators", 2018.
#pragma once

#include <cstdint>

namespace lockstep {

class Rng {
public:
    explicit Rng(uint64_t seed) {
        // Splitmix64 spreads a small seed over the state.
        for (auto& word : s_) {
            seed += 0x9e3779b97f4a7c15;
            uint64_t z = seed;
            z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9;
            z = (z ^ (z >> 27)) * 0x94d049bb133111eb;
            word = z ^ (z >> 31);
        }
    }

    uint64_t next() {
        const uint64_t result = rotl(s_[1] * 5, 7) * 9;
        const uint64_t t = s_[1] << 17;
        s_[2] ^= s_[0];
        s_[3] ^= s_[1];
        s_[1] ^= s_[2];
        s_[0] ^= s_[3];
        s_[2] ^= t;
        s_[3] = rotl(s_[3], 45);
        return result;
    }

    // Uniform in [0, n); n > 0. Multiply-shift: the bias (n / 2^64) is too small for a test to see.
    uint64_t below(uint64_t n) {
        return static_cast<uint64_t>((static_cast<unsigned __int128>(next()) * n) >> 64);
    }
    // Uniform in [low, high], both included.
    int64_t between(int64_t low, int64_t high) {
        return low + static_cast<int64_t>(below(static_cast<uint64_t>(high - low) + 1));
    }
    bool chance(double p) { return static_cast<double>(next() >> 11) * 0x1.0p-53 < p; }
    // An independent stream: an extra draw from one does not shift another.
    Rng fork(uint64_t stream) { return Rng(next() ^ (stream * 0xd1342543de82ef95)); }

private:
    static uint64_t rotl(uint64_t x, int k) { return (x << k) | (x >> (64 - k)); }
    uint64_t s_[4];
};

}  // namespace lockstep
