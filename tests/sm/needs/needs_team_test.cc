// labels: unit
// needs_team_test.cc - needs of packets: how many packets make a team, and needs that are wrong.
#include <deque>
#include <functional>

#include <lockstep/packet.h>
#include "sm/api/engine_of.h"
#include "sm/needs/needs_team.h"
#include "tests/sm/needs/needs_test_util.h"

namespace lockstep::needs_team_test {

class NeedsOfPackets : public Needs {};

INSTANTIATE_TEST_SUITE_P(Modes, NeedsOfPackets,
                         ::testing::Values(StepsMode::off, StepsMode::prefetch, StepsMode::on));

class Announcing final : public Packet {
public:
    Announcing(std::function<void(Announcement&)> announces, std::function<void()> runs)
        : announces_(std::move(announces)), runs_(std::move(runs)) {}
    void announce(Announcement& to) override { announces_(to); }
    void run() override { runs_(); }

private:
    std::function<void(Announcement&)> announces_;
    std::function<void()> runs_;
};

// All members announce before the first one runs.
TEST_P(NeedsOfPackets, ATeamIsBoundedByItsLines) {
    constexpr int kPackets = 48;
    constexpr uint64_t kLines = 8 + 192 / kCacheLineBytes;  // of a need
    open_rows(options());
    const uint64_t lines_max = sm::engine_of(*store_).needs_team->lines_max();
    for (const uint64_t needs : {1, 12, 30, 60}) {
        int announced = 0, largest = 0;
        std::atomic<int> ran{0};
        std::deque<Announcing> packets;
        for (int n = 0; n < kPackets; ++n)
            packets.emplace_back(
                [&](Announcement& to) {
                    for (uint64_t i = 0; i < needs; ++i) to.add(rows_, key_of(60 * announced));
                    ++announced;
                },
                [&] {
                    largest = std::max(largest, announced - ran);
                    ++ran;
                });
        on_thread(*store_, [&] {  // the worker is busy until all wait
            for (Announcing& packet : packets) EXPECT_TRUE(store_->submit(packet));
        });
        await([&] { return ran == kPackets; });
        EXPECT_EQ(announced, walks() ? kPackets : 0);
        const uint64_t fitting = (lines_max + needs * kLines - 1) / (needs * kLines);
        const int team = static_cast<int>(std::min<uint64_t>(options().steps.team_max, fitting));
        EXPECT_EQ(largest, !walks() ? 0 : teams_on(GetParam()) ? team : 1) << needs << " needs";
    }
}

TEST_P(NeedsOfPackets, WrongOnesCostTimeOnly) {
    open_rows(options());
    Store other = open("b", options());
    Index elsewhere, dropped;
    make_useless(other, elsewhere, dropped);
    const std::string key = key_of(2), huge(100'000, 'k'), longer(49, 'k');
    constexpr int kMillion = 1'000'000;
    const std::function<void(Announcement&)> wrong[] = {
        [&](Announcement& to) {
            to.add(elsewhere, key);
            to.add(Index(), key);
            to.add(rows_, huge);
            to.add(rows_, longer);
            to.add(rows_, "");
        },
        [&](Announcement& to) {
            for (int i = 0; i < kMillion; ++i) to.add(rows_, key, Access::write, UINT32_MAX);
        },
        [&](Announcement& to) {
            for (int i = 0; i < kMillion; ++i) to.add(dropped, key);
        },
    };
    const uint64_t before = walked();
    std::atomic<int> ran{0};
    std::deque<Announcing> packets;
    for (const auto& announces : wrong)
        packets.emplace_back(announces, [&] {
            ASSERT_OK(store_->run([&](Txn& txn) -> Result<void> {
                std::string value;
                EXPECT_TRUE(TRY(rows_.get(txn, key, value)));
                EXPECT_EQ(value, "value 2");
                EXPECT_FALSE(TRY(rows_.get(txn, "", value)));
                EXPECT_FALSE(TRY(rows_.get(txn, longer, value)));
                EXPECT_EQ(dropped.get(txn, key, value).error().code, ErrorCode::no_such_object);
                return {};
            }));
            ++ran;
        });
    // The next one begins no transaction, so nothing takes its places.
    packets.emplace_back([&](Announcement& to) { to.add(rows_, key); }, [&] { ++ran; });
    const int count = static_cast<int>(packets.size());
    on_thread(*store_, [&] {
        for (Announcing& packet : packets) EXPECT_TRUE(store_->submit(packet));
    });
    await([&] { return ran == count; });
    // At most 64 of each packet.
    EXPECT_LE(walked() - before, walks() ? 1 + 64 + 64 + 1 : 0);
    EXPECT_GE(walked() - before, walks() ? 1 + 64 + 1 : 0);
    expect_sound(*store_);
}

}  // namespace lockstep::needs_team_test
