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
    bool uses_shared_names() const { return shared_.config.variety.shared_odds > 0; }
    // Whether an object of this number was there before, or is asked for again.
    bool knows_object(ObjectId id) { return !numbers_seen_.insert(id.value).second; }
    bool was_ended(TxnId id) const { return ended_.contains(id.value); }

private:
    class Submitter;  // NOLINT(cppcoreguidelines-virtual-class-destructor): it is final
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
        size_t base;     // of an incremental backup: the one that it was made since
        uint64_t ended;  // time of the ledger
    };
    std::string directory_of(size_t copy) const;
    // Copies that were complete before a crash at `at`. Later ones may follow them.
    void inherit(const Records& earlier, uint64_t at);
    void cycle(Host& host);
    // No transaction begins or goes on until verify() has ended.
    void audit(Host& host);
    bool verify_is_prevented(Host& host, const Error& error) const;

    Shared& shared_;
    const Plan plan_;
    const uint32_t generation_;
    Ledger ledger_;
    std::vector<std::vector<std::string>> known_;  // ids ever given, per heap
    Doubts doubts_;
    std::vector<Copy> copies_;
    size_t copies_begun_ = 0;
    size_t inherited_ = 0;              // of the copies: those of an earlier run
    Lsn born_{};                        // end of the log when this work began
    uint32_t live_ = 0, deciding_ = 0;  // transactions, and decisions that are to come
    bool auditing_ = false;
    std::set<uint32_t> numbers_seen_;  // of objects
    std::set<uint64_t> ended_;         // ids of transactions that may have been ended from outside
    Nanos quiet_until_ = 0;            // no transaction begins before
    bool shrinking_ = false;
    bool settled_ = false;  // see will_be_judged()
    uint64_t markers_ = 0, numbers_ = 0;
    uint32_t running_ = 0;
    size_t total_, finished_ = 0;
};

inline std::string index_name(size_t n) { return "index" + std::to_string(n); }
inline std::string heap_name(size_t n) { return "heap" + std::to_string(n); }

}  // namespace lockstep::sim
