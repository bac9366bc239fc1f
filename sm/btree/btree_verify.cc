// btree_verify.cc - checks every invariant of a tree and lists its pages.
//
// Concepts   A crew of several members checks subtrees at the same time. The upper levels are
//            checked first, until there are enough subtrees; their results are joined from left to
//            right, where the chain of leaves must go on.
#include "sm/btree/btree_impl.h"
#include "sm/btree/overflow.h"
#include "sm/core/crew.h"

namespace lockstep::sm {

using namespace node;

namespace {

constexpr size_t kFaultsMax = 100;

struct Walk {
    Env& env;
    BTree& tree;
    BTree::Report& report;
    PageId first_leaf = kPageNone;
    PageId expected_leaf = kPageNone;  // right sibling of the leaf seen last
    bool leaf_seen = false;

    void fault(PageId page, const std::string& text) {
        if (report.faults.size() < kFaultsMax)
            report.faults.push_back("index " + std::to_string(tree.id().value) + " page " +
                                    std::to_string(page.value) + ": " + text);
    }
};

void check_overflow(Walk& w, PageId id, const Page& page, unsigned slot) {
    const Slice text = value(page, slot);
    if (ghost(page, slot) && !is_unlisted(text)) return;  // it is none of the tree any more
    const OverflowRef ref = overflow_ref(text);
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
    if (!w.leaf_seen) w.first_leaf = id;
    w.leaf_seen = true;
    w.expected_leaf = right(page);
    if (high_infinite(page) != (right(page) == kPageNone))
        w.fault(id, "BT-2: right sibling does not match the high fence");
    if (count(page) == 0 && id != w.tree.root()) w.fault(id, "BT-5: empty leaf");
    for (unsigned i = 0; i < count(page); ++i)
        if (overflow(page, i)) check_overflow(w, id, page, i);
}

// A page and what its parent says of it.
struct Subtree {
    PageId id;
    int level;
    std::string low = {}, high = {};
    bool infinite = true;  // then `high` is unused
};

// Copies and checks the page alone. False: what lies below it cannot be checked.
Result<bool> check_page(Walk& w, const Subtree& at, Page& page) {
    DCHECK(at.level >= 0);
    {
        SharedPage held = TRY(w.env.pool->fix_shared(at.id));
        std::memcpy(static_cast<void*>(&page), &*held, kPageBytes);
    }
    const PageId id = at.id;
    if (page.id() != id) w.fault(id, "page carries another number");
    if (page.kind() != PageKind::btree || page.header.object != w.tree.id().value) {
        w.fault(id, "not a page of this index");
        return false;
    }
    w.report.pages.push_back(id);
    if (std::string text = check_node(page); !text.empty()) {
        w.fault(id, text);
        return false;
    }
    if (page.header.level != at.level) {
        w.fault(id, "level " + std::to_string(page.header.level) + " where " +
                        std::to_string(at.level) + " was expected");
        return false;
    }
    if (low(page) != at.low || high_infinite(page) != at.infinite ||
        (!at.infinite && high(page) != at.high))
        w.fault(id, "BT-2: fences do not match the parent");
    w.report.bytes_used += kPageBytes - kSlotsAt - free_bytes(page);
    if (is_leaf(page)) {
        check_leaf(w, id, page);
        return true;
    }
    ++w.report.pages_inner;
    if (header(page).ghosts != 0) w.fault(id, "ghost in an inner node");
    return true;
}

// Child `slot` of an inner page, -1 for the first one.
Subtree child_of(const Page& page, const Subtree& at, int slot) {
    DCHECK(!is_leaf(page) && at.level > 0);
    DCHECK(slot >= -1 && slot < static_cast<int>(count(page)));
    const bool last = slot + 1 == static_cast<int>(count(page));
    return {.id = child_at(page, slot),
            .level = at.level - 1,
            .low = slot < 0 ? at.low : full_key(page, static_cast<unsigned>(slot)),
            .high = last ? at.high : full_key(page, static_cast<unsigned>(slot + 1)),
            .infinite = last && at.infinite};
}

Result<void> check_subtree(Walk& w, const Subtree& at) {
    // On the heap: the walk is as deep as the tree, stacks are small.
    auto page = std::make_unique<Page>();
    if (!TRY(check_page(w, at, *page)) || is_leaf(*page)) return {};
    const int n = static_cast<int>(count(*page));
    for (int slot = -1; slot < n; ++slot) TRY(check_subtree(w, child_of(*page, at, slot)));
    return {};
}

// Checks upper levels until there are enough subtrees for the crew; these are the result.
Result<std::vector<Subtree>> split(Walk& w, const Subtree& root, size_t enough) {
    std::vector<Subtree> pieces{root};
    auto page = std::make_unique<Page>();
    while (pieces.size() < enough && !pieces.empty() && pieces.front().level > 0) {
        std::vector<Subtree> below;
        for (const Subtree& at : pieces) {
            if (!TRY(check_page(w, at, *page)) || is_leaf(*page)) continue;
            const int n = static_cast<int>(count(*page));
            for (int slot = -1; slot < n; ++slot) below.push_back(child_of(*page, at, slot));
        }
        pieces = std::move(below);
    }
    return pieces;
}

// Adds what a member found in the next subtree to the right.
void join(Walk& w, const Walk& part) {
    DCHECK(&part.tree == &w.tree && &part.report != &w.report);
    DCHECK(part.leaf_seen == (part.first_leaf != kPageNone));
    if (part.leaf_seen) {
        if (w.leaf_seen && w.expected_leaf != part.first_leaf)
            w.fault(part.first_leaf, "BT-2: left sibling points elsewhere");
        w.leaf_seen = true;
        w.expected_leaf = part.expected_leaf;
    }
    BTree::Report &to = w.report, &from = part.report;
    to.pages_inner += from.pages_inner;
    to.pages_leaf += from.pages_leaf;
    to.pages_overflow += from.pages_overflow;
    to.records += from.records;
    to.ghosts += from.ghosts;
    to.bytes_used += from.bytes_used;
    to.pages.insert(to.pages.end(), from.pages.begin(), from.pages.end());
    DCHECK(from.faults.size() <= kFaultsMax);  // fault() counts
    const size_t room = kFaultsMax - std::min(kFaultsMax, to.faults.size());
    to.faults.insert(
        to.faults.end(), from.faults.begin(),
        from.faults.begin() + static_cast<ptrdiff_t>(std::min(room, from.faults.size())));
}

Result<void> check_in_parallel(Walk& w, const Subtree& root, Crew& crew) {
    constexpr size_t kPiecesPerMember = 16;
    DCHECK(crew.members() > 1 && !w.leaf_seen && w.report.pages.empty());
    const std::vector<Subtree> pieces = TRY(split(w, root, crew.members() * kPiecesPerMember));
    std::vector<BTree::Report> reports(pieces.size());
    std::vector<Walk> walks;
    for (BTree::Report& report : reports) walks.push_back({w.env, w.tree, report});
    TRY(crew.for_each(pieces.size(), [&](size_t i) { return check_subtree(walks[i], pieces[i]); }));
    for (const Walk& part : walks) join(w, part);
    return {};
}

}  // namespace

Result<BTree::Report> BTree::verify(Crew* crew) {
    Report report;
    Walk walk{env_, *this, report};
    Subtree root{.id = root_, .level = 0};
    root.level = TRY(env_.pool->fix_shared(root_))->header.level;
    report.levels = static_cast<uint64_t>(root.level) + 1;
    if (crew != nullptr && crew->members() > 1) TRY(check_in_parallel(walk, root, *crew));
    else TRY(check_subtree(walk, root));
    if (walk.leaf_seen && walk.expected_leaf != kPageNone)
        walk.fault(root_, "BT-2: last leaf has a right sibling");
    return report;
}

}  // namespace lockstep::sm
