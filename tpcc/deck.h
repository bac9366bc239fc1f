// deck.h - which transaction a terminal runs next: cards dealt from a shuffled deck (clause
// 5.2.4.2).
#pragma once

#include <array>

#include "tpcc/input.h"

namespace lockstep::tpcc {

// full: all five in the proportions of the specification; without_delivery: the same without
// Delivery; or one type alone.
enum class Mix : uint8_t { full, without_delivery, new_order, payment };

class Deck {
public:
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
    Rng rng_;
    std::array<TxnType, 23> cards_;
    uint32_t size_ = 0, next_ = 0;
};

}  // namespace lockstep::tpcc
