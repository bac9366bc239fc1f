// c_util.h - a store through the C interface for one test.
#pragma once

#include <gtest/gtest.h>

#include <filesystem>
#include <string>

#include <lockstep/lockstep.h>  // keep: the whole C interface
#include "tests/own_directory.h"
#include "tests/steps_of_run.h"

namespace lockstep {

#define ASSERT_C(call)                               \
    do {                                             \
        const int code_ = (call);                    \
        ASSERT_EQ(code_, LOCKSTEP_OK) << error.text; \
    } while (false)
#define EXPECT_C(call)                               \
    do {                                             \
        const int code_ = (call);                    \
        EXPECT_EQ(code_, LOCKSTEP_OK) << error.text; \
    } while (false)

class CStore : public ::testing::Test {
protected:
    void SetUp() override {
        root = make_own_directory("c");
        open("db");
    }
    void TearDown() override {
        if (store != nullptr) EXPECT_C(lockstep_close(store, &error));
        std::filesystem::remove_all(root);
    }
    static lockstep_options small_options(lockstep_steps_options& steps) {
        lockstep_options o;
        lockstep_options_init(&o, sizeof o);
        lockstep_steps_options_init(&steps, sizeof steps);
        steps.mode = static_cast<int>(steps_of_run().mode);
        o.workers = 2;
        o.pool_bytes = 16 << 20;
        o.log_bytes = 64 << 20;
        o.log_segment_bytes = 4 << 20;
        o.log_ring_bytes = 4 << 20;
        o.lock_table_bytes_log2 = 18;
        o.transactions_max = 256;
        o.steps = &steps;
        return o;
    }
    void open(const char* name) {
        lockstep_steps_options steps;
        const lockstep_options options = small_options(steps);
        ASSERT_C(lockstep_open((root + "/" + name).c_str(), &options, &store, &error));
    }
    lockstep_index* make_index(const char* name) {
        lockstep_index* index = nullptr;
        lockstep_txn* txn = nullptr;
        EXPECT_C(lockstep_begin(store, nullptr, &txn, &error));
        EXPECT_C(lockstep_open_or_create_index(txn, name, nullptr, &index, &error));
        EXPECT_C(lockstep_commit(txn, nullptr, &error));
        return index;
    }
    lockstep_heap* make_heap(const char* name) {
        lockstep_heap* heap = nullptr;
        lockstep_txn* txn = nullptr;
        EXPECT_C(lockstep_begin(store, nullptr, &txn, &error));
        EXPECT_C(lockstep_create_heap(txn, name, &heap, &error));
        EXPECT_C(lockstep_commit(txn, nullptr, &error));
        return heap;
    }
    // The value of a key, or "none".
    std::string value_of(lockstep_txn* txn, lockstep_index* index, const char* key) {
        char buffer[64];
        size_t bytes = 0;
        bool found = false;
        EXPECT_C(lockstep_get(txn, index, lockstep_text(key), LOCKSTEP_ACCESS_READ, buffer,
                              sizeof buffer, &bytes, &found, &error));
        return found ? std::string(buffer, bytes) : "none";
    }
    static std::string text_of(const lockstep_slice& slice) {
        return {static_cast<const char*>(slice.data), slice.size};
    }

    std::string root;
    lockstep_store* store = nullptr;
    lockstep_error error = {};
};

}  // namespace lockstep
