// btree_verify.cc - checks every invariant of a tree and lists its pages.
#include "sm/btree/btree_impl.h"
#include "sm/btree/overflow.h"

namespace lockstep::sm {

using namespace node;

namespace {

constexpr size_t kFaultsMax = 100;

struct Walk {
    Env& env;
    BTree& tree;
    BTree::Report& report;
    PageId expected_leaf = kPageNone;  // right sibling of the leaf seen last
    bool leaf_seen = false;

    void fault(PageId page, const std::string& text) {
        if (report.faults.size() < kFaultsMax)
            report.faults.push_back("index " + std::to_string(tree.id().value) + " page " +
                                    std::to_string(page.value) + ": " + text);
    }
};

void check_overflow(Walk& w, PageId id, const Page& page, unsigned slot) {
    const OverflowRef ref = overflow_ref(value(page, slot));
    // A ghost's chain may be gone already, or its end, if a crash came while it was being freed.
    auto pages = ghost(page, slot)
                     ? overflow_remains(w.env, w.tree.id(), PageId{ref.first}, ref.chain)
                     : overflow_pages(*w.env.pool, w.tree.id(), ref);
    if (!pages) return w.fault(id, "slot " + std::to_string(slot) + ": " + pages.error().text());
    w.report.pages_overflow += pages->size();
    w.report.pages.insert(w.report.pages.end(), pages->begin(), pages->end());
}

void check_leaf(Walk& w, PageId id, const Page& page) {
    ++w.report.pages_leaf;
    w.report.records += count(page) - header(page).ghosts;
    w.report.ghosts += header(page).ghosts;
    if (w.leaf_seen && w.expected_leaf != id) w.fault(id, "BT-2: left sibling points elsewhere");
    w.leaf_seen = true;
    w.expected_leaf = right(page);
    if (high_infinite(page) != (right(page) == kPageNone))
        w.fault(id, "BT-2: right sibling does not match the high fence");
    if (count(page) == 0 && id != w.tree.root()) w.fault(id, "BT-5: empty leaf");
    for (unsigned i = 0; i < count(page); ++i)
        if (overflow(page, i)) check_overflow(w, id, page, i);
}

// `page` must be of that level and have exactly these fences.
Result<void> check_subtree(Walk& w, PageId id, int level, const std::string& low_fence,
                           const std::string* high_fence) {
    // On the heap: the walk is as deep as the tree, stacks are small.
    auto copy = std::make_unique<Page>();
    {
        SharedPage held = TRY(w.env.pool->fix_shared(id));
        std::memcpy(static_cast<void*>(copy.get()), &*held, kPageBytes);
    }
    const Page& page = *copy;
    if (page.id() != id) w.fault(id, "page carries another number");
    if (page.kind() != PageKind::btree || page.header.object != w.tree.id().value) {
        w.fault(id, "not a page of this index");
        return {};
    }
    w.report.pages.push_back(id);
    if (std::string text = check_node(page); !text.empty()) {
        w.fault(id, text);
        return {};
    }
    if (level >= 0 && page.header.level != level) {
        w.fault(id, "level " + std::to_string(page.header.level) + " where " +
                        std::to_string(level) + " was expected");
        return {};
    }
    if (low(page) != low_fence || high_infinite(page) != (high_fence == nullptr) ||
        (high_fence && high(page) != *high_fence))
        w.fault(id, "BT-2: fences do not match the parent");
    w.report.bytes_used += kPageBytes - kSlotsAt - free_bytes(page);
    if (is_leaf(page)) {
        check_leaf(w, id, page);
        return {};
    }
    ++w.report.pages_inner;
    if (header(page).ghosts != 0) w.fault(id, "ghost in an inner node");
    const int n = static_cast<int>(count(page));
    for (int i = -1; i < n; ++i) {
        const std::string from = i < 0 ? low_fence : full_key(page, static_cast<unsigned>(i));
        const std::string to =
            i + 1 < n ? full_key(page, static_cast<unsigned>(i + 1)) : std::string();
        const std::string* above = i + 1 < n ? &to : high_fence;
        TRY(check_subtree(w, child_at(page, i), page.header.level - 1, from, above));
    }
    return {};
}

}  // namespace

Result<BTree::Report> BTree::verify() {
    Report report;
    Walk walk{env_, *this, report};
    uint8_t root_level = 0;
    {
        SharedPage root = TRY(env_.pool->fix_shared(root_));
        root_level = root->header.level;
    }
    report.levels = root_level + 1u;
    TRY(check_subtree(walk, root_, root_level, {}, nullptr));
    if (walk.leaf_seen && walk.expected_leaf != kPageNone)
        walk.fault(root_, "BT-2: last leaf has a right sibling");
    return report;
}

}  // namespace lockstep::sm
