// txn_watch_test_util.h - a store with threads whose transactions are looked at and ended from
// outside.
#pragma once

#include <algorithm>
#include <optional>
#include <string>
#include <vector>

#include "tests/sm/api/index_on_sim_store.h"

namespace lockstep {

class TxnWatchTest : public IndexOnSimStore {
protected:
    TxnWatchTest() : IndexOnSimStore(1) {}
    void open() {
        IndexOnSimStore::open();
        ASSERT_OK(store->run([&](Txn& txn) { return index.put(txn, "k", "before"); }));
    }
    bool any_in(txn::TxnState state) {
        return std::ranges::any_of(store.engine().txns->seen(),
                                   [&](const auto& seen) { return seen.state == state; });
    }
    // A thread on worker 1 that begins a transaction, changes "k", and calls `then`. Returns when
    // that has begun.
    template <class Then>
    Handle<void> writer(Then then) {
        ready = false;
        auto handle = store->start(
            [this, then]() -> Result<void> {
                Txn txn = TRY(store->begin());
                TRY(index.put(txn, "k", "changed"));
                id = txn.id();
                ready = true;
                return then(txn);
            },
            1);
        CHECK(store.step_until([&] { return ready; }));
        return handle;
    }
    // A transaction whose thread has changed "k" and ended.
    void leave_behind(std::optional<Txn>& kept) {
        auto holder = store->start(
            [&]() -> Result<void> {
                kept.emplace(TRY(store->begin()));
                id = kept->id();
                return index.put(*kept, "k", "changed");
            },
            1);
        join(holder, ErrorCode::none);
    }
    std::string value() {
        std::string found;
        auto read = store->run([&](Txn& txn) -> Result<void> {
            EXPECT_TRUE(TRY(index.get(txn, "k", found)));
            return {};
        });
        EXPECT_TRUE(read) << read.error().text();
        return found;
    }
    const TransactionInfo* find(TxnId wanted) {
        list = store->transactions();
        const auto at = std::ranges::find(list, wanted, &TransactionInfo::id);
        return at == list.end() ? nullptr : &*at;
    }
    void join(Handle<void>& handle, ErrorCode expected) {
        Result<void> done;
        store.on_thread([&] { done = handle.join(); });
        if (expected == ErrorCode::none) {
            EXPECT_TRUE(done) << done.error().text();
        } else {
            ASSERT_FALSE(done);
            EXPECT_EQ(done.error().code, expected) << done.error().text();
        }
    }

    TxnId id;
    bool ready = false, go = false;
    std::vector<TransactionInfo> list;
};

}  // namespace lockstep
