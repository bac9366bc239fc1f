// two_phase_nodes.h - the simulated stores of two_phase_test.cc, each on a disk of its own: their
// steps, their power cuts, and their restarts, which a power cut may end too.
#pragma once

#include <gtest/gtest.h>

#include <array>
#include <functional>
#include <memory>
#include <optional>

#include "sm/engine/engine.h"
#include "tests/sim_store.h"
#include "tests/sm/test_util.h"
#include "threads/base/rng.h"

namespace lockstep {

class Nodes {
public:
    static constexpr int kMax = 4;
    using Ended = std::function<void(const Result<bool>&)>;

    // `count` new stores, each with an index "i". `rng` makes all choices.
    Nodes(Rng& rng, int count, bool syncs_after_write) : rng_(rng), count_(count) {
        CHECK(count <= kMax);
        for (int n = 0; n < count_; ++n) {
            nodes_[n].disk = std::make_unique<threads::SimDisk>(
                threads::SimOptions{.seed = rng_.next(), .syncs_after_write = syncs_after_write});
            open(n);
            EXPECT_TRUE(store(n).run([&](Txn& txn) -> Result<void> {
                TRY(store(n).create_index(txn, "i"));
                return {};
            }));
        }
    }
    int count() const { return count_; }
    bool up(int n) const { return nodes_[n].sim && nodes_[n].sim->is_open(); }
    Store& store(int n) { return **nodes_[n].sim; }

    // Sometimes the power goes again before the restart has ended.
    void open(int n);
    // Cuts the power of a node that is up.
    void cut(int n, threads::SimCrash mode) {
        auto image = nodes_[n].disk->image(rng_.next(), mode);
        lose(nodes_[n], std::move(image));
    }
    void stay_down(int n, uint64_t turns) { nodes_[n].down_for = turns; }
    // Takes a turn of a node that is down; whether it is to be opened.
    bool is_due(int n) {
        if (nodes_[n].down_for == 0) return true;
        --nodes_[n].down_for;
        return false;
    }
    void step(int n, Nanos tick) { nodes_[n].sim->step(tick); }
    // Runs `work` on a user thread of the node. `ended` is called unless a crash comes first.
    void call(int n, std::function<Result<bool>()> work, Ended ended) {
        const auto started = nodes_[n].sim->engine().start_thread(-1, "call", [work, ended] {
            const Result<bool> result = work();
            ended(result);
        });
        ASSERT_OK(started);
    }
    void close() {
        for (int n = 0; n < count_; ++n) {
            const auto faults = store(n).verify();
            ASSERT_OK(faults);
            for (const auto& fault : *faults) ADD_FAILURE() << fault;
            EXPECT_TRUE(nodes_[n].sim->close());
        }
    }

private:
    struct Node {
        std::unique_ptr<threads::SimDisk> disk;
        std::optional<SimStore> sim;
        uint64_t opens = 0;
        uint64_t down_for = 0;  // turns until it is opened again
    };
    static void lose(Node& node, std::unique_ptr<threads::SimDisk> image) {
        node.sim->abandon();
        node.sim.reset();
        node.disk = std::move(image);
    }

    Rng& rng_;
    const int count_;
    std::array<Node, kMax> nodes_;
};

inline void Nodes::open(int n) {
    Node& node = nodes_[n];
    for (;;) {
        std::unique_ptr<threads::SimDisk> image;
        const uint64_t cut_at = rng_.chance(0.3) ? rng_.below(60) : UINT64_MAX;
        uint64_t events = 0;
        node.disk->observe([&](const threads::SimEvent&) {
            if (events++ == cut_at)
                image = node.disk->image(rng_.next(), threads::kSimCrashes[rng_.below(5)]);
        });
        node.sim.emplace(*node.disk, rng_.next(), 1 + static_cast<uint32_t>(rng_.below(2)));
        node.sim->options().lock_timeout = 20 * kMillisecond;
        node.sim->options().checkpoint_log_bytes = 1 << 20;
        const auto opened = node.sim->open();
        node.disk->observe({});
        ASSERT_OK(opened);
        // A store that is new has nothing that its test could look for.
        if (!image || node.opens == 0) break;
        lose(node, std::move(image));
    }
    ++node.opens;
}

}  // namespace lockstep
