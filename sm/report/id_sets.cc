// id_sets.cc - finds the number of a set, and remembers what operations gave.
#include "sm/report/id_sets.h"

#include <algorithm>

namespace lockstep::sm::report {

namespace {

constexpr size_t kMemo = 1 << 14;

uint64_t mix(uint64_t h) {
    h *= 0x9e3779b97f4a7c15;
    return h ^ h >> 29;
}
uint64_t hash_of(std::span<const uint64_t> set) {
    uint64_t h = set.size();
    for (const uint64_t word : set) h = mix(h ^ word);
    return mix(h);
}

}  // namespace

IdSets::IdSets(size_t reports)
    : reports_(reports), words_((reports + 63) / 64), slots_(64), scratch_(words_) {
    DCHECK(reports > 0);
    std::vector<uint64_t> set(words_);
    const uint32_t empty = number(set);
    for (size_t id = 0; id < reports; ++id) set[id / 64] |= 1ull << id % 64;
    const uint32_t all = number(set);
    CHECK(empty == kEmpty && all == kAll);
}

uint32_t IdSets::number(std::span<const uint64_t> set) {
    assert_state();
    DCHECK(set.size() == words_ && (size() & 1u << 31) == 0);
    uint64_t at = hash_of(set);
    for (;; ++at) {
        const uint32_t slot = slots_[at & (slots_.size() - 1)];
        if (slot == 0) break;
        if (std::ranges::equal(bits_of(slot - 1), set)) return slot - 1;
    }
    bits_.insert(bits_.end(), set.begin(), set.end());
    slots_[at & (slots_.size() - 1)] = size();
    const uint32_t made = size() - 1;
    if (2 * size() > slots_.size()) grow_slots();
    DCHECK(std::ranges::equal(bits_of(made), set));  // IS-1
    return made;
}

void IdSets::grow_slots() {
    slots_.assign(2 * slots_.size(), 0);
    for (uint32_t set = 0; set < size(); ++set) {
        uint64_t at = hash_of(bits_of(set));
        while (slots_[at & (slots_.size() - 1)] != 0) ++at;
        slots_[at & (slots_.size() - 1)] = set + 1;
    }
    DCHECK(2 * size() <= slots_.size());
}

IdSets::Memo& IdSets::memo_of(uint64_t question) {
    DCHECK(question != 0);
    if (memo_.empty()) memo_.resize(kMemo);
    return memo_[mix(mix(question)) >> 20 & (kMemo - 1)];
}

uint32_t IdSets::combine(Op op, uint32_t a, uint32_t b) {
    if (op != Op::without && a > b) std::swap(a, b);
    DCHECK(a < size() && b < size() && b != 0);
    const uint64_t question = (static_cast<uint64_t>(op) << 62 | uint64_t{a} << 31 | b) + 1;
    Memo& memo = memo_of(question);
    if (memo.question == question) return memo.answer;
    const auto x = bits_of(a), y = bits_of(b);
    for (size_t i = 0; i < words_; ++i)
        scratch_[i] = op == Op::both ? x[i] & y[i] : op == Op::either ? x[i] | y[i] : x[i] & ~y[i];
    memo = {question, number(scratch_)};
    DCHECK(memo.answer < size() && memo_of(question).question == question);
    return memo.answer;
}

}  // namespace lockstep::sm::report
