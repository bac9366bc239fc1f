// between_calls.h - says of a user thread that it waits outside the operations of transactions.
//
// Concepts   A transaction whose thread sleeps in the application's code can be rolled back by
//            another user thread of the same worker: user threads of one worker never run at the
//            same time. It cannot while its thread is inside an operation. The few calls that wait
//            for the application say so here. The operations therefore say nothing, which would
//            cost each of them two stores.
//            An operation that calls a function of the application says so by InCallback: it is
//            not ended in the middle. modify() and modify_many() save these instructions. They
//            hold nothing while they call, and look afterwards whether the transaction still lives.
// Invariants BC-1 between_calls is true only while the thread is switched out below a
//                 BetweenCalls, and no callback of an operation is on its stack but that of
//                 modify() or modify_many().
//                 [test: TxnWatchTest.ACallbackThatSleepsIsInsideItsOperation]
#pragma once

#include <utility>

#include "threads/thread/thread.h"

namespace lockstep::threads {

// While it lives, the current user thread waits for the application: it sleeps, yields, joins.
// Does nothing on a foreign kernel thread.
class BetweenCalls {
public:
    BetweenCalls() : thread_(current()) {
        if (thread_) before_ = std::exchange(thread_->between_calls, thread_->callbacks == 0);
    }
    ~BetweenCalls() {
        DCHECK(thread_ == current());
        if (thread_) thread_->between_calls = before_;
    }
    BetweenCalls(const BetweenCalls&) = delete;
    BetweenCalls& operator=(const BetweenCalls&) = delete;

private:
    Thread* const thread_;
    bool before_ = false;
};

// While it lives, an operation calls a function of the application. What that function waits for
// is a wait inside the operation.
class InCallback {
public:
    explicit InCallback(uint32_t weight = 1) : thread_(current()), weight_(weight) {
        if (thread_) thread_->callbacks += weight_;
    }
    ~InCallback() {
        DCHECK(thread_ == current() && (thread_ == nullptr || thread_->callbacks >= weight_));
        if (thread_) thread_->callbacks -= weight_;
    }
    InCallback(const InCallback&) = delete;
    InCallback& operator=(const InCallback&) = delete;

private:
    Thread* const thread_;
    const uint32_t weight_;
};

// The weight of a callback that must not call the store, see sm/secondary/key_call.h.
// Thread::callbacks is below it while no such callback is on the stack of the thread.
constexpr uint32_t kMustNotCallStore = 1u << 16;

}  // namespace lockstep::threads
