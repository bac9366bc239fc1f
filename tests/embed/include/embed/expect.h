// expect.h - how these programs check themselves: the first wrong result ends the program.
#pragma once

#include <lockstep/store.h>

#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <utility>

namespace embed {

// Ends the program with status 1 and one line that says why.
[[noreturn]] inline void stop(const std::string& why) {
    std::fprintf(stderr, "wrong: %s\n", why.c_str());
    std::exit(1);
}
inline void expect(bool holds, const std::string& what) {
    if (!holds) stop(what);
}
// The value of a result that must be one.
template <class T>
T expect_value(lockstep::Result<T> result, const std::string& what) {
    if (!result) stop(what + ": " + result.error().text());
    if constexpr (!std::is_void_v<T>) return std::move(*result);
}
// The first argument, which is the directory for the program's stores.
inline std::string directory(int argc, char** argv) {
    if (argc != 2) stop(std::string("usage: ") + argv[0] + " DIRECTORY");
    return argv[1];
}

// xorshift64*: numbers that are equal in each run. Never 0 as a seed.
class Random {
public:
    explicit Random(uint64_t seed) : state_(seed * 0x9e3779b97f4a7c15ull + 1) {}
    uint64_t next() {
        state_ ^= state_ >> 12, state_ ^= state_ << 25, state_ ^= state_ >> 27;
        return state_ * 0x2545f4914f6cdd1dull;
    }
    uint64_t below(uint64_t n) { return next() % n; }
    double real() { return static_cast<double>(next() >> 11) * 0x1.0p-53; }  // [0, 1)

private:
    uint64_t state_;
};

}  // namespace embed
