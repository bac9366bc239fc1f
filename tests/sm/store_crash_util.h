// store_crash_util.h - a store on a real directory that can be copied at any moment, like a kill.
#pragma once

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/file.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <map>
#include <string>
#include <vector>

#include <lockstep/store.h>
#include "sm/change/log_kinds.h"
#include "sm/engine/engine.h"
#include "sm/recovery/recovery.h"
#include "tests/own_directory.h"
#include "tests/sm/index_content.h"
#include "tests/sm/test_util.h"
#include "tests/steps_of_run.h"

namespace lockstep {

class StoreCrash : public ::testing::Test {
protected:
    void SetUp() override { root_ = make_own_directory("store-crash"); }
    void TearDown() override { std::filesystem::remove_all(root_); }

    static Options small_options(uint32_t workers = 1) {
        Options o;
        o.workers = workers;
        o.steps = steps_of_run();
        o.pool_bytes = 16 << 20;
        o.log_bytes = 64 << 20;
        o.log_segment_bytes = 4 << 20;
        o.log_ring_bytes = 4 << 20;
        o.lock_table_bytes_log2 = 18;
        o.transactions_max = 256;
        o.logger = [](int level, std::string_view text) {
            if (level == 0)
                std::fprintf(stderr, "%.*s\n", static_cast<int>(text.size()), text.data());
        };
        return o;
    }
    std::string path(const std::string& name) const { return root_ + "/" + name; }
    Store open(const std::string& name, const Options& options = small_options()) {
        auto store = Store::open(path(name), options);
        EXPECT_TRUE(store) << store.error().text();
        return std::move(*store);
    }
    // Copies what a kill at this moment would leave. Call it on a user thread of an open store with
    // one worker, so that nothing else runs.
    void copy(const std::string& from, const std::string& to) {
        EXPECT_TRUE(threads::current() != nullptr || !is_open(from))
            << from << " changes while it is copied; copy it in on_thread()";
        std::filesystem::copy(path(from), path(to));
    }
    bool is_open(const std::string& name) const {
        const int file = ::open((path(name) + "/lock").c_str(), O_RDWR | O_CLOEXEC);
        if (file < 0) return false;
        const bool locked = flock(file, LOCK_EX | LOCK_NB) != 0;
        ::close(file);
        return locked;
    }
    // Runs fn on a user thread of the store.
    static void on_thread(Store& store, std::function<void()> fn) {
        auto done = store
                        .start(
                            [&]() -> Result<void> {
                                fn();
                                return {};
                            },
                            0)
                        .join();
        ASSERT_OK(done);
    }
    // Waits until another thread has made the condition true; on a foreign kernel thread, too.
    template <class Condition>
    static void await(Condition condition) {
        for (int n = 0; !condition(); ++n) {
            ASSERT_LT(n, 100'000);
            sleep_for(kMillisecond / 10);
        }
    }
    static void make(Store& store, const char* index, const char* heap) {
        ASSERT_OK(store.run([&](Txn& txn) -> Result<void> {
            TRY(store.create_index(txn, index));
            TRY(store.create_heap(txn, heap));
            return {};
        }));
    }
    static void expect_sound(Store& store) {
        auto faults = store.verify();
        ASSERT_OK(faults);
        for (const auto& fault : *faults) ADD_FAILURE() << fault;
    }
    static std::map<RecordId, std::string> heap_content(Store& store, const char* name) {
        std::map<RecordId, std::string> content;
        auto done = store.run([&](Txn& txn) -> Result<void> {
            content.clear();
            return TRY(store.heap(name)).scan(txn, [&](RecordId id, Slice value) {
                return content.emplace(id, value).second;
            });
        });
        EXPECT_TRUE(done) << done.error().text();
        return content;
    }

    std::string root_;
};

}  // namespace lockstep
