// btree_ahead.cc - the parent's list of children tells which leaves come next.
#include "sm/btree/btree_ahead.h"

#include "sm/btree/btree_impl.h"

namespace lockstep::sm {

using namespace node;

namespace {

constexpr uint32_t kWindowMin = 8, kWindowMax = 32;
// One that ends within the window, and the next one.
constexpr unsigned kParentsMax = 2;

struct Children {
    PageId ids[kWindowMax];
    uint32_t count = 0;
    // Where the parent ends in the direction of the walk.
    char fence[kKeyBytesMax];
    size_t fence_bytes = 0;
    // There is nothing beyond the parent, or nothing that the range contains.
    bool last = true;
};

// About the key at which child `slot` begins; the first one, -1, begins with its parent.
bool begins_at_or_above(const Page& parent, int slot, Slice key) {
    char buffer[2 * kKeyBytesMax];
    return full_key(parent, static_cast<unsigned>(slot), buffer, sizeof buffer) >= key;
}
bool begins_at_or_below(const Page& parent, int slot, Slice key) {
    char buffer[2 * kKeyBytesMax];
    return full_key(parent, static_cast<unsigned>(slot), buffer, sizeof buffer) <= key;
}

void note_fence(Children& out, Slice fence, bool last) {
    out.fence_bytes = std::min(fence.size(), sizeof out.fence);
    std::memcpy(out.fence, fence.data(), out.fence_bytes);
    out.last = last;
}

// Children of `parent` behind the one in `slot`, upwards; those at or above `high` are not wanted.
void children_above(const Page& parent, int slot, Slice high, uint32_t wanted, Children& out) {
    out.last = true;
    for (int i = slot + 1; i < static_cast<int>(count(parent)); ++i) {
        if (out.count == wanted || (i >= 0 && !high.empty() && begins_at_or_above(parent, i, high)))
            return;
        out.ids[out.count++] = child_at(parent, i);
    }
    if (!high_infinite(parent))
        note_fence(out, node::high(parent), !high.empty() && node::high(parent) >= high);
}

void children_below(const Page& parent, int slot, Slice low, uint32_t wanted, Children& out) {
    out.last = true;
    const int children = static_cast<int>(count(parent));
    for (int i = std::min(slot, children) - 1; i >= -1; --i) {
        // If the child above begins at or below the range's begin, this one has nothing of the
        // range.
        if (out.count == wanted ||
            (i + 1 < children && !low.empty() && begins_at_or_below(parent, i + 1, low)))
            return;
        out.ids[out.count++] = child_at(parent, i);
    }
    note_fence(out, node::low(parent), node::low(parent).empty() || node::low(parent) <= low);
}

}  // namespace

// The neighbour is left out: the walk fixes it next anyway, and its read must not have a
// read-ahead's low priority.
void LookAhead::look(BTree& tree, Slice at, bool up, Slice low, Slice high) {
    using Side = BTree::Side;
    DCHECK(leaves_to_look_ == 0 && threads::current()->latch_depth == 0);
    BufferPool& pool = *tree.env().pool;
    const uint32_t wanted = std::max<uint32_t>(window_, kWindowMin);
    Children children;
    for (unsigned parents = 0; parents < kParentsMax && children.count < wanted; ++parents) {
        if (parents > 0 && children.last) break;
        BTree::Position pos;
        const Slice key = parents == 0 ? at : Slice(children.fence, children.fence_bytes);
        if (!tree.descend(key, up ? Side::covering : Side::below, 1, pos) ||
            pos.at.page->header.level != 1)
            break;
        const Page& parent = *pos.at.page;
        const uint32_t before = children.count;
        // The first look leaves out the neighbour, the second begins with the parent's first (last)
        // child.
        if (up)
            children_above(parent, child_slot(parent, key) + (parents == 0 ? 1 : -1), high, wanted,
                           children);
        else
            children_below(parent, child_slot_below(parent, key) + (parents == 0 ? 0 : 1), low,
                           wanted, children);
        if (!pos.valid()) {
            children.count = before;
            break;
        }
    }
    DCHECK(wanted <= kWindowMax && children.count <= wanted);
    bool missing = false;
    for (uint32_t i = 0; i < children.count; ++i)
        missing |= pool.resident(children.ids[i]) == nullptr;
    window_ = static_cast<uint16_t>(missing ? std::min(2 * wanted, kWindowMax) : 0);
    leaves_to_look_ = static_cast<uint16_t>(missing ? wanted / 2 : kWindowMin);
    DCHECK(leaves_to_look_ != 0 && window_ <= kWindowMax);
    if (missing) pool.read_ahead({children.ids, children.count});
}

}  // namespace lockstep::sm
