// result.h - errors as values: Error, Result<T>, and LOCKSTEP_TRY to pass an error up.
//
// Three kinds of failure are never mixed. A broken program stops (check.h). An operating failure is
// an Error in a Result. An ordinary outcome ("no such key") is part of the value.
#pragma once

#include <cstdint>
#include <new>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>

#include <lockstep/standard.h>  // keep: it refuses older standards

namespace lockstep {

// clang-format off
#define LOCKSTEP_ERRORS(X) \
    X(io_error, "input/output error") \
    X(no_space, "no space left on the device") \
    X(log_full, "log is full") \
    X(pool_full, "buffer pool has no evictable page") \
    X(out_of_memory, "out of memory") \
    X(corrupt_page, "page is corrupt") \
    X(lost_write, "page is older than its last completed write, which the device has lost") \
    X(corrupt_log, "log is damaged before its durable end") \
    X(corrupt_superblock, "superblock is damaged") \
    X(bad_version, "store has an unknown format version") \
    X(store_failed, "store has failed and accepts no further work") \
    X(store_closed, "store is closed") \
    X(store_locked, "store is already open elsewhere") \
    X(bad_path, "path cannot be used") \
    X(bad_option, "option is out of range") \
    X(bad_argument, "argument is not allowed") \
    X(no_such_object, "no index or heap of that name or number") \
    X(already_exists, "an index or heap of that name exists already") \
    X(wrong_kind, "the named object is of another kind") \
    X(duplicate_key, "key exists already") \
    X(no_such_record, "no such record") \
    X(key_too_long, "key is longer than the limit") \
    X(value_too_long, "value is longer than the limit") \
    X(deadlock, "transaction was chosen as deadlock victim") \
    X(lock_timeout, "lock was not granted in time") \
    X(self_deadlock, "lock is held by another transaction of the same user thread") \
    X(timeout, "time ran out") \
    X(cancelled, "was cancelled") \
    X(txn_ended, "transaction has ended already") \
    X(txn_aborting, "transaction must be rolled back") \
    X(read_only, "transaction is read-only") \
    X(wrong_thread, "called outside the user thread it belongs to") \
    X(too_many, "a limit on concurrent objects is reached") \
    X(rolled_back, "transaction was rolled back at the caller's request") \
    X(unsupported, "not supported here") \
    X(forked, "store belongs to the parent process; open one after fork()") \
    X(ended_by_operator, "transaction was ended by Store::end_transaction()") \
    X(transaction_too_old, "transaction was ended because it was too old") \
    X(not_closed, "store was not closed: open it for writing once, or use a copy that was closed") \
    X(key_function_missing, "a secondary index has no key function in this process") \
    X(index_mismatch, "secondary index does not match the records of its index") \
    X(snapshot_too_old, "versions that the snapshot needs are gone; raise option version_bytes") \
    X(bad_backup, "backup is incomplete, damaged or not one that fits") \
    X(bad_archive, "log archive has a gap, is damaged or is not one that fits") \
    X(archive_failed, "log archive fails, and writers stop until it works (archive_failure)") \
    X(lock_refused, "lock is held by another transaction, and the call does not wait (no_wait)") \
    X(user_error, "error of the application") \
    X(changes_lost, "log that a change feed needs has been recycled")
// clang-format on

// What failed; LOCKSTEP_ERRORS gives the meanings.
enum class ErrorCode : uint16_t {
    none = 0,
#define LOCKSTEP_ERROR_CODE(name, text) name,
    LOCKSTEP_ERRORS(LOCKSTEP_ERROR_CODE)
#undef LOCKSTEP_ERROR_CODE
};

// Name as written in code ("lock_timeout") and one-line meaning. Static strings.
const char* error_name(ErrorCode code);
const char* error_meaning(ErrorCode code);

class Unexpected;

// A small trivially copyable description of an operating failure. `what` is a string literal that
// names the object ("data file", "option pool_bytes"). The code's text explains the numbers a, b
// and c (page, LSN, errno, cycle id ...).
struct Error {
    ErrorCode code = ErrorCode::none;
    int16_t os = 0;  // errno where an operating-system call failed, else 0
    // Number of a longer text that text() includes, else 0. Refused locks have one: object, key,
    // mode, holder, cycle. The process keeps the texts of the last 256 such errors, also after the
    // transaction has ended and the store is closed. The Error owns nothing.
    uint32_t detail = 0;
    const char* what = nullptr;  // static string or null
    uint64_t a = 0;
    uint64_t b = 0;
    uint64_t c = 0;

    // One readable line: name, meaning, object, numbers or longer text, errno text. Keys in it are
    // quoted, cut to 48 bytes, and have \x00 for bytes that are not printable. Allocates. Call it
    // before 256 further errors with a longer text, else that text is lost.
    [[gnu::cold]] std::string text() const;

    // An error of the application, which no call of the store returns by itself: user_error with
    // a = `code`, whose meaning is the application's, and a copy of `text`, cut to 1,000 bytes and
    // kept as `detail` says. A function of Store::run() that returns it is rolled back and not
    // repeated, and run() returns the same. `return Error::user(7, "the account is closed");`
    [[gnu::cold]] static Unexpected user(uint64_t code, std::string_view text);
};
static_assert(std::is_trivially_copyable_v<Error>);

template <class T = void>
class Result;

namespace detail {
template <class U>
inline constexpr bool is_result = false;
template <class T>
inline constexpr bool is_result<Result<T>> = true;
// Holds an Error and nothing else, as std::unexpected<Error> does. Found by its members, because
// <expected> would add 1,000 lines to what a program compiles for each file.
template <class U>
concept HoldsError = !is_result<U> && requires(const U& u) {
    requires std::is_same_v<decltype(u.error()), const Error&>;
} && !requires(const U& u) { u.has_value(); } && std::is_constructible_v<U, const Error&>;
}  // namespace detail

// An error on its way into a Result: what a function returns to fail.
class [[nodiscard]] Unexpected {
public:
    // Holds a copy of the error, which error() gives back.
    constexpr explicit Unexpected(const Error& error) noexcept : error_(error) {}
    constexpr Error& error() noexcept { return error_; }
    constexpr const Error& error() const noexcept { return error_; }
    // To std::unexpected<Error>, for example.
    template <template <class> class U>
        requires detail::HoldsError<U<Error>>
    operator U<Error>() const noexcept {
        return U<Error>(error_);
    }

private:
    Error error_;
};

namespace detail {
template <class U>
inline constexpr bool is_failure = is_result<U> || HoldsError<U>;
// What Result<T>(U) takes as a value.
template <class T, class U>
concept ValueFor = !is_failure<std::remove_cvref_t<U>> && std::is_constructible_v<T, U>;
template <class T>
concept TrivialCopy = std::is_trivially_copyable_v<T> && std::is_copy_constructible_v<T>;
// Each prints a message to stderr and aborts. The program took a value where `error` is, or an
// error where a value is.
[[noreturn, gnu::cold, gnu::noinline]] void stop_without_value(const Error& error);
[[noreturn, gnu::cold, gnu::noinline]] void stop_without_error();
}  // namespace detail

// Value or Error. Its members are those of std::expected, without the monadic ones; its layout is
// the same in every standard. A dropped Result is a compiler warning, in applications too. To drop
// one on purpose, cast it to void. An Error comes in as Unexpected, or as
// std::unexpected<Error> and its like in other libraries.
template <class T>
class [[nodiscard]] Result {
    static_assert(!std::is_reference_v<T> && !std::is_const_v<T> && !std::is_volatile_v<T>);
    static_assert(std::is_object_v<T> && !std::is_array_v<T>);
    static_assert(!detail::is_failure<T>);  // an error is no value

public:
    // What generic code asks for.
    using value_type = T;
    using error_type = Error;

    // Holds a default value, the given value, or the given error.
    Result() noexcept(std::is_nothrow_default_constructible_v<T>)
        requires std::is_default_constructible_v<T>
        : value_(), has_value_(true) {}
    template <class U = T>
        requires detail::ValueFor<T, U>
    explicit(!std::is_convertible_v<U, T>)
        Result(U&& value) noexcept(std::is_nothrow_constructible_v<T, U>)
        : value_(std::forward<U>(value)), has_value_(true) {}
    Result(const Unexpected& failure) noexcept : error_(failure.error()), has_value_(false) {}
    template <detail::HoldsError U>
    Result(const U& failure) noexcept : error_(failure.error()), has_value_(false) {}
    // A Result of another type whose values convert.
    template <class U>
        requires(!std::is_same_v<T, U> && !std::is_void_v<U> && std::is_constructible_v<T, U>)
    explicit(!std::is_convertible_v<U, T>) Result(Result<U> other) : has_value_(other.has_value()) {
        if (has_value_) make_value(std::move(*other));
        else make_error(other.error());
    }
    // Copies and moves what is held. A Result that was moved from still holds its moved-from value.
    Result(const Result&)
        requires detail::TrivialCopy<T>
    = default;
    Result(const Result& other)
        requires(!detail::TrivialCopy<T> && std::is_copy_constructible_v<T>)
        : has_value_(other.has_value_) {
        if (has_value_) make_value(other.value_);
        else make_error(other.error_);
    }
    Result(Result&&)
        requires detail::TrivialCopy<T>
    = default;
    Result(Result&& other) noexcept(std::is_nothrow_move_constructible_v<T>)
        requires(!detail::TrivialCopy<T> && std::is_move_constructible_v<T>)
        : has_value_(other.has_value_) {
        if (has_value_) make_value(std::move(other.value_));
        else make_error(other.error_);
    }
    Result& operator=(const Result& other)
        requires(std::is_copy_constructible_v<T> && std::is_copy_assignable_v<T>)
    {
        if (this != &other) assign(other);
        return *this;
    }
    Result& operator=(Result&& other) noexcept(
        std::is_nothrow_move_constructible_v<T>&& std::is_nothrow_move_assignable_v<T>)
        requires(std::is_move_constructible_v<T> && std::is_move_assignable_v<T>)
    {
        if (this != &other) assign(std::move(other));
        return *this;
    }
    ~Result()
        requires std::is_trivially_destructible_v<T>
    = default;
    ~Result() {
        if (has_value_) value_.~T();
    }
    // True if it holds a value and no error.
    bool has_value() const noexcept { return has_value_; }
    // The same. Not of a Result<bool>, where a reader may take it for the value.
    explicit operator bool() const noexcept
        requires(!std::is_same_v<T, bool>)
    {
        return has_value_;
    }
    // The value. If there is none, each of them prints the error and aborts, in every build.
    T& operator*() & noexcept { return require(), value_; }
    const T& operator*() const& noexcept { return require(), value_; }
    T&& operator*() && noexcept { return require(), std::move(value_); }
    T* operator->() noexcept { return __builtin_addressof(**this); }
    // The same for a constant, and with a name.
    const T* operator->() const noexcept { return __builtin_addressof(**this); }
    T& value() & noexcept { return **this; }
    const T& value() const& noexcept { return **this; }
    T&& value() && noexcept { return *std::move(*this); }
    // The value, or `other` if there is none.
    template <class U>
    T value_or(U&& other) const& {
        return has_value_ ? value_ : static_cast<T>(std::forward<U>(other));
    }
    template <class U>
    T value_or(U&& other) && {
        return has_value_ ? std::move(value_) : static_cast<T>(std::forward<U>(other));
    }
    // The error. If there is none, prints a message and aborts.
    Error& error() noexcept { return require_error(), error_; }
    const Error& error() const noexcept { return require_error(), error_; }

private:
    void require() const noexcept {
        if (!has_value_) [[unlikely]]
            detail::stop_without_value(error_);
    }
    void require_error() const noexcept {
        if (has_value_) [[unlikely]]
            detail::stop_without_error();
    }
    template <class Other>
    void assign(Other&& other) {
        if (has_value_ && other.has_value_) {
            value_ = std::forward<Other>(other).value_;
        } else if (other.has_value_) {
            make_value(std::forward<Other>(other).value_);
        } else {
            if (has_value_) value_.~T();
            make_error(other.error_);
        }
        has_value_ = other.has_value_;
    }

    // Placement new instead of std::construct_at(), which takes <memory>.
    template <class U>
    void make_value(U&& value) {
        ::new (static_cast<void*>(__builtin_addressof(value_))) T(std::forward<U>(value));
    }
    void make_error(const Error& error) {
        ::new (static_cast<void*>(__builtin_addressof(error_))) Error(error);
    }

    union {
        T value_;
        Error error_;
    };
    bool has_value_;
};

// Nothing or Error.
template <>
class [[nodiscard]] Result<void> {
public:
    // What generic code asks for.
    using value_type = void;
    using error_type = Error;

    // Holds no error, or the given one.
    constexpr Result() noexcept : none_(), has_value_(true) {}
    Result(const Unexpected& failure) noexcept : error_(failure.error()), has_value_(false) {}
    template <detail::HoldsError U>
    Result(const U& failure) noexcept : error_(failure.error()), has_value_(false) {}
    // True if it holds no error.
    bool has_value() const noexcept { return has_value_; }
    explicit operator bool() const noexcept { return has_value_; }
    // Return if there is no error. Else each of them prints it and aborts, in every build.
    void operator*() const noexcept {
        if (!has_value_) [[unlikely]]
            detail::stop_without_value(error_);
    }
    void value() const noexcept { **this; }
    // The error. If there is none, prints a message and aborts.
    Error& error() noexcept { return require_error(), error_; }
    const Error& error() const noexcept { return require_error(), error_; }

private:
    void require_error() const noexcept {
        if (has_value_) [[unlikely]]
            detail::stop_without_error();
    }

    struct None {};
    union {
        None none_;
        Error error_;
    };
    bool has_value_;
};
static_assert(std::is_trivially_copyable_v<Result<void>>);
// One layout in every standard, and copies of plain values are plain copies.
static_assert(sizeof(Result<void>) == sizeof(Error) + alignof(Error));
static_assert(sizeof(Result<void*>) == sizeof(Result<void>));
static_assert(std::is_trivially_copy_constructible_v<Result<void*>>);
static_assert(std::is_trivially_destructible_v<Result<void*>>);

// Makes an error to return. Cold and out of line: hot paths carry one call.
[[gnu::cold, gnu::noinline]] Unexpected fail(ErrorCode code, const char* what = nullptr,
                                             uint64_t a = 0, uint64_t b = 0, uint64_t c = 0);
[[gnu::cold, gnu::noinline]] Unexpected fail_os(ErrorCode code, int err, const char* what = nullptr,
                                                uint64_t a = 0, uint64_t b = 0);

namespace detail {
template <class T>
inline T&& take(Result<T>& r) {
    return std::move(*r);
}
inline void take(Result<void>&) {}
}  // namespace detail

}  // namespace lockstep

// The value of a Result; on error, returns the error from the enclosing function. A GNU statement
// expression, so it can be an operand.
#define LOCKSTEP_TRY(...) LOCKSTEP_TRY_AS_(__COUNTER__, __VA_ARGS__)
// A TRY inside a TRY needs a name of its own: otherwise -Wshadow of g++ warns.
#define LOCKSTEP_TRY_AS_(number, ...) LOCKSTEP_TRY_NAMED_(number, __VA_ARGS__)
#define LOCKSTEP_TRY_NAMED_(number, ...)                                \
    __extension__({                                                     \
        auto try_result_##number = (__VA_ARGS__);                       \
        if (!try_result_##number.has_value()) [[unlikely]]              \
            return ::lockstep::Unexpected(try_result_##number.error()); \
        ::lockstep::detail::take(try_result_##number);                  \
    })
