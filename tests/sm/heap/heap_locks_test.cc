// labels: unit
// heap_locks_test.cc - heaps under concurrency: scans and reads of each isolation, two workers.

#include "tests/sm/heap/heap_test_util.h"

namespace lockstep::sm::heap_locks_test {

TEST_F(HeapTest, SerializableScanSeesNoPhantom) {
    store_.on_thread([&] {
        auto& t = store_.begin();
        for (int i = 0; i < 10; ++i) insert(t, "x");
        store_.commit(t);
        auto& reader = store_.begin();
        EXPECT_EQ(all(reader).size(), 10u);
        auto& writer = store_.begin(txn::Isolation::serializable, 5 * kMillisecond);
        auto id = heap_->insert(writer, "phantom");
        ASSERT_FALSE(id);
        EXPECT_EQ(id.error().code, ErrorCode::self_deadlock);
        store_.abort(writer);
        EXPECT_EQ(all(reader).size(), 10u);
        store_.commit(reader);
    });
}

TEST_F(HeapTest, RepeatableReadScanHoldsItsRecords) {
    store_.on_thread([&] {
        auto& t = store_.begin();
        const RecordId a = insert(t, "a");
        store_.commit(t);
        auto& reader = store_.begin(txn::Isolation::repeatable_read);
        EXPECT_EQ(all(reader).size(), 1u);
        auto& writer = store_.begin(txn::Isolation::serializable, 5 * kMillisecond);
        auto done = heap_->update(writer, a, "b");
        ASSERT_FALSE(done.has_value());
        EXPECT_EQ(done.error().code, ErrorCode::self_deadlock);
        store_.abort(writer);
        store_.commit(reader);
        auto& loose = store_.begin(txn::Isolation::read_committed);
        EXPECT_EQ(all(loose).size(), 1u);
        EXPECT_EQ(get(loose, a), "a");
        auto& next = store_.begin(txn::Isolation::serializable, 5 * kMillisecond);
        EXPECT_TRUE(update(next, a, "b"));
        store_.commit(next);
        store_.commit(loose);
    });
}

TEST_F(HeapTest, UncommittedRecordsAreNotSeen) {
    store_.on_thread([&] {
        auto& writer = store_.begin();
        const RecordId a = insert(writer, "dirty");
        for (const auto isolation : {txn::Isolation::serializable, txn::Isolation::repeatable_read,
                                     txn::Isolation::read_committed}) {
            auto& reader = store_.begin(isolation, 5 * kMillisecond);
            auto done = heap_->scan(reader, [](RecordId, Slice) { return true; });
            EXPECT_FALSE(done);
            std::string text;
            ValueOut out{.text = &text};
            EXPECT_FALSE(heap_->fetch(reader, a, Access::read, out).has_value());
            store_.abort(reader);
        }
        store_.commit(writer);
    });
}

class HeapTwoWorkers : public HeapTest {
protected:
    HeapTwoWorkers() : HeapTest(2) {}
};

TEST_F(HeapTwoWorkers, InsertersDoNotFightAndNothingIsLost) {
    constexpr int kThreads = 8, kTxns = 60, kInserts = 5;
    std::vector<std::map<RecordId, std::string>> mine(kThreads);
    std::vector<std::function<void()>> bodies;
    for (int n = 0; n < kThreads; ++n)
        bodies.push_back([&, n] {
            Rng rng(seed_of_run() * 100 + static_cast<uint64_t>(n));
            for (int i = 0; i < kTxns; ++i) {
                auto& t = store_.begin();
                std::map<RecordId, std::string> now;
                for (int k = 0; k < kInserts; ++k) {
                    const std::string text =
                        std::to_string(n) + ":" + random_text(rng, rng.below(200));
                    now[insert(t, text)] = text;
                    if (rng.chance(0.3)) threads::yield();
                }
                if (rng.chance(0.25)) {
                    store_.abort(t);
                } else {
                    store_.commit(t);
                    for (const auto& [id, text] : now)
                        EXPECT_TRUE(mine[static_cast<size_t>(n)].emplace(id, text).second);
                }
            }
        });
    store_.on_threads(bodies);
    store_.on_thread([&] {
        std::map<RecordId, std::string> expected;
        for (const auto& m : mine)
            for (const auto& [id, text] : m)
                EXPECT_TRUE(expected.emplace(id, text).second) << "an id was given twice";
        auto& t = store_.begin();
        EXPECT_EQ(all(t), expected);
        store_.commit(t);
        verify();
    });
}

}  // namespace lockstep::sm::heap_locks_test
