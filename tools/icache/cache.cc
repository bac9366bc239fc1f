// cache.cc - replacement.
#include "tools/icache/cache.h"

#include <algorithm>
#include <bit>

namespace lockstep::icache {

Cache::Cache(const Geometry& geometry)
    : geometry_(geometry),
      line_shift_(static_cast<uint32_t>(std::countr_zero(geometry.line))),
      full_(geometry.full()),
      ways_(geometry.ways_real()),
      set_mask_(geometry.sets() - 1) {
    clear();
}

void Cache::clear() {
    last_ = kNone;
    if (full_) {
        nodes_.assign(1, {kNone, 0, 0});
        index_.clear();
    } else {
        tags_.assign(geometry_.lines(), kNone);
    }
}

bool Cache::access_set(uint64_t line) {
    uint64_t* set = &tags_[(line & set_mask_) * ways_];
    uint32_t at = 0;
    while (at < ways_ && set[at] != line) ++at;
    const bool hit = at < ways_;
    for (uint32_t i = hit ? at : ways_ - 1; i > 0; --i) set[i] = set[i - 1];
    set[0] = line;
    return hit;
}

void Cache::to_front(uint32_t node) {
    nodes_[node].prev = 0;
    nodes_[node].next = nodes_[0].next;
    nodes_[nodes_[0].next].prev = node;
    nodes_[0].next = node;
}

bool Cache::access_full(uint64_t line) {
    const auto found = index_.find(line);
    const bool hit = found != index_.end();
    uint32_t node;
    if (!hit && nodes_.size() <= ways_) {
        node = static_cast<uint32_t>(nodes_.size());
        nodes_.push_back({line, 0, 0});
    } else {
        node = hit ? found->second : nodes_[0].prev;
        nodes_[nodes_[node].prev].next = nodes_[node].next;
        nodes_[nodes_[node].next].prev = nodes_[node].prev;
        if (!hit) index_.erase(nodes_[node].line);
    }
    nodes_[node].line = line;
    to_front(node);
    if (!hit) index_.emplace(line, node);
    return hit;
}

}  // namespace lockstep::icache
