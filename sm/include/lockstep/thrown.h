// thrown.h - brings an exception from the function of a user thread to the caller of run() or
// join().
#pragma once

#include <exception>
#include <string_view>
#include <type_traits>
#include <utility>

#include <lockstep/result.h>

namespace lockstep::detail {

// An exception that has left a function of the application, or none.
class Thrown {
public:
    // Calls f() -> Result<T>. Keeps its exception, and then returns an error. The error is
    // txn_aborting, so Store::run() repeats a deadlock victim that reported the deadlock by an
    // exception. The handler has ended before anything can suspend: the C++ runtime keeps the
    // exceptions in handlers by kernel thread.
    template <class F>
    std::invoke_result_t<F&> call(F&& f) {
#ifdef __cpp_exceptions
        exception_ = nullptr;
        try {
            return f();
        } catch (...) {
            exception_ = std::current_exception();
        }
        return fail(ErrorCode::txn_aborting, kWhat);
#else
        return f();
#endif
    }
    // Whether call() has made the error. Otherwise a later attempt of run() has failed before it
    // called its function, and the kept exception is one that run() has recovered from.
    static bool is_exception(const Error& error) {
        return error.code == ErrorCode::txn_aborting && error.what == std::string_view(kWhat);
    }
    // Throws what was kept, once.
    void rethrow() {
        if (exception_) [[unlikely]]
            std::rethrow_exception(std::exchange(exception_, nullptr));
    }

private:
    static constexpr const char* kWhat = "exception";
    std::exception_ptr exception_;
};

}  // namespace lockstep::detail
