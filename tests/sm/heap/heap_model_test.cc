// labels: model
// heap_model_test.cc - random operations, commits, aborts and savepoints on a heap
// against an ordered map, with a small pool.
#include <map>
#include <set>

#include "tests/sm/engine_test_util.h"

namespace lockstep::sm::heap_model_test {

using Model = std::map<RecordId, std::string>;

class HeapModel {
public:
    HeapModel(TestEngine& store, uint64_t seed) : store_(store), rng_(seed) {
        auto first = HeapFile::create(*store_, ObjectId{600});
        EXPECT_TRUE(first);
        heap_ = std::make_unique<HeapFile>(*store_, ObjectId{600}, *first);
    }

    void run(int transactions) {
        for (int i = 0; i < transactions && !::testing::Test::HasFatalFailure(); ++i)
            one_transaction();
        check_all();
    }

private:
    size_t some_size() {
        return rng_.chance(0.05)  ? rng_.below(kHeapRecordBytesMax + 1)
               : rng_.chance(0.2) ? rng_.below(1500)
                                  : rng_.below(90);
    }
    RecordId some_id() {
        if (now_.empty() || rng_.chance(0.03))
            return RecordId{PageId{static_cast<uint32_t>(rng_.below(60))},
                            SlotNo{static_cast<uint16_t>(rng_.below(40))}};
        auto it = now_.lower_bound(
            RecordId{PageId{static_cast<uint32_t>(rng_.below(now_.rbegin()->first.page.value + 1))},
                     SlotNo{static_cast<uint16_t>(rng_.below(80))}});
        return it == now_.end() ? now_.begin()->first : it->first;
    }

    void one_transaction() {
        txn_ = &store_.begin();
        now_ = committed_;
        std::vector<std::pair<Lsn, Model>> savepoints;
        const uint64_t steps = 1 + rng_.below(40);
        for (uint64_t step = 0; step < steps; ++step) {
            one_step();
            if (::testing::Test::HasFatalFailure()) return;
            if (rng_.chance(0.05)) savepoints.emplace_back(txn_->last_lsn, now_);
            if (!savepoints.empty() && rng_.chance(0.05)) {
                const size_t keep = rng_.below(savepoints.size());
                ASSERT_OK(rollback(*store_, *txn_, savepoints[keep].first));
                now_ = savepoints[keep].second;
                savepoints.resize(keep + 1);
            }
        }
        if (rng_.chance(0.6)) {
            store_.commit(*txn_);
            committed_ = now_;
        } else {
            store_.abort(*txn_);
        }
        if (rng_.chance(0.1)) check_all();
    }

    void one_step() {
        const std::string text = random_text(rng_, some_size());
        const RecordId id = some_id();
        switch (rng_.below(now_.size() < 300 ? 6 : 4)) {
            case 0: {
                auto done = heap_->erase(*txn_, id);
                ASSERT_OK(done);
                ASSERT_EQ(*done, now_.erase(id) == 1);
                break;
            }
            case 1:
            case 2: {
                auto done = heap_->update(*txn_, id, text);
                ASSERT_OK(done);
                ASSERT_EQ(*done, now_.contains(id));
                if (*done) now_[id] = text;
                break;
            }
            case 3: {
                std::string got;
                ValueOut out{.text = &got};
                auto found = heap_->fetch(*txn_, id, Access::read, out);
                ASSERT_OK(found);
                ASSERT_EQ(*found, now_.contains(id));
                if (*found) {
                    ASSERT_EQ(got, now_[id]);
                }
                break;
            }
            default: {
                auto id_new = heap_->insert(*txn_, text);
                ASSERT_OK(id_new);
                ASSERT_TRUE(now_.emplace(*id_new, text).second)
                    << "id of a live record was given again";
            }
        }
    }

    void check_all() {
        auto& t = store_.begin();
        Model seen;
        ASSERT_OK(heap_->scan(
            t, [&](RecordId id, Slice value) { return seen.emplace(id, value).second; }));
        store_.commit(t);
        ASSERT_EQ(seen, committed_);
        auto report = heap_->verify();
        ASSERT_OK(report);
        for (const auto& fault : report->faults) ADD_FAILURE() << fault;
        ASSERT_EQ(report->records, committed_.size());
    }

    TestEngine& store_;
    Rng rng_;
    std::unique_ptr<HeapFile> heap_;
    txn::Transaction* txn_ = nullptr;
    Model committed_, now_;
};

TEST(HeapModel, RandomTransactions) {
    const uint64_t first = seed_of_run();
    for (uint64_t seed = first; seed < first + 10 && !::testing::Test::HasFailure(); ++seed) {
        SCOPED_TRACE("LOCKSTEP_SEED=" + std::to_string(seed));
        Options options = small_options();
        options.pool_bytes = 4 << 20;
        TestEngine store(options);
        store.on_thread([&] { HeapModel(store, seed).run(150); });
    }
}

}  // namespace lockstep::sm::heap_model_test
