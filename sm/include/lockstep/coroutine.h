// coroutine.h - co_await on the handles of Store::start() and spawn(), in any C++20 coroutine.
//
// Concepts   `co_await handle` gives the Result<T> of the handle. If it is there already, the
//            coroutine goes on at once. Else it is suspended, and the user thread of the function
//            resumes it at its end, as the callback of Handle::then() (handle.h): the coroutine
//            then runs on a worker and must not block it. `co_await resume_on(handle, executor)`
//            resumes it where the executor runs what it is given: in an event loop, a thread pool.
//            The library makes no coroutine itself and starts no thread for one. `co_await` takes
//            the result: one coroutine can await a handle, once.
// Compiler   If a lambda stands inside a co_await expression, g++ 12 destroys twice what it
//            captures by an initialiser, as [s = text()]. Call start() in a statement before it.
// Blocking   Never. Nothing is allocated: the coroutine's frame holds what the task needs.
#pragma once

#include <lockstep/handle.h>

#include <coroutine>
#include <utility>

// LOCKSTEP_TRY for a coroutine whose result is a Result. LOCKSTEP_CO_TRY(int n, co_await handle)
// declares `n` with the value; on an error, co_return of the error. A statement and no operand: g++
// 12 cannot compile a `co_await` inside a statement expression.
#define LOCKSTEP_CO_TRY(declaration, ...) LOCKSTEP_CO_TRY_AS_(__COUNTER__, declaration, __VA_ARGS__)
// The same for a Result<void>, which has no value.
#define LOCKSTEP_CO_TRY_VOID(...) LOCKSTEP_CO_TRY_VOID_AS_(__COUNTER__, __VA_ARGS__)
#define LOCKSTEP_CO_TRY_AS_(number, declaration, ...) \
    LOCKSTEP_CO_TRY_NAMED_(number, declaration, __VA_ARGS__)
#define LOCKSTEP_CO_TRY_NAMED_(number, declaration, ...) \
    LOCKSTEP_CO_TRY_VOID_NAMED_(number, __VA_ARGS__)     \
    declaration = ::lockstep::detail::take(try_result_##number)
#define LOCKSTEP_CO_TRY_VOID_AS_(number, ...) LOCKSTEP_CO_TRY_VOID_NAMED_(number, __VA_ARGS__)
#define LOCKSTEP_CO_TRY_VOID_NAMED_(number, ...)       \
    auto try_result_##number = (__VA_ARGS__);          \
    if (!try_result_##number.has_value()) [[unlikely]] \
        co_return ::lockstep::Unexpected(try_result_##number.error());

namespace lockstep {

// Resumes a suspended coroutine on the calling thread. An executor gets one, and must call it or a
// copy of it once; a coroutine whose Resume is dropped stays suspended. A pointer in size.
class Resume {
public:
    // Of a coroutine that is suspended.
    explicit Resume(std::coroutine_handle<> coroutine) : coroutine_(coroutine) {}
    // Returns when the coroutine suspends again or ends.
    void operator()() const { coroutine_.resume(); }

private:
    std::coroutine_handle<> coroutine_;
};

namespace detail {

// What co_await of a handle waits with; it lies in the frame of the coroutine.
template <class T>
class Awaiter : protected Continuation {
public:
    Result<T> await_resume() {
        if (suspended_) handle_.used_ = false;
        return handle_.join();
    }

protected:
    explicit Awaiter(Handle<T>& handle) : handle_(handle) {}
    ~Awaiter() = default;
    bool is_ready() const { return handle_.ready(); }
    // After a success another thread may have resumed the coroutine, and this object may be gone.
    bool suspend(std::coroutine_handle<> coroutine) {
        coroutine_ = coroutine;
        suspended_ = true;
        if (handle_.follow(*this)) return true;
        suspended_ = false;
        return false;
    }

    std::coroutine_handle<> coroutine_;

private:
    Handle<T>& handle_;
    bool suspended_ = false;  // and the handle's result is reserved for the coroutine
};

template <class T>
class DirectAwaiter final : public Awaiter<T> {
public:
    explicit DirectAwaiter(Handle<T>& handle) : Awaiter<T>(handle) {}
    bool await_ready() const { return this->is_ready(); }
    bool await_suspend(std::coroutine_handle<> coroutine) { return this->suspend(coroutine); }

private:
    void proceed() noexcept override { this->coroutine_.resume(); }
};

template <class T, class Executor>
class ExecutorAwaiter final : public Awaiter<T> {
public:
    ExecutorAwaiter(Handle<T>& handle, Executor&& executor)
        : Awaiter<T>(handle), executor_(std::move(executor)) {}
    bool await_ready() const { return false; }
    void await_suspend(std::coroutine_handle<> coroutine) {
        if (!this->suspend(coroutine)) proceed();
    }

private:
    // The executor may resume the coroutine, and end this object, before its call returns.
    void proceed() noexcept override {
        const std::coroutine_handle<> coroutine = this->coroutine_;
        Executor executor(std::move(executor_));
        executor(Resume(coroutine));
    }
    Executor executor_;
};

}  // namespace detail

// Awaits the result of a handle, which must live until then. A temporary does: co_await
// store.spawn(...). Errors in the result: join()'s.
template <class T>
auto operator co_await(Handle<T>& handle) {
    return detail::DirectAwaiter<T>(handle);
}
// The same.
template <class T>
auto operator co_await(Handle<T>&& handle) {
    return detail::DirectAwaiter<T>(handle);
}

// The same, but the coroutine always goes on where `executor` runs it, also if the result is there
// already. `executor` is called once with a Resume, on the thread that ends the function or on the
// calling one. It may not block, and nothing may throw out of it. It is moved.
template <class T, class Executor>
auto resume_on(Handle<T>& handle, Executor executor) {
    return detail::ExecutorAwaiter<T, Executor>(handle, std::move(executor));
}
// The same.
template <class T, class Executor>
auto resume_on(Handle<T>&& handle, Executor executor) {
    return detail::ExecutorAwaiter<T, Executor>(handle, std::move(executor));
}

}  // namespace lockstep
