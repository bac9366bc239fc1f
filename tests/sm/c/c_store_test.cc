// labels: unit
// c_store_test.cc - the C interface of a store: options, keys, objects by name, maintenance,
// observation, fork().
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>

#include <lockstep/key.h>
#include <lockstep/store.h>
#include "tests/end_child.h"
#include "tests/sm/c/c_util.h"

namespace lockstep::c_store_test {

class CStoreCalls : public CStore {};

TEST_F(CStoreCalls, KeysAreThoseOfCpp) {
    lockstep_key key;
    lockstep_key_init(&key);
    lockstep_key_u8(&key, 7);
    lockstep_key_u16(&key, 300);
    lockstep_key_u32(&key, 70000);
    lockstep_key_u64(&key, 1ull << 40);
    lockstep_key_i32(&key, -5);
    lockstep_key_i64(&key, -6);
    lockstep_key_text(&key, lockstep_bytes("a\0b", 3));
    Key cpp;
    cpp.u8(7).u16(300).u32(70000).u64(1ull << 40).i32(-5).i64(-6).text(Slice("a\0b", 3));
    EXPECT_EQ(text_of(lockstep_key_slice(&key)), std::string(Slice(cpp)));
    const lockstep_key copy = key;
    EXPECT_EQ(text_of(lockstep_key_slice(&copy)), std::string(Slice(cpp)));
    for (int n = 0; n < 200; ++n) lockstep_key_u64(&key, 1);
    EXPECT_TRUE(lockstep_key_overflowed(&key));
    EXPECT_EQ(lockstep_key_slice(&key).size, size_t{LOCKSTEP_KEY_BYTES_MAX} + 1);
    memset(&key, 0xff, sizeof key);  // never initialised
    lockstep_key_text(&key, lockstep_text("x"));
    EXPECT_TRUE(lockstep_key_overflowed(&key));
}

TEST_F(CStoreCalls, Options) {
    lockstep_options options;
    lockstep_steps_options steps;
    lockstep_options_init(&options, sizeof options);
    lockstep_steps_options_init(&steps, sizeof steps);
    ASSERT_C(lockstep_get_options(store, &options, &steps, &error));
    EXPECT_EQ(options.workers, 2u);
    EXPECT_EQ(options.pool_bytes, 16u << 20);
    EXPECT_EQ(steps.mode, static_cast<int>(steps_of_run().mode));

    // Those of reports come back as they went in.
    lockstep_store* other = nullptr;
    lockstep_options_init(&options, sizeof options);
    EXPECT_EQ(options.scan_share, 0.25);
    options.pool_bytes = 16 << 20;
    options.scan_bytes = 5 << 20;
    options.scan_share = 0.5;
    options.scan_workers = 1;
    ASSERT_C(lockstep_open((root + "/scans").c_str(), &options, &other, &error));
    lockstep_options read = {};
    read.size = sizeof read;
    ASSERT_C(lockstep_get_options(other, &read, nullptr, &error));
    EXPECT_EQ(read.scan_bytes, 5u << 20);
    EXPECT_EQ(read.scan_share, 0.5);
    EXPECT_EQ(read.scan_workers, 1u);
    ASSERT_C(lockstep_close(other, &error));
    other = nullptr;
    options.scan_share = 1.5;
    EXPECT_EQ(lockstep_open((root + "/none").c_str(), &options, &other, &error),
              LOCKSTEP_BAD_OPTION);

    // An older program knows fewer fields; what a newer one knows must be default.
    options.size = offsetof(lockstep_options, pool_bytes);
    options.create = false;
    EXPECT_EQ(lockstep_open((root + "/none").c_str(), &options, &other, &error), LOCKSTEP_BAD_PATH);
    struct {
        lockstep_options known;
        uint64_t newer;
    } grown = {};
    lockstep_options_init(&grown.known, sizeof grown);
    grown.known.create = false;
    EXPECT_EQ(lockstep_open((root + "/none").c_str(), &grown.known, &other, &error),
              LOCKSTEP_BAD_PATH);
    grown.newer = 1;
    EXPECT_EQ(lockstep_open((root + "/none").c_str(), &grown.known, &other, &error),
              LOCKSTEP_BAD_OPTION);
    lockstep_options_init(&options, sizeof options);
    options.io = 3;
    EXPECT_EQ(lockstep_open((root + "/none").c_str(), &options, &other, &error),
              LOCKSTEP_BAD_OPTION);
    EXPECT_NE(std::string(error.text).find("io"), std::string::npos) << error.text;
    options.size = 0;
    EXPECT_EQ(lockstep_open((root + "/none").c_str(), &options, &other, &error),
              LOCKSTEP_BAD_OPTION);
    EXPECT_EQ(lockstep_open((root + "/db").c_str(), nullptr, &other, &error),
              LOCKSTEP_STORE_LOCKED);
    EXPECT_EQ(other, nullptr);
    uint32_t points = 0;
    EXPECT_C(lockstep_ctx_points("manual", &points, &error));
    EXPECT_NE(points, 0u);
    steps.mode = LOCKSTEP_STEPS_ON;
    EXPECT_C(lockstep_set_steps(store, &steps, &error));
    EXPECT_C(lockstep_set_steps(store, nullptr, &error));
}

TEST_F(CStoreCalls, ObjectsByName) {
    lockstep_index* const made = make_index("i");
    lockstep_heap* const heap = make_heap("h");
    lockstep_index* index = nullptr;
    lockstep_heap* found_heap = nullptr;
    ASSERT_C(lockstep_find_index(store, "i", &index, &error));
    EXPECT_EQ(index, made);  // one handle for one index
    ASSERT_C(lockstep_find_heap(store, "h", &found_heap, &error));
    EXPECT_EQ(found_heap, heap);
    EXPECT_EQ(lockstep_find_index(store, "none", &index, &error), LOCKSTEP_NO_SUCH_OBJECT);
    EXPECT_EQ(index, nullptr);
    std::string names;
    const auto each = [](void* arg, const lockstep_object* object) {
        *static_cast<std::string*>(arg) +=
            object->name + std::string(object->is_index ? "! " : " ");
        return true;
    };
    ASSERT_C(lockstep_list(store, each, &names, &error));
    EXPECT_EQ(names, "h i! ");
    lockstep_txn* txn = nullptr;
    ASSERT_C(lockstep_begin(store, nullptr, &txn, &error));
    ASSERT_C(lockstep_find_index_in(txn, "i", &index, &error));
    ASSERT_C(lockstep_find_heap_in(txn, "h", &found_heap, &error));
    ASSERT_C(lockstep_open_or_create_heap(txn, "h", &found_heap, &error));
    EXPECT_EQ(found_heap, heap);
    EXPECT_EQ(lockstep_create_index(txn, "i", nullptr, &index, &error), LOCKSTEP_ALREADY_EXISTS);
    ASSERT_C(lockstep_drop(txn, "i", &error));
    ASSERT_C(lockstep_commit(txn, nullptr, &error));
    // The handle stays a handle; the index is gone.
    ASSERT_C(lockstep_begin(store, nullptr, &txn, &error));
    EXPECT_EQ(lockstep_put(txn, made, lockstep_text("k"), {}, &error), LOCKSTEP_NO_SUCH_OBJECT);
    ASSERT_C(lockstep_abort(txn, &error));
    EXPECT_NE(make_index("i"), made);
}

TEST_F(CStoreCalls, SnapshotsAndDurability) {
    lockstep_index* const index = make_index("i");
    lockstep_txn *reader = nullptr, *writer = nullptr;
    lockstep_txn_options options;
    lockstep_txn_options_init(&options, sizeof options);
    options.isolation = LOCKSTEP_SNAPSHOT;
    ASSERT_C(lockstep_begin(store, &options, &reader, &error));
    options.isolation = LOCKSTEP_SERIALIZABLE;
    options.durability = LOCKSTEP_LAZY;
    ASSERT_C(lockstep_begin(store, &options, &writer, &error));
    ASSERT_C(lockstep_put(writer, index, lockstep_text("k"), lockstep_text("v"), &error));
    uint64_t lsn = 0;
    ASSERT_C(lockstep_commit(writer, &lsn, &error));
    EXPECT_NE(lsn, 0u);
    EXPECT_EQ(value_of(reader, index, "k"), "none");
    EXPECT_EQ(lockstep_put(reader, index, lockstep_text("k"), {}, &error), LOCKSTEP_READ_ONLY);
    ASSERT_C(lockstep_commit(reader, &lsn, &error));
    ASSERT_C(lockstep_wait_durable(store, lsn, &error));
    options.isolation = 4;
    EXPECT_EQ(lockstep_begin(store, &options, &reader, &error), LOCKSTEP_BAD_OPTION);
    ASSERT_C(lockstep_checkpoint(store, &error));
    uint64_t bytes = 0;
    ASSERT_C(lockstep_give_back_space(store, &bytes, &error));
    size_t faults = 1;
    ASSERT_C(lockstep_verify(store, 2, nullptr, nullptr, &faults, &error));
    EXPECT_EQ(faults, 0u);
}

TEST_F(CStoreCalls, Observation) {
    lockstep_txn* txn = nullptr;
    ASSERT_C(lockstep_begin(store, nullptr, &txn, &error));
    const uint64_t id = lockstep_txn_id(txn);
    bool seen = false;
    struct Wanted {
        uint64_t id;
        bool& seen;
    } wanted{id, seen};
    const auto each = [](void* arg, const lockstep_transaction_info* info) {
        const auto& w = *static_cast<Wanted*>(arg);
        w.seen |= info->id == w.id && info->size == sizeof *info && info->waits_for_count == 0;
        return true;
    };
    ASSERT_C(lockstep_transactions(store, each, &wanted, &error));
    EXPECT_TRUE(seen);
    ASSERT_C(lockstep_end_transaction(store, id, &error));
    lockstep_savepoint point;
    EXPECT_EQ(lockstep_set_savepoint(txn, &point, &error), LOCKSTEP_ENDED_BY_OPERATOR);
    EXPECT_EQ(lockstep_commit(txn, nullptr, &error), LOCKSTEP_ENDED_BY_OPERATOR);
    EXPECT_EQ(lockstep_commit(txn, nullptr, &error), LOCKSTEP_TXN_ENDED);
    size_t bytes = 0;
    ASSERT_C(lockstep_metrics(store, nullptr, 0, &bytes, &error));
    std::string text(bytes + 1000, ' ');
    ASSERT_C(lockstep_metrics(store, text.data(), text.size(), &bytes, &error));
    EXPECT_NE(text.find("lockstep_"), std::string::npos);
    ASSERT_C(lockstep_failure(store, nullptr, 0, &bytes, &error));
    EXPECT_EQ(bytes, 0u);
    EXPECT_EQ(lockstep_failure(store, nullptr, 5, &bytes, &error), LOCKSTEP_BAD_ARGUMENT);
    const auto seven = [](void*) { return 7; };
    EXPECT_EQ(lockstep_offload(seven, nullptr, &error), 7);
}

// A user thread waits for the function, and a close would wait for the user thread.
TEST_F(CStoreCalls, ItsOffloadMayNotClose) {
    const lockstep_body close_in_offload = [](lockstep_txn*, void* of) {
        const auto close = [](void* it) {
            return lockstep_close(static_cast<lockstep_store*>(it), nullptr);
        };
        EXPECT_EQ(lockstep_offload(close, of, nullptr), LOCKSTEP_WRONG_THREAD);
        return 0;
    };
    ASSERT_C(lockstep_run(store, close_in_offload, store, nullptr, &error));
}

// The application knows itself that it ends its transaction.
TEST_F(CStoreCalls, ACancelledTransactionIsNotLogged) {
    ASSERT_C(lockstep_close(store, &error));
    lockstep_steps_options steps;
    lockstep_options options = small_options(steps);
    std::atomic<size_t> logged{0};
    options.logger = [](void* arg, int, const char* text, size_t bytes) {
        *static_cast<std::atomic<size_t>*>(arg) += Slice(text, bytes).contains("is ended");
    };
    options.logger_arg = &logged;
    ASSERT_C(lockstep_open((root + "/logged").c_str(), &options, &store, &error));
    const auto end_with = [&](auto* end, int code) {
        lockstep_txn* txn = nullptr;
        ASSERT_C(lockstep_begin(store, nullptr, &txn, &error));
        ASSERT_C(end(store, lockstep_txn_id(txn), &error));
        EXPECT_EQ(lockstep_commit(txn, nullptr, &error), code) << error.text;
    };
    end_with(lockstep_cancel_transaction, LOCKSTEP_CANCELLED);
    EXPECT_EQ(logged.load(), 0u);
    end_with(lockstep_end_transaction, LOCKSTEP_ENDED_BY_OPERATOR);
    EXPECT_EQ(logged.load(), 1u);
    EXPECT_EQ(lockstep_cancel_transaction(store, 1, &error), LOCKSTEP_TXN_ENDED);
}

// A logger gets its argument, here of a callback that computes for too long.
TEST_F(CStoreCalls, Logger) {
    lockstep_steps_options steps;
    lockstep_options options = small_options(steps);
    std::atomic<size_t> logged{0};  // bytes
    options.logger = [](void* arg, int, const char* text, size_t bytes) {
        *static_cast<std::atomic<size_t>*>(arg) += text != nullptr ? bytes : 0;
    };
    options.logger_arg = &logged;
    options.slice_warning = kMillisecond;
    const auto compute = [](lockstep_txn*, void*) {
        const uint64_t end = lockstep_now() + 50 * kMillisecond;
        while (lockstep_now() < end) {}
        return 0;
    };
    lockstep_store* other = nullptr;
    ASSERT_C(lockstep_open((root + "/logged").c_str(), &options, &other, &error));
    // The watch may get no CPU meanwhile.
    for (int n = 0; n < 100 && logged == 0; ++n)
        EXPECT_C(lockstep_run(other, compute, nullptr, nullptr, &error));
    ASSERT_C(lockstep_close(other, &error));
    EXPECT_GT(logged, 0u);
}

// In the child each call returns forked, and nothing waits for threads that are not there.
TEST_F(CStoreCalls, Fork) {
    lockstep_index* const index = make_index("i");
    lockstep_txn* txn = nullptr;
    ASSERT_C(lockstep_begin(store, nullptr, &txn, &error));
    const pid_t child = fork();
    if (child == 0) {
        alarm(30);
        const auto body = [](lockstep_txn*, void*) { return 0; };
        lockstep_txn* other = nullptr;
        const bool sound =
            lockstep_put(txn, index, lockstep_text("k"), {}, nullptr) == LOCKSTEP_FORKED &&
            lockstep_commit(txn, nullptr, nullptr) == LOCKSTEP_FORKED &&
            lockstep_run(store, body, nullptr, nullptr, nullptr) == LOCKSTEP_FORKED &&
            lockstep_begin(store, nullptr, &other, nullptr) == LOCKSTEP_FORKED &&
            lockstep_close(store, nullptr) == LOCKSTEP_FORKED;
        end_child(sound ? 0 : 1);
    }
    int status = 0;
    ASSERT_EQ(waitpid(child, &status, 0), child);
    EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 0) << status;
    ASSERT_C(lockstep_put(txn, index, lockstep_text("k"), {}, &error));
    ASSERT_C(lockstep_commit(txn, nullptr, &error));
}

}  // namespace lockstep::c_store_test
