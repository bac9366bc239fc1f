// labels: unit
// durable_reader_test.cc - a durable transaction that only reads waits for what it has seen, and
// for nothing else (TX-3).
#include <lockstep/store.h>

#include <functional>
#include <string>

#include "sm/api/engine_of.h"
#include "sm/engine/engine.h"
#include "sm/services/ghost_cleaner.h"
#include "tests/sm/store_crash_util.h"
#include "threads/thread/thread.h"

namespace lockstep::durable_reader_test {

class DurableReader : public StoreCrash {
protected:
    using Work = std::function<void(Txn&)>;

    void SetUp() override {
        StoreCrash::SetUp();
        Options options = small_options();
        options.lazy_flush_interval = 3600 * kSecond;  // nothing becomes durable by itself
        options.escalate_at = 40;
        store_.emplace(open("s", options));
        make(*store_, "i", "h");
        on_thread(*store_, [&] {
            Txn txn = std::move(*store_->begin());
            for (int n = 0; n < 100; ++n) ASSERT_OK(index().insert(txn, key(n), "old"));
            record_ = *heap().insert(txn, "old");
            other_record_ = *heap().insert(txn, "old");
            ASSERT_OK(txn.commit());
        });
    }
    void TearDown() override {
        ASSERT_OK(store_->close());
        store_.reset();
        StoreCrash::TearDown();
    }

    Index index() { return *store_->index("i"); }
    Heap heap() { return *store_->heap("h"); }
    static std::string key(int n) { return "key" + std::to_string(1000 + n); }
    // A value unlike those before.
    std::string fresh() { return "new" + std::to_string(++values_); }
    bool is_durable(Lsn point) { return sm::engine_of(*store_).log->durable() >= point; }

    // Commits `change` lazily; `then` runs before the reader begins. Returns whether the durable
    // commit of `read` waited for the change.
    bool waits(const Work& change, const Work& read, Isolation isolation = Isolation::serializable,
               const std::function<void()>& then = {}) {
        bool waited = false;
        on_thread(*store_, [&] {
            // Flushes that earlier waits have asked for are over then.
            threads::sleep_until(threads::now() + 20 * kMillisecond);
            Txn writer = std::move(*store_->begin({.durability = Durability::lazy}));
            change(writer);
            const Lsn point = *writer.commit();
            ASSERT_NE(point, kLsnNone);  // it changed something
            if (then) then();
            EXPECT_FALSE(is_durable(point));
            Txn reader = std::move(*store_->begin({.isolation = isolation}));
            read(reader);
            ASSERT_OK(reader.commit());
            waited = is_durable(point);
            ASSERT_OK(store_->wait_durable(point));
        });
        return waited;
    }
    Work get(int n) {
        return [this, n](Txn& txn) {
            std::string value;
            ASSERT_OK(index().get(txn, key(n), value));
        };
    }
    Work erase(int n) {
        return [this, n](Txn& txn) { ASSERT_OK(index().erase(txn, key(n))); };
    }
    Work insert(int n) {
        return [this, n](Txn& txn) { ASSERT_OK(index().insert(txn, key(n), "new")); };
    }
    Work update(int n) {
        return [this, n](Txn& txn) { ASSERT_OK(index().put(txn, key(n), fresh())); };
    }
    Work scan(int from, int to) {
        return [this, from, to](Txn& txn) {
            Cursor cursor = index().scan(txn, key(from), key(to));
            while (*cursor.next()) {}
        };
    }

    std::optional<Store> store_;
    int values_ = 0;
    RecordId record_{}, other_record_{};
};

constexpr Isolation kAll[] = {Isolation::serializable, Isolation::repeatable_read,
                              Isolation::read_committed};

TEST_F(DurableReader, WaitsForWhatItGets) {
    for (const Isolation isolation : kAll) {
        EXPECT_TRUE(waits(update(10), get(10), isolation));
        EXPECT_TRUE(waits(insert(200), get(200), isolation));
        EXPECT_TRUE(waits(erase(200), get(200), isolation));  // a row that is missing
        EXPECT_FALSE(waits(update(10), get(50), isolation));
        EXPECT_FALSE(waits(update(10), get(300), isolation));
    }
}

TEST_F(DurableReader, WaitsForWhatItGetsInAGroup) {
    const Work get_group = [&](Txn& txn) {
        std::byte buffers[2][8];
        const std::string keys[] = {key(10), key(200)};
        Lookup rows[2];
        for (size_t i = 0; i < 2; ++i) rows[i] = {.key = keys[i], .buffer = buffers[i]};
        ASSERT_OK(index().get_many(txn, rows));
    };
    for (const Isolation isolation : kAll) {
        EXPECT_TRUE(waits(update(10), get_group, isolation));
        EXPECT_TRUE(waits(insert(200), get_group, isolation));
        EXPECT_TRUE(waits(erase(200), get_group, isolation));
        EXPECT_FALSE(waits(update(11), get_group, isolation));
    }
}

TEST_F(DurableReader, WaitsForWhatItScans) {
    for (const Isolation isolation : kAll) {
        EXPECT_TRUE(waits(update(10), scan(8, 12), isolation));
        EXPECT_TRUE(waits(insert(200), scan(150, 250), isolation));
        EXPECT_TRUE(waits(erase(200), scan(150, 250), isolation));
        EXPECT_FALSE(waits(update(10), scan(50, 55), isolation));
    }
}

// The scan finds no ghost whose name it could lock.
TEST_F(DurableReader, WaitsForAnErasureWhoseGhostIsGone) {
    const std::function<void()> clean = [&] {
        ASSERT_OK(sm::engine_of(*store_).ghosts->run_once());
    };
    for (int n = 20; n < 23; ++n) {
        EXPECT_TRUE(waits(erase(n), scan(n - 1, n + 1), kAll[n - 20], clean));
        EXPECT_EQ(sm::engine_of(*store_).ghosts->waiting(), 0u);
    }
}

TEST_F(DurableReader, WaitsForHeapRecords) {
    for (const Isolation isolation : kAll) {
        const Work change = [&](Txn& txn) { ASSERT_OK(heap().update(txn, record_, fresh())); };
        const auto get_record = [&](RecordId id) {
            return [this, id](Txn& txn) {
                std::string value;
                ASSERT_OK(heap().get(txn, id, value));
            };
        };
        EXPECT_TRUE(waits(change, get_record(record_), isolation));
        EXPECT_FALSE(waits(change, get_record(other_record_), isolation));
        EXPECT_TRUE(waits(
            change,
            [&](Txn& txn) { ASSERT_OK(heap().scan(txn, [](RecordId, Slice) { return true; })); },
            isolation));
    }
}

// One of the two has a lock on the whole index, and no names of records.
TEST_F(DurableReader, WaitsAcrossEscalation) {
    const Work change_many = [&](Txn& txn) {
        for (int n = 0; n < 100; ++n) ASSERT_OK(index().put(txn, key(n), fresh()));
    };
    EXPECT_TRUE(waits(change_many, get(99)));
    EXPECT_TRUE(waits(update(99), scan(0, 100)));
    EXPECT_GE(store_->stats().escalations, 2u);
}

TEST_F(DurableReader, WaitsForTheCreationOfWhatItUses) {
    EXPECT_TRUE(waits([&](Txn& txn) { ASSERT_OK(store_->create_index(txn, "new")); },
                      [&](Txn& txn) {
                          std::string value;
                          ASSERT_OK(store_->index("new")->get(txn, "k", value));
                      }));
}

TEST_F(DurableReader, WaitsForADropThatItHasNoticed) {
    const Index old = index();
    EXPECT_TRUE(waits([&](Txn& txn) { ASSERT_OK(store_->drop(txn, "i")); },
                      [&](Txn& txn) {
                          std::string value;
                          EXPECT_EQ(old.get(txn, key(1), value).error().code,
                                    ErrorCode::no_such_object);
                      }));
}

// A rollback leaves the commit before it in force.
TEST_F(DurableReader, WaitsForWhatARollbackRestored) {
    EXPECT_TRUE(waits(update(30), get(30), Isolation::serializable, [&] {
        Txn txn = std::move(*store_->begin());
        ASSERT_OK(index().put(txn, key(30), "undone"));
        ASSERT_OK(txn.abort());
    }));
}

}  // namespace lockstep::durable_reader_test
