// fuzz_main.cc - libFuzzer's entry; FUZZ_TARGET names the target it stands for.
#include "tests/fuzz/fuzz_input.h"

// NOLINTNEXTLINE(readability-identifier-naming)
extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
    return lockstep::fuzz::FUZZ_TARGET(data, size);
}
