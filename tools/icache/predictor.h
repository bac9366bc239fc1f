// predictor.h - models of branch predictors: counters, a table of targets and a return stack.
//
// Concepts   Each model is the published outline of a design, not a real processor. All models get
//            the same recorded stream.
//
//            gshare  16,384 counters, index = address xor 14 bits of history, 512 targets. Returns
//                    are always right. Valgrind's tools count this way.
//            k7      AthlonXP: 4,096 counters, index = 8 bits of history and 4 of the address,
//                    2,048 targets, 12 return addresses.
//            p6      Pentium III: a branch target buffer of 512 entries in 128 sets, 16 return
//                    addresses. An entry has its branch's last 4 outcomes and 16 counters.
//            p6/4    The same with 128 entries. Our 11 KB operation stresses it as Shore's 45 KB
//                    operation stressed the full buffer.
//
//            A branch that is not in the p6 buffer is predicted taken if it goes backward. It
//            enters the buffer when it is taken. The models gshare and k7 forget only by sharing
//            counters. The model p6 forgets what 512 later branches have evicted. A long code path
//            therefore costs it misses, as in an instruction cache.
// Source     AMD, "Athlon Processor x86 Code Optimization Guide" (22007), appendix A; T. Yeh and Y.
//            Patt, "Two-Level Adaptive Training Branch Prediction", 1991 (per-address histories,
//            the scheme of the Pentium Pro's family).
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <vector>

namespace lockstep::icache {

struct PredictorShape {
    const char* name;
    // A power of two; 0: the counters are in the entries of the branch target buffer.
    uint32_t counters;
    uint32_t history_bits;
    // Index = address xor history; otherwise history beside 4 bits of the address.
    bool mix;
    // Of indirect branches. If counters is 0: entries of the branch target buffer.
    uint32_t targets;
    uint32_t returns;  // 0: returns are always right
};
inline constexpr PredictorShape kGshare = {"gshare", 16384, 14, true, 512, 0};
inline constexpr PredictorShape kK7 = {"k7", 4096, 8, false, 2048, 12};
inline constexpr PredictorShape kP6 = {"p6", 0, 4, false, 512, 16};
inline constexpr PredictorShape kP6Quarter = {"p6/4", 0, 4, false, 128, 16};

// Each call returns true if the prediction was wrong, and learns.
class Predictor {
public:
    explicit Predictor(const PredictorShape& shape) : shape_(shape), returns_(shape.returns, 0) {
        forget();
    }

    // backward: the target lies before the branch.
    bool branch(uint64_t address, bool taken, bool backward) {
        if (shape_.counters == 0) return branch_by_entry(address, taken, backward);
        const uint64_t history = history_ & ((1u << shape_.history_bits) - 1);
        const uint64_t index = shape_.mix ? address ^ history : history << 4 | (address >> 4 & 15);
        history_ = history_ << 1 | taken;
        return count(counters_[index & (shape_.counters - 1)], taken);
    }
    bool indirect(uint64_t address, uint64_t target) {
        uint64_t* known =
            shape_.counters == 0 ? nullptr : &targets_[address & (shape_.targets - 1)];
        if (known == nullptr) {
            Entry* entry = find(address);
            known = entry != nullptr ? &entry->target : &enter(address).target;
        }
        const bool wrong = *known != target;
        *known = target;
        return wrong;
    }
    // A direct call is known when it is decoded: it takes an entry, but is never wrong.
    void call(uint64_t return_address) {
        if (shape_.returns != 0) returns_[top_++ % shape_.returns] = return_address;
        if (shape_.counters == 0 && find(return_address) == nullptr) enter(return_address);
    }
    // Every return is predicted from the top of the stack, whichever call pushed it.
    bool ret(uint64_t target) {
        return shape_.returns != 0 && returns_[--top_ % shape_.returns] != target;
    }

    // Forgets everything but the return stack, which each call refills.
    void forget() {
        counters_.assign(shape_.counters, 1);
        targets_.assign(shape_.counters == 0 ? 0 : shape_.targets, 0);
        entries_.assign(shape_.counters == 0 ? shape_.targets : 0, {});
        history_ = 0;
    }

    const PredictorShape& shape() const { return shape_; }

private:
    static constexpr uint32_t kWays = 4;
    // One branch in the branch target buffer. The entries of a set are in order of use, the latest
    // first.
    struct Entry {
        uint64_t address = 0, target = 0;
        uint32_t history = 0;
        std::array<uint8_t, 16> counters{};
    };

    static bool count(uint8_t& counter, bool taken) {
        const bool wrong = (counter >= 2) != taken;
        if (taken && counter < 3) ++counter;
        if (!taken && counter > 0) --counter;
        return wrong;
    }
    Entry* set_of(uint64_t address) {
        return &entries_[(address >> 4 & (shape_.targets / kWays - 1)) * kWays];
    }
    Entry* find(uint64_t address) {
        Entry* const set = set_of(address);
        for (uint32_t i = 0; i < kWays; ++i)
            if (set[i].address == address) {
                std::rotate(set, set + i, set + i + 1);
                return set;
            }
        return nullptr;
    }
    Entry& enter(uint64_t address) {
        Entry* const set = set_of(address);
        std::rotate(set, set + kWays - 1, set + kWays);
        set[0] = {.address = address};
        set[0].counters.fill(2);
        return set[0];
    }
    bool branch_by_entry(uint64_t address, bool taken, bool backward) {
        Entry* entry = find(address);
        if (entry == nullptr) {
            if (taken) enter(address).history = 1;
            return taken != backward;
        }
        const bool wrong = count(entry->counters[entry->history], taken);
        entry->history = (entry->history << 1 | taken) & 15;
        return wrong;
    }

    PredictorShape shape_;
    std::vector<uint8_t> counters_;
    std::vector<uint64_t> targets_, returns_;
    std::vector<Entry> entries_;
    uint64_t history_ = 0;
    uint32_t top_ = 1u << 31;
};

}  // namespace lockstep::icache
