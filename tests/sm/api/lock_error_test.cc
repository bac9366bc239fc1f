// labels: unit
// lock_error_test.cc - what a refused lock says: object, key, mode, holders and cycle; and waits
// for a transaction of the same user thread.
#include <gtest/gtest.h>

#include <filesystem>
#include <functional>
#include <string>
#include <vector>

#include <lockstep/store.h>
#include "tests/own_directory.h"
#include "tests/sm/test_util.h"
#include "tests/steps_of_run.h"

namespace lockstep::lock_error_test {

class LockErrors : public ::testing::Test {
protected:
    LockErrors() : directory_(make_own_directory("lock_error")), store_(open(directory_)) {
        EXPECT_TRUE(store_.run([&](Txn& txn) -> Result<void> {
            index = TRY(store_.create_index(txn, "accounts"));
            heap = TRY(store_.create_heap(txn, "audit"));
            return {};
        }));
        EXPECT_TRUE(store_.run([&](Txn& txn) -> Result<void> {
            for (const char* key : {"a", "b", "c"}) TRY(index.put(txn, key, "0"));
            record = TRY(heap.insert(txn, "first"));
            return {};
        }));
    }
    ~LockErrors() override {
        EXPECT_TRUE(store_.close());
        std::filesystem::remove_all(directory_);
    }
    static Store open(const std::string& directory) {
        auto store = Store::open(directory, {.pool_bytes = 16ull << 20,
                                             .log_bytes = 64ull << 20,
                                             .log_segment_bytes = 4ull << 20,
                                             .log_ring_bytes = 4ull << 20,
                                             .sync = false,
                                             .steps = steps_of_run()});
        EXPECT_TRUE(store) << store.error().text();
        return std::move(*store);
    }

    using Step = std::function<Result<void>(Txn&)>;
    // A transaction takes its first step. When all have, each takes its second, in order. Result:
    // what the second steps returned, after all transactions have been rolled back.
    std::vector<Result<void>> meet(std::vector<std::pair<Step, Step>> steps) {
        std::vector<Handle<void>> handles;
        std::vector<Result<void>> results;
        size_t held = 0, tried = 0;
        ids.assign(steps.size(), {});
        for (size_t i = 0; i < steps.size(); ++i)
            handles.push_back(store_.start(
                [&, i]() -> Result<void> {
                    Txn txn = TRY(store_.begin({.lock_timeout = kTimeout}));
                    ids[i] = std::to_string(txn.id().value);
                    EXPECT_TRUE(steps[i].first(txn));
                    ++held;
                    while (held < steps.size() || tried < i) yield();
                    ++tried;
                    Result<void> result = steps[i].second(txn);
                    EXPECT_TRUE(txn.abort());
                    return result;
                },
                0));
        for (auto& handle : handles) results.push_back(handle.join());
        return results;
    }
    // One transaction holds what `hold` takes, until another has asked for it in vain.
    Error refused(const Step& hold, const Step& ask) {
        bool asked = false;
        auto results = meet({{hold,
                              [&](Txn&) -> Result<void> {
                                  while (!asked) yield();
                                  return {};
                              }},
                             {[](Txn&) -> Result<void> { return {}; },
                              [&](Txn& txn) {
                                  Result<void> result = ask(txn);
                                  asked = true;
                                  return result;
                              }}});
        EXPECT_FALSE(results[1]);
        return results[1] ? Error{} : results[1].error();
    }
    Step put(std::string key) const {
        return [this, key](Txn& txn) { return index.put(txn, key, "1"); };
    }
    Step update_record() const {
        return [this](Txn& txn) -> Result<void> {
            EXPECT_TRUE(TRY(heap.update(txn, record, "second")));
            return {};
        };
    }
    static void expect_in(const std::string& text, const std::vector<std::string>& parts) {
        for (const auto& part : parts)
            EXPECT_NE(text.find(part), std::string::npos) << part << "\nis not in\n" << text;
    }
    // The only error among the results; all transactions but the victim went on.
    static Error victim_of(const std::vector<Result<void>>& results) {
        Error error;
        for (const auto& result : results) {
            if (result) continue;
            EXPECT_EQ(error.code, ErrorCode::none);
            error = result.error();
        }
        EXPECT_EQ(error.code, ErrorCode::deadlock);
        return error;
    }

    static constexpr Nanos kTimeout = 50 * kMillisecond;
    std::vector<std::string> ids;  // of the transactions of the last meet()
    Index index;
    Heap heap;
    RecordId record;

private:
    std::string directory_;

protected:
    Store store_;
};

TEST_F(LockErrors, TimeoutNamesIndexKeyModeAndHolder) {
    const Error error = refused(put("alice"), put("alice"));
    EXPECT_EQ(error.code, ErrorCode::lock_timeout);
    const std::string text = error.text();
    expect_in(text, {"asked for X on index \"accounts\", key \"alice\"", "waited ", " ms",
                     "held by txn " + ids[0] + " (X, for at least "});
    EXPECT_EQ(text.find("0x"), std::string::npos) << text;
}

TEST_F(LockErrors, EveryOperationOnAnIndexNamesItsKey) {
    const auto get = [&](Txn& txn) -> Result<void> {
        std::string value;
        TRY(index.get(txn, "a", value));
        return {};
    };
    const auto get_many = [&](Txn& txn) -> Result<void> {
        Lookup rows[2];
        rows[0].key = "b";
        rows[1].key = "a";
        TRY(index.get_many(txn, rows));
        return {};
    };
    const auto erase = [&](Txn& txn) -> Result<void> {
        TRY(index.erase(txn, "a"));
        return {};
    };
    const auto insert = [&](Txn& txn) { return index.insert(txn, "a", "2"); };
    const auto update = [&](Txn& txn) -> Result<void> {
        TRY(index.update(txn, "a", "2"));
        return {};
    };
    const auto insert_many = [&](Txn& txn) {
        const NewRecord records[2] = {{"Z", "1"}, {"a", "2"}};
        return index.insert_many(txn, records);
    };
    const auto scan = [&](Txn& txn) -> Result<void> {
        Cursor cursor = index.scan(txn, "Z");
        while (TRY(cursor.next())) continue;
        return {};
    };
    const Step steps[] = {get, get_many, erase, insert, update, insert_many, scan};
    for (const Step& step : steps) {
        const Error error = refused(put("a"), step);
        EXPECT_EQ(error.code, ErrorCode::lock_timeout);
        expect_in(error.text(), {"on index \"accounts\", key \"a\"", "held by txn " + ids[0]});
    }
}

TEST_F(LockErrors, KeysArePrintableAndNotEndless) {
    const std::string key = std::string("\x01\"\\", 3) + std::string(97, 'k');
    const Error error = refused(put(key), put(key));
    expect_in(error.text(), {"key \"\\x01\\x22\\x5ckkkk", "k\"... (100 bytes)"});
}

TEST_F(LockErrors, AnInsertIntoAScannedGapNamesTheGap) {
    const auto scan = [&](Txn& txn) -> Result<void> {
        Cursor cursor = index.scan(txn);
        while (TRY(cursor.next())) continue;
        return {};
    };
    const Error error = refused(scan, put("bb"));
    expect_in(error.text(), {"asked for gap_insert on index \"accounts\", the gap above key \"bb\"",
                             "held by txn " + ids[0]});
}

TEST_F(LockErrors, TimeoutNamesHeapRecordAndHolder) {
    const Error error = refused(update_record(), update_record());
    EXPECT_EQ(error.code, ErrorCode::lock_timeout);
    expect_in(error.text(),
              {"asked for X on heap \"audit\", record " + std::to_string(record.slot.value) +
                   " of page " + std::to_string(record.page.value),
               "held by txn " + ids[0] + " (X"});
}

TEST_F(LockErrors, ALockOfTheWholeHeapNamesTheHeap) {
    const auto scan = [&](Txn& txn) {
        return heap.scan(txn, [](RecordId, Slice) { return true; });
    };
    const Error error = refused(scan, update_record());
    expect_in(error.text(),
              {"asked for IX on heap \"audit\" and waited", "held by txn " + ids[0] + " ("});
}

TEST_F(LockErrors, DeadlockOfTwoNamesTheCycle) {
    const Error error = victim_of(meet({{put("a"), put("b")}, {put("b"), put("a")}}));
    const std::string text = error.text();
    expect_in(text,
              {"asked for X on index \"accounts\", key \"",
               "txn " + ids[0] + " waits for X on index \"accounts\", key \"b\" held by txn " +
                   ids[1] + " (X",
               "txn " + ids[1] + " waits for X on index \"accounts\", key \"a\" held by txn " +
                   ids[0] + " (X",
               "; victim txn "});
    EXPECT_EQ(text.find("0x"), std::string::npos) << text;
}

TEST_F(LockErrors, DeadlockOfThreeAcrossIndexAndHeap) {
    const Error error = victim_of(
        meet({{put("a"), update_record()}, {update_record(), put("b")}, {put("b"), put("a")}}));
    const std::string place = "record " + std::to_string(record.slot.value) + " of page " +
                              std::to_string(record.page.value);
    const std::string text = error.text();
    expect_in(text, {"txn " + ids[0] + " waits for X on heap \"audit\", " + place,
                     "txn " + ids[1] + " waits for X on index \"accounts\", key \"b\"",
                     "txn " + ids[2] + " waits for X on index \"accounts\", key \"a\"",
                     "held by txn " + ids[0] + " (X", "held by txn " + ids[1] + " (X",
                     "held by txn " + ids[2] + " (X", "; victim txn "});
    EXPECT_EQ(text.find("0x"), std::string::npos) << text;
}

// The text outlives the transaction, and errors are copied freely.
TEST_F(LockErrors, RunReturnsTheText) {
    const auto done = store_.run([&](Txn& txn) -> Result<void> {
        TRY(index.put(txn, "a", "1"));
        auto inner = store_.run([&](Txn& other) { return index.put(other, "a", "2"); });
        EXPECT_EQ(inner.error().code, ErrorCode::self_deadlock);
        return inner;
    });
    ASSERT_FALSE(done);
    const Error copy = done.error();
    expect_in(copy.text(),
              {"self_deadlock: ", "index \"accounts\", key \"a\"", "the same user thread"});
}

}  // namespace lockstep::lock_error_test
