// btree_chunks.cc - walks along the level-1 nodes.
#include "sm/btree/btree_chunks.h"

#include "sm/btree/btree_impl.h"
#include "sm/btree/btree_position.h"

namespace lockstep::sm {

using namespace node;

namespace {

constexpr size_t kCutNodesMax = 1024;  // more of them are not cut
constexpr size_t kAheadMax = 64;

// Latches the level-1 node that covers `key`, or the root of a tree that has none. False: the tree
// changed meanwhile.
Result<bool> latch_above_leaf(BTree& tree, Slice key, SharedPage& hold) {
    BTree::Position pos;
    TRY(tree.descend(SearchKey(key), BTree::Side::covering, 1, pos));
    hold = TRY(tree.env().pool->fix_shared(pos.id));
    const unsigned level = hold->header.level;
    return level <= 1 && (level == 1 || pos.id == tree.root()) &&
           is_node_of(*hold, tree.id(), level) && covers(*hold, key);
}

}  // namespace

Result<std::vector<std::string>> cut_into_chunks(BTree& tree, unsigned leaves) {
    DCHECK(leaves > 0 && threads::current()->latch_depth == 0);
    std::vector<std::string> cuts, nodes;
    std::string at;
    char buffer[2 * kKeyBytesMax];
    for (unsigned tries = 0;;) {
        TRY(tree.backoff(tries, tree.root()));
        SharedPage hold;
        if (!TRY(latch_above_leaf(tree, at, hold))) {
            ++tries;
            continue;
        }
        tries = 0;
        const Page& page = *hold;
        if (is_leaf(page)) break;
        if (!at.empty()) nodes.push_back(at);
        if (!at.empty()) cuts.push_back(at);
        // The first child has no slot.
        for (unsigned slot = leaves - 1; slot < count(page); slot += leaves) {
            const Slice key = full_key(page, slot, buffer, sizeof buffer);
            if (key > at && (cuts.empty() || key > cuts.back())) cuts.emplace_back(key);
        }
        if (high_infinite(page)) break;
        DCHECK(node::high(page) > at);  // it moves on
        at.assign(node::high(page));
    }
    return nodes.size() < kCutNodesMax ? std::move(cuts) : std::move(nodes);
}

std::vector<PageId> missing_of_chunk(BTree& tree, Slice low, Slice high) {
    std::vector<PageId> ids;
    char buffer[2 * kKeyBytesMax];
    BufferPool& pool = *tree.env().pool;
    {
        SharedPage hold;
        const Result<bool> found = latch_above_leaf(tree, low, hold);
        if (!found.has_value() || !*found || is_leaf(*hold)) return {};
        const Page& page = *hold;
        for (int i = child_slot(page, SearchKey(low));
             i < static_cast<int>(count(page)) && ids.size() < kAheadMax; ++i) {
            if (i >= 0 && !ids.empty() && !high.empty() &&
                full_key(page, static_cast<unsigned>(i), buffer, sizeof buffer) >= high)
                break;
            ids.push_back(child_at(page, i));
        }
    }
    std::erase_if(ids, [&](PageId id) { return pool.resident(id) != nullptr; });
    return ids;
}

}  // namespace lockstep::sm
