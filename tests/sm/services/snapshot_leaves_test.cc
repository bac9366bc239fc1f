// labels: model
// snapshot_leaves_test.cc - a scan of a snapshot walks over leaves that have not changed since, and
// over others, and turns on them: it shows the state of its begin.
#include "tests/seed_of_run.h"
#include "tests/sm/services/snapshot_test_util.h"
#include "threads/base/rng.h"

namespace lockstep::snapshot_leaves_test {

constexpr uint64_t kRows = 400;

class SnapshotLeaves : public SnapshotTest {
protected:
    static std::string key_of(uint64_t n) { return "key " + std::to_string(10'000 + n); }

    void fill() {
        Txn txn = begin(kWriter);
        for (uint64_t n = 0; n < kRows; n += 2) {
            content_[key_of(n)] = std::string(200 + n % 90, 'a');
            put(txn, key_of(n), content_[key_of(n)]);
        }
        ASSERT_OK(txn.commit());
    }
    // Changes of others beside the scan.
    void change(Rng& rng, uint64_t around) {
        const uint64_t n = std::min(around + rng.below(40), kRows + 20);
        const std::string key = key_of(n < 20 ? 0 : n - 20);
        std::string value;
        Txn txn = begin(kWriter);
        if (rng.chance(0.5)) put(txn, key, std::string(rng.chance(0.1) ? 4000 : 250, 'n'));
        else EXPECT_TRUE(index().erase(txn, key).has_value());
        if (rng.chance(0.2)) {
            ASSERT_OK(txn.abort());
        } else {
            ASSERT_OK(txn.commit());
        }
        if (rng.chance(0.2)) clean();
    }
    void step(Cursor& cursor, bool up, std::optional<std::string>& at) {
        const auto next = up ? (at ? content_.upper_bound(*at) : content_.begin())
                             : (at ? content_.lower_bound(*at) : content_.end());
        const bool more = up ? next != content_.end() : next != content_.begin();
        const auto moved = up ? cursor.next() : cursor.prev();
        ASSERT_TRUE(moved.has_value()) << moved.error().text();
        ASSERT_EQ(*moved, more);
        if (!more) return;
        const auto found = up ? next : std::prev(next);
        ASSERT_EQ(cursor.key(), found->first);
        ASSERT_EQ(cursor.value(), found->second);
        at = found->first;
    }

    Content content_;
};

TEST_F(SnapshotLeaves, AScanShowsTheStateOfItsBeginOnAllOfThem) {
    const uint64_t seed = seed_of_run();
    SCOPED_TRACE("LOCKSTEP_SEED=" + std::to_string(seed));
    on_thread(*store_, [&] {
        Rng rng(seed);
        uint64_t in_place = 0;
        for (int scan = 0; scan < 60 && !HasFailure(); ++scan) {
            Txn all = begin(kWriter);
            for (const auto& [key, value] : SnapshotTest::scan(all))
                EXPECT_TRUE(index().erase(all, key).has_value());
            ASSERT_OK(all.commit());
            content_.clear();
            clean();
            fill();
            // Snapshots of one moment share the place below which nothing is open.
            sleep_for(20 * kMillisecond);
            Txn snapshot = begin(kSnapshot);
            Cursor cursor = index().scan(snapshot);
            std::optional<std::string> at;
            bool up = rng.chance(0.5);
            const uint64_t quiet_steps = rng.below(kRows / 2);
            for (uint64_t n = 0; n < kRows / 2 && !HasFailure(); ++n) {
                if (rng.chance(0.03)) up = !up;
                if (n >= quiet_steps && rng.chance(0.3))
                    change(rng, at ? std::stoul(at->substr(4)) - 10'000 : rng.below(kRows));
                step(cursor, up, at);
            }
            in_place += quiet_steps;
            if (rng.chance(0.3)) {
                EXPECT_EQ(SnapshotTest::scan(snapshot), content_);
            }
            ASSERT_OK(snapshot.commit());
        }
        EXPECT_GT(in_place, 0u);
    });
}

}  // namespace lockstep::snapshot_leaves_test
