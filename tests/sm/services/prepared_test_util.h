// prepared_test_util.h - a simulated store with an index and a heap that prepares transactions and
// crashes.
#pragma once

#include <gtest/gtest.h>

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <utility>

#include <lockstep/heap.h>
#include <lockstep/index.h>
#include "tests/code_of.h"
#include "tests/sim_store.h"
#include "tests/sm/test_util.h"

namespace lockstep {

class PreparedTest : public ::testing::Test {
protected:
    using Work = std::function<Result<void>(Txn&)>;

    void SetUp() override {
        disk_ = std::make_unique<threads::SimDisk>();
        open();
        ASSERT_OK(store().run([&](Txn& txn) -> Result<void> {
            TRY(store().create_index(txn, "i"));
            TRY(store().create_heap(txn, "h"));
            return {};
        }));
    }
    // Nothing is in doubt any more, and the store is sound.
    void TearDown() override {
        if (!sim_ || !sim_->is_open()) return;
        for (const PreparedInfo& of : store().prepared())
            ASSERT_OK(store().rollback_prepared(of.gid));
        expect_sound();
        ASSERT_OK(sim_->close());
    }
    // `configure` changes the options of this and all later opens.
    Result<void> try_open(const char* directory = "/store") {
        sim_.emplace(*disk_, 7, 2);
        log = "";
        sim_->options().logger = [this](int level, std::string_view text) {
            EXPECT_GT(level, 0) << text;
            log += std::string(text) + "\n";
        };
        if (configure) configure(sim_->options());
        return sim_->open(directory);
    }
    void open() { ASSERT_OK(try_open()); }
    SimStore& open_at(const char* directory) {
        EXPECT_TRUE(try_open(directory));
        return *sim_;
    }
    void close() {
        ASSERT_OK(sim_->close());
        sim_.reset();
    }
    void reopen() {
        close();
        open();
    }
    // What a power cut leaves at this moment.
    void cut(threads::SimCrash mode = threads::SimCrash::drop_unsynced) {
        auto image = disk_->image(++cuts_, mode);
        sim_->abandon();
        sim_.reset();
        disk_ = std::move(image);
    }
    void crash(threads::SimCrash mode = threads::SimCrash::drop_unsynced) {
        cut(mode);
        open();
    }

    threads::SimDisk& disk() { return *disk_; }
    Store& store() { return **sim_; }
    SimStore& sim() { return *sim_; }
    sm::Engine& engine() { return sim_->engine(); }
    Index index() { return *store().index("i"); }
    Heap heap() { return *store().heap("h"); }

    // A transaction on a user thread of that worker does `work` and prepares.
    Result<Vote> prepare(Slice gid, const Work& work, const TxnOptions& options = {},
                         int worker = 0) {
        std::optional<Result<Vote>> vote;
        auto handle = store().start(
            [&]() -> Result<void> {
                Txn txn = TRY(store().begin(options));
                TRY(work(txn));
                vote.emplace(txn.prepare(gid));
                EXPECT_NE(vote->has_value(), txn.live());
                return {};
            },
            worker);
        CHECK(sim_->step_until([&] { return handle.ready(); }));
        EXPECT_TRUE(vote);
        return vote ? *vote : Result<Vote>(fail(ErrorCode::none));
    }
    Work put(std::string key, std::string value) {
        return [this, key, value](Txn& txn) { return index().put(txn, key, value); };
    }
    void must_prepare(Slice gid, const Work& work, const TxnOptions& options = {}, int worker = 0) {
        const auto vote = prepare(gid, work, options, worker);
        ASSERT_OK(vote);
        EXPECT_EQ(*vote, Vote::prepared);
    }
    // A transaction of its own.
    Result<void> change(const Work& work) { return store().run(work); }
    Result<void> put_now(std::string key, std::string value) { return change(put(key, value)); }
    // "-": none. "locked": its reader waited in vain.
    std::string get(std::string key, const TxnOptions& options = {}) {
        std::string value;
        auto done = store().run(
            [&](Txn& txn) -> Result<void> {
                if (!TRY(index().get(txn, key, value))) value = "-";
                return {};
            },
            options);
        if (!done && done.error().code == ErrorCode::lock_timeout) return "locked";
        EXPECT_TRUE(done) << done.error().text();
        return value;
    }
    std::string seen_by_snapshot(std::string key) {
        return get(std::move(key), {.isolation = Isolation::snapshot});
    }
    void expect_ended(const Result<bool>& ended, bool expected = true) {
        ASSERT_OK(ended);
        EXPECT_EQ(*ended, expected);
    }
    void expect_sound() {
        auto faults = store().verify();
        ASSERT_OK(faults);
        for (const auto& fault : *faults) ADD_FAILURE() << fault;
    }
    static std::string key_of(int n) { return "key" + std::to_string(100000 + n); }

    std::function<void(Options&)> configure;
    std::string log;  // what the store has reported since its open

private:
    std::unique_ptr<threads::SimDisk> disk_;
    std::optional<SimStore> sim_;
    uint64_t cuts_ = 0;
};

}  // namespace lockstep
