// outcome.h - what has become of a transaction, for readers that meet its changes later.
//
// Concepts   A transaction gets an Outcome when other threads may have to decide whether they see
//            its changes. It stays until the transaction and the memory of every version that it
//            wrote are gone.
//            A source takes the memory of several outcomes at a time, a *block*. The block is freed
//            with the last of them.
// Invariants OC-1 `committing` is stored before the commit record's place in the log is taken. So
//                 a thread that takes a position in the log first, and then finds `active`, stands
//                 below the commit record.
// Blocking   Nothing here parks.
#pragma once

#include <atomic>

#include <lockstep/types.h>
#include "threads/base/check.h"

namespace lockstep::txn {

struct OutcomeBlock;

class Outcome {
public:
    Outcome(const Outcome&) = delete;
    Outcome& operator=(const Outcome&) = delete;

    TxnId txn() const { return txn_; }

    // By the transaction's thread. `tail`: the log's end; the commit record will not lie below.
    void begin_commit(Lsn tail) { word_.store(tail.value | kCommitting); }
    void commit(Lsn record) {
        DCHECK(tag() == kCommitting && record.value % (kTags + 1) == 0);
        DCHECK(record.value >= (word_.load() & ~kTags));  // OC-1
        word_.store(record.value | kCommitted, std::memory_order_release);
    }
    void abort() {
        DCHECK(tag() == kActive);
        word_.store(kAborted, std::memory_order_release);
    }

    // Does its commit record begin below `at`? `unknown` only while the record is being appended.
    enum class Below : uint8_t { no, yes, unknown };
    Below committed_below(Lsn at) const {
        const uint64_t word = word_.load();
        const bool below = (word & ~kTags) < at.value;
        switch (word & kTags) {
            case kCommitted: return below ? Below::yes : Below::no;
            case kCommitting: return below ? Below::unknown : Below::no;
            default: return Below::no;
        }
    }
    bool active() const { return tag() == kActive || tag() == kCommitting; }
    bool aborted() const { return tag() == kAborted; }

    // Since when the transaction leaves versions: in which period of them, and its newest record
    // before the first change that left any. Used by threads of its worker only.
    uint32_t period = 0;
    Lsn earlier{};

    // References: the transaction's own and one for each version.
    void add_uses(uint32_t n) { uses_.fetch_add(n, std::memory_order_relaxed); }
    void add_use() { add_uses(1); }
    static void drop(Outcome* outcome) {
        if (outcome != nullptr && outcome->uses_.fetch_sub(1, std::memory_order_acq_rel) == 1)
            free(outcome);
    }

private:
    friend struct OutcomeBlock;
    Outcome(TxnId txn, OutcomeBlock& block) : txn_(txn), block_(block) {}
    ~Outcome() = default;
    static void free(Outcome* outcome);

    static constexpr uint64_t kActive = 0, kCommitting = 1, kCommitted = 2, kAborted = 3;
    static constexpr uint64_t kTags = 3;  // LSNs are multiples of 8
    uint64_t tag() const { return word_.load(std::memory_order_acquire) & kTags; }

    std::atomic<uint64_t> word_{kActive};
    std::atomic<uint32_t> uses_{1};
    const TxnId txn_;
    OutcomeBlock& block_;
};

// Makes outcomes, each with one reference: the transaction's. One thread at a time. The outcomes
// may outlive their source.
class OutcomeSource {
public:
    OutcomeSource() = default;
    OutcomeSource(const OutcomeSource&) = delete;
    OutcomeSource& operator=(const OutcomeSource&) = delete;
    ~OutcomeSource();

    // Null: no memory.
    Outcome* make(TxnId txn);

private:
    OutcomeBlock* block_ = nullptr;  // has room
    uint32_t used_ = 0;
};

}  // namespace lockstep::txn
