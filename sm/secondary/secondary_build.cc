// secondary_build.cc - filling a new secondary index from the records of its primary.
//
// Concepts   The creator's user thread copies leaves of the primary into batches, and later loads
//            the sorted entries bottom-up. Between, a thread of the offload pool runs the crew: a
//            oneTBB pipeline that computes the entries of many batches at once, and the sort. Two
//            channels connect them. While the creator loads, the crew puts the entries into order
//            for it. So no user thread waits for a computation, and all cores take part.
//            A small index is built by the creator alone, and so is every index of a simulation,
//            which must not depend on kernel threads.
//            The primary is locked in S (SI-3), so its leaves do not change.
// Blocking   Parks. The crew blocks its kernel thread, which is none of the workers.
#include <tbb/parallel_pipeline.h>
#include <tbb/task_arena.h>
#include <optional>

#include <lockstep/offload.h>
#include <lockstep/sync.h>
#include "sm/btree/btree_leaf_walk.h"
#include "sm/btree/btree_node.h"
#include "sm/btree/overflow.h"
#include "sm/host/host.h"
#include "sm/secondary/entry_sort.h"
#include "sm/secondary/key_call.h"
#include "sm/secondary/secondary.h"
#include "sm/secondary/secondary_key.h"
#include "threads/base/limits.h"
#include "threads/worker/worker.h"

namespace lockstep::sm {

namespace {

constexpr size_t kLeaves = limits::most::build_leaves;
constexpr size_t kBatchBytes = 256 << 10;  // of sorted entries
constexpr uint32_t kFillPercent = 90;
static_assert(kBatchBytes > 2 * kKeyBytesMax && kLeaves > 0);
static_assert(kFillPercent >= 50 && kFillPercent <= 100);  // BTree::bulk_load()

// Leaves of the primary. The values in overflow chains are in `large`, in the order of their slots.
struct LeafBatch {
    std::unique_ptr<Page[]> pages{new Page[kLeaves]};
    size_t count = 0;
    std::vector<std::string> large;
};

// Reads leaves on a user thread.
class LeafReader {
public:
    LeafReader(Env& env, BTree& tree) : env_(env), tree_(tree), walk_(*env.pool, tree) {}
    bool at_end() const { return at_end_; }
    uint64_t pages() const { return pages_; }
    Result<std::unique_ptr<LeafBatch>> next() {
        DCHECK(!at_end_ && threads::current()->latch_depth == 0);
        auto batch = std::make_unique<LeafBatch>();
        while (!at_end_ && batch->count < limits::build_leaves()) {
            Page& page = batch->pages[batch->count];
            at_end_ = !TRY(walk_.next(page));
            if (at_end_) break;
            ++batch->count;
            for (unsigned slot = 0; slot < node::count(page); ++slot)
                if (node::overflow(page, slot) && !node::ghost(page, slot)) [[unlikely]]
                    TRY(read_overflow(*env_.pool, tree_.id(), overflow_ref(node::value(page, slot)),
                                      batch->large.emplace_back()));
        }
        DCHECK(batch->count <= kLeaves && (at_end_ || batch->count == limits::build_leaves()));
        pages_ += batch->count;
        threads::yield();
        return batch;
    }

private:
    Env& env_;
    BTree& tree_;
    LeafWalk walk_;
    bool at_end_ = false;
    uint64_t pages_ = 0;
};

// The entries of the records of a batch. Runs on any kernel thread.
class Extractor {
public:
    Extractor(const Secondary& secondary, const KeyFunction& function)
        : secondary_(secondary), function_(function) {}

    Result<void> add(const LeafBatch& batch, EntryBlock& block) {
        size_t large = 0;
        char key[kKeyBytesMax + 16];
        const KeyCall inside;  // KC-1
        DCHECK(block.refs().empty() && in_key_function());
        DCHECK(batch.count <= kLeaves);
        for (size_t n = 0; n < batch.count; ++n) {
            const Page& page = batch.pages[n];
            DCHECK(node::is_leaf(page) && page.kind() == PageKind::btree);
            DCHECK(page.header.object == secondary_.primary.id().value);
            for (unsigned slot = 0; slot < node::count(page); ++slot) {
                if (node::ghost(page, slot)) continue;
                const Slice value = node::overflow(page, slot) ? Slice(batch.large[large++])
                                                               : node::value(page, slot);
                TRY(add(node::full_key(page, slot, key, kKeyBytesMax), value, block));
            }
        }
        DCHECK(large == batch.large.size());
        block.finish();
        return {};
    }

private:
    Result<void> add(Slice key, Slice value, EntryBlock& block) {
        keys_.clear();
        function_(key, value, keys_);
        const Slice owner = entry_value(secondary_.unique, key);
        if (keys_.size() > 1) {
            for (const std::string& entry : TRY(entries_of(secondary_, function_, key, value)))
                block.add(entry, owner);
        } else if (keys_.size() == 1) {
            entry_.clear();
            append_entry(entry_, secondary_.unique, keys_[0], key);
            if (entry_.size() > kKeyBytesMax) return entry_too_long(secondary_, key, entry_.size());
            block.add(entry_, owner);
        }
        return {};
    }

    const Secondary& secondary_;
    const KeyFunction& function_;
    SecondaryKeys keys_;
    std::string entry_;
};

// Finds two records of one key in a unique index.
class UniqueCheck {
public:
    explicit UniqueCheck(const Secondary& secondary) : secondary_(secondary) {}
    Result<void> see(Slice key, Slice value) {
        DCHECK(key.size() <= kKeyBytesMax);
        if (!secondary_.unique) return {};
        if (any_ && key == Slice(last_)) return entry_taken(secondary_, value, key);
        last_.assign(key);
        any_ = true;
        return {};
    }

private:
    const Secondary& secondary_;
    std::string last_;
    bool any_ = false;
};

// What runs beside the creator's user thread.
class BuildCrew {
public:
    using Leaves = std::unique_ptr<LeafBatch>;
    using Batch = std::unique_ptr<std::string>;  // u16 key bytes, u16 value bytes, key, value

    BuildCrew(const Host& host, const Secondary& secondary, const KeyFunction& function,
              uint64_t memory)
        : secondary_(secondary),
          function_(function),
          sorter_(*host.disk, host.directory, memory, true) {}

    // On a user thread of its own, so that offload() does not suspend the creator.
    Result<void> start(Host& host) {
        return host.start_thread(-1, "building a secondary index", [this] {
            const Result<void> ran = offload([this] { return work(); });
            if (!ran) outcome_ = ran;
            leaves.close();
            sorted.close();
            done_.set();
        });
    }
    // Ends the crew, early or late; the error that ended it.
    Result<void> join() {
        leaves.close();
        sorted.close();
        done_.wait();
        return outcome_;
    }

    Channel<Leaves> leaves{limits::build_batches()};
    Channel<Batch> sorted{limits::build_batches()};

private:
    Result<void> work() {
        DCHECK(threads::current() == nullptr);  // no user thread computes
        compute();
        DCHECK(leaves.closed());
        TRY(outcome_);
        EntrySource* const entries = TRY(sorter_.sort());
        return send(*entries);
    }
    // Until the creator closes the channel. After an error the rest is dropped.
    void compute() {
        const auto tokens = static_cast<size_t>(2 * tbb::this_task_arena::max_concurrency());
        tbb::parallel_pipeline(
            tokens,
            tbb::make_filter<void, LeafBatch*>(tbb::filter_mode::serial_out_of_order,
                                               [this](tbb::flow_control& flow) -> LeafBatch* {
                                                   auto batch = leaves.receive();
                                                   if (batch && *batch)
                                                       return batch->value().release();
                                                   flow.stop();
                                                   return nullptr;
                                               }) &
                tbb::make_filter<LeafBatch*, Made*>(
                    tbb::filter_mode::parallel,
                    [this](LeafBatch* batch) {
                        const std::unique_ptr<LeafBatch> own(batch);
                        auto made = std::make_unique<Made>();
                        made->block = std::make_unique<EntryBlock>();
                        made->outcome = Extractor(secondary_, function_).add(*own, *made->block);
                        return made.release();
                    }) &
                tbb::make_filter<Made*, void>(tbb::filter_mode::serial_out_of_order,
                                              [this](Made* made) {
                                                  const std::unique_ptr<Made> own(made);
                                                  if (outcome_) outcome_ = own->outcome;
                                                  if (outcome_)
                                                      outcome_ = sorter_.add(std::move(own->block));
                                                  if (!outcome_) leaves.close();
                                              }));
    }
    Result<void> send(EntrySource& entries) {
        UniqueCheck unique(secondary_);
        auto batch = std::make_unique<std::string>();
        for (Slice key, value; TRY(entries.next(key, value));) {
            TRY(unique.see(key, value));
            const uint16_t sizes[2] = {static_cast<uint16_t>(key.size()),
                                       static_cast<uint16_t>(value.size())};
            batch->append(reinterpret_cast<const char*>(sizes), sizeof sizes);
            batch->append(key).append(value);
            if (batch->size() < kBatchBytes) continue;
            TRY(sorted.send(std::move(batch)));
            batch = std::make_unique<std::string>();
            batch->reserve(kBatchBytes + 2 * kKeyBytesMax);
        }
        return sorted.send(std::move(batch));
    }
    struct Made {
        std::unique_ptr<EntryBlock> block;
        Result<void> outcome;
    };

    const Secondary& secondary_;
    const KeyFunction& function_;
    EntrySorter sorter_;
    Result<void> outcome_;  // of the crew's threads, in turn; of the creator after done_
    threads::Completion done_;
};

// One build, on the creator's user thread.
class Build {
public:
    Build(Host& host, txn::Transaction& txn, Secondary& secondary, uint64_t memory,
          const Function<void(const BuildProgress&)>& progress)
        : host_(host),
          txn_(txn),
          secondary_(secondary),
          function_(secondary.function()),
          memory_(memory),
          progress_(progress),
          reader_(host, secondary.primary) {}

    Result<void> run() {
        DCHECK(function_ != nullptr && threads::current()->latch_depth == 0);
        DCHECK(!txn_.read_only && txn_.thread == threads::current());
        secondary_.assert_state();
        TRY(host_.locks->lock_object(txn_.locks, secondary_.tree.lock(), txn::LockMode::X));
        auto first = TRY(reader_.next());
        tell();
        if (reader_.at_end() || threads::current()->worker->shared().simulated)
            return alone(std::move(first));
        return with_crew(std::move(first));
    }

private:
    using Next = std::move_only_function<bool(Slice& key, Slice& value)>;

    void tell() {
        state_.pages_read = reader_.pages();
        if (progress_) progress_(state_);
    }
    Result<void> alone(std::unique_ptr<LeafBatch> batch) {
        EntrySorter sorter(*host_.disk, {}, SIZE_MAX, false);
        Extractor extractor(secondary_, *function_);
        for (;;) {
            auto block = std::make_unique<EntryBlock>();
            TRY(extractor.add(*batch, *block));
            TRY(sorter.add(std::move(block)));
            if (reader_.at_end()) break;
            batch = TRY(reader_.next());
            tell();
        }
        EntrySource* const entries = TRY(sorter.sort());
        UniqueCheck unique(secondary_);
        Result<void> seen;
        TRY(load([&](Slice& key, Slice& value) {
            const Result<bool> more = entries->next(key, value);
            if (more.has_value() && *more) seen = unique.see(key, value);
            return more.has_value() && *more && seen && ++state_.entries_loaded;
        }));
        TRY(seen);
        tell();
        return {};
    }
    Result<void> with_crew(std::unique_ptr<LeafBatch> batch) {
        const auto crew = std::make_unique<BuildCrew>(host_, secondary_, *function_, memory_);
        TRY(crew->start(host_));
        Result<void> done = feed(*crew, std::move(batch));
        if (done)
            done = load(
                [&, at = Slice(), held = BuildCrew::Batch()](Slice& key, Slice& value) mutable {
                    while (at.empty()) {
                        auto next = crew->sorted.receive();
                        if (!next || !*next) return false;
                        held = std::move(**next);
                        at = *held;
                        tell();
                    }
                    const size_t key_bytes = node::load<uint16_t>(at.data());
                    const size_t value_bytes = node::load<uint16_t>(at.data() + sizeof(uint16_t));
                    DCHECK(at.size() >= 2 * sizeof(uint16_t) + key_bytes + value_bytes);
                    DCHECK(key_bytes <= kKeyBytesMax);
                    key = at.substr(2 * sizeof(uint16_t), key_bytes);
                    value = at.substr(2 * sizeof(uint16_t) + key_bytes, value_bytes);
                    at.remove_prefix(2 * sizeof(uint16_t) + key_bytes + value_bytes);
                    ++state_.entries_loaded;
                    return true;
                });
        const Result<void> crew_done = crew->join();
        TRY(done);
        TRY(crew_done);
        tell();
        return {};
    }
    // All leaves to the crew. It closes the channel after an error, which join() returns.
    Result<void> feed(BuildCrew& crew, std::unique_ptr<LeafBatch> batch) {
        while (crew.leaves.send(std::move(batch))) {
            if (reader_.at_end()) break;
            batch = TRY(reader_.next());
            tell();
        }
        crew.leaves.close();
        return {};
    }
    // An index that was emptied may have ghosts: then the entries are inserted one by one.
    Result<void> load(Next next) {
        if (TRY(secondary_.tree.is_empty()))
            return secondary_.tree.bulk_load(txn_, std::move(next), kFillPercent);
        const KeptUp kept(txn_, secondary_.tree.id());
        for (Slice key, value; next(key, value);) {
            const Result<void> done = secondary_.tree.insert(txn_, key, value);
            if (!done && done.error().code == ErrorCode::duplicate_key)
                return entry_taken(secondary_, value, key);
            TRY(done);
        }
        return {};
    }

    Host& host_;
    txn::Transaction& txn_;
    Secondary& secondary_;
    const std::shared_ptr<const KeyFunction> function_;
    const uint64_t memory_;
    const Function<void(const BuildProgress&)>& progress_;
    LeafReader reader_;
    BuildProgress state_;
};

}  // namespace

Result<void> build_secondary(Host& host, txn::Transaction& txn, Secondary& secondary,
                             uint64_t build_bytes,
                             const Function<void(const BuildProgress&)>& progress) {
    // On the heap: stacks are small.
    return std::make_unique<Build>(host, txn, secondary, build_bytes, progress)->run();
}

}  // namespace lockstep::sm
