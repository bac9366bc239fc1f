// task.cc - the end of a function on a user thread, what follows it, and its cancellation
// (handle.h). The protocol is in threads/sync/task_word.h.
#include <lockstep/handle.h>

#include <algorithm>

#include "sm/engine/engine.h"
#include "sm/observe/txn_watch.h"
#include "threads/base/error_detail.h"
#include "threads/sync/completion.h"
#include "threads/sync/task_word.h"
#include "threads/thread/between_calls.h"

namespace lockstep {
namespace detail {

namespace {

static_assert(alignof(Continuation) == threads::TaskWord::kAlign);

constexpr Nanos kCancelPause = 1 * kMillisecond, kCancelPauseMax = 10 * kMillisecond;

// A thread that waits in join().
class Joiner final : public Continuation {
public:
    void proceed() noexcept override { done_.set(); }
    void wait() { done_.wait(); }

private:
    threads::Completion done_;
};

}  // namespace

struct Task::State {
    threads::TaskWord word;
    const threads::ForkMark mark = {};
    // Written by the task's thread before it begins. The engine lives until the task is done.
    sm::Engine* engine = nullptr;
    uint32_t worker = 0;
    uint64_t thread = 0;
    uint32_t owners = 1;

    void end_transactions();
};

Task::Task() : state_(new State) {}
Task::~Task() = default;

void Task::run(Job& job, sm::Engine& engine) {
    const Owned<Job> owner(&job);
    Task& task = job.task;
    State& state = *task.state_;
    threads::Thread* self = threads::current();
    DCHECK(self != nullptr && self->task == nullptr && self->latch_depth == 0);
    DCHECK(state.engine == nullptr && engine.on_own_thread());  // a job runs once
    self->task = &task;
    state.engine = &engine;
    state.worker = threads::worker_index();
    state.thread = self->id;
    const bool wanted = state.word.begin();
    job.call(!wanted);
    DCHECK(threads::current() == self && self->task == &task);
    self->task = nullptr;
    task.finish();
}

void Task::finish() {
    DCHECK(!done());
    if (void* next = state_->word.finish()) static_cast<Continuation*>(next)->proceed();
}

bool Task::done() const { return state_->word.done(); }
bool Task::over() const { return done() || state_->mark.forked(); }
bool Task::cancelled() const { return state_->word.cancelled(); }
bool Task::follow(Continuation& next) { return !over() && state_->word.follow(&next); }

Result<void> Task::wait() {
    const threads::Thread* const self = threads::current();
    if (self != nullptr && self->task == this) [[unlikely]]
        return fail_with(ErrorCode::bad_argument, "join()",
                         "the function joins its own handle, and would wait for its own end");
    const threads::BetweenCalls waits;
    Joiner joiner;
    if (follow(joiner)) joiner.wait();
    DCHECK(over());
    return {};
}

// Ends the transactions of the task's thread until the task has ended: a loop begins the next one.
// Runs on the worker of that thread (TW-1). cancel() has pinned the word.
void Task::State::end_transactions() {
    DCHECK(worker == threads::worker_index() && engine != nullptr);
    DCHECK(word.cancelled() && threads::current()->task == nullptr);
    Nanos pause = kCancelPause;
    do {
        engine->watch->cancel_thread(thread);
        word.unpin();
        threads::sleep_until(threads::now() + pause);
        pause = std::min(2 * pause, kCancelPauseMax);
    } while (word.pin());
}

// The new thread is none of the application's. So it also starts during close(), which waits for
// the task.
Result<void> Task::cancel() {
    State& state = *state_;
    if (state.mark.forked() && !done())
        return fail(ErrorCode::forked, "handle of the parent process");
    if (state.word.cancel() != threads::TaskWord::Cancel::pinned) return {};
    DCHECK(!done() && state.engine != nullptr);  // TA-3
    DCHECK(state.worker < state.engine->runtime->workers());
    const auto started = state.engine->runtime->spawn(
        state.worker, "cancel", [shared = state_] { shared->end_transactions(); });
    if (started) return {};
    state.word.take_back_cancel();
    return std::unexpected(started.error());
}

Unexpected cancelled_before() { return fail(ErrorCode::cancelled, "function, before it began"); }
Unexpected handle_used_up() {
    return fail(ErrorCode::bad_argument, "handle has no result to give, or gave it already");
}

}  // namespace detail

bool cancel_requested() {
    const threads::Thread* self = threads::current();
    return self != nullptr && self->task != nullptr &&
           static_cast<const detail::Task*>(self->task)->cancelled();
}

}  // namespace lockstep
