// handle_inl.h - the templates of handle.h.
#pragma once

#include <new>
#include <optional>
#include <type_traits>
#include <utility>

#include <lockstep/no_throw.h>

namespace lockstep {

namespace detail {

// Lies in the room of the task if it fits, else in memory of its own.
template <class T, class F>
class Callback final : Continuation {
public:
    // Gives the task its callback, or calls it if the result is there. May destroy the handle.
    static void give(Shared<Outcome<T>> task, F&& callback) {
        auto* self = new (memory(*task)) Callback(*task, std::move(callback));
        if (!task->follow(*self)) self->proceed();
    }

private:
    Callback(Outcome<T>& task, F&& callback) : task_(task), callback_(std::move(callback)) {}
    ~Callback() = default;

    static constexpr bool fits() {
        return sizeof(Callback) <= Outcome<T>::kRoomBytes &&
               alignof(Callback) <= alignof(Outcome<T>);
    }
    static void* memory(Outcome<T>& task) {
        if constexpr (fits()) return task.room;
        else return ::operator new(sizeof(Callback), std::align_val_t{alignof(Callback)});
    }
    // The thread that calls this keeps the task alive.
    void proceed() noexcept override {
        Outcome<T>& task = task_;
        {
            F callback(std::move(callback_));
            void* const own = this;
            this->~Callback();
            if constexpr (!fits()) ::operator delete(own, std::align_val_t{alignof(Callback)});
            call_no_throw([&] { callback(task.take()); });
        }
    }

    Outcome<T>& task_;
    F callback_;
};

}  // namespace detail

template <class T>
Result<T> Handle<T>::join() {
    if (!task_ || used_) return detail::handle_used_up();
    LOCKSTEP_TRY(task_->wait());
    return std::exchange(task_, {})->take();
}

template <class T>
std::optional<Result<T>> Handle<T>::try_join() {
    if (!task_ || used_) return Result<T>(detail::handle_used_up());
    if (!task_->over()) return std::nullopt;
    return std::exchange(task_, {})->take();
}

template <class T>
bool Handle<T>::ready() const {
    return !task_ || task_->over();
}

template <class T>
Result<void> Handle<T>::started() const {
    if (!task_) return detail::handle_used_up();
    return task_->started;
}

template <class T>
template <class F>
Result<void> Handle<T>::then(F callback) {
    static_assert(std::is_invocable_v<F&, Result<T>>, "then() calls callback(Result<T>)");
    if (!task_ || used_) return detail::handle_used_up();
    used_ = true;
    detail::Callback<T, F>::give(task_, std::move(callback));
    return {};
}

template <class T>
Result<void> Handle<T>::cancel() {
    if (!task_) return detail::handle_used_up();
    return task_->cancel();
}

// After a success the handle may be gone: another thread may have resumed what follows.
template <class T>
bool Handle<T>::follow(detail::Continuation& next) {
    if (!task_ || used_) return false;
    used_ = true;
    if (task_->follow(next)) return true;
    used_ = false;
    return false;
}

}  // namespace lockstep
