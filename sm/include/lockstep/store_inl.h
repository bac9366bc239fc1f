// store_inl.h - the templates of store.h: functions on user threads of their own.
#pragma once

#include <optional>
#include <utility>

namespace lockstep {

template <class F>
auto Store::start(F fn, int worker) -> Handle<detail::value_of<F&>> {
    using T = detail::value_of<F&>;
    struct Call final : detail::Job {
        Call(F&& f, const detail::Shared<detail::Outcome<T>>& o)
            : detail::Job(*o), fn(std::move(f)), outcome(o) {}
        void call(bool cancelled) override {
            if (cancelled) outcome->result.emplace(detail::cancelled_before());
            else outcome->result.emplace(outcome->thrown.call(*fn));
            fn.reset();
        }
        std::optional<F> fn;
        const detail::Shared<detail::Outcome<T>> outcome;
    };
    Handle<T> handle;
    handle.task_ = detail::Shared(new detail::Outcome<T>);
    detail::Outcome<T>& task = *handle.task_;
    detail::Owned<detail::Job> job(new Call(std::move(fn), handle.task_));
    task.started = start_thread(std::move(job), worker);
    if (!task.started) {
        task.result.emplace(Unexpected(task.started.error()));
        task.finish();
    }
    return handle;
}

}  // namespace lockstep
