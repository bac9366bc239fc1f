// old_libc.cc - what the C++ library of g++ 12 takes from a newer C library than that of Debian 11.
#include <sys/random.h>

#include <cstdint>
#include <cstdlib>

extern "C" {

// Tells whether the process has one thread only, so that counts of references need no atomic
// instruction. "No" is always right.
// NOLINTNEXTLINE(bugprone-reserved-identifier): the name in the C library
[[gnu::visibility("hidden")]] char __libc_single_threaded = 0;

// For std::random_device. So few bytes come whole, once the kernel has seen enough to begin with.
[[gnu::visibility("hidden")]] uint32_t arc4random() {
    uint32_t number = 0;
    if (getrandom(&number, sizeof number, 0) != sizeof number) abort();
    return number;
}
}
