// outcome.cc - the memory of outcomes.
#include "txn/outcome.h"

#include <new>

#include "threads/base/sanitized.h"

namespace lockstep::txn {

struct OutcomeBlock {
    // The address sanitizer sees a use of what was freed only if each has a block of its own.
    static constexpr uint32_t kOutcomes = kAddressSanitizer ? 1 : 16;

    std::atomic<uint32_t> left{kOutcomes};  // outcomes that are in use, or not yet
    alignas(Outcome) std::byte memory[kOutcomes][sizeof(Outcome)];

    Outcome* make(uint32_t i, TxnId txn) {
        DCHECK(i < kOutcomes && left.load() > 0);
        return new (memory[i]) Outcome(txn, *this);
    }
    void let_go(uint32_t n) {
        DCHECK(n >= 1 && left.load() >= n);
        if (left.fetch_sub(n, std::memory_order_acq_rel) == n) delete this;
    }
};

OutcomeSource::~OutcomeSource() {
    DCHECK(block_ == nullptr || used_ < OutcomeBlock::kOutcomes);
    if (block_ != nullptr) block_->let_go(OutcomeBlock::kOutcomes - used_);
}

Outcome* OutcomeSource::make(TxnId txn) {
    DCHECK(txn.value != 0 && (block_ == nullptr || used_ < OutcomeBlock::kOutcomes));
    if (block_ == nullptr) {
        block_ = new (std::nothrow) OutcomeBlock;
        if (block_ == nullptr) return nullptr;
        used_ = 0;
    }
    OutcomeBlock& block = *block_;
    const uint32_t i = used_++;
    if (used_ == OutcomeBlock::kOutcomes) block_ = nullptr;
    return block.make(i, txn);
}

void Outcome::free(Outcome* outcome) {
    DCHECK(outcome->uses_.load() == 0);
    OutcomeBlock& block = outcome->block_;
    outcome->~Outcome();
    block.let_go(1);
}

}  // namespace lockstep::txn
