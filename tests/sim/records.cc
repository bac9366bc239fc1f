// records.cc - threads of the record workload: one transaction after the other, repeated after
// deadlocks, entered into the ledger.
#include "tests/sim/records.h"

#include <fmt/format.h>

#include <set>

#include <lockstep/need.h>
#include "sm/engine/engine.h"
#include "sm/services/ghost_cleaner.h"
#include "tests/sim/attempt.h"

namespace lockstep::sim {

bool is_failure_of_environment(ErrorCode code) {
    switch (code) {
        case ErrorCode::io_error:
        case ErrorCode::no_space:
        case ErrorCode::log_full:
        case ErrorCode::pool_full:
        case ErrorCode::archive_failed:
        case ErrorCode::out_of_memory:
        case ErrorCode::corrupt_page:
        case ErrorCode::lost_write:
        case ErrorCode::store_failed:
        case ErrorCode::txn_aborting: return true;
        default: return false;
    }
}

Records::Records(Shared& shared, Plan plan, Content base, uint32_t generation,
                 std::set<std::string> rolled_back)
    : shared_(shared),
      plan_(std::move(plan)),
      generation_(generation),
      ledger_(std::move(base), shared.report),
      doubts_(std::move(rolled_back)),
      total_(plan_.transactions()) {
    known_.resize(shared.config.heaps);
    for (size_t h = 0; h < known_.size(); ++h) {
        const auto heap = ledger_.model().find(heap_name(h));
        if (heap == ledger_.model().end()) continue;
        for (const auto& [key, value] : heap->second.rows) known_[h].push_back(key);
    }
    if (const auto markers = ledger_.model().find(kMarkers); markers != ledger_.model().end())
        markers_ = markers->second.rows.size() * 16;
}

std::unique_ptr<Work> make_records(Shared& shared, const Plan& plan) {
    return std::make_unique<Records>(shared, plan, Content{});
}

// In no order, so that the markers' index grows everywhere; unique, because multiplication by an
// odd number is a bijection.
std::string Records::next_marker() {
    return fmt::format("{:08x}", static_cast<uint32_t>(++markers_ * 0x9e3779b1u));
}

// An entry of a secondary index has the key, up to three bytes of the value, and their end.
std::string Records::key_text(uint32_t number) const {
    const Config& config = shared_.config;
    return key_of(config.variety, config.key_pad, number,
                  kKeyBytesMax - (config.secondary || uses_shared_names() ? 5 : 0));
}

// The objects come into being in one transaction, which is judged like any other.
void Records::prepare(Host& host) {
    const Config& config = shared_.config;
    Result<void> outcome;
    const bool ended = host.on_thread(
        [&]() -> Result<void> {
            Txn txn = TRY(host->begin());
            Changes changes;
            const std::string marker = next_marker();
            const Index markers = TRY(host->create_index(txn, kMarkers));
            changes.push_back({Change::create_index, kMarkers, {}, {}});
            for (size_t i = 0; i < config.indexes; ++i) {
                const Index index = TRY(host->create_index(txn, index_name(i)));
                if (config.secondary) TRY(host.make_secondary(txn, index_name(i), index));
                changes.push_back({Change::create_index, index_name(i), {}, {}});
            }
            for (size_t i = 0; i < config.heaps; ++i) {
                TRY(host->create_heap(txn, heap_name(i)));
                changes.push_back({Change::create_heap, heap_name(i), {}, {}});
            }
            TRY(markers.insert(txn, marker, "prepare"));
            changes.push_back({Change::row, kMarkers, marker, value_of("prepare")});
            const size_t number =
                ledger_.commit_called(marker, std::move(changes), {}, {}, true, "prepare");
            auto end = txn.commit();
            ledger_.commit_returned(number, end);
            TRY(end);
            return {};
        },
        &outcome);
    if (!ended) shared_.report.fail("liveness: making the objects hangs");
    else if (!outcome) shared_.report.fail("making the objects: " + outcome.error().text());
}

// The transactions of one of the plan's threads as packets, one after the other. Any worker may run
// them; some wait for a time. In seeds of the second version of the work, most announce records of
// the next transaction. Some of these are wrong: other keys, and indexes dropped meanwhile.
class Records::Submitter final : public Packet {
public:
    Submitter(Records& records, Host& host, uint32_t thread)
        : records_(records), host_(host), thread_(thread) {}
    void submit(Nanos now) {
        const uint32_t mixed = (thread_ * 31 + static_cast<uint32_t>(at_)) * 0x9e3779b1u >> 20;
        const auto done =
            host_->submit(*this, {.worker = static_cast<int>(thread_),
                                  .pinned = mixed % 5 == 0,
                                  .priority = static_cast<uint8_t>(mixed % 4),
                                  .not_before = mixed % 3 == 0 ? now + mixed * kMicrosecond : 0});
        if (!done) records_.shared_.report.fail("a packet: " + done.error().text());
    }

private:
    struct Wish {
        Index index;
        std::string key;
        Access access;
        uint32_t bytes;
    };

    void announce(Announcement& to) override {
        if (!wishes_.empty()) records_.shared_.report.add(Count::packets_announced);
        for (const Wish& wish : wishes_) to.add(wish.index, wish.key, wish.access, wish.bytes);
    }
    void run() override {
        const std::vector<TxnPlan>& plans = records_.plan_.threads[thread_];
        if (at_ < plans.size() && !records_.shared_.report.failed()) {
            records_.run_plan(host_, plans[at_++], thread_);
            choose_wishes();
            return submit(now());
        }
        --records_.running_;
        delete this;
    }
    void dropped() override { delete this; }

    // announce() must not call the store.
    void choose_wishes() {
        const std::vector<TxnPlan>& plans = records_.plan_.threads[thread_];
        wishes_.clear();
        if (!records_.shared_.config.variety.second || at_ == plans.size() || at_ % 4 == 0) return;
        for (const Op& op : plans[at_].ops) {
            const auto index = host_->index(index_name(op.object));
            if (!index) continue;
            const Access access = op.size % 2 == 0 ? Access::read : Access::write;
            wishes_.push_back({*index, records_.key_text(op.key), access, op.size});
            if (op.size % 3 != 0) continue;
            wishes_.push_back(
                {op.size % 7 == 0 ? Index() : *index,
                 op.size % 2 == 0 ? std::string(op.size, 'k') : records_.key_text(op.key + 1),
                 Access::read, op.size});
        }
    }

    Records& records_;
    Host& host_;
    const uint32_t thread_;
    size_t at_ = 0;
    std::vector<Wish> wishes_;
};

void Records::start(Host& host) {
    running_ = static_cast<uint32_t>(plan_.threads.size());
    born_ = host.log_end();
    for (const Store::Entry& entry : host->list()) numbers_seen_.insert(entry.id.value);
    if (shared_.config.packets) {
        for (uint32_t n = 0; n < plan_.threads.size(); ++n)
            (new Submitter(*this, host, n))->submit(host.clock().now());
        return;
    }
    for (uint32_t n = 0; n < plan_.threads.size(); ++n)
        host->start(
            [this, &host, n]() -> Result<void> {
                run_thread(host, n);
                --running_;
                return {};
            },
            static_cast<int>(n % host.options().workers));
}

void Records::run_thread(Host& host, uint32_t thread) {
    for (const TxnPlan& plan : plan_.threads[thread]) {
        if (shared_.report.failed()) return;
        run_plan(host, plan, thread);
    }
}

void Records::run_plan(Host& host, const TxnPlan& plan, uint32_t thread) {
    rest(host, plan.idle);
    if (plan.audit) audit(host);
    if (plan.cycle) cycle(host);
    if (plan.checkpoint) {
        shared_.report.add(Count::checkpoints);
        check("checkpoint", host->checkpoint());
    }
    rest(host, 0);
    if (plan.clean_ghosts) check("removal of ghosts", host.engine().ghosts->run_once());
    for (uint32_t n = 0; n < plan.backups; ++n) back_up(host);
    if (plan.shrink) give_back_space(host);
    if (plan.ends_another) end_another(host, plan.ops.size() + finished_);
    rest(host, 0);
    ++live_;
    run_transaction(host, plan, thread);
    --live_;
    ++finished_;
}

void Records::run_transaction(Host& host, const TxnPlan& plan, uint32_t thread) {
    for (int tries = 0; tries < 4; ++tries) {
        if (tries > 0) shared_.report.add(Count::retried);
        Attempt attempt(*this, host, plan, thread);
        if (!attempt.run() || shared_.report.failed()) return;
        yield();
    }
}

// The returned work continues after recovery: a tenth as long, with a plan of its own.
std::unique_ptr<Work> Records::judge(Host& recovered, uint64_t at, uint64_t variant, Shared& next) {
    shared_.report.add(Count::in_doubt, recovered->prepared().size());
    Doubts::Settled settled = doubts_.settle(recovered, at, next.crashes > 1 || settled_);
    if (!settled.fault.empty()) {
        shared_.report.fail("after recovery: " + settled.fault);
        return nullptr;
    }
    check("attach_key", recovered.attach_keys());
    auto seen = recovered.read_all();
    if (!seen) {
        shared_.report.fail("reading after recovery: " + seen.error().text());
        return nullptr;
    }
    const std::string fault = ledger_.judge(*seen, at, settled.late);
    if (!fault.empty()) {
        shared_.report.fail("after recovery: " + fault);
        return nullptr;
    }
    if (!seen->contains(kMarkers)) return nullptr;  // nothing was made yet
    Config smaller = shared_.config;
    smaller.transactions = 6;
    smaller.threads = 3;
    smaller.schema_changes = false;
    smaller.variety.hoard_odds = 0;
    if (smaller.variety.late_backups) smaller.variety.backup_odds = 0.1;
    auto later = std::make_unique<Records>(
        next, draw_plan(smaller, stream(smaller.seed, Stream::work).fork(variant)),
        std::move(*seen), generation_ + 1, std::move(settled.rolled_back));
    later->inherit(*this, at);
    return later;
}

void Records::judge_injured(Host& host, uint64_t at) {
    const Doubts::Settled settled = doubts_.settle(host, at, settled_);
    if (settled.refused) return shared_.report.add(Count::page_refused);
    if (!settled.fault.empty()) return shared_.report.fail("an injured store: " + settled.fault);
    std::set<std::string> unreadable;
    auto seen = host.read_all(&unreadable);
    if (!seen) return shared_.report.fail("reading an injured store: " + seen.error().text());
    if (!unreadable.empty()) shared_.report.add(Count::page_refused);
    if (unreadable.contains(kMarkers)) return;  // nobody can tell who survived
    const std::string fault = ledger_.judge(*seen, at, settled.late, unreadable);
    if (!fault.empty()) shared_.report.fail("an injured page was returned as data: " + fault);
}

}  // namespace lockstep::sim
