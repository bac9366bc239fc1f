// records.h - random record operations on indexes and heaps; the ledger gets each answer.
#pragma once

#include <set>

#include "tests/sim/doubts.h"
#include "tests/sim/ledger.h"
#include "tests/sim/work.h"

namespace lockstep::sim {

class Records final : public Work {
public:
    // `generation`: of the works that went on from one another. `rolled_back`: see Doubts.
    Records(Shared& shared, Plan plan, Content base, uint32_t generation = 0,
            std::set<std::string> rolled_back = {});
    void prepare(Host& host) override;
    void start(Host& host) override;
    bool done() const override { return running_ == 0; }
    double progress() const override {
        return total_ == 0 ? 1 : static_cast<double>(finished_) / static_cast<double>(total_);
    }
    uint64_t moment() const override { return ledger_.now(); }
    std::unique_ptr<Work> judge(Host& recovered, uint64_t at, uint64_t variant,
                                Shared& next) override;

    void judge_injured(Host& host, uint64_t at) override;
    void will_be_judged() override { settled_ = true; }
    void judge_copies(threads::SimDisk& disk) override;

    // --- for Attempt
    Shared& shared() { return shared_; }
    Ledger& ledger() { return ledger_; }
    std::string next_marker();
    uint64_t next_number() { return ++numbers_; }
    std::vector<std::string>& known_records(size_t heap) { return known_[heap]; }
    std::string key_text(uint32_t number) const;
    Doubts& doubts() { return doubts_; }
    std::string gid_of(const std::string& marker) const;
    void decide_later(Host& host, Doubt& doubt, Nanos pause);
    bool was_ended(TxnId id) const { return ended_.contains(id.value); }

private:
    class Submitter;
    void run_thread(Host& host, uint32_t thread);
    void run_plan(Host& host, const TxnPlan& plan, uint32_t thread);
    void run_transaction(Host& host, const TxnPlan& plan, uint32_t thread);

    void decide(Host& host, Doubt& doubt);
    void rest(Host& host, Nanos pause);
    void back_up(Host& host);
    void give_back_space(Host& host);
    Lsn judge_copy(threads::SimDisk& disk, const std::vector<std::string>& parts,
                   std::string directory, const RestoreOptions& how);
    void end_another(Host& host, uint64_t choice);
    void check(const char* what, const Result<void>& done);

    static constexpr size_t kNoBase = SIZE_MAX;
    struct Copy {
        std::string directory;
        BackupInfo info;
        size_t base;  // of an incremental backup: the one that it was made since
    };

    Shared& shared_;
    const Plan plan_;
    const uint32_t generation_;
    Ledger ledger_;
    std::vector<std::vector<std::string>> known_;  // ids ever given, per heap
    Doubts doubts_;
    std::vector<Copy> copies_;
    size_t copies_begun_ = 0;
    std::set<uint64_t> ended_;  // ids of transactions that may have been ended from outside
    Nanos quiet_until_ = 0;     // no transaction begins before
    bool shrinking_ = false;
    bool settled_ = false;  // see will_be_judged()
    uint64_t markers_ = 0, numbers_ = 0;
    uint32_t running_ = 0;
    size_t total_, finished_ = 0;
};

inline std::string index_name(size_t n) { return "index" + std::to_string(n); }
inline std::string heap_name(size_t n) { return "heap" + std::to_string(n); }

}  // namespace lockstep::sim
