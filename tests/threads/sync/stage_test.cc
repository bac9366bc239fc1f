// labels: unit tsan
// stage_test.cc - stages: order and ageing, gates, ways out, back-pressure,
// conservation, several workers.
#include "threads/sync/stage.h"
#include "tests/seed_of_run.h"

#include <gtest/gtest.h>

#include <cstdlib>
#include <deque>
#include <memory>
#include <vector>

#include "threads/base/rng.h"
#include "threads/base/spin_lock.h"
#include "threads/runtime/runtime.h"

namespace lockstep::threads::stage_test {

struct Packet {
    Packet* next = nullptr;
    Packet* prev = nullptr;
    Nanos entered = 0;
    uint32_t bypassed = 0;
    uint32_t rank = 0;
    bool first_class = false;
    uint32_t number = 0;
};
using OwnStage = Stage<Packet, false>;
using SharedStage = Stage<Packet, true>;
using Line = StageLine<Packet>;

Precedence by_rank(const Packet& arriving, const Packet& waiting) {
    if (arriving.first_class != waiting.first_class)
        return arriving.first_class ? Precedence::always_before : Precedence::behind;
    return arriving.rank < waiting.rank ? Precedence::before : Precedence::behind;
}

std::vector<Packet> packets(std::initializer_list<uint32_t> ranks) {
    std::vector<Packet> made;
    for (const uint32_t rank : ranks)
        made.push_back({.rank = rank, .number = static_cast<uint32_t>(made.size())});
    return made;
}
std::vector<uint32_t> numbers(const Line& line) {
    std::vector<uint32_t> out;
    for (const Packet* at = line.first; at; at = at->next) out.push_back(at->number);
    return out;
}
using Numbers = std::vector<uint32_t>;

TEST(Stage, FirstComeFirstServed) {
    OwnStage stage;
    Line line;
    auto p = packets({3, 1, 2});
    for (auto& packet : p) stage.enqueue(line, packet, 100);
    EXPECT_EQ(numbers(line), (Numbers{0, 1, 2}));
    EXPECT_EQ(stage.verify(3, 0), "");
    auto batch = stage.open(line);
    for (uint32_t i = 0; i < 3; ++i) EXPECT_EQ(stage.dequeue(batch, 100 + 10 * i)->number, i);
    EXPECT_EQ(stage.dequeue(batch, 200), nullptr);
    EXPECT_EQ(stage.verify(0, 3), "");
    stage.finish(3);
    EXPECT_EQ(stage.verify(0, 0), "");
    const StageStats s = stage.stats();
    EXPECT_EQ(s.wait.count, 3u);
    EXPECT_EQ(s.wait.sum, 30u);
    EXPECT_EQ(s.batch.count, 1u);
    EXPECT_EQ(s.batch.max, 3u);
    EXPECT_EQ(s.length.sum, 0u + 1 + 2);
    EXPECT_TRUE(s.conserved());
}

TEST(Stage, OrderAgesAndFirstClassDoesNot) {
    OwnStage stage({.order = by_rank, .bypass_max = 2});
    Line line;
    auto p = packets({10, 1, 1, 1, 0, 0});
    for (uint32_t i = 0; i < 4; ++i) stage.enqueue(line, p[i], 0);
    // 0 was overtaken twice, 3 must stay behind it.
    EXPECT_EQ(numbers(line), (Numbers{1, 2, 0, 3}));
    EXPECT_EQ(p[0].bypassed, 2u);
    p[5].first_class = true;
    stage.enqueue(line, p[5], 0);
    EXPECT_EQ(numbers(line), (Numbers{5, 1, 2, 0, 3}));  // as of right, and not counted
    EXPECT_EQ(p[0].bypassed, 2u);
    stage.enqueue(line, p[4], 0);
    EXPECT_EQ(numbers(line), (Numbers{5, 1, 2, 0, 4, 3}));
    EXPECT_EQ(stage.stats().bypasses, 3u);
    EXPECT_EQ(stage.stats().bypassed_max, 2u);
    EXPECT_EQ(OwnStage::verify_line(line), "");
    for (auto& packet : p) stage.cancel(line, packet);
    EXPECT_TRUE(line.empty());
    EXPECT_EQ(stage.verify(0, 0), "");
}

TEST(Stage, PromotionIsOvertaking) {
    OwnStage stage({.bypass_max = 1});
    Line line;
    auto p = packets({0, 0, 0, 0});
    for (auto& packet : p) stage.enqueue(line, packet, 0);
    EXPECT_TRUE(stage.promote(line, p[2], p[0]));
    EXPECT_EQ(numbers(line), (Numbers{2, 0, 1, 3}));
    EXPECT_FALSE(stage.promote(line, p[3], p[2]));  // 0 and 1 have been overtaken
    EXPECT_FALSE(stage.promote(line, p[3], p[1]));
    EXPECT_TRUE(stage.promote(line, p[0], p[2]));  // 2 has not
    EXPECT_EQ(numbers(line), (Numbers{0, 2, 1, 3}));
    EXPECT_EQ(stage.stats().bypasses, 3u);
    EXPECT_EQ(OwnStage::verify_line(line), "");
    EXPECT_EQ(stage.verify(4, 0), "");
}

// How many packets the first batch takes if 5 wait and 2 come while it is taken, and the second.
std::pair<size_t, size_t> batches(StageGate gate, uint32_t batch_max) {
    OwnStage stage({.gate = gate, .batch_max = batch_max});
    Line line;
    std::deque<Packet> p(7);
    for (int i = 0; i < 5; ++i) stage.enqueue(line, p[i], 0);
    size_t sizes[2] = {};
    for (size_t& size : sizes) {
        auto batch = stage.open(line);
        while (stage.dequeue(batch, 0)) {
            ++size;
            if (size == 1 && &size == sizes)
                for (int i = 5; i < 7; ++i) stage.enqueue(line, p[i], 0);
            stage.finish();
        }
    }
    EXPECT_EQ(stage.stats().batch.count, 1u + (sizes[1] > 0));
    return {sizes[0], sizes[1]};
}

TEST(Stage, Gates) {
    using Sizes = std::pair<size_t, size_t>;
    EXPECT_EQ(batches(StageGate::fcfs, 0), (Sizes{1, 1}));
    EXPECT_EQ(batches(StageGate::t_gated, 2), (Sizes{2, 2}));
    EXPECT_EQ(batches(StageGate::t_gated, 9), (Sizes{5, 2}));
    EXPECT_EQ(batches(StageGate::d_gated, 0), (Sizes{5, 2}));
    EXPECT_EQ(batches(StageGate::c_gated, 0), (Sizes{5, 2}));
    EXPECT_EQ(batches(StageGate::c_gated, 3), (Sizes{3, 3}));
    EXPECT_EQ(batches(StageGate::non_gated, 0), (Sizes{7, 0}));
    const OwnStage cut({.gate = StageGate::c_gated, .cutoff = 10}),
        uncut({.gate = StageGate::d_gated, .cutoff = 10});
    EXPECT_TRUE(cut.stays_behind(11) && !cut.stays_behind(10) && !uncut.stays_behind(11));
}

TEST(Stage, WholeBatchesAreSortedStably) {
    Rng rng(seed_of_run(5));
    for (size_t n = 0; n < 70; ++n) {
        OwnStage stage;
        Line line;
        std::vector<Packet> p(n);
        for (uint32_t i = 0; i < n; ++i) {
            p[i].rank = static_cast<uint32_t>(rng.below(n / 2 + 1));
            p[i].number = i;
            stage.enqueue(line, p[i], 0);
        }
        size_t seen = 0;
        Packet* first = stage.dequeue_all(
            line, 0, [](const Packet& a, const Packet& b) { return a.rank < b.rank; });
        for (Packet* at = first; at; at = at->next, ++seen)
            if (at->next) {
                ASSERT_TRUE(at->rank < at->next->rank ||
                            (at->rank == at->next->rank && at->number < at->next->number));
            }
        ASSERT_EQ(seen, n);
        stage.finish(n);
        ASSERT_EQ(stage.verify(0, 0), "");
    }
}

TEST(Stage, ForwardAndRequeueKeepPacketsInTheBooks) {
    OwnStage first, second;
    Line a, b;
    auto p = packets({0, 0});
    for (auto& packet : p) first.enqueue(a, packet, 0);
    auto batch = first.open(a);
    Packet* one = first.dequeue(batch, 5);
    Packet* two = first.dequeue(batch, 5);
    first.forward(*one, second, b, 5);
    first.requeue(a, *two, 5);
    EXPECT_EQ(first.dequeue(batch, 6), nullptr);  // the gate has closed behind the batch
    EXPECT_EQ(first.verify(1, 0), "");
    EXPECT_EQ(second.verify(1, 0), "");
    EXPECT_NE(first.verify(0, 1), "");  // the check can fail
    EXPECT_EQ(first.stats().requeued, 1u);
    EXPECT_EQ(first.stats().forwarded, 1u);
}

TEST(Stage, HistogramsTellPercentiles) {
    StageHistogram h;
    for (uint64_t v = 1; v <= 100000; ++v) h.record(v);
    EXPECT_NEAR(static_cast<double>(h.percentile(0.5)), 50000, 50000 * 0.07);
    EXPECT_NEAR(static_cast<double>(h.percentile(0.99)), 99000, 99000 * 0.07);
    EXPECT_EQ(h.percentile(1), 100000u);
    h.record(UINT64_MAX);
    EXPECT_EQ(h.max, UINT64_MAX);
}

TEST(Stage, HistogramsOfDifferentLengthsAddUp) {
    StageHistogram few, many;
    few.record(3);
    many.record(1'000'000);
    many.record(3);
    StageHistogram sum = few;
    sum.add(many);
    StageHistogram other_way = many;
    other_way.add(few);
    EXPECT_EQ(sum.buckets, other_way.buckets);
    EXPECT_EQ(sum.count, 3u);
    EXPECT_EQ(sum.percentile(0.5), 3u);
    EXPECT_EQ(sum.since(few).buckets, many.buckets);
    EXPECT_EQ(StageHistogram{}.percentile(0.5), 0u);
}

TEST(Stage, ClassesDoNotStarve) {
    StageClasses<4> classes(8);
    uint32_t waited = 0, served = 0;
    for (int i = 0; i < 1000; ++i) {
        // Classes 0, 1 and 3 always have something.
        const size_t chosen = classes.pick(0b1011);
        waited = chosen == 3 ? 0 : waited + 1;
        served += chosen == 3;
        EXPECT_LE(waited, 8u + 2);
        EXPECT_NE(chosen, 2u);
    }
    EXPECT_GT(served, 80u);
    EXPECT_EQ(classes.pick(0b0100), 2u);
}

// Random use against a vector: the order of the line, the bound on overtaking, and the books.
TEST(Stage, BehavesLikeASortedVectorWithAgeing) {
    const uint64_t seed = seed_of_run(11);
    for (uint64_t trial = 0; trial < 200; ++trial) {
        Rng rng(seed + trial);
        const auto bypass_max = static_cast<uint32_t>(rng.below(6));
        OwnStage stage({.order = by_rank, .bypass_max = bypass_max});
        Line line;
        std::deque<Packet> all(60);
        std::vector<Packet*> model, service;
        uint32_t next = 0;
        const auto enter = [&](Packet* packet) {
            size_t at = model.size();
            while (at > 0) {
                const Packet& w = *model[at - 1];
                const Precedence p = by_rank(*packet, w);
                if (p == Precedence::behind ||
                    (p == Precedence::before && w.bypassed >= bypass_max))
                    break;
                --at;
            }
            model.insert(model.begin() + static_cast<ptrdiff_t>(at), packet);
        };
        while (next < all.size() || !model.empty() || !service.empty()) {
            const uint64_t what = rng.below(6);
            if (what < 3 && next < all.size()) {
                Packet& packet = all[next];
                packet = {.rank = static_cast<uint32_t>(rng.below(4)),
                          .first_class = rng.chance(0.1),
                          .number = next};
                ++next;
                enter(&packet);
                stage.enqueue(line, packet, 0);
            } else if (what == 3 && !model.empty()) {
                auto batch = stage.open(line);
                Packet* packet = stage.dequeue(batch, 0);
                ASSERT_EQ(packet, model.front());
                model.erase(model.begin());
                service.push_back(packet);
            } else if (what == 4 && !model.empty()) {
                const auto victim = model.begin() + static_cast<ptrdiff_t>(rng.below(model.size()));
                stage.cancel(line, **victim);
                model.erase(victim);
            } else if (what == 5 && !service.empty()) {
                Packet* packet = service.back();
                service.pop_back();
                if (rng.chance(0.5)) {
                    stage.finish();
                } else {
                    enter(packet);
                    stage.requeue(line, *packet, 0);
                }
            }
            Numbers expected;
            for (const Packet* packet : model) {
                expected.push_back(packet->number);
                ASSERT_LE(packet->bypassed, bypass_max);
            }
            ASSERT_EQ(numbers(line), expected) << "seed " << seed + trial;
            ASSERT_EQ(OwnStage::verify_line(line), "");
            ASSERT_EQ(stage.verify(model.size(), service.size()), "") << "seed " << seed + trial;
        }
        const StageStats s = stage.stats();
        EXPECT_EQ(s.entered, all.size());
        EXPECT_EQ(s.finished + s.cancelled, all.size());
    }
}

// A full stage suspends who would bring more, in the order in which they came, and nobody else.
TEST(Stage, BackPressureSuspendsTheProducerOnly) {
    ManualClock clock;
    auto runtime = *Runtime::start({.caller_driven = true, .clock = &clock});
    OwnStage stage({.capacity = 3});
    Line line;
    std::deque<Packet> p(10);
    uint32_t entered = 0;
    uint64_t elsewhere = 0;
    bool stop = false;
    for (uint32_t i = 0; i < 9; ++i) {
        p[i].number = i;
        ASSERT_TRUE(runtime->spawn(0, "producer", [&, i] {
            ASSERT_TRUE(stage.admit());
            stage.enqueue(line, p[i], now());
            ++entered;
        }));
    }
    bool in_time = true;
    ASSERT_TRUE(
        runtime->spawn(0, "impatient", [&] { in_time = stage.admit(now() + kMillisecond); }));
    ASSERT_TRUE(runtime->spawn(0, "other", [&] {
        while (!stop) {
            ++elsewhere;
            yield();
        }
    }));
    const auto run = [&] {
        for (int i = 0; i < 200; ++i) runtime->step();
    };
    run();
    EXPECT_EQ(entered, 3u);
    EXPECT_FALSE(stage.try_admit());
    EXPECT_EQ(stage.verify(3, 0), "");
    const uint64_t before = elsewhere;
    run();
    EXPECT_GT(elsewhere, before + 150);  // it had the worker for itself
    clock.advance(2 * kMillisecond);
    run();
    EXPECT_FALSE(in_time);
    for (uint32_t served = 0; served < 9; ++served) {
        auto batch = stage.open(line);
        Packet* packet = stage.dequeue(batch, 0);
        ASSERT_NE(packet, nullptr);
        EXPECT_EQ(packet->number, served);
        run();
        EXPECT_EQ(entered, std::min(9u, 3 + served));  // in service is inside
        stage.finish();
        run();
        EXPECT_EQ(entered, std::min(9u, 3 + served + 1));
    }
    EXPECT_EQ(stage.verify(0, 0), "");
    EXPECT_EQ(stage.stats().suspended, 7u);
    stop = true;
    runtime->stop();
}

// Producers and consumers on several workers, each line under its owner's lock: nothing is lost, no
// bound is broken.
TEST(Stage, SharedByWorkers) {
    const uint64_t seed = seed_of_run(21);
    constexpr uint32_t kLines = 3, kProducers = 12, kEach = 300;
    constexpr uint64_t kCapacity = 8;
    struct Guarded {
        SpinLock lock;
        Line line;
    };
    Guarded lines[kLines];
    SharedStage stage({.order = by_rank, .bypass_max = 4, .capacity = kCapacity});
    std::atomic<uint32_t> producing{kProducers}, served{0}, cancelled{0};
    auto runtime = *Runtime::start({.workers = 4});
    for (uint32_t i = 0; i < kProducers; ++i)
        ASSERT_TRUE(runtime->spawn(i, "producer", [&, i] {
            Rng rng(seed + i);
            std::vector<Packet> mine(kEach);
            std::vector<Guarded*> place(kEach);
            for (uint32_t k = 0; k < kEach; ++k) {
                mine[k].rank = static_cast<uint32_t>(rng.below(4));
                Guarded& to = *(place[k] = &lines[rng.below(kLines)]);
                ASSERT_TRUE(stage.admit());
                const SpinGuard guard(to.lock);
                stage.enqueue(to.line, mine[k], now());
            }
            // Cancel or wait for each: the packets live on this stack.
            for (uint32_t k = 0; k < kEach; ++k) {
                for (;;) {
                    {
                        const SpinGuard guard(place[k]->lock);
                        bool queued = false;
                        for (Packet* at = place[k]->line.first; at; at = at->next)
                            queued |= at == &mine[k];
                        if (queued && rng.chance(0.5)) {
                            stage.cancel(place[k]->line, mine[k]);
                            ++cancelled;
                            queued = false;
                        }
                        if (!queued) break;
                    }
                    yield();
                }
            }
            --producing;
        }));
    for (uint32_t i = 0; i < 2; ++i)
        ASSERT_TRUE(runtime->spawn(i, "consumer", [&, i] {
            for (uint32_t at = i; producing > 0; at = (at + 1) % kLines) {
                uint32_t taken = 0;
                {
                    const SpinGuard guard(lines[at].lock);
                    auto batch = stage.open(lines[at].line);
                    while (Packet* packet = stage.dequeue(batch, now())) {
                        EXPECT_LE(packet->bypassed, 4u);
                        ++taken;
                    }
                }
                served += taken;
                if (taken) stage.finish(taken);
                yield();
            }
        }));
    runtime->stop();
    EXPECT_EQ(producing, 0u);
    for (auto& guarded : lines) EXPECT_TRUE(guarded.line.empty());
    EXPECT_EQ(stage.verify(0, 0), "");
    const StageStats s = stage.stats();
    EXPECT_EQ(s.entered, uint64_t{kProducers} * kEach);
    EXPECT_EQ(s.finished, served);
    EXPECT_EQ(s.cancelled, cancelled);
    EXPECT_LE(s.bypassed_max, 4u);
    EXPECT_GT(s.suspended, 0u);
}

}  // namespace lockstep::threads::stage_test
