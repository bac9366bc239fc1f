// btree_node_search.h - finding a key in a B-tree page.
//
// Concepts   SearchKey (a KeyView) holds the searched key in a buffer of its own with zeros behind
//            it. So any eight bytes of it are one load without a length test. It is made once per
//            operation and used at every level.
//            The search first interpolates between the heads of the first and the last slot. Most
//            keys are numbers; then the guess is exact or off by one and touches one or two cache
//            lines of slots. If the guess is wrong, one probe eight slots away shows it. The rest
//            is a branch-free binary search, of all slots if the probe did not help: then its first
//            probes are those of every key, and the caches have their lines.
// Invariants BN-3 (btree_node.h) If a page changes during the search, the answer may be wrong, but
//                 no access leaves the page.
// Source     Graefe, "B-tree Indexes, Interpolation Search, and Skew", DaMoN 2006.
#pragma once

#include "sm/btree/btree_node.h"
#include "txn/lock/lock_owner.h"

namespace lockstep::sm::node {

// A searched key in memory of any owner, with zeros behind it.
class KeyView {
public:
    KeyView() = default;
    // Sixteen zeros stand behind the `size` bytes at `text`.
    KeyView(const char* text, size_t size) : text_(text), size_(size) {}

    const char* data() const { return text_; }
    size_t size() const { return size_; }
    Slice slice() const { return {text_, size_}; }
    operator Slice() const { return slice(); }  // NOLINT(google-explicit-constructor)
    txn::LockName lock_name(ObjectId object) const {
        return size_ <= 16 ? txn::short_key_lock_name(object, eight(0), eight(8), size_)
                           : txn::key_lock_name(object, slice());
    }
    // Bytes from `at` (at most size() + 8) on, zeros behind the last, in memory order.
    uint64_t eight(size_t at) const { return load<uint64_t>(text_ + at); }
    uint32_t four(size_t at) const { return load<uint32_t>(text_ + at); }

protected:
    const char* text_ = nullptr;
    size_t size_ = 0;
};

// Copies `key` and sixteen zeros behind it to `text`; returns the first byte behind them.
inline char* put_key(char* text, Slice key) {
    char* const end = copy_bytes(text, key);
    store(end, uint64_t{0});
    store(end + 8, uint64_t{0});
    return end + 16;
}

// Long keys are allocated apart. A buffer for them here would move each operation's calls two
// kilobytes down the stack. Then each stack would be hot in two places, and a team has sixteen
// stacks in the caches.
class SearchKey : public KeyView {
public:
    // Implicit: some callers pass a Slice. A key longer than a node can hold is cut off; the tree
    // refuses such a key, so no node has it.
    // NOLINTNEXTLINE(google-explicit-constructor)
    SearchKey(Slice key) : KeyView(buffer_, std::min<size_t>(key.size(), kKeyBits)) {
        if (size_ > kShort) [[unlikely]]
            text_ = new char[size_ + 16];
        put_key(const_cast<char*>(text_), key.substr(0, size_));
    }
    ~SearchKey() {
        if (text_ != buffer_) [[unlikely]]
            delete[] text_;
    }
    SearchKey(const SearchKey&) = delete;
    SearchKey& operator=(const SearchKey&) = delete;

private:
    static constexpr size_t kShort = 112;
    char buffer_[kShort + 16];
};

struct Found {
    unsigned slot;  // first slot whose key is not below the searched one
    bool exact;
};
// First eight bytes of a piece of the page as a number, zeros behind its end. The load ends with
// the piece, so it stays within the page.
inline uint64_t piece_head(Slice piece, const Page& p) {
    if (piece.size() >= 8) return __builtin_bswap64(load<uint64_t>(piece.data()));
    if (piece.empty()) return 0;
    const size_t end =
        std::max<size_t>(static_cast<size_t>(piece.data() + piece.size() - chars(p)), 8);
    return __builtin_bswap64(load<uint64_t>(chars(p) + end - 8)) << (64 - 8 * piece.size());
}

// The rest of the searched key where heads are equal: behind the prefix and `same` further bytes.
struct KeyTail {
    Slice rest;  // behind the prefix
    size_t same;
    uint64_t head;  // first eight bytes behind those, zeros behind the end

    KeyTail(const KeyView& key, size_t cut, size_t same_bytes)
        : rest(key.data() + cut, key.size() - cut),
          same(same_bytes),
          head(rest.size() > same ? __builtin_bswap64(key.eight(cut + same)) : 0) {}
    // Order of a slot's key against this key: negative, zero, positive.
    [[gnu::always_inline]] int order(const Page& p, unsigned slot) const {
        const Slice here = suffix(p, slot);
        const uint64_t x = here.size() > same ? piece_head(here.substr(same), p) : 0;
        if (x != head) return x < head ? -1 : 1;
        if (std::max(here.size(), rest.size()) > same + 8) [[unlikely]]
            return compare_tails(here, rest, same);
        return here.size() < rest.size() ? -1 : here.size() > rest.size();
    }
};
// Searches the slots from `from` on whose heads equal that of `from`. Mostly it reads only keys of
// the first kTiesNear.
inline constexpr unsigned kTiesNear = 16;
[[gnu::noinline]] Found search_ties(const Page& p, unsigned from, unsigned to, const KeyTail& tail);

// First of `n` slots whose head is not below `head`; `equal`: it is the same. The bounds stay in
// order (low <= high <= n) even on a page that contradicts itself (BN-3).
[[gnu::always_inline]] inline unsigned lower_slot(const Slot* slots, unsigned n, uint32_t head,
                                                  bool& equal) {
    constexpr unsigned kFew = 8, kNear = 8;
    unsigned low = 0, high = n;
    equal = false;
    if (n > kFew) {
        const uint32_t first = slots[0].head, last = slots[n - 1].head;
        if (head <= first) {
            equal = head == first;
            return 0;
        }
        if (head > last) return n;
        // The last bit: on a page that changes, `last` may be read twice, and must not divide by 0.
        const uint64_t guess = uint64_t{head - first} * (n - 1) / ((last - first) | 1);
        const unsigned at = std::min(static_cast<unsigned>(guess), n - 2);
        const uint32_t here = slots[at].head;
        if (here < head) {
            const uint32_t behind = slots[at + 1].head;
            if (behind >= head) [[likely]] {
                equal = behind == head;
                return at + 1;
            }
            high = std::min(at + kNear, n - 1);
            low = std::min(at + 2, high);
            if (slots[high].head < head) low = 0, high = n;
        } else {
            if (at == 0 || slots[at - 1].head < head) [[likely]] {
                equal = here == head;
                return at;
            }
            low = at > kNear ? at - kNear : 0;
            if (slots[low].head < head) high = at;
            else low = 0, high = n;
        }
    }
    const Slot* base = slots + low;
    // Branch-free: the loop's length depends on the distance only.
    for (unsigned left = high - low; left > 0;) {
        const unsigned half = (left + 1) / 2;
        base += half & -static_cast<unsigned>(base[half - 1].head < head);
        left -= half;
    }
    const unsigned slot = static_cast<unsigned>(base - slots);
    equal = slot < n && slots[slot].head == head;
    return slot;
}

// The searched key differs from the node's common bytes, whose number is in their last byte.
[[gnu::cold, gnu::noinline]] inline unsigned beside_common(uint64_t key, uint64_t common,
                                                           unsigned n) {
    const unsigned bytes = static_cast<unsigned>(common >> 56) & 7u;
    const uint64_t mask = (uint64_t{1} << 8 * bytes) - 1;
    return __builtin_bswap64(key & mask) > __builtin_bswap64(common & mask) ? n : 0;
}

// find() has two halves. This one reads the header and the slots, but no records: the slot where
// the search ends unless `equal`, which says that the slot's head is the key's. `n`: count(p).
// `head` becomes that of the key; 0 if the key differs from the common bytes.
[[gnu::always_inline]] inline unsigned find_head(const Page& p, unsigned n, const KeyView& key,
                                                 uint32_t& head, bool& equal) {
    static_assert(offsetof(NodeHeader, common_bytes) == offsetof(NodeHeader, common) + 7);
    DCHECK(n <= kSlotsMax);
    equal = false;
    const NodeHeader& h = header(p);
    const size_t cut = std::min<size_t>(h.prefix, key.size());
    // The number of bytes is the last byte of the word.
    const uint64_t common = load<uint64_t>(h.common);
    const unsigned skip = static_cast<unsigned>(common >> 56) & 7u;
    // Unused bits before the last byte.
    const unsigned other = 56 - 8 * skip;
    head = 0;
    if ((key.eight(cut) ^ common) << other << 8) [[unlikely]]
        return beside_common(key.eight(cut), common, n);
    head = __builtin_bswap32(key.four(cut + skip));
    return lower_slot(slots(p), n, head, equal);
}
[[gnu::always_inline]] inline unsigned find_head(const Page& p, const KeyView& key, bool& equal) {
    uint32_t head;
    return find_head(p, count(p), key, head, equal);
}
// Does the head of the slot behind that one equal its head?
inline bool ties(const Page& p, unsigned slot) {
    return slot + 1 < count(p) && slots(p)[slot + 1].head == slots(p)[slot].head;
}
// The second half, from the slot of find_head() on, whose head is that of the key.
[[gnu::always_inline]] inline unsigned find_tail(const Page& p, const KeyView& key, unsigned slot,
                                                 bool& exact) {
    const NodeHeader& h = header(p);
    const unsigned n = count(p);
    const size_t cut = std::min<size_t>(h.prefix, key.size());
    const size_t same = (h.common_bytes & 7u) + 4;
    // Common bytes and head hold the whole of a short key, so the length decides: zeros pad the
    // head. No record is read.
    if (key.size() - cut <= same && (slots(p)[slot].bits & kKeyBits) == key.size() - cut) {
        exact = true;
        return slot;
    }
    const KeyTail tail(key, cut, same);
    if (ties(p, slot)) {
        const Found tie = search_ties(p, slot, n, tail);
        exact = tie.exact;
        return tie.slot;
    }
    const int order = tail.order(p, slot);
    exact = order == 0;
    return slot + (order < 0);
}
// First slot whose key is not below the searched key, and whether it is equal. Two results instead
// of a Found, because compilers keep them in registers. The answer means something only if the key
// lies within the fences. A key that ends within the common bytes is below all others: its length
// corrects what its zeros say.
[[gnu::always_inline]] inline unsigned find(const Page& p, const KeyView& key, bool& exact) {
    const unsigned slot = find_head(p, key, exact);
    return exact ? find_tail(p, key, slot, exact) : slot;
}
inline Found search(const Page& p, const SearchKey& key) {
    Found found;
    found.slot = find(p, key, found.exact);
    return found;
}
inline Found search(const Page& p, Slice key) { return search(p, SearchKey(key)); }

// Child that covers `key`; -1 stands for first_child.
[[gnu::always_inline]] inline int child_slot(const Page& p, const KeyView& key) {
    bool exact;
    const unsigned slot = find(p, key, exact);
    return static_cast<int>(slot) - !exact;
}
// Child with the largest keys below `key`.
inline int child_slot_below(const Page& p, const SearchKey& key) {
    return static_cast<int>(search(p, key).slot) - 1;
}
inline int child_slot(const Page& p, Slice key) { return child_slot(p, SearchKey(key)); }

// Where the searched key lies between the keys of child `slot` and of the next child, as a share of
// kShareWhole. It tells where in that child to expect the key if keys are spread evenly. A guess;
// unknown if the heads do not tell. `head`: that of the key; `n`: count(p).
inline constexpr unsigned kShareWhole = 256, kShareUnknown = ~0u;
inline unsigned share_between(const Page& p, unsigned n, int slot, uint32_t head) {
    DCHECK(n <= kSlotsMax && slot < static_cast<int>(kSlotsMax));
    if (slot < 0 || static_cast<unsigned>(slot) + 1 >= n) return kShareUnknown;
    const uint32_t low = slots(p)[slot].head, high = slots(p)[slot + 1].head;
    return head < low || head >= high
               ? kShareUnknown
               : static_cast<unsigned>(uint64_t{head - low} * kShareWhole / (high - low));
}
inline unsigned share_behind(const Page& p, int slot, const KeyView& key) {
    const size_t at =
        std::min<size_t>(header(p).prefix, key.size()) + (header(p).common_bytes & 7u);
    if (at > key.size()) return kShareUnknown;
    return share_between(p, count(p), slot, __builtin_bswap32(key.four(at)));
}

[[gnu::always_inline]] inline bool key_equals(const Page& p, unsigned slot, const KeyView& key) {
    const size_t cut = header(p).prefix;
    const Slot s = slots(p)[slot];
    // As suffix() does, which g++ does not always write inline.
    const Slice here = bounded(p, s.at + kRecordHead, s.bits & kKeyBits), shared = prefix(p);
    return cut + here.size() == key.size() && shared.size() == cut &&
           same_bytes(here.data(), key.data() + cut, here.size()) &&
           same_bytes(shared.data(), key.data(), cut);
}

inline int compare_fence(const KeyView& key, Slice fence, const Page& p) {
    const uint64_t a = __builtin_bswap64(key.eight(0)), b = piece_head(fence, p);
    if (a != b) [[likely]]
        return a < b ? -1 : 1;
    return key.slice().compare(fence);
}
inline bool covers(const Page& p, const KeyView& key) {
    return compare_fence(key, low(p), p) >= 0 &&
           (high_infinite(p) || compare_fence(key, high(p), p) < 0);
}

// Order of a slot's key against the key, whose head it has. `same`: common bytes and head.
[[gnu::noinline]] inline int order_of_tie(const Page& p, unsigned slot, const KeyView& key,
                                          size_t cut, size_t same) {
    return KeyTail(key, cut, same).order(p, slot);
}
// Looks for the key in `slot` and right beside it. True: its place is there, so the node covers the
// key; `slot` and `exact` become what find() returns. False: only a search can tell.
[[gnu::always_inline]] inline bool find_near(const Page& p, const KeyView& key, unsigned& slot,
                                             bool& exact) {
    const NodeHeader& h = header(p);
    const unsigned n = count(p), skip = h.common_bytes & 7u;
    const Slice shared = prefix(p);
    const size_t cut = shared.size();
    exact = false;
    if (slot > n || key.size() < cut || !same_bytes(shared.data(), key.data(), cut) ||
        (key.eight(cut) ^ load<uint64_t>(h.common)) << (56 - 8 * skip) << 8)
        return false;
    const uint32_t head = __builtin_bswap32(key.four(cut + skip));
    const auto order = [&](unsigned at) {
        const Slot here = slots(p)[at];
        if (here.head != head) return here.head < head ? -1 : 1;
        // As in find_tail().
        const size_t rest = key.size() - cut;
        if (rest <= skip + 4 && (here.bits & kKeyBits) == rest) return 0;
        return order_of_tie(p, at, key, cut, skip + 4);
    };
    const int here = slot < n ? order(slot) : 1;
    exact = here == 0;
    if (exact) return true;
    if (here < 0) {
        ++slot;
        const int behind = slot < n ? order(slot) : 1;
        exact = behind == 0;
        if (behind < 0) return false;
    } else if (slot > 0 ? order(slot - 1) >= 0 : compare_fence(key, low(p), p) < 0) {
        return false;
    }
    return slot < n || high_infinite(p) || compare_fence(key, high(p), p) < 0;
}

}  // namespace lockstep::sm::node
