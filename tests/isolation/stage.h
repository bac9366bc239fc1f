// stage.h - actors that are told each of their steps, and all states that were ever committed.
//
// Concepts   An actor is a user thread with at most one transaction. The test tells it one command
//            at a time and then runs the store until no thread can go on. An actor whose command
//            has not ended by then waits: for a lock, because time for the disk passes too. It goes
//            on by itself once it gets what it waits for.
//            The stage keeps each committed state of the index. A step that began when state i was
//            the newest and ended at state j may have seen any of i..j, and nothing else.
#pragma once

#include <gtest/gtest.h>

#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "sm/btree/btree.h"
#include "sm/catalog/catalog.h"
#include "tests/sim_store.h"
#include "threads/base/try.h"
#include "threads/sync/event.h"

namespace lockstep::isolation {

using State = std::map<std::string, std::string>;
// What a transaction has put, and erased (nullopt).
using Changes = std::map<std::string, std::optional<std::string>>;

inline State with(State state, const Changes& changes) {
    for (const auto& [key, value] : changes) {
        if (value) state[key] = *value;
        else state.erase(key);
    }
    return state;
}

class Stage;

class Actor {
public:
    explicit Actor(Stage& stage) : stage_(stage) {}
    bool busy() const { return command_ != nullptr; }
    bool in_transaction() const { return txn_ && txn_->live(); }
    // Neither in a command nor in a transaction.
    bool free() const { return !busy() && !in_transaction(); }
    const Changes& changes() const { return changes_; }
    // The error of the last command; its transaction is then aborted unless `keeps_errors`.
    const std::optional<Error>& error() const { return error_; }
    bool keeps_errors = false;

    // For commands, on the actor's thread.
    Txn& txn() { return *txn_; }
    Result<void> begin(Isolation isolation);
    Result<void> put(const std::string& key, const std::string& value);
    Result<bool> erase(const std::string& key);
    Result<void> commit();
    Result<void> abort();
    void note(const std::string& key, std::optional<std::string> value) {
        changes_[key] = std::move(value);
    }

private:
    friend class Stage;
    Result<void> serve();

    Stage& stage_;
    threads::Semaphore go_{0};
    std::function<Result<void>(Actor&)> command_;
    bool leaves_ = false;
    std::optional<Txn> txn_;
    Changes changes_;
    std::optional<Error> error_;
    Handle<void> handle_;
};

class Stage {
public:
    using Command = std::function<Result<void>(Actor&)>;

    Stage(std::optional<uint32_t> escalate_at, uint64_t seed) : store_(disk_, seed) {
        store_.options().lock_timeout = kNever;
        store_.options().escalate_at = escalate_at;
        EXPECT_TRUE(store_.open());
    }
    ~Stage() {
        for (const auto& actor : actors_) {
            actor->leaves_ = true;
            actor->go_.release();
        }
        settle();
        for (const auto& actor : actors_) EXPECT_TRUE(actor->handle_.join());
        EXPECT_TRUE(store_.close());
    }

    SimStore& store() { return store_; }
    Index& index() { return index_; }
    sm::BTree& tree() { return *store_.engine().catalog->index_by_id(index_.id()); }
    const State& newest() const { return states_.back(); }
    const State& state(size_t number) const { return states_[number]; }
    size_t last() const { return states_.size() - 1; }
    // The oldest state that a transaction which begins now may see.
    size_t visible() const { return visible_; }
    const std::vector<std::unique_ptr<Actor>>& actors() const { return actors_; }
    // The index is gone, or will be once its locks are free.
    bool dropped = false;

    // A new index with these rows; the states begin with them. `ghosts` are erased again.
    void reset(const State& rows, const std::vector<std::string>& ghosts) {
        Actor& actor = someone();
        tell(actor, [&](Actor& self) -> Result<void> {
            // A transaction of the test must not wait for the log.
            if (number_ % 64 == 0) TRY(store_->checkpoint());
            TRY(self.begin(Isolation::serializable));
            if (index_ && !dropped) TRY(store_->drop(self.txn(), name_));
            name_ = "rows " + std::to_string(++number_);
            index_ = TRY(store_->create_index(self.txn(), name_));
            for (const auto& [key, value] : rows) TRY(index_.insert(self.txn(), key, value));
            for (const std::string& key : ghosts) TRY(index_.insert(self.txn(), key, "ghost"));
            TRY(self.commit());
            TRY(self.begin(Isolation::serializable));
            for (const std::string& key : ghosts) TRY(index_.erase(self.txn(), key));
            return self.commit();
        });
        EXPECT_TRUE(all_free()) << "no new index";
        states_.assign(1, rows);
        visible_ = 0;
        dropped = false;
    }
    const std::string& name() const { return name_; }

    // An actor that has nothing to do.
    Actor& someone() {
        for (const auto& actor : actors_)
            if (actor->free()) return *actor;
        actors_.push_back(std::make_unique<Actor>(*this));
        Actor& actor = *actors_.back();
        actor.handle_ = store_->start([&actor] { return actor.serve(); }, 0);
        settle();
        return actor;
    }
    // The actor carries out the command, as far as it gets.
    void tell(Actor& actor, Command command) {
        prepare(actor, std::move(command));
        let(actor);
        settle();
        // It may wait for the disk.
        while (actor.busy() && disk_.advance(store_.clock())) settle();
    }
    // The same in two parts: the command begins when let() is called, by any thread.
    void prepare(Actor& actor, Command command) {
        EXPECT_FALSE(actor.busy());
        actor.error_.reset();
        actor.command_ = std::move(command);
    }
    void let(Actor& actor) { actor.go_.release(); }

    void settle() {
        while (store_.engine().runtime->step()) {}
    }
    void pass_time(Nanos time) {
        for (const Nanos end = store_.clock().now() + time; store_.clock().now() < end; settle())
            if (!disk_.advance(store_.clock())) store_.clock().advance(kMillisecond / 4);
    }
    // Whether all actors get free, without any help but time.
    bool all_free() {
        const auto free = [](const auto& actor) { return actor->free(); };
        for (int turns = 0; turns < 50; ++turns, pass_time(kMillisecond))
            if (std::ranges::all_of(actors_, free)) return true;
        return false;
    }
    // The first actor but `other` that stands in a transaction and waits for nothing.
    Actor* holder(const Actor& other) {
        for (const auto& actor : actors_)
            if (!actor->busy() && actor->in_transaction() && &*actor != &other) return &*actor;
        return nullptr;
    }
    bool others_wait(const Actor& than) const {
        return std::ranges::any_of(
            actors_, [&](const auto& actor) { return actor->busy() && &*actor != &than; });
    }

private:
    friend class Actor;
    void committed(const Changes& changes) { states_.push_back(with(states_.back(), changes)); }

    threads::SimDisk disk_;
    SimStore store_;
    Index index_;
    std::string name_;
    int number_ = 0;
    std::deque<State> states_ = {{}};
    size_t visible_ = 0;
    std::vector<std::unique_ptr<Actor>> actors_;
};

inline Result<void> Actor::serve() {
    for (;;) {
        go_.acquire();
        if (leaves_) return {};
        if (auto done = command_(*this); !done) {
            error_ = done.error();
            if (!keeps_errors && in_transaction()) (void)abort();
        }
        command_ = nullptr;
    }
}
inline Result<void> Actor::begin(Isolation isolation) {
    changes_.clear();
    txn_.reset();
    txn_.emplace(
        TRY(stage_.store()->begin({.isolation = isolation, .durability = Durability::lazy})));
    return {};
}
inline Result<void> Actor::put(const std::string& key, const std::string& value) {
    TRY(stage_.index().put(*txn_, key, value));
    note(key, value);
    return {};
}
inline Result<bool> Actor::erase(const std::string& key) {
    const bool found = TRY(stage_.index().erase(*txn_, key));
    if (found) note(key, std::nullopt);
    return found;
}
// From the moment on at which the commit begins, others may see it; once it has ended, all do.
inline Result<void> Actor::commit() {
    if (!changes_.empty()) stage_.committed(changes_);
    const size_t mine = stage_.last();
    TRY(txn_->commit());
    stage_.visible_ = std::max(stage_.visible_, mine);
    return {};
}
inline Result<void> Actor::abort() {
    TRY(txn_->abort());
    return {};
}

}  // namespace lockstep::isolation
