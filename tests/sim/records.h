// records.h - random record operations on indexes and heaps; the ledger gets each answer.
#pragma once

#include "tests/sim/ledger.h"
#include "tests/sim/work.h"

namespace lockstep::sim {

class Records final : public Work {
public:
    Records(Shared& shared, Plan plan, Content base);
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

    // --- for Attempt
    Shared& shared() { return shared_; }
    Ledger& ledger() { return ledger_; }
    std::string next_marker();
    uint64_t next_number() { return ++numbers_; }
    std::vector<std::string>& known_records(size_t heap) { return known_[heap]; }
    std::string key_text(uint32_t number) const;

private:
    class Submitter;
    void run_thread(Host& host, uint32_t thread);
    void run_plan(Host& host, const TxnPlan& plan, uint32_t thread);
    void run_transaction(Host& host, const TxnPlan& plan, uint32_t thread);

    Shared& shared_;
    const Plan plan_;
    Ledger ledger_;
    std::vector<std::vector<std::string>> known_;  // ids ever given, per heap
    uint64_t markers_ = 0, numbers_ = 0;
    uint32_t running_ = 0;
    size_t total_, finished_ = 0;
};

inline std::string index_name(size_t n) { return "index" + std::to_string(n); }
inline std::string heap_name(size_t n) { return "heap" + std::to_string(n); }

}  // namespace lockstep::sim
