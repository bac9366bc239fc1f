// store_inl.h - the templates of store.h: handles, and functions on user threads of their own.
#pragma once

#include <memory>
#include <optional>
#include <utility>

namespace lockstep {

template <class T>
struct Handle<T>::State {
    detail::Task task;
    std::optional<Result<T>> result;  // set before task.finish()
    Result<void> started;             // set by start() alone
};

template <class T>
Result<void> Handle<T>::started() const {
    if (!state_) return fail(ErrorCode::bad_argument, "handle was joined already");
    return state_->started;
}

template <class T>
Result<T> Handle<T>::join() {
    if (!state_) return fail(ErrorCode::bad_argument, "handle was joined already");
    const auto state = std::exchange(state_, nullptr);
    if (!state->task.wait()) return fail(ErrorCode::forked, "handle of the parent process");
    return std::move(*state->result);
}

template <class F>
auto Store::start(F fn, int worker) -> Handle<detail::value_of<F&>> {
    using T = detail::value_of<F&>;
    Handle<T> handle;
    handle.state_ = std::make_shared<typename Handle<T>::State>();
    struct Call final : detail::Job {
        Call(F&& f, std::shared_ptr<typename Handle<T>::State> s)
            : fn(std::move(f)), state(std::move(s)) {}
        void run() override {
            state->result.emplace(fn());
            state->task.finish();
        }
        F fn;
        std::shared_ptr<typename Handle<T>::State> state;
    };
    handle.state_->started =
        start_thread(std::make_unique<Call>(std::move(fn), handle.state_), worker);
    if (const Result<void>& started = handle.state_->started; !started) {
        handle.state_->result.emplace(Unexpected(started.error()));
        handle.state_->task.finish();
    }
    return handle;
}

}  // namespace lockstep
