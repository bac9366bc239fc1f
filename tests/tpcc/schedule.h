// schedule.h - real TPC-C transactions against each other, step by step, in a fixed order.
//
// Concepts   The test drives a store on a simulated disk, and time stands still while a schedule
//            runs. A transaction runs its body and then waits for the test's word to commit or to
//            roll back: "stopped immediately prior to COMMIT". After each step the store runs until
//            no thread can run. A transaction whose body has not ended then waits for a lock. So a
//            schedule plays the same way every time.
#pragma once

#include <functional>
#include <memory>

#include "tests/sim_store.h"
#include "tests/tpcc/tpcc_test_util.h"
#include "threads/sync/event.h"
#include "tpcc/transactions.h"

namespace lockstep::tpcc {

class Schedule {
public:
    using Body = std::function<Result<bool>(Txn&)>;

    // One transaction of a schedule.
    class Actor {
    public:
        // Its body has not ended: it waits for a lock, or in pause().
        bool waits() const { return !body_ended_; }
        bool ended() const { return ended_; }
        // In a body: waits until the test calls resume().
        void pause() { resume_.acquire(); }

    private:
        friend class Schedule;
        threads::Semaphore resume_{0}, decide_{0};
        bool body_ended_ = false, ended_ = false, commit_ = false;
        Result<void> outcome_;
        Handle<void> handle_;
    };

    explicit Schedule(Calls calls = Calls::many) : store_(disk_) {
        store_.options().pool_bytes = 24 << 20;
        EXPECT_TRUE(store_.open());
        store_.on_thread([&] { db_ = load_small(*store_); });
        db_.calls = calls;
        db_.store = &*store_;
    }
    ~Schedule() {
        for (const auto& actor : actors_) EXPECT_TRUE(actor->ended_) << "a transaction is left";
        EXPECT_TRUE(store_.close());
    }

    Database& db() { return db_; }

    // Begins a transaction and runs the body as far as it goes.
    Actor& start(Body body, Isolation isolation = Isolation::serializable) {
        return start([body](Txn& txn, Actor&) { return body(txn); }, isolation);
    }
    Actor& start(std::function<Result<bool>(Txn&, Actor&)> body,
                 Isolation isolation = Isolation::serializable) {
        actors_.push_back(std::make_unique<Actor>());
        Actor& actor = *actors_.back();
        actor.handle_ = store_->start(
            [this, &actor, body = std::move(body), isolation]() -> Result<void> {
                actor.outcome_ = play(actor, body, isolation);
                actor.body_ended_ = actor.ended_ = true;
                return {};
            },
            0);
        run();
        return actor;
    }
    void resume(Actor& actor) {
        actor.resume_.release();
        run();
    }
    // Ends a transaction whose body has ended.
    void commit(Actor& actor) { end(actor, true); }
    void roll_back(Actor& actor) { end(actor, false); }

    // A row as it is committed now. No transaction of the schedule may hold it.
    template <class R>
    R row(const Index& index, const RowKey& key) {
        R record{};
        const auto found = read([&](Txn& txn) -> Result<bool> {
            std::string value;
            return TRY(index.get(txn, key, value)) && read_record(value, record);
        });
        EXPECT_TRUE(found.has_value() && *found);
        return record;
    }
    Result<bool> read(Body body) {
        Result<bool> outcome = false;
        store_.on_thread([&] { outcome = store_->run(body); });
        return outcome;
    }

private:
    Result<void> play(Actor& actor, const std::function<Result<bool>(Txn&, Actor&)>& body,
                      Isolation isolation) {
        Txn txn = TRY(store_->begin({.isolation = isolation,
                                     .durability = Durability::lazy,
                                     .read_only = isolation == Isolation::snapshot}));
        const bool wants_commit = TRY(body(txn, actor));
        actor.body_ended_ = true;
        actor.decide_.acquire();
        if (!actor.commit_ || !wants_commit) return txn.abort();
        TRY(txn.commit());
        return {};
    }
    void end(Actor& actor, bool commit) {
        ASSERT_TRUE(actor.body_ended_);
        actor.commit_ = commit;
        actor.decide_.release();
        run();
        EXPECT_TRUE(actor.ended_);
        EXPECT_TRUE(actor.outcome_) << actor.outcome_.error().text();
        EXPECT_TRUE(actor.handle_.join());
    }
    // Until no thread can run. Time does not pass.
    void run() {
        while (store_.engine().runtime->step()) {}
    }

    threads::SimDisk disk_;
    SimStore store_;
    Database db_;
    std::vector<std::unique_ptr<Actor>> actors_;
};

// An order of customer c in district (w, d): 3 pieces of each item, from the home warehouse unless
// another one is named.
struct OrderedItem {
    uint32_t i_id, supply_w;
};
inline NewOrderInput order_of(uint32_t w, uint32_t d, uint32_t c,
                              const std::vector<OrderedItem>& items) {
    NewOrderInput in{};
    in.w = w;
    in.d = d;
    in.c = c;
    in.ol_cnt = static_cast<uint8_t>(items.size());
    in.all_local = 1;
    for (size_t i = 0; i < items.size(); ++i) {
        in.lines[i] = {items[i].i_id, items[i].supply_w, static_cast<uint8_t>(i + 1), 3};
        if (items[i].supply_w != w) in.all_local = 0;
    }
    return in;
}
inline CustomerChoice customer_of(uint32_t w, uint32_t d, uint32_t c) {
    return {.by_name = false, .w = w, .d = d, .c = c, .last = {}};
}

}  // namespace lockstep::tpcc
