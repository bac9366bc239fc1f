// btree_chunks.cc - walks along the level-1 nodes: where to cut a tree, and how much a range has.
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

// Calls visit(node, at) for the level-1 nodes in the order of their keys, each latched, or for the
// root of a tree that has none. The first one covers `at`, and each further one begins there. Ends
// when `visit` returns false.
template <class Visit>
Result<void> walk_above_leaves(BTree& tree, std::string at, Visit visit) {
    DCHECK(threads::current()->latch_depth == 0);
    for (unsigned tries = 0;;) {
        TRY(tree.backoff(tries, tree.root()));
        SharedPage hold;
        if (!TRY(latch_above_leaf(tree, at, hold))) {
            ++tries;
            continue;
        }
        tries = 0;
        const Page& page = *hold;
        if (!visit(page, Slice(at)) || is_leaf(page) || high_infinite(page)) return {};
        DCHECK(node::high(page) > at);  // it moves on
        at.assign(node::high(page));
    }
}

// About the records and leaves of a range.
class Estimate {
public:
    Estimate(BTree& tree, Slice low, Slice high) : tree_(tree), low_(low), high_(high) {}

    bool add(const Page& node, Slice at) {
        DCHECK(is_node_of(node, tree_.id(), node.header.level) && covers(node, SearchKey(at)));
        if (is_leaf(node)) {
            DCHECK(node.id() == tree_.root());
            add_part(node);
            return false;
        }
        const bool ends = !high_.empty() && (high_infinite(node) || high_ < node::high(node));
        const int last =
            ends ? child_slot(node, SearchKey(high_)) : static_cast<int>(count(node)) - 1;
        const int first = child_slot(node, SearchKey(at));
        DCHECK(first <= last && last < static_cast<int>(count(node)));
        const int stride = std::max((last - first) / kLooksInNode, 1);
        for (int i = first; i <= last; ++i) {
            const bool whole = !(ends && i == last) && !(i == first && at == low_ && !at.empty());
            whole_ += whole;
            if (!whole && !look(child_at(node, i), false)) ++halves_;
            if (whole && (i - first) % stride == 0) (void)look(child_at(node, i), true);
        }
        return !ends && (high_.empty() || node::high(node) != high_);
    }
    bool knows_a_leaf() const { return leaves_seen_ != 0; }
    RangeSize result() const {
        const uint64_t leaves_by_2 = 2 * whole_ + halves_;
        DCHECK(halves_ <= 2 && (leaves_seen_ != 0 || records_seen_ == 0));
        DCHECK(part_bytes_ <= 2 * kPageBytes);
        return {.bytes = part_bytes_ + leaves_by_2 * kPageBytes / 2,
                .records = part_records_ +
                           leaves_by_2 * records_seen_ / (2 * std::max<uint64_t>(leaves_seen_, 1))};
    }

private:
    static constexpr int kLooksInNode = 16;  // at leaves that lie wholly in the range

    // What the leaf has of the range.
    struct Part {
        unsigned records = 0, all = 0;
    };
    Part part_of(const Page& leaf) const {
        Part part;
        const unsigned from = low_.empty() ? 0 : search(leaf, low_).slot;
        const unsigned to = high_.empty() ? count(leaf) : search(leaf, high_).slot;
        part.all = count(leaf) - std::min<unsigned>(header(leaf).ghosts, count(leaf));
        for (unsigned slot = from; slot < std::min(to, count(leaf)); ++slot)
            part.records += !ghost(leaf, slot);
        return part;
    }
    void add_part(const Page& leaf) {
        const Part part = part_of(leaf);
        ++leaves_seen_;
        records_seen_ += part.all;
        part_records_ += part.records;
        part_bytes_ += part.records == part.all
                           ? kPageBytes
                           : kPageBytes * part.records / std::max(part.all, 1u);
    }
    // Counts the leaf, or only looks how many records such leaves have. False: it is not in memory,
    // or changes.
    bool look(PageId id, bool whole) {
        BufferPool& pool = *tree_.env().pool;
        OptimisticPage at;
        if (pool.resident(id) == nullptr || !pool.try_fix_optimistic(id, at)) return false;
        const Estimate before = *this;
        if (!is_node_of(*at.page, tree_.id(), 0)) return false;
        if (whole) {
            ++leaves_seen_;
            records_seen_ += part_of(*at.page).all;
        } else {
            add_part(*at.page);
        }
        if (at.valid()) return true;
        take_back(before);
        return false;
    }
    void take_back(const Estimate& before) {
        leaves_seen_ = before.leaves_seen_, records_seen_ = before.records_seen_;
        part_records_ = before.part_records_, part_bytes_ = before.part_bytes_;
    }

    BTree& tree_;
    const Slice low_, high_;
    uint64_t whole_ = 0;                          // leaves that lie wholly in the range
    uint64_t halves_ = 0;                         // others, of which nothing is known
    uint64_t part_records_ = 0, part_bytes_ = 0;  // of those of which it is
    uint64_t leaves_seen_ = 0, records_seen_ = 0;
};

}  // namespace

Result<std::vector<std::string>> cut_into_chunks(BTree& tree, unsigned leaves) {
    DCHECK(leaves > 0);
    std::vector<std::string> cuts, nodes;
    char buffer[2 * kKeyBytesMax];
    TRY(walk_above_leaves(tree, {}, [&](const Page& page, Slice at) {
        if (is_leaf(page)) return false;
        if (!at.empty()) nodes.emplace_back(at);
        if (!at.empty()) cuts.emplace_back(at);
        // The first child has no slot.
        for (unsigned slot = leaves - 1; slot < count(page); slot += leaves) {
            const Slice key = full_key(page, slot, buffer, sizeof buffer);
            if (key > at && (cuts.empty() || key > cuts.back())) cuts.emplace_back(key);
        }
        return true;
    }));
    return nodes.size() < kCutNodesMax ? std::move(cuts) : std::move(nodes);
}

Result<RangeSize> approximate_size(BTree& tree, Slice low, Slice high) {
    if (!high.empty() && low >= high) return RangeSize{};
    for (bool again = true;; again = false) {
        Estimate estimate(tree, low, high);
        TRY(walk_above_leaves(tree, std::string(low),
                              [&](const Page& page, Slice at) { return estimate.add(page, at); }));
        if (estimate.knows_a_leaf() || !again) return estimate.result();
        BTree::Position pos;  // brings one into memory
        TRY(tree.descend(SearchKey(low), BTree::Side::covering, 0, pos));
    }
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
