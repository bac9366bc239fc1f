// dependency_graph.h - transactions and what orders them; cycles and the shortest witness of each.
//
// Concepts   An edge says that one transaction came before another one. `counted`: the reader's
//            level promises it. Anti-dependencies that no level promises lead to cycles that are
//            permitted. Real time is a chain of moments: a transaction has an edge to the moment of
//            its end, and a moment has edges to the next one and to what began before that. So the
//            number of edges stays linear.
// Source     R. Tarjan, "Depth-first search and linear graph algorithms", 1972.
#pragma once

#include <algorithm>
#include <cstdint>
#include <deque>
#include <string>
#include <vector>

#include "tests/isolation/observed.h"

namespace lockstep::isolation {

enum class EdgeKind : uint8_t { ww, wr, rw_record, rw_absent, process, time };
inline constexpr const char* kEdgeNames[] = {"ww", "wr", "rw", "rw (absent)", "process", "time"};

struct Edge {
    uint32_t from = 0, to = 0;
    EdgeKind kind = EdgeKind::ww;
    bool counted = true;
    Object object = {};
    Element was = kInitial, is = kInitial;  // version at `from`, and that at `to`
    bool is_rw() const { return kind == EdgeKind::rw_record || kind == EdgeKind::rw_absent; }
};

class Graph {
public:
    using Cycle = std::vector<Edge>;

    explicit Graph(size_t nodes) : out_(nodes) {}
    uint32_t add_node() {
        out_.emplace_back();
        return static_cast<uint32_t>(out_.size() - 1);
    }
    void add(const Edge& edge) {
        if (edge.from != edge.to) out_[edge.from].push_back(edge);
    }
    size_t edges() const {
        size_t sum = 0;
        for (const auto& list : out_) sum += list.size();
        return sum;
    }

    // Component of each node, as far as edges that `use` accepts lead.
    template <class Use>
    std::vector<uint32_t> components(Use use) const {
        const auto n = static_cast<uint32_t>(out_.size());
        std::vector<uint32_t> index(n, 0), low(n, 0), component(n, 0), stack;
        std::vector<bool> open(n, false);
        struct Frame {
            uint32_t node;
            size_t next;
        };
        std::vector<Frame> frames;
        uint32_t visited = 0, found = 0;
        for (uint32_t root = 0; root < n; ++root) {
            if (index[root] != 0) continue;
            frames.push_back({root, 0});
            while (!frames.empty()) {
                auto& [v, next] = frames.back();
                if (next == 0 && index[v] == 0) {
                    index[v] = low[v] = ++visited;
                    stack.push_back(v);
                    open[v] = true;
                }
                if (next < out_[v].size()) {
                    const Edge& e = out_[v][next++];
                    if (!use(e)) continue;
                    if (index[e.to] == 0) frames.push_back({e.to, 0});
                    else if (open[e.to]) low[v] = std::min(low[v], index[e.to]);
                    continue;
                }
                if (low[v] == index[v]) {
                    for (uint32_t w = UINT32_MAX; w != v;) {
                        w = stack.back();
                        stack.pop_back();
                        open[w] = false;
                        component[w] = found;
                    }
                    ++found;
                }
                const uint32_t done = v;
                frames.pop_back();
                if (!frames.empty()) {
                    const uint32_t above = frames.back().node;
                    low[above] = std::min(low[above], low[done]);
                }
            }
        }
        return component;
    }

    // A shortest cycle among those that begin with an edge that `first` accepts and go on along
    // edges that `use` accepts; empty if there is none. `fits` looks at the shortest cycle of each
    // beginning. After `tries` beginnings it takes what it has found: a history without promises is
    // one large component.
    template <class First, class Use, class Fits = bool (*)(const Cycle&)>
    Cycle shortest(
        First first, Use use, uint32_t tries = UINT32_MAX,
        Fits fits = [](const Cycle&) { return true; }) const {
        const auto component = components([&](const Edge& e) { return first(e) || use(e); });
        Cycle best;
        for (const auto& list : out_)
            for (const Edge& e : list) {
                if (!first(e) || component[e.from] != component[e.to]) continue;
                if (tries-- == 0) return best;
                Cycle path = shortest_path(e.to, e.from, component, use);
                if (path.empty()) continue;
                path.insert(path.begin(), e);
                if (!fits(path)) continue;
                if (best.empty() || path.size() < best.size()) best = std::move(path);
                if (best.size() == 2) return best;
            }
        return best;
    }

private:
    template <class Use>
    Cycle shortest_path(uint32_t from, uint32_t to, const std::vector<uint32_t>& component,
                        Use use) const {
        std::vector<const Edge*> came(out_.size(), nullptr);
        std::deque<uint32_t> queue{from};
        while (!queue.empty() && came[to] == nullptr) {
            const uint32_t v = queue.front();
            queue.pop_front();
            for (const Edge& e : out_[v]) {
                if (!use(e) || component[e.to] != component[v]) continue;
                if (came[e.to] != nullptr || e.to == from) continue;
                came[e.to] = &e;
                queue.push_back(e.to);
            }
        }
        Cycle path;
        for (uint32_t v = to; came[v] != nullptr; v = came[v]->from) path.push_back(*came[v]);
        std::ranges::reverse(path);
        return path;
    }

    std::vector<std::vector<Edge>> out_;
};

}  // namespace lockstep::isolation
