// plan.cc - draws the work of one transaction.
#include "tools/acked/plan.h"

#include <cstring>

#include "threads/base/rng.h"

namespace lockstep::acked {
namespace {

// Bytes that repeat nowhere: a value of another row, or a part of it, is noticed.
std::string draw_text(Rng& rng, size_t bytes) {
    std::string text(bytes, '\0');
    for (char& c : text) c = static_cast<char>('!' + rng.below(90));
    return text;
}

// Most values are short, some fill a quarter of a page, few lie in overflow pages.
size_t draw_size(Rng& rng) {
    const uint64_t kind = rng.below(20);
    if (kind < 14) return 20 + rng.below(180);
    return 200 + rng.below(kind < 19 ? 1800 : 11800);
}

template <class T>
T word_at(Slice text, size_t at) {
    T word;
    std::memcpy(&word, text.data() + at, sizeof word);
    return word;
}

}  // namespace

std::vector<Transfer> transfers_of(uint64_t seed, uint32_t client, uint64_t number) {
    Rng rng = Rng(~seed ^ (number << 20)).fork(client + 1);
    std::vector<Transfer> transfers;
    for (uint64_t i = rng.below(3); i > 0; --i) {
        const auto from = static_cast<uint32_t>(rng.below(kAccounts));
        const auto to = static_cast<uint32_t>((from + 1 + rng.below(kAccounts - 1)) % kAccounts);
        transfers.push_back({from, to, rng.between(1, 500)});
    }
    return transfers;
}

Plan plan_of(uint64_t seed, uint32_t client, uint64_t number) {
    Rng rng = Rng(seed ^ (number << 20)).fork(client + 1);
    Plan plan;
    plan.lazy = number % (kLazyMax + 3) == 1;
    plan.fails_first = rng.below(8) == 0;
    plan.replaces_note = rng.below(16) == 0;
    const uint64_t rows = 2 + rng.below(4);
    for (uint64_t i = 0; i < rows; ++i) plan.rows.push_back(draw_text(rng, draw_size(rng)));
    plan.transfers = transfers_of(seed, client, number);
    plan.note = draw_text(rng, rng.below(3000));
    return plan;
}

std::string text_of(const Newest& newest) {
    std::string text(14, '\0');
    std::memcpy(text.data(), &newest.number, 8);
    std::memcpy(text.data() + 8, &newest.note.page.value, 4);
    std::memcpy(text.data() + 12, &newest.note.slot.value, 2);
    return text;
}

Newest newest_of(Slice text) {
    if (text.size() != 14) return {};
    return {word_at<uint64_t>(text, 0),
            {PageId{word_at<uint32_t>(text, 8)}, SlotNo{word_at<uint16_t>(text, 12)}}};
}

std::string text_of(int64_t balance) {
    std::string text(64, '.');
    std::memcpy(text.data(), &balance, sizeof balance);
    return text;
}

int64_t balance_of(Slice text) { return text.size() == 64 ? word_at<int64_t>(text, 0) : INT64_MIN; }

}  // namespace lockstep::acked
