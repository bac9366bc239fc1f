// btree_split.cc - splitting nodes and growing the root; each is one record for all its pages.
//
// Concepts   The parent is latched first, and split first if it lacks space for the separator. So a
//            split never cascades inside one record. A node splits in the middle by bytes, except
//            during an ascending run (node header: run). A run splits at the place of insertion, so
//            pages stay full.
// Blocking   Latches parent, node, new page, space map, in that order; parks for any of them.
#include "sm/btree/btree_impl.h"

namespace lockstep::sm {

using namespace node;

namespace {

constexpr unsigned kRunMin = 4;  // puts right behind one another that make a run

struct SplitPlan {
    // leaf: first slot that moves to the right; inner: slot whose key moves up.
    unsigned at = 0;
    std::string separator;
};

unsigned middle_by_bytes(const Page& page) {
    const unsigned n = count(page);
    DCHECK(n >= 2);
    // BN-1: the records, and their slots.
    const size_t total = kPageBytes - page.header.hole_end - header(page).garbage -
                         header(page).low_bytes -
                         (high_infinite(page) ? 0 : header(page).high_bytes) + n * sizeof(Slot);
    size_t left = 0;
    unsigned at = 0;
    while (at < n && left < total / 2) left += record_bytes(page, at++) + sizeof(Slot);
    return std::clamp(at, 1u, n - 1);
}

// Does the right page take a low fence of `fence` bytes with the records from slot `at` on? It
// gains what stays in the left page, and its prefix is not shorter.
bool right_fits(const Page& page, unsigned at, size_t fence) {
    DCHECK(at <= count(page));
    size_t room = free_bytes(page) + low(page).size();
    for (unsigned i = 0; i < at && room < fence; ++i) room += record_bytes(page, i) + sizeof(Slot);
    return room >= fence;
}

SplitPlan plan_leaf(const Page& page, Slice key) {
    const Found place = search(page, key);
    const unsigned n = count(page), position = place.slot;
    const bool run =
        !place.exact && header(page).run >= kRunMin && position == header(page).last_put + 1u;
    SplitPlan plan;
    if (run && position < n) {
        // A run in the middle: the records behind it move away, so its next keys fit into the left
        // page. `key` is not on the page, so the separator may be longer than what stays left.
        plan.at = position;
        plan.separator = separator(key, full_key(page, position));
        if (right_fits(page, position, plan.separator.size())) return plan;
    }
    plan.at = run && position == n ? n - 1 : middle_by_bytes(page);
    plan.separator = separator(full_key(page, plan.at - 1), full_key(page, plan.at));
    return plan;
}

SplitPlan plan_inner(const Page& page, Slice key) {
    const unsigned n = count(page), position = search(page, key).slot;
    const bool run =
        header(page).run >= kRunMin && position == header(page).last_put + 1u && position == n;
    SplitPlan plan;
    plan.at = run ? n - 1 : middle_by_bytes(page);
    plan.separator = full_key(page, plan.at);
    return plan;
}

// Formats the right page, cuts the left one, and puts the separator into the parent.
[[gnu::noinline]] Result<void> log_split(Env& env, const BTree& tree, BTree::Target& parent,
                                         ExclusivePage& left, ExclusivePage& fresh, PageId right_id,
                                         PageReservation& space, const SplitPlan& plan) {
    const Page& page = *left;
    const bool leaf = is_leaf(page);
    const bool infinite = high_infinite(page);
    const Slice high_fence = infinite ? Slice{} : high(page);
    const unsigned from = leaf ? plan.at : plan.at + 1, n = count(page);

    DCHECK(plan.at > 0 && from <= n && parent.page->header.level == page.header.level + 1);
    DCHECK(covers(page, plan.separator) && low(page) < Slice(plan.separator));  // BT-2
    DCHECK(covers(*parent.page, plan.separator));
    DCHECK(right_id != page.id() && fresh->id() == right_id);
    std::string records;
    records.reserve(kPageBytes);
    RecordWriter{records}.add_range(page, from, n,
                                    fence_prefix(plan.separator, high_fence, infinite));
    const payload::Format format{right_id.value,
                                 tree.id().value,
                                 leaf ? right(page).value : child(page, plan.at).value,
                                 page.header.level,
                                 static_cast<uint16_t>(n - from),
                                 static_cast<uint16_t>(plan.separator.size()),
                                 infinite ? kInfinite : static_cast<uint16_t>(high_fence.size())};
    const payload::Truncate truncate{static_cast<uint16_t>(plan.at),
                                     static_cast<uint16_t>(plan.separator.size()),
                                     leaf ? right_id.value : kPageNone.value};
    const uint32_t child_page = right_id.value;
    const payload::Put put{static_cast<uint16_t>(parent.slot), 0,
                           static_cast<uint16_t>(plan.separator.size()), sizeof child_page};
    ChangePart parts[4] = {
        space.part(),
        {&left,
         PageAction::btree_truncate,
         0,
         {payload::bytes_of(truncate), plan.separator, {}, {}}},
        {&fresh,
         PageAction::btree_format,
         kPartFresh,
         {payload::bytes_of(format), plan.separator, high_fence, records}},
        {&parent.page,
         PageAction::btree_put,
         0,
         {payload::bytes_of(put), plan.separator, payload::bytes_of(child_page), {}}},
    };
    TRY(change_pages(env, nullptr, ChangeRole::system, LogKind::btree_split, tree.id(), parts));
    return {};
}

}  // namespace

Result<void> BTree::split(Slice key, unsigned level, size_t extra) {
    Env& env = env_;
    DCHECK(threads::current()->latch_depth == 0);
    for (;;) {
        Target parent;
        if (!TRY(latch_parent(key, level + 1, parent))) {
            if (TRY(grow(level, extra))) return {};
            continue;
        }
        const PageId child_id = child_at(*parent.page, child_slot(*parent.page, key));
        ExclusivePage node = TRY(env.pool->fix_exclusive(child_id));
        DCHECK(node->id() == child_id);
        if (!is_node_for(*node, level, key)) return damaged(child_id);
        if (free_bytes(*node) >= extra) return {};  // another thread made space
        CHECK(count(*node) >= 2);
        const SplitPlan plan = level == 0 ? plan_leaf(*node, key) : plan_inner(*node, key);
        if (!fits(*parent.page, plan.separator.size(), sizeof(uint32_t))) {
            node.release();
            parent.page.release();
            TRY(split(plan.separator, level + 1,
                      kSlotCost + plan.separator.size() + sizeof(uint32_t)));
            continue;
        }
        DCHECK(!search(*parent.page, plan.separator).exact);  // a new child
        parent.slot = search(*parent.page, plan.separator).slot;
        PageReservation space = TRY(env.space->prepare(1));
        ExclusivePage fresh = TRY(env.pool->fix_new(space.pages[0]));
        Result<void> done = log_split(env, *this, parent, node, fresh, space.pages[0], space, plan);
        if (!done) {
            env.pool->drop(std::move(fresh));
            return done;
        }
        stats_.splits.fetch_add(1, std::memory_order_relaxed);
        return {};
    }
}

// The root's content moves into a new page, whose parent the root becomes: the root's page number
// stays. The new page is split afterwards.
Result<bool> BTree::grow(unsigned level, size_t extra) {
    Env& env = env_;
    ExclusivePage root = TRY(env.pool->fix_exclusive(root_));
    if (root->header.level != level) return false;
    if (free_bytes(*root) >= extra) return true;
    DCHECK(low(*root).empty() && high_infinite(*root));  // the root covers every key
    PageReservation space = TRY(env.space->prepare(1));
    const PageId child_id = space.pages[0];
    ExclusivePage fresh = TRY(env.pool->fix_new(child_id));
    std::string records;
    records.reserve(kPageBytes);
    RecordWriter{records}.add_range(*root, 0, count(*root), 0);
    const payload::Format moved{child_id.value,
                                id_.value,
                                header(*root).link,
                                static_cast<uint16_t>(level),
                                static_cast<uint16_t>(count(*root)),
                                0,
                                kInfinite};
    const payload::Format above{
        root_.value, id_.value, child_id.value, static_cast<uint16_t>(level + 1), 0, 0, kInfinite};
    ChangePart parts[3] = {
        space.part(),
        {&fresh, PageAction::btree_format, kPartFresh, {payload::bytes_of(moved), {}, {}, records}},
        {&root, PageAction::btree_format, kPartFresh, {payload::bytes_of(above), {}, {}, {}}},
    };
    Result<Lsn> done =
        change_pages(env, nullptr, ChangeRole::system, LogKind::btree_grow, id_, parts);
    if (!done) {
        env.pool->drop(std::move(fresh));
        return std::unexpected(done.error());
    }
    return false;
}

}  // namespace lockstep::sm
