// labels: unit
// c_session_test.cc - sessions of the C interface from many threads, batches, gets of whole values
// and submitted requests.
#include <sys/eventfd.h>
#include <unistd.h>

#include <atomic>
#include <thread>
#include <vector>

#include <lockstep/key.h>
#include <lockstep/store.h>
#include "sm/c/handles.h"
#include "tests/sm/c/c_util.h"

namespace lockstep::c_session_test {

class CSession : public CStore {};

// Kernel threads with sessions of their own, beside each other and beyond the executors.
TEST_F(CSession, SessionsOfManyThreads) {
    lockstep_index* const index = make_index("i");
    constexpr int kThreads = 40, kTransfers = 10;
    std::vector<std::thread> threads;
    for (int n = 0; n < kThreads; ++n)
        threads.emplace_back([&, n] {
            const std::string key = "thread " + std::to_string(n);
            for (int i = 0; i < kTransfers; ++i) {
                lockstep_txn* txn = nullptr;
                ASSERT_EQ(lockstep_begin(store, nullptr, &txn, nullptr), LOCKSTEP_OK);
                bool found = false;
                int value = 0;
                ASSERT_EQ(
                    lockstep_get(txn, index, lockstep_text(key.c_str()), LOCKSTEP_ACCESS_WRITE,
                                 &value, sizeof value, nullptr, &found, nullptr),
                    LOCKSTEP_OK);
                ++value;
                ASSERT_EQ(lockstep_put(txn, index, lockstep_text(key.c_str()),
                                       lockstep_bytes(&value, sizeof value), nullptr),
                          LOCKSTEP_OK);
                ASSERT_EQ(lockstep_commit(txn, nullptr, nullptr), LOCKSTEP_OK);
            }
        });
    for (auto& thread : threads) thread.join();
    lockstep_txn* txn = nullptr;
    ASSERT_C(lockstep_begin(store, nullptr, &txn, &error));
    lockstep_cursor* cursor = nullptr;
    ASSERT_C(lockstep_scan(txn, index, {}, {}, LOCKSTEP_ACCESS_READ, &cursor, &error));
    lockstep_slice value = {};
    bool found = true;
    int records = 0;
    for (;; ++records) {
        ASSERT_C(lockstep_cursor_next(cursor, nullptr, &value, nullptr, &found, &error));
        if (!found) break;
        EXPECT_EQ(*static_cast<const int*>(value.data), kTransfers);
    }
    EXPECT_EQ(records, kThreads);
    // close() rolls the session back that is open.
    ASSERT_C(lockstep_close(store, &error));
    EXPECT_EQ(lockstep_commit(txn, nullptr, &error), LOCKSTEP_TXN_ENDED);
    EXPECT_EQ(lockstep_close(store, &error), LOCKSTEP_STORE_CLOSED);
    store = nullptr;
}

// The process runs out of generations of one place in the table of handles (HA-3).
TEST_F(CSession, PlacesOfHandlesAreUsedUp) {
    const auto place = [](lockstep_txn* txn) { return c::number_of(txn) % (1u << 24); };
    lockstep_txn* txn = nullptr;
    ASSERT_C(lockstep_begin(store, nullptr, &txn, &error));
    const uint64_t first = place(txn);
    c::HandleEntry* const entry = c::entry_of(txn, c::Kind::txn);
    ASSERT_C(lockstep_abort(txn, &error));
    entry->generation = (uint64_t{1} << 35) - 3;
    for (int n = 0; n < 6; ++n) {
        ASSERT_C(lockstep_begin(store, nullptr, &txn, &error));
        EXPECT_EQ(place(txn) == first, n < 2);
        ASSERT_C(lockstep_abort(txn, &error));
    }
}

TEST_F(CSession, OneCallOfASessionAtATime) {
    lockstep_index* const index = make_index("i");
    lockstep_txn *holder = nullptr, *waiter = nullptr;
    ASSERT_C(lockstep_begin(store, nullptr, &holder, &error));
    ASSERT_C(lockstep_begin(store, nullptr, &waiter, &error));
    ASSERT_C(lockstep_put(holder, index, lockstep_text("k"), {}, &error));
    std::thread blocked([&] {
        EXPECT_EQ(lockstep_put(waiter, index, lockstep_text("k"), {}, nullptr), LOCKSTEP_OK);
    });
    const auto waits = [](void* arg, const lockstep_transaction_info* info) {
        if (std::string(info->state) == "lock_wait") *static_cast<uint64_t*>(arg) = info->id;
        return true;
    };
    uint64_t id = 0;
    while (id == 0) ASSERT_C(lockstep_transactions(store, waits, &id, &error));
    EXPECT_EQ(lockstep_abort(waiter, &error), LOCKSTEP_WRONG_THREAD);
    ASSERT_C(lockstep_commit(holder, nullptr, &error));
    blocked.join();
    ASSERT_C(lockstep_commit(waiter, nullptr, &error));
}

// An operation on an index, or on a heap if `index` is null.
lockstep_operation operation(int kind, lockstep_index* index, const char* key = nullptr,
                             const char* value = nullptr) {
    lockstep_operation o = {};
    o.kind = kind;
    o.index = index;
    o.key = lockstep_text(key);
    o.value = lockstep_text(value);
    return o;
}

TEST_F(CSession, Batches) {
    lockstep_index* const index = make_index("i");
    lockstep_heap* const heap = make_heap("h");
    char value[8] = {};
    lockstep_operation ops[6] = {};
    ops[0] = operation(LOCKSTEP_OP_INSERT, index, "k", "abc");
    ops[1] = operation(LOCKSTEP_OP_PATCH, index, "k", "B");
    ops[1].offset = 1;
    ops[2] = operation(LOCKSTEP_OP_GET, index, "k");
    ops[2].buffer = value;
    ops[2].room = sizeof value;
    ops[3] = operation(LOCKSTEP_OP_HEAP_INSERT, nullptr, nullptr, "record");
    ops[3].heap = heap;
    ops[4] = operation(LOCKSTEP_OP_UPDATE, index, "none");
    ops[5] = operation(LOCKSTEP_OP_ERASE, index, "none");
    lockstep_request request;
    lockstep_request_init(&request, sizeof request);
    request.store = store;
    request.operations = ops;
    request.count = 6;
    request.end = LOCKSTEP_END_COMMIT;
    request.error = &error;
    ASSERT_C(lockstep_batch(&request));
    EXPECT_EQ(request.performed, 6u);
    EXPECT_NE(request.lsn, 0u);
    EXPECT_STREQ(value, "aBc");
    EXPECT_TRUE(ops[2].found && ops[2].bytes == 3 && !ops[4].found && !ops[5].found);

    // The first error ends it, and rolls a whole transaction back.
    lockstep_operation more[2] = {};
    more[0] = operation(LOCKSTEP_OP_PUT, index, "lost");
    more[1] = ops[0];
    request.operations = more;
    request.count = 2;
    EXPECT_EQ(lockstep_batch(&request), LOCKSTEP_DUPLICATE_KEY);
    EXPECT_TRUE(request.performed == 1 && more[1].code == LOCKSTEP_DUPLICATE_KEY);

    // Begin with operations, go on, commit.
    more[0] = operation(LOCKSTEP_OP_HEAP_GET, nullptr);
    more[0].heap = heap;
    more[0].id = ops[3].id;
    more[0].buffer = value;
    more[0].room = sizeof value;
    request.count = 1;
    request.end = LOCKSTEP_END_KEEP;
    ASSERT_C(lockstep_batch(&request));
    ASSERT_NE(request.txn, nullptr);
    EXPECT_EQ(std::string(value, 6), "record");
    EXPECT_EQ(value_of(request.txn, index, "lost"), "none");
    more[0].kind = LOCKSTEP_OP_HEAP_UPDATE;
    more[1] = more[0];
    more[1].kind = LOCKSTEP_OP_HEAP_ERASE;
    request.count = 2;
    request.end = LOCKSTEP_END_ABORT;
    ASSERT_C(lockstep_batch(&request));
    EXPECT_EQ(request.txn, nullptr);
    more[0].kind = 99;
    EXPECT_EQ(lockstep_batch(&request), LOCKSTEP_BAD_ARGUMENT);
}

// A value that does not fit ends the request before what follows is done.
TEST_F(CSession, GetsOfWholeValues) {
    lockstep_index* const index = make_index("i");
    lockstep_heap* const heap = make_heap("h");
    char value[8] = {};
    lockstep_operation ops[3] = {};
    ops[0] = operation(LOCKSTEP_OP_PUT, index, "k", "four");
    ops[1] = operation(LOCKSTEP_OP_HEAP_INSERT, nullptr, nullptr, "record");
    ops[1].heap = heap;
    lockstep_request request;
    lockstep_request_init(&request, sizeof request);
    request.store = store;
    request.operations = ops;
    request.count = 2;
    request.end = LOCKSTEP_END_COMMIT;
    request.error = &error;
    ASSERT_C(lockstep_batch(&request));

    lockstep_operation gets[4] = {};
    gets[0] = operation(LOCKSTEP_OP_GET_WHOLE, index, "none");
    gets[1] = operation(LOCKSTEP_OP_GET_WHOLE, index, "k");
    gets[2] = operation(LOCKSTEP_OP_HEAP_GET_WHOLE, nullptr);
    gets[2].heap = heap;
    gets[2].id = ops[1].id;
    gets[3] = operation(LOCKSTEP_OP_PUT, index, "behind", "v");
    request.operations = gets;
    request.count = 4;
    EXPECT_EQ(lockstep_batch(&request), LOCKSTEP_VALUE_TOO_LONG);
    EXPECT_TRUE(request.performed == 1 && gets[1].found && gets[1].bytes == 4);
    for (lockstep_operation* get : {&gets[1], &gets[2]}) {
        get->buffer = value;
        get->room = 4;
    }
    EXPECT_EQ(lockstep_batch(&request), LOCKSTEP_VALUE_TOO_LONG);
    EXPECT_TRUE(request.performed == 2 && gets[2].found && gets[2].bytes == 6);
    gets[2].room = sizeof value;
    ASSERT_C(lockstep_batch(&request));
    EXPECT_EQ(std::string(value, 6), "record");
    EXPECT_FALSE(gets[0].found);

    // In an open transaction the operations before the refused one stay.
    gets[2].room = 1;
    request.end = LOCKSTEP_END_KEEP;
    lockstep_txn* txn = nullptr;
    ASSERT_C(lockstep_begin(store, nullptr, &txn, &error));
    request.txn = txn;
    request.store = nullptr;
    EXPECT_EQ(lockstep_batch(&request), LOCKSTEP_VALUE_TOO_LONG);
    gets[2].room = sizeof value;
    request.operations = gets + 2;
    request.count = 2;
    ASSERT_C(lockstep_batch(&request));
    ASSERT_C(lockstep_commit(txn, nullptr, &error));
}

// An event loop: requests are told through an eventfd, or by a callback that submits the next one.
TEST_F(CSession, SubmittedRequests) {
    lockstep_index* const index = make_index("i");
    constexpr size_t kRequests = 64;
    const int fd = eventfd(0, EFD_CLOEXEC);
    std::vector<std::string> keys(kRequests);
    std::vector<lockstep_operation> ops(kRequests);
    std::vector<lockstep_request> requests(kRequests);
    for (size_t n = 0; n < kRequests; ++n) {
        keys[n] = "key " + std::to_string(n);
        ops[n] = operation(LOCKSTEP_OP_PUT, index, keys[n].c_str());
        lockstep_request_init(&requests[n], sizeof requests[n]);
        requests[n].store = store;
        requests[n].operations = &ops[n];
        requests[n].count = 1;
        requests[n].end = LOCKSTEP_END_COMMIT;
        requests[n].event_fd = fd;
        ASSERT_EQ(lockstep_submit(&requests[n]), LOCKSTEP_OK);
    }
    for (uint64_t done = 0; done < kRequests;) {
        uint64_t more = 0;
        ASSERT_EQ(read(fd, &more, sizeof more), static_cast<ssize_t>(sizeof more));
        done += more;
    }
    for (const auto& request : requests)
        EXPECT_TRUE(lockstep_request_done(&request) && request.code == 0);
    close(fd);

    // begin, five operations one after the other, and a commit, without a thread that waits.
    struct Chain {
        lockstep_operation op;
        std::atomic<int> left{6}, failed{0};
        std::atomic<bool> over{false};
    } chain;
    chain.op = operation(LOCKSTEP_OP_PUT, index, "chain");
    lockstep_request request;
    lockstep_request_init(&request, sizeof request);
    request.store = store;
    request.operations = &chain.op;
    request.count = 1;
    request.done_arg = &chain;
    request.done = [](void* arg, lockstep_request* r) {
        auto& c = *static_cast<Chain*>(arg);
        if (r->code != 0) c.failed = r->code;
        const int left = --c.left;
        if (left < 0 || r->code != 0) {
            c.over = true;
            return;
        }
        r->end = left == 0 ? LOCKSTEP_END_COMMIT : LOCKSTEP_END_KEEP;
        if (const int code = lockstep_submit(r)) c.failed = code, c.over = true;
    };
    ASSERT_EQ(lockstep_submit(&request), LOCKSTEP_OK);
    while (!chain.over) sleep_for(kMillisecond);
    EXPECT_EQ(chain.failed, 0);
    EXPECT_EQ(request.txn, nullptr);
    EXPECT_NE(request.lsn, 0u);
}

}  // namespace lockstep::c_session_test
