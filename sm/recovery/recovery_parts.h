// recovery_parts.h - what checkpoint, restart (with its rollback of losers) and repair share.
// Private to them.
//
// Layout     checkpoint_end record: CheckpointEnd, then `count` CheckpointTxn. Many transactions
//            take several such records (`part` of `parts`).
#pragma once

#include <map>
#include <memory>
#include <vector>

#include "sm/change/page_image.h"
#include "sm/change/rollback.h"
#include "sm/recovery/recovery.h"
#include "threads/base/check.h"
#include "threads/base/on_disk.h"
#include "threads/sync/event.h"

namespace lockstep::sm {

struct CheckpointEnd {
    uint64_t begin;  // LSN of the begin record that this ends
    uint64_t next_txn;
    uint64_t oldest_first;  // the log is needed from min(begin, oldest_first) on
    uint32_t part, parts;
    uint32_t count, reserved;
};
static_assert(kOnDisk<CheckpointEnd, 40> && offsetof(CheckpointEnd, part) == 24);
static_assert(offsetof(CheckpointEnd, count) == 32);
struct CheckpointTxn {
    uint64_t id, first, last;
};
static_assert(kOnDisk<CheckpointTxn, 24>);
inline constexpr uint32_t kCheckpointTxnsMax = 8192;  // per record
static_assert(sizeof(txn::LogRecordHeader) + sizeof(CheckpointEnd) +
                  kCheckpointTxnsMax * sizeof(CheckpointTxn) <=
              txn::kLogRecordMax);

// Finds in the log which transactions were live at its end. restart_analysis.cc
class Analysis {
public:
    explicit Analysis(Lsn checkpoint_begin) : begin_(checkpoint_begin) {}
    // Records in LSN order, the first one at checkpoint_begin. Errors: corrupt_log.
    Result<void> see(const txn::LogRecordView& record);

    // Those without an end, also those in doubt; newest last record first: the order of undo.
    std::vector<Unended> unended() const;
    TxnId next_txn() const { return TxnId{next_txn_}; }
    Lsn image_lsn() const { return image_lsn_; }  // see Env::image_lsn
    // The first record is that of a checkpoint. Otherwise RC-5 holds.
    bool begins_with_checkpoint() const { return image_lsn_ != kLsnNone; }
    // The log ends between the checkpoint's begin and its list of transactions (RC-6).
    bool lacks_list() const { return collecting_; }
    uint64_t changes() const { return changes_; }  // records that are not of a checkpoint

private:
    void assert_state() const {
        DCHECK(collecting_ || ended_.empty());
        DCHECK(image_lsn_ == kLsnNone ? !collecting_ : image_lsn_ > begin_);
        DCHECK(next_txn_ > 0);
    }
    void ended(uint64_t id);
    Result<void> merge(const txn::LogRecordView& record);

    const Lsn begin_;
    Lsn image_lsn_{};
    uint64_t next_txn_ = 1, changes_ = 0;
    // Between begin and the last end record of the checkpoint.
    bool collecting_ = false;
    std::map<uint64_t, Unended> live_;
    std::vector<uint64_t> ended_;  // while collecting
};

// Applies parts on all workers, pages divided by number. restart_redo.cc
class ParallelRedo {
public:
    ParallelRedo(RestartEnv& env, RecoveryReport& report);
    ~ParallelRedo();
    Result<void> start();
    // Hands the record's parts to their partitions; parks while these are far behind. Errors:
    // corrupt_log, no_space.
    Result<void> feed(const txn::LogRecordView& record);
    // Waits until everything is applied; returns the first error of any thread. Must be called once
    // started.
    Result<void> finish();

private:
    struct Impl;
    std::shared_ptr<Impl> impl_;
};

// Applies one part to a page that is exclusively held or private. `known`: the page holds its state
// as of some LSN; otherwise the part must bring it. False if the page has the part already (RC-1).
// Error: corrupt_log; the page then holds any bytes.
inline Result<bool> redo_part(Page& page, bool known, const PartView& part, Lsn end) {
    if (known && page.lsn() >= end) return false;
    if (!part.image.empty()) TRY(bring_image(page, part));
    // Says nothing of the page but its end, and an unknown one may hold any bytes.
    if (!known && part.action == PageAction::page_free)
        format_page(page, part.page, ObjectId{0}, PageKind::free);
    apply_action(part.action, page, part.payload);
    page.assert_state();
    return true;
}

}  // namespace lockstep::sm
