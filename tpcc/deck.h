// deck.h - which transaction a terminal runs next: cards dealt from a shuffled deck (clause
// 5.2.4.2), or drawn by given weights (clause 5.2.4.1).
#pragma once

#include <array>
#include <numeric>

#include "tpcc/input.h"

namespace lockstep::tpcc {

// full: all five in the proportions of the specification; without_delivery: the same without
// Delivery; or one type alone.
enum class Mix : uint8_t { full, without_delivery, new_order, payment };

// How often each type is drawn, in the order of TxnType; of any sum above 0.
using MixWeights = std::array<uint32_t, kTxnTypes>;

class Deck {
public:
    Deck(const MixWeights& weights, Rng rng)
        : rng_(rng),
          weights_(weights),
          weights_sum_(std::accumulate(weights.begin(), weights.end(), uint64_t{0})) {}
    Deck(Mix mix, Rng rng) : rng_(rng) {
        const bool all = mix == Mix::full || mix == Mix::without_delivery;
        add(TxnType::new_order, all ? 10 : mix == Mix::new_order);
        add(TxnType::payment, all ? 10 : mix == Mix::payment);
        add(TxnType::order_status, all);
        add(TxnType::delivery, mix == Mix::full);
        add(TxnType::stock_level, all);
        next_ = size_;
    }
    TxnType deal() {
        if (weights_sum_ != 0) return draw();
        if (next_ == size_) {
            shuffle(rng_, std::span(cards_).first(size_));
            next_ = 0;
        }
        return cards_[next_++];
    }

private:
    void add(TxnType type, uint32_t n) {
        while (n-- > 0) cards_[size_++] = type;
    }
    TxnType draw() {
        uint64_t at = rng_.below(weights_sum_);
        size_t type = 0;
        while (at >= weights_[type]) at -= weights_[type++];
        return static_cast<TxnType>(type);
    }

    Rng rng_;
    MixWeights weights_{};
    uint64_t weights_sum_ = 0;  // 0: cards are dealt
    std::array<TxnType, 23> cards_;
    uint32_t size_ = 0, next_ = 0;
};

}  // namespace lockstep::tpcc
