// test_util.h - shared by the tests of the storage manager: ASSERT_OK and random text.
#pragma once

#include <gtest/gtest.h>

#include <string>

#include <lockstep/result.h>
#include "tests/seed_of_run.h"
#include "threads/base/rng.h"

#define ASSERT_OK(...)                                                    \
    do {                                                                  \
        auto&& ok_result_ = (__VA_ARGS__);                                \
        ASSERT_TRUE(ok_result_.has_value()) << ok_result_.error().text(); \
    } while (0)

namespace lockstep {

inline std::string random_text(Rng& rng, size_t size) {
    std::string text(size, ' ');
    for (char& c : text) c = static_cast<char>('a' + rng.below(26));
    return text;
}

}  // namespace lockstep
