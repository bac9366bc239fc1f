// labels: unit tsan
// task_word_test.cc - the end of a task against what follows it and against its cancellation, on
// kernel threads that meet.
#include "threads/sync/task_word.h"

#include <gtest/gtest.h>

#include <atomic>
#include <memory>
#include <thread>

#include "threads/base/hints.h"
#include "threads/runtime/runtime.h"

namespace lockstep::threads::task_word_test {

constexpr int kRounds = 2000;

struct alignas(TaskWord::kAlign) Follower {
    int calls = 0;  // by the thread that calls it
};
struct Shared {
    TaskWord word;
    int result = 0;  // TA-2
    Follower follower;
    std::atomic<int> arrived{0};

    // Both threads leave together, so that they meet.
    void meet() {
        arrived.fetch_add(1);
        while (arrived.load() < 2) std::this_thread::yield();
    }
    void end(int value) {
        result = value;
        if (void* next = word.finish()) ++static_cast<Follower*>(next)->calls;
    }
};

TEST(TaskWord, States) {
    Shared shared;
    EXPECT_FALSE(shared.word.done() || shared.word.cancelled());
    EXPECT_TRUE(shared.word.begin());
    EXPECT_TRUE(shared.word.follow(&shared.follower));
    EXPECT_EQ(shared.word.cancel(), TaskWord::Cancel::pinned);
    EXPECT_EQ(shared.word.cancel(), TaskWord::Cancel::nothing);
    shared.word.unpin();
    EXPECT_TRUE(shared.word.pin());
    shared.word.unpin();
    EXPECT_TRUE(shared.word.cancelled());
    shared.end(1);
    EXPECT_TRUE(shared.word.done());
    EXPECT_FALSE(shared.word.pin());
    EXPECT_EQ(shared.follower.calls, 1);

    // A cancellation whose work could not begin: it may be asked for again.
    Shared refused;
    EXPECT_TRUE(refused.word.begin());
    EXPECT_EQ(refused.word.cancel(), TaskWord::Cancel::pinned);
    refused.word.take_back_cancel();
    EXPECT_FALSE(refused.word.cancelled());
    EXPECT_EQ(refused.word.cancel(), TaskWord::Cancel::pinned);
    refused.word.unpin();
    refused.end(3);

    Shared queued;
    EXPECT_EQ(queued.word.cancel(), TaskWord::Cancel::queued);
    EXPECT_FALSE(queued.word.begin());
    queued.end(2);
    EXPECT_EQ(queued.word.cancel(), TaskWord::Cancel::nothing);
    EXPECT_FALSE(queued.word.follow(&queued.follower));
    EXPECT_EQ(queued.follower.calls, 0);
}

// TA-1, TA-2: exactly one of the two threads goes on, and it sees the result.
TEST(TaskWord, EndMeetsFollow) {
    int by_end = 0, by_follower = 0;
    for (int round = 1; round <= kRounds; ++round) {
        Shared shared;
        bool followed = false;
        std::thread ender([&] {
            shared.meet();
            EXPECT_TRUE(shared.word.begin());
            for (int spins = round % 64; spins > 0; --spins) cpu_relax();
            shared.end(round);
        });
        shared.meet();
        followed = shared.word.follow(&shared.follower);
        if (!followed) {
            EXPECT_EQ(shared.result, round);
        }
        ender.join();
        EXPECT_EQ(shared.follower.calls, followed ? 1 : 0);
        ++(followed ? by_end : by_follower);
    }
    RecordProperty("called by the end", by_end);
    RecordProperty("found the end", by_follower);
}

// A waiter on the follower's own stack, which goes as soon as it was called.
TEST(TaskWord, WhatFollowsMayGoAtOnce) {
    for (int round = 0; round < kRounds; ++round) {
        struct alignas(TaskWord::kAlign) Waiter {
            std::atomic<bool> called{false};
        };
        const auto word = std::make_shared<TaskWord>();
        int result = 0;
        std::thread ender([word, &result, round] {
            word->begin();
            result = round;
            if (void* next = word->finish()) static_cast<Waiter*>(next)->called = true;
        });
        {
            Waiter waiter;
            if (word->follow(&waiter))
                while (!waiter.called.load()) std::this_thread::yield();
        }
        EXPECT_EQ(result, round);
        ender.join();
    }
}

// TA-3: a task does not end while it is pinned, from cancel() or from pin().
TEST(TaskWord, EndMeetsCancel) {
    auto runtime = *Runtime::start({.workers = 2});
    for (int round = 0; round < kRounds; ++round) {
        struct Task {
            TaskWord word;
            Follower follower;
            std::atomic<bool> used{false}, ended{false};
            std::atomic<int> left{2};
            int alive = 1;  // what lives as long as the task: not atomic, the sanitizer watches
        };
        const auto task = std::make_shared<Task>();
        ASSERT_TRUE(runtime->spawn(0, "task", [task] {
            const bool wanted = task->word.begin();
            if (wanted) yield();
            (void)task->word.finish();
            EXPECT_FALSE(task->used.load());
            task->alive = 0;
            task->ended = true;
            --task->left;
        }));
        ASSERT_TRUE(runtime->spawn(1, "canceller", [task] {
            if (task->word.cancel() == TaskWord::Cancel::pinned) {
                do {
                    task->used = true;
                    EXPECT_EQ(task->alive, 1);
                    task->used = false;
                    task->word.unpin();
                } while (task->word.pin());
            }
            --task->left;
        }));
        while (task->left.load() != 0) std::this_thread::yield();
        EXPECT_TRUE(task->ended && task->word.cancelled() == task->word.cancelled());
    }
    runtime->stop();
}

}  // namespace lockstep::threads::task_word_test
