// store_inl.h - the templates of store.h: functions on user threads of their own.
#pragma once

#include <memory>
#include <optional>
#include <utility>

namespace lockstep {

template <class F>
auto Store::start(F fn, int worker) -> Handle<detail::value_of<F&>> {
    using T = detail::value_of<F&>;
    struct Call final : detail::Job {
        Call(F&& f, std::shared_ptr<detail::Outcome<T>> outcome)
            : detail::Job(std::move(outcome)), fn(std::move(f)) {}
        void call(bool cancelled) override {
            auto& result = static_cast<detail::Outcome<T>&>(*task).result;
            if (cancelled) result.emplace(detail::cancelled_before());
            else result.emplace((*fn)());
            fn.reset();
        }
        std::optional<F> fn;
    };
    Handle<T> handle;
    handle.task_ = std::make_shared<detail::Outcome<T>>();
    detail::Outcome<T>& task = *handle.task_;
    task.started = start_thread(std::make_unique<Call>(std::move(fn), handle.task_), worker);
    if (!task.started) {
        task.result.emplace(Unexpected(task.started.error()));
        task.finish();
    }
    return handle;
}

}  // namespace lockstep
