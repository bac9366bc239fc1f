// labels: fuzz
// corpus_test.cc - every input of the corpus again, in every build: what once found a bug
// must not find it twice. And random ones.
//
// LOCKSTEP_SEED: of the random inputs. LOCKSTEP_FUZZ_RUNS: how many per target.
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>

#include "tests/fuzz/fuzz_input.h"
#include "tests/seed_of_run.h"
#include "threads/base/rng.h"

namespace lockstep::fuzz::corpus_test {

struct Target {
    const char* name;
    int (*run)(const uint8_t*, size_t);
    uint64_t runs;  // random inputs
};
constexpr Target kTargets[] = {
    {"page", fuzz_page, 3000},      {"log", fuzz_log, 500}, {"superblock", fuzz_superblock, 40},
    {"image", fuzz_image, 40},      {"api", fuzz_api, 60},  {"c", fuzz_c, 20},
    {"columns", fuzz_columns, 3000}};

class CorpusTest : public ::testing::TestWithParam<Target> {};

TEST_P(CorpusTest, EveryInput) {
    size_t inputs = 0;
    for (const auto& entry : std::filesystem::directory_iterator(
             std::string(LOCKSTEP_SOURCE_DIR "/tests/fuzz/corpus/") + GetParam().name)) {
        std::ifstream file(entry.path(), std::ios::binary);
        const std::string bytes((std::istreambuf_iterator<char>(file)), {});
        SCOPED_TRACE(entry.path());
        GetParam().run(reinterpret_cast<const uint8_t*>(bytes.data()), bytes.size());
        ++inputs;
    }
    EXPECT_GT(inputs, 0u);
}

TEST_P(CorpusTest, RandomInputs) {
    const uint64_t seed = number_from("LOCKSTEP_SEED", 1);
    for (uint64_t n = 0; n < number_from("LOCKSTEP_FUZZ_RUNS", GetParam().runs); ++n) {
        SCOPED_TRACE("LOCKSTEP_SEED=" + std::to_string(seed + n));
        Rng rng(seed + n);
        std::vector<uint8_t> bytes(rng.below(2000));
        for (uint8_t& b : bytes) b = static_cast<uint8_t>(rng.next());
        GetParam().run(bytes.data(), bytes.size());
    }
}

INSTANTIATE_TEST_SUITE_P(Fuzz, CorpusTest, ::testing::ValuesIn(kTargets),
                         [](const auto& info) { return std::string(info.param.name); });

}  // namespace lockstep::fuzz::corpus_test
