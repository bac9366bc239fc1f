// lock_test_util.h - owners and user threads for tests of the lock manager.
//
// Concepts   A Scene has one caller-driven worker and a clock that stands still. go() starts a user
//            thread and runs everything until no thread can run. A thread that waits for a lock
//            stays parked, so the test can inspect the state.
#pragma once

#include <gtest/gtest.h>

#include <cstdlib>
#include <deque>
#include <memory>
#include <optional>
#include <vector>

#include "threads/runtime/runtime.h"
#include "txn/lock/lock_manager.h"

namespace lockstep::txn {

class Owners {
public:
    Owners(LockManager& locks, uint32_t count) : locks_(locks) {
        for (uint32_t i = 0; i < count; ++i) {
            owners_.push_back(std::make_unique<LockOwner>());
            owners_[i]->slot = i;
            owners_[i]->txn = TxnId{100 + i};
            locks_.add_owner(*owners_[i]);
        }
    }
    ~Owners() {
        for (auto& owner : owners_) {
            locks_.release_all(*owner);
            locks_.remove_owner(*owner);
        }
    }
    LockOwner& operator[](size_t i) { return *owners_[i]; }
    size_t size() const { return owners_.size(); }

private:
    LockManager& locks_;
    std::vector<std::unique_ptr<LockOwner>> owners_;
};

struct Scene {
    explicit Scene(LockOptions options = {}, uint32_t owners = 16)
        : locks([&] {
              options.buckets_log2 = std::min(options.buckets_log2, 8u);
              options.owners_max = owners + 4;
              return options;
          }()),
          owner(locks, owners) {
        runtime = *threads::Runtime::start({.caller_driven = true, .clock = &clock});
    }
    ~Scene() {  // no thread may wait when the owners are destroyed
        for (size_t i = 0; i < owner.size(); ++i) locks.cancel(owner[i]);
        run_until_idle();
    }

    void run_until_idle() {
        while (runtime->step()) {}
    }
    void go(threads::ThreadFn fn) {
        ASSERT_TRUE(runtime->spawn(0, "test", std::move(fn)));
        run_until_idle();
    }

    using Outcome = std::optional<Result<void>>;
    // A lock call on a user thread of its own. The outcome is empty while it waits.
    std::shared_ptr<Outcome> lock(size_t who, LockName name, LockMode mode) {
        auto outcome = std::make_shared<Outcome>();
        go([this, who, name, mode, outcome] { *outcome = locks.lock(owner[who], name, mode); });
        return outcome;
    }
    std::shared_ptr<Outcome> lock_object(size_t who, ObjectLock& object, LockMode mode) {
        auto outcome = std::make_shared<Outcome>();
        go([this, who, &object, mode, outcome] {
            *outcome = locks.lock_object(owner[who], object, mode);
        });
        return outcome;
    }
    void release(size_t who) {
        locks.release_all(owner[who]);
        run_until_idle();
    }
    ObjectLock& object(uint32_t id) {
        objects.emplace_back().id = ObjectId{id};
        return objects.back();
    }
    std::string check() const { return locks.verify(); }

    ManualClock clock;
    std::deque<ObjectLock> objects;  // outlive the owners, which release them
    LockManager locks;
    Owners owner;
    std::unique_ptr<threads::Runtime> runtime;
};

inline bool waits(const std::shared_ptr<Scene::Outcome>& o) { return !o->has_value(); }
inline bool granted(const std::shared_ptr<Scene::Outcome>& o) {
    return o->has_value() && (*o)->has_value();
}
inline ErrorCode error_of(const std::shared_ptr<Scene::Outcome>& o) {
    return o->has_value() && !(*o)->has_value() ? (*o)->error().code : ErrorCode::none;
}

inline constexpr LockMode kElementary[] = {
    LockMode::IS,       LockMode::IX,        LockMode::S,        LockMode::SIX,
    LockMode::U,        LockMode::X,         LockMode::gap_read, LockMode::gap_insert,
    LockMode::key_scan, LockMode::key_insert};

}  // namespace lockstep::txn
