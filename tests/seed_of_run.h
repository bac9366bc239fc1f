// seed_of_run.h - numbers from the environment, above all the seed of random tests.
#pragma once

#include <cstdint>
#include <cstdio>
#include <cstdlib>

#include "threads/base/limits.h"
#include "threads/base/rng.h"

namespace lockstep {

// The number in the environment variable, or `otherwise`.
inline uint64_t number_from(const char* variable, uint64_t otherwise) {
    const char* text = std::getenv(variable);
    return text ? std::strtoull(text, nullptr, 0) : otherwise;
}

// The seed from LOCKSTEP_SEED, or `otherwise`. Prints it, so that a failure can be repeated. In a
// build that draws the engine's limits, the seed also gives these, until the test ends. So no store
// is open.
inline uint64_t seed_of_run(uint64_t otherwise = 1) {
    const uint64_t seed = number_from("LOCKSTEP_SEED", otherwise);
    limits::draw(Rng(seed).fork(0x11));
    std::printf("LOCKSTEP_SEED=%llu %s\n", static_cast<unsigned long long>(seed),
                limits::text().c_str());
    return seed;
}

}  // namespace lockstep
