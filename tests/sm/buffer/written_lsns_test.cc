// labels: unit
// written_lsns_test.cc - what a side file of LSNs says, for each state of each pair of slots.
#include "sm/buffer/written_lsns.h"

#include <gtest/gtest.h>

#include <cstring>
#include <vector>

#include <xxhash.h>

#include "tests/seed_of_run.h"
#include "threads/base/rng.h"
#include "threads/io/sim_disk.h"

namespace lockstep::sm::written_lsns_test {

using threads::SimDisk;

constexpr uint64_t kStore = 77, kSlot = WrittenLsns::kSlotBytes,
                   kPages = WrittenLsns::kPagesPerBlock;

enum class State : uint8_t { zero, valid, damaged, cut_off, foreign };
constexpr State kStates[] = {State::zero, State::valid, State::damaged, State::cut_off,
                             State::foreign};

// A file in the making, and what load() must say of it.
class Model {
public:
    explicit Model(uint64_t blocks)
        : bytes_(blocks * 2 * kSlot / sizeof(uint64_t)), lsns_(blocks * kPages) {}

    void add(uint64_t block, const State (&states)[2], const uint64_t (&saves)[2], Rng& rng) {
        uint64_t newest = 0;
        bool any = false;
        for (unsigned which = 0; which < 2; ++which) {
            std::vector<uint64_t> lsns(kPages);
            for (uint64_t& lsn : lsns) lsn = 8 * (1 + rng.below(1 << 20));
            put(block, which, states[which], saves[which], lsns);
            if (states[which] != State::valid || saves[which] <= newest) continue;
            any = true;
            newest = saves[which];
            std::ranges::copy(lsns, lsns_.begin() + static_cast<std::ptrdiff_t>(block * kPages));
        }
        const bool never = states[0] == State::zero && states[1] == State::zero;
        const bool first_save_cut_off = states[0] == State::zero && states[1] != State::valid;
        if (never || first_save_cut_off) return;
        ++expected_.blocks;
        expected_.unknown += !any;
    }

    void check() const {
        SimDisk disk({.seed = 1});
        const auto file = disk.open("/data.lsn", threads::Disk::kCreate);
        ASSERT_TRUE(file);
        ASSERT_TRUE(
            disk.write_now(*file, 0, bytes_.data(), bytes_.size() * sizeof(uint64_t)).has_value());
        const auto lsns = WrittenLsns::create(lsns_.size());
        ASSERT_TRUE(lsns);
        const WrittenLsns::Loaded loaded = (*lsns)->load(disk, *file, kStore);
        EXPECT_FALSE(loaded.missing);
        EXPECT_EQ(loaded.blocks, expected_.blocks);
        EXPECT_EQ(loaded.unknown, expected_.unknown);
        uint64_t newest = 0;
        for (uint32_t page = 0; page < lsns_.size(); ++page) {
            ASSERT_EQ((*lsns)->of(PageId{page}), lsns_[page]) << page;
            newest = std::max(newest, lsns_[page]);
        }
        EXPECT_EQ((*lsns)->newest().value, newest);
        disk.close(*file);
    }

private:
    void put(uint64_t block, unsigned which, State state, uint64_t save,
             std::span<const uint64_t> lsns) {
        auto* const to = reinterpret_cast<std::byte*>(bytes_.data()) + (2 * block + which) * kSlot;
        if (state == State::zero) return;
        alignas(4096) std::byte made[2 * kSlot];
        WrittenLsns::make_slots(state == State::foreign ? kStore + 1 : kStore,
                                static_cast<uint32_t>(block), lsns, made);
        std::memcpy(made + 24, &save, sizeof save);
        const uint64_t checksum = XXH3_64bits_withSeed(made + 8, kSlot - 8, block);
        std::memcpy(made, &checksum, sizeof checksum);
        if (state == State::damaged) made[kSlot / 2] ^= std::byte{1};
        // The begin of a sector that a crash has lost.
        if (state == State::cut_off) std::memset(made, 0, 512);
        std::memcpy(to, made, kSlot);
    }

    std::vector<uint64_t> bytes_;
    std::vector<uint64_t> lsns_;
    WrittenLsns::Loaded expected_;
};

TEST(WrittenLsns, EachStateOfTwoSlots) {
    Rng rng(seed_of_run(20261130));
    for (const State first : kStates)
        for (const State second : kStates) {
            SCOPED_TRACE(static_cast<int>(first) * 10 + static_cast<int>(second));
            for (const uint64_t newer : {0, 1}) {
                Model model(1);
                model.add(0, {first, second}, {3 - newer, 2 + newer}, rng);
                model.check();
            }
        }
}

// Blocks beside each other do not touch one another.
TEST(WrittenLsns, ManyBlocksInEachState) {
    Rng rng(seed_of_run(20261201));
    for (int i = 0; i < 40; ++i) {
        const uint64_t blocks = 1 + rng.below(60);
        Model model(blocks);
        for (uint64_t block = 0; block < blocks; ++block) {
            const uint64_t save = 1 + rng.below(9);
            model.add(block, {kStates[rng.below(5)], kStates[rng.below(5)]},
                      {save, rng.chance(0.5) ? save + 1 : save + 2}, rng);
        }
        model.check();
        if (testing::Test::HasFailure()) FAIL() << i;
    }
}

TEST(WrittenLsns, AFileThatIsEmptyOrCut) {
    SimDisk disk({.seed = 1});
    const auto file = disk.open("/data.lsn", threads::Disk::kCreate);
    const auto lsns = WrittenLsns::create(4 * kPages);
    ASSERT_TRUE(file.has_value() && lsns.has_value());
    EXPECT_TRUE((*lsns)->load(disk, *file, kStore).missing);
    alignas(4096) std::byte made[4 * kSlot];
    const std::vector<uint64_t> of_pages(2 * kPages, 800);
    ASSERT_EQ(WrittenLsns::make_slots(kStore, 0, of_pages, made), sizeof made);
    // The second block is cut in its first slot: a part of it is there, and it does not count.
    ASSERT_TRUE(disk.write_now(*file, 0, made, 2 * kSlot + 1000).has_value());
    const WrittenLsns::Loaded loaded = (*lsns)->load(disk, *file, kStore);
    EXPECT_EQ(loaded.blocks, 2u);
    EXPECT_EQ(loaded.unknown, 1u);
    EXPECT_EQ((*lsns)->of(PageId{kPages - 1}), 800u);
    EXPECT_EQ((*lsns)->of(PageId{kPages}), 0u);
    disk.close(*file);
}

}  // namespace lockstep::sm::written_lsns_test
