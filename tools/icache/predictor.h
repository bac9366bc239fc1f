// predictor.h - models of branch predictors: two-bit counters chosen by address and history, a table of targets, a stack of return addresses.
//
// Concepts   Two models. `gshare`: 16,384 counters, index = address xor 14 bits of history, 512 targets; returns always right: what valgrind's
//            own tools count. `k7`: 4,096 counters, index = 8 bits of history and 4 of the address, 2,048 targets, 12 return addresses: the
//            published outline of the thesis's AthlonXP. Neither is a real processor; both are fed the same real stream.
#pragma once

#include <array>
#include <cstdint>
#include <vector>

namespace lockstep::icache {

struct PredictorShape {
    const char* name;
    uint32_t counters;                           // powers of two
    uint32_t history_bits;
    bool mix;                                    // index = address xor history; else history beside 4 bits of the address
    uint32_t targets;
    uint32_t returns;                            // 0: returns are always right
};
inline constexpr PredictorShape kGshare = {"gshare", 16384, 14, true, 512, 0};
inline constexpr PredictorShape kK7 = {"k7", 4096, 8, false, 2048, 12};

// Each call says whether the guess was wrong, and learns.
class Predictor {
public:
    explicit Predictor(const PredictorShape& shape)
        : shape_(shape), counters_(shape.counters, 1), targets_(shape.targets, 0), returns_(shape.returns, 0) {}

    bool branch(uint64_t address, bool taken) {
        const uint64_t history = history_ & ((1u << shape_.history_bits) - 1);
        const uint64_t index = shape_.mix ? address ^ history : history << 4 | (address >> 4 & 15);
        uint8_t& counter = counters_[index & (shape_.counters - 1)];
        const bool wrong = (counter >= 2) != taken;
        if (taken && counter < 3) ++counter;
        if (!taken && counter > 0) --counter;
        history_ = history_ << 1 | taken;
        return wrong;
    }
    bool indirect(uint64_t address, uint64_t target) {
        uint64_t& known = targets_[address & (shape_.targets - 1)];
        const bool wrong = known != target;
        known = target;
        return wrong;
    }
    void call(uint64_t return_address) {
        if (shape_.returns != 0) returns_[top_++ % shape_.returns] = return_address;
    }
    // Every return is predicted from the top of the stack, whatever put it there.
    bool ret(uint64_t target) { return shape_.returns != 0 && returns_[--top_ % shape_.returns] != target; }

    // Nothing learnt yet. The stack of return addresses stays: it is made anew by every call.
    void forget() {
        counters_.assign(shape_.counters, 1);
        targets_.assign(shape_.targets, 0);
        history_ = 0;
    }

    const PredictorShape& shape() const { return shape_; }

private:
    PredictorShape shape_;
    std::vector<uint8_t> counters_;
    std::vector<uint64_t> targets_, returns_;
    uint64_t history_ = 0;
    uint32_t top_ = 1u << 31;
};

}  // namespace lockstep::icache
