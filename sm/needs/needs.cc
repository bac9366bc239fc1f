// needs.cc - walks ahead of transactions.
#include "sm/needs/needs.h"

#include "sm/needs/index_access.h"

namespace lockstep::sm {

namespace {

// An absent key tells where new records of its kind go, whatever their keys will be: the
// transaction begins there.
void note_ends(txn::Transaction& txn, const Places& places) {
    DCHECK(places.count <= kPlacesMax && txn.runs_here());
    for (uint32_t i = 0; i < places.count; ++i)
        if (const LeafHint& end = places.hints[i]; end.score != 0) {
            LeafHint& hint = hint_of(txn, end.object);
            hint = end;
            hint.score = kScoreOfWalk;
        }
}

// About, for each need: a leaf's search, the lock's bucket, the latch word, the page's descriptor.
constexpr uint64_t kLinesOfNeed = 8;

// The worker is the only writer.
void add_to(std::atomic<uint64_t>& counter, uint64_t n) {
    counter.store(counter.load(std::memory_order_relaxed) + n, std::memory_order_relaxed);
}

// The keys that begin with the look's key, in its leaf.
struct FoundKeys {
    Slice keys[FollowUp::kKeysMax];
    char text[FollowUp::kKeysMax][KeyWalk::kKeyRoom];

    std::span<const Slice> read(const KeyWalk::Look& look) {
        const Page& page = *look.pos.at.page;
        const size_t shared = node::prefix(page).size();
        size_t n = 0;
        for (unsigned slot = look.pos.slot; slot < node::count(page) && n < FollowUp::kKeysMax;
             ++slot) {
            if (node::ghost(page, slot)) continue;
            if (shared + node::suffix(page, slot).size() > KeyWalk::kKeyRoom) break;
            keys[n] = node::full_key(page, slot, text[n], KeyWalk::kKeyRoom);
            if (!keys[n].starts_with(look.key.slice())) break;
            ++n;
        }
        // LA-3
        return {keys, look.pos.at.valid() ? n : 0};
    }
};

uint64_t lines_of_need(size_t bytes) { return kLinesOfNeed + bytes / kCacheLineBytes; }

WorkerNeeds& mine(Host& host) { return host.needs[threads::worker_index()]; }

}  // namespace

// The needs that a group's follow-ups add. Further ones are left out.
struct NeedsWalk::Followed {
    struct Item {
        BTree* tree;
        Places* places;
        const FollowUp* follow_up;
        uint32_t bytes;
        bool for_change;
        uint8_t key_bytes;
        char key[KeyWalk::kKeyRoom];
    };
    static_assert(KeyWalk::kKeyRoom <= UINT8_MAX);
    size_t count = 0;
    Item items[KeyWalk::kKeys];

    void add(BTree& tree, const Need& need, Places& places) {
        if (count == KeyWalk::kKeys) return;
        Item& item = items[count++];
        item.tree = &tree;
        item.places = &places;
        item.follow_up = need.follow_up;
        item.bytes = need.bytes;
        item.for_change = need.access != Access::read;
        item.key_bytes = static_cast<uint8_t>(need.key.size());
        bytes::copy_bytes(item.key, need.key);
    }
};

NeedsWalk::NeedsWalk(Host& host) : host_(host), walk_(host, KeyWalk::Use::ahead) {}

[[gnu::always_inline]] inline void NeedsWalk::put(BTree& tree, Slice key, size_t bytes,
                                                  bool for_change, const FollowUp* follow_up,
                                                  Places& places) {
    DCHECK(walk_.size() < KeyWalk::kKeys);
    owners_[walk_.size()] = &places;
    ++places.asked;
    follow_ups_[walk_.size()] = follow_up;
    if (follow_up != nullptr) {
        ++leads_;
        lines_ += lines_of_need(0);  // at least, of what follows
    }
    const KeyWalk::Look& look = walk_.add(tree, key, bytes, for_change);
    lines_ += lines_of_need(look.bytes);
}

void NeedsWalk::add(const Need& need, Places& places) {
    BTree* const tree = IndexAccess::tree(need.index);
    if (tree == nullptr || !host_.is(IndexAccess::engine(need.index)) || places.asked_enough() ||
        need.key.size() > KeyWalk::kKeyRoom) [[unlikely]]
        return;
    if (followed_ != nullptr) [[unlikely]]
        return followed_->add(*tree, need, places);
    while (!walk_.takes(need.key)) finish_group();
    put(*tree, need.key, need.bytes, need.access != Access::read, need.follow_up, places);
}

// Each follow-up has a place in its transaction's places, so their number is bounded.
void NeedsWalk::finish_group() {
    DCHECK(walk_.size() != 0 && followed_ == nullptr);
    walk_.find_leaves();
    if (walk_.size() == 1) return finish_alone();
    walk_.find_records();
    for (size_t i = 0; i < walk_.size(); ++i) {
        const KeyWalk::Look& look = walk_[i];
        if (look.leaf == kPageNone || owners_[i]->full()) continue;
        DCHECK(look.tree->id().value != 0 && look.pos.id == look.leaf);
        owners_[i]->add(walk_.names()[i], {.object = look.tree->id(),
                                           .page = look.leaf,
                                           .slot = static_cast<uint16_t>(look.pos.slot),
                                           .score = static_cast<int16_t>(!look.pos.found),
                                           .leaves_freed = look.leaves_freed});
    }
    add_to(mine(host_).walked, walk_.size());
    if (leads_ > 1) return follow();
    leads_ = 0;
    walk_.clear();
}

// One key has no misses to overlap, so its leaf is not searched now: the search would wait for the
// lines that were just asked for. They arrive while the transaction does other things.
void NeedsWalk::finish_alone() {
    const KeyWalk::Look& look = walk_[0];
    if (look.leaf != kPageNone && !owners_[0]->full())
        owners_[0]->add(walk_.names()[0], {.object = look.tree->id(),
                                           .page = look.leaf,
                                           .slot = kSlotUnknown,
                                           .score = 0,
                                           .leaves_freed = look.leaves_freed});
    add_to(mine(host_).walked, 1);
    leads_ = 0;
    walk_.clear();
}

// The group is walked. The next one begins with what its follow-ups add.
void NeedsWalk::follow() {
    Followed next;
    FoundKeys room;
    followed_ = &next;
    for (size_t i = 0; i < walk_.size(); ++i) {
        const KeyWalk::Look& look = walk_[i];
        if (follow_ups_[i] == nullptr || look.leaf == kPageNone || owners_[i]->full()) continue;
        Announcement to(*this, *owners_[i]);
        if (const auto keys = room.read(look); !keys.empty()) follow_ups_[i]->follow(keys, to);
    }
    followed_ = nullptr;
    leads_ = 0;
    walk_.clear();
    for (const Followed::Item& item : std::span(next.items, next.count))
        put(*item.tree, {item.key, item.key_bytes}, item.bytes, item.for_change, item.follow_up,
            *item.places);
}

void walk_ahead(Host& host, txn::Transaction& txn, std::span<const Need> needs) {
    DCHECK(threads::current()->latch_depth == 0 && txn.runs_here());
    if (!threads::worker_local.needs || needs.empty()) return;
    Places*& places = local_of(txn).places;
    DCHECK(places == nullptr || places->free == nullptr);  // PL-2
    if (places == nullptr) places = take_places(host);
    else if (places->asked + needs.size() > kPlacesMax) places->clear();
    NeedsWalk walk(host);
    for (const Need& need : needs.first(std::min<size_t>(needs.size(), kPlacesMax)))
        walk.add(need, *places);
    walk.finish();
    note_ends(txn, *places);
    threads::current()->to_completion = threads::worker_local.begin_steps != nullptr;
}

Places* take_places(Host& host) { return mine(host).places.take(); }

void give_places(Host& host, Places& places) {
    DCHECK(places.count <= kPlacesMax && places.next <= places.count);
    DCHECK(places.free == nullptr);  // PL-2
    add_to(mine(host).used, places.used);
    mine(host).places.give(places);
}

void attach_places(txn::Transaction& txn, Places& places) {
    DCHECK(local_of(txn).places == nullptr);
    local_of(txn).places = &places;
    note_ends(txn, places);
}

void give_back_places(Host& host, txn::Transaction& txn) {
    Places*& places = local_of(txn).places;
    DCHECK(places != nullptr && txn.runs_here());
    give_places(host, *places);
    places = nullptr;
    threads::current()->to_completion = false;
}

}  // namespace lockstep::sm
