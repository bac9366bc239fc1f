// engine_test_util.h - an open engine on its own directory, and transactions on its user threads.
#pragma once

#include <gtest/gtest.h>

#include <filesystem>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "sm/catalog/catalog.h"
#include "sm/change/deferred.h"
#include "sm/change/rollback.h"
#include "sm/engine/engine.h"
#include "sm/engine/log_room.h"
#include "sm/heap/heap_file.h"
#include "sm/recovery/recovery.h"
#include "sm/services/ghost_cleaner.h"
#include "tests/own_directory.h"
#include "tests/sm/test_util.h"
#include "tests/steps_of_run.h"

namespace lockstep::sm {

inline Options small_options(uint32_t workers = 1) {
    Options o;
    o.workers = workers;
    o.steps = steps_of_run();
    o.pool_bytes = 16 << 20;
    o.log_bytes = 64 << 20;
    o.log_segment_bytes = 4 << 20;
    o.log_ring_bytes = 1 << 20;
    o.transactions_max = 256;
    o.lock_table_bytes_log2 = 18;
    o.sync = false;
    return o;
}

class TestEngine {
public:
    explicit TestEngine(const Options& options = small_options()) : options_(options) {
        directory_ = make_own_directory("engine");
        open();
    }
    ~TestEngine() {
        if (engine_) {
            EXPECT_TRUE(engine_->close());
        }
        engine_.reset();
        std::filesystem::remove_all(directory_);
    }
    Engine& operator*() { return *engine_; }
    Engine* operator->() { return engine_.get(); }
    const std::string& directory() const { return directory_; }

    void open() {
        auto opened = Engine::open(directory_, options_);
        ASSERT_TRUE(opened) << opened.error().text();
        engine_ = std::move(*opened);
    }
    void close() {
        ASSERT_TRUE(engine_->close());
        engine_.reset();
    }
    // Runs fn on a user thread of worker 0 and waits.
    void on_thread(std::function<void()> fn) {
        auto done = engine_->run_and_wait([&]() -> Result<void> {
            fn();
            return {};
        });
        ASSERT_TRUE(done) << done.error().text();
    }
    // Runs the functions on user threads, spread over the workers, and waits for all.
    void on_threads(std::vector<std::function<void()>> fns) {
        std::vector<std::unique_ptr<threads::Completion>> done;
        for (size_t i = 0; i < fns.size(); ++i) {
            done.push_back(std::make_unique<threads::Completion>());
            auto started = engine_->start_thread(static_cast<int>(i), "test",
                                                 [fn = fns[i], d = done.back().get()] {
                                                     fn();
                                                     d->set();
                                                 });
            ASSERT_TRUE(started) << started.error().text();
        }
        for (auto& d : done) engine_->wait_for(*d);
    }

    // As Store::begin() does: begin() below does not wait for the checkpoint that frees the log.
    // For loops that write more than the log takes; on a user thread without a transaction.
    void wait_for_log() {
        if (engine_->log->filling()) {
            EXPECT_TRUE(wait_to_begin(*engine_));
        }
    }
    txn::Transaction& begin(txn::Isolation isolation = txn::Isolation::serializable,
                            Nanos lock_timeout = kNever) {
        auto txn = engine_->txns->begin({.isolation = isolation,
                                         .durability = txn::Durability::lazy,
                                         .lock_timeout = lock_timeout});
        EXPECT_TRUE(txn) << txn.error().text();
        return **txn;
    }
    void commit(txn::Transaction& txn) {
        DeferredActions deferred(txn);
        deferred.before_commit();
        auto done = engine_->txns->commit(txn);
        EXPECT_TRUE(done) << done.error().text();
        if (done) deferred.run_committed(*done);
    }
    void abort(txn::Transaction& txn) {
        DeferredActions deferred(txn);
        auto done = rollback(*engine_, txn, kLsnNone);
        EXPECT_TRUE(done) << done.error().text();
        engine_->txns->finish_abort(txn, true);
        deferred.run_rolled_back();
    }

private:
    Options options_;
    std::string directory_;
    std::unique_ptr<Engine> engine_;
};

}  // namespace lockstep::sm
