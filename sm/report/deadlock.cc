// deadlock.cc - a search in depth, and a maximum flow by augmenting paths.
#include "sm/report/deadlock.h"

#include <algorithm>
#include <deque>

#include "threads/base/check.h"

namespace lockstep::sm::report {

namespace {

// Each waiter is an entrance and an exit with its cost between them; waits are edges without a
// bound from an exit to an entrance. Those that lead to the first waiter lead to the sink instead.
class Network {
public:
    Network(const std::vector<Waiter>& waiters, uint32_t from)
        : out_(2 * waiters.size() + 1), source_(entrance(from)), sink_(out_.size() - 1) {
        for (uint32_t w = 0; w < waiters.size(); ++w) {
            add(entrance(w), leave(w), waiters[w].cost);
            for (const uint32_t other : waiters[w].waits_for) {
                DCHECK(other < waiters.size());
                add(leave(w), other == from ? sink_ : entrance(other), kCannotKeep);
            }
        }
    }
    // Saturates the cheapest cut. Afterwards reached() tells its side of a vertex.
    void saturate() {
        while (search()) {
            uint64_t flow = kCannotKeep;
            for (size_t at = sink_; at != source_; at = edges_[came_by_[at] ^ 1].to)
                flow = std::min(flow, edges_[came_by_[at]].left);
            CHECK(flow != kCannotKeep);  // a cycle of waits for empty inputs: no plan has one
            for (size_t at = sink_; at != source_; at = edges_[came_by_[at] ^ 1].to) {
                take(came_by_[at], flow);
                edges_[came_by_[at] ^ 1].left += flow;
            }
        }
    }
    bool cut(uint32_t w) const { return reached(entrance(w)) && !reached(leave(w)); }

private:
    static constexpr size_t kNone = ~size_t{0};
    struct Edge {
        size_t to;
        uint64_t left;
    };
    static size_t entrance(uint32_t w) { return 2 * size_t{w}; }
    static size_t leave(uint32_t w) { return 2 * size_t{w} + 1; }
    bool reached(size_t vertex) const { return came_by_[vertex] != kNone; }
    void take(size_t edge, uint64_t flow) {
        if (edges_[edge].left != kCannotKeep) edges_[edge].left -= flow;
    }
    void add(size_t from, size_t to, uint64_t capacity) {
        out_[from].push_back(edges_.size());
        edges_.push_back({to, capacity});
        out_[to].push_back(edges_.size());
        edges_.push_back({from, 0});
    }
    // True: there is a path with room to the sink.
    bool search() {
        came_by_.assign(out_.size(), kNone);
        came_by_[source_] = 0;
        std::deque<size_t> next = {source_};
        for (; !next.empty(); next.pop_front())
            for (const size_t edge : out_[next.front()]) {
                const size_t to = edges_[edge].to;
                if (edges_[edge].left == 0 || reached(to)) continue;
                came_by_[to] = edge;
                next.push_back(to);
            }
        return reached(sink_);
    }

    std::vector<std::vector<size_t>> out_;
    std::vector<Edge> edges_;  // edge i ^ 1 is the way back
    std::vector<size_t> came_by_;
    size_t source_, sink_;
};

}  // namespace

bool waits_for_itself(const std::vector<Waiter>& waiters, uint32_t from) {
    DCHECK(from < waiters.size());
    std::vector<bool> seen(waiters.size());
    std::vector<uint32_t> next = {from};
    while (!next.empty()) {
        const uint32_t at = next.back();
        next.pop_back();
        for (const uint32_t other : waiters[at].waits_for) {
            if (other == from) return true;
            if (!seen[other]) next.push_back(other);
            seen[other] = true;
        }
    }
    return false;
}

std::vector<uint32_t> cheapest_to_keep(const std::vector<Waiter>& waiters, uint32_t from) {
    DCHECK(waits_for_itself(waiters, from));
    Network network(waiters, from);
    network.saturate();
    std::vector<uint32_t> out;
    for (uint32_t w = 0; w < waiters.size(); ++w)
        if (network.cut(w)) out.push_back(w);
    DCHECK(!out.empty() && std::ranges::is_sorted(out));
    return out;
}

}  // namespace lockstep::sm::report
