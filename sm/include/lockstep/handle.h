// handle.h - the result to come of a function on a user thread: wait for it, be called with it, or
// cancel the function.
//
// Concepts   Store::start() and spawn() return a handle. Its result goes to one place: join() waits
//            for it, try_join() asks for it, then() has a callback called with it, and `co_await`
//            of coroutine.h resumes a coroutine with it.
//            The callback of then() runs once. While the function runs, its user thread calls the
//            callback next, on the same stack (Options::stack_bytes). If the result is already
//            there, then() calls the callback before it returns. No lock of the store is held.
//            In both cases the function and what it captured are destroyed before.
//            A callback may therefore do what every function on a user thread may do: call the
//            store, start() more work, suspend. It must not block its kernel thread, and nothing
//            may throw out of it (std::terminate). If the function threw, then() has no result to
//            give: std::terminate as well. Called by then() on a foreign kernel thread, its
//            waits block that thread. So a callback for an event loop only hands the result on.
// close()    Store::close() lets all functions end, also those that have not begun, and waits for
//            their callbacks. A callback that calls close() on a user thread gets wrong_thread.
//            start() in a callback returns store_closed from then on, and so does its handle.
// Failures   When the store fails, functions get store_failed from their calls and end; callbacks
//            are called with what the functions return. In the child of a fork() results never
//            come: join(), try_join() and then() give the error forked at once, unless the result
//            was there before. A callback that was given before the fork() is the parent's.
// Exceptions An exception that leaves the function comes out of join(), try_join() or `co_await`. A
//            handle that is destroyed drops it, as it drops an error.
// Blocking   join() alone. Calls on one handle must not overlap. A handle may be moved and
//            destroyed at any time; neither changes what happens to function and callback.
#pragma once

#include <cstddef>
#include <optional>
#include <type_traits>
#include <utility>

#include <lockstep/owned.h>
#include <lockstep/packet.h>
#include <lockstep/result.h>
#include <lockstep/thrown.h>

namespace lockstep {

namespace sm {
class Engine;
}

namespace detail {
// What comes next when a task has ended. The alignment leaves room for flags in its address.
class alignas(16) Continuation {
public:
    Continuation() = default;
    Continuation(const Continuation&) = delete;
    Continuation& operator=(const Continuation&) = delete;
    // Called once, when the result is there, with no lock held. May destroy the object.
    virtual void proceed() noexcept = 0;

protected:
    ~Continuation() = default;
};

struct Job;

// One function on a user thread, from start() to its end; shared by the thread and the handle.
class Task {
public:
    Task();
    Task(const Task&) = delete;
    Task& operator=(const Task&) = delete;
    ~Task();
    // Of the user thread: runs the job, then what follows, and destroys the job.
    static void run(Job& job, sm::Engine& engine);
    // The result is there: calls what follows.
    void finish();
    // The result is there.
    bool done() const;
    // The result is there, or this is the child of a fork() and it never will be.
    bool over() const;
    // Has `next` called at the end. False if the task is over(): `next` is not called.
    bool follow(Continuation& next);
    // Suspends a user thread and blocks any other until the task is over(). Error: bad_argument in
    // the function of the task itself, whose end would never come.
    Result<void> wait();
    bool cancelled() const;
    Result<void> cancel();

private:
    struct State;

    Shared<State> state_;  // also of the thread that cancels
};

// The function of start() as a packet. Once submitted it owns itself.
struct Job : threads::Packet {
    explicit Job(Task& t) : task(t) {}
    virtual ~Job() = default;
    // Calls the function, unless it was cancelled before; sets the result; destroys the function.
    virtual void call(bool cancelled) = 0;
    void run() final { Task::run(*this, *engine); }
    void dropped() final { delete this; }

    Task& task;  // lives as long as the job
    sm::Engine* engine = nullptr;
};

[[gnu::cold]] Unexpected cancelled_before();
[[gnu::cold]] Unexpected handle_used_up();

// A task with its result.
template <class T>
struct Outcome final : Task {
    // In the child of a fork() the result may be half written.
    Result<T> take() {
        if (!done()) return fail(ErrorCode::forked, "handle of the parent process");
        thrown.rethrow();
        return std::move(*result);
    }
    std::optional<Result<T>> result;  // set before finish()
    Thrown thrown;                    // the same: what left the function instead of a result
    Result<void> started;             // set by start() alone
    // A callback that fits lies here, so that then() allocates nothing.
    static constexpr size_t kRoomBytes = 96;
    alignas(Continuation) std::byte room[kRoomBytes];
    uint32_t owners = 1;  // handle and job
};

template <class T, class F>
class Callback;
template <class T>
class Awaiter;

}  // namespace detail

// The result to come of something that runs on a user thread. Movable. A handle that is destroyed
// drops the result, unless then() has given it a callback; the thread goes on.
template <class T>
class Handle {
public:
    // Without a result: every call returns bad_argument.
    Handle() = default;
    Handle(Handle&&) noexcept = default;
    Handle& operator=(Handle&&) noexcept = default;

    // Waits for the end and gives the result, once; a second call returns bad_argument, and so does
    // a call after then(). So does the function itself, whose end would never come: its handle
    // stays as it is. Suspends a user thread, blocks any other. Error in the child of a fork():
    // forked, if the end came later.
    Result<T> join();
    // join() if it need not wait, else empty. Never blocks.
    std::optional<Result<T>> try_join();
    // Whether the result is there, or the handle has none to give. Never blocks.
    bool ready() const;
    // Whether the thread was started. Never blocks. Its errors are those of Store::start(); join()
    // then returns the same error at once, and the function was destroyed without a call. After
    // join(): bad_argument.
    Result<void> started() const;

    // Calls callback(Result<T>) once with the result: on the function's user thread when it ends,
    // or before then() returns if the result is there. The leading comment says what it may do.
    // Never blocks by itself. `callback` is moved; it is destroyed before or after its call, but
    // before the user thread ends. Allocates only for callbacks above 80 bytes. Error: bad_argument
    // after then() or join(); the callback was destroyed without a call.
    template <class F>
    Result<void> then(F callback);

    // Asks the function to end; its result stays to be taken. A function that has not begun never
    // begins: it is destroyed, and the result is the error cancelled. Of one that runs, the store
    // ends each transaction, now or begun later: its next call, or its wait for a lock, returns
    // cancelled, as for Store::end_transaction(). That takes some milliseconds, so a short
    // transaction may still commit. The function itself decides how it goes on; outside
    // transactions it asks cancel_requested(). Other waits, as for a channel, go on. Never blocks.
    // No effect if the function has ended. Errors: bad_argument after join(), forked;
    // out_of_memory if the transactions cannot be ended: as if the call had not been made.
    Result<void> cancel();

private:
    friend class Store;
    friend class detail::Awaiter<T>;
    bool follow(detail::Continuation& next);

    detail::Shared<detail::Outcome<T>> task_;
    bool used_ = false;  // the result goes to a continuation
};

// Whether Handle::cancel() was called for the function that the calling user thread runs. False in
// callbacks of then(), in run() from a foreign kernel thread, and on foreign kernel threads. Never
// blocks.
bool cancel_requested();

}  // namespace lockstep

#include <lockstep/handle_inl.h>
