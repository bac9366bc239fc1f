// labels: model
// packet_heap_test.cc - the heap of packets that wait for a time, against a sorted set.
#include "threads/worker/packet_heap.h"

#include <gtest/gtest.h>

#include <map>
#include <vector>

#include "tests/seed_of_run.h"
#include "threads/base/rng.h"

namespace lockstep::threads::packet_heap_test {

struct Idle final : Packet {
    void run() override {}
};

TEST(PacketHeap, RandomOperations) {
    Rng rng(seed_of_run());
    std::vector<Idle> packets(300);
    PacketHeap heap;
    std::map<std::pair<Nanos, uint64_t>, Idle*> model;
    std::map<Idle*, std::pair<Nanos, uint64_t>> inside;
    uint64_t number = 0;
    for (int n = 0; n < 20'000; ++n) {
        Idle& packet = packets[rng.below(packets.size())];
        if (const auto at = inside.find(&packet); at != inside.end()) {
            heap.remove(packet);
            model.erase(at->second);
            inside.erase(at);
        } else {
            packet.not_before = rng.below(50);
            heap.add(packet);
            inside[&packet] = {packet.not_before, ++number};
            model[inside[&packet]] = &packet;
        }
        if (rng.below(4) == 0) {
            const Nanos now = rng.below(50);
            Packet* const due = heap.pop_due(now);
            const bool any = !model.empty() && model.begin()->first.first <= now;
            ASSERT_EQ(due, any ? model.begin()->second : nullptr);
            if (any) inside.erase(model.begin()->second), model.erase(model.begin());
        }
        ASSERT_EQ(heap.size(), model.size());
        ASSERT_EQ(heap.earliest(), model.empty() ? kNever : model.begin()->first.first);
        if (n % 64 == 0) heap.verify();
    }
}

// Ascending, descending and equal times; each of them ends in order.
TEST(PacketHeap, ManyInOrder) {
    std::vector<Idle> packets(100'000);
    for (const int shape : {0, 1, 2}) {
        PacketHeap heap;
        for (size_t n = 0; n < packets.size(); ++n) {
            packets[n].not_before = shape == 0 ? n : shape == 1 ? packets.size() - n : 7;
            heap.add(packets[n]);
        }
        heap.verify();
        Nanos last = 0;
        size_t count = 0;
        for (; Packet* const packet = heap.pop_due(kNever); ++count) {
            ASSERT_GE(packet->not_before, last);
            ASSERT_TRUE(shape != 2 || packet == &packets[count]);
            last = packet->not_before;
        }
        EXPECT_EQ(count, packets.size());
    }
}

}  // namespace lockstep::threads::packet_heap_test
