// result.h - errors as values: Error, Result<T>, and TRY to pass an error up.
//
// Three kinds of failure are never mixed. A broken program stops (check.h). An operating failure is
// an Error in a Result. An ordinary outcome ("no such key") is part of the value.
#pragma once

#include <cstdint>
#include <expected>
#include <string>
#include <type_traits>
#include <utility>

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
    X(cancelled, "wait was cancelled") \
    X(txn_ended, "transaction has ended already") \
    X(txn_aborting, "transaction must be rolled back") \
    X(ended_by_operator, "transaction was ended by Store::end_transaction()") \
    X(transaction_too_old, "transaction was ended because it was too old") \
    X(read_only, "transaction is read-only") \
    X(wrong_thread, "called outside the user thread it belongs to") \
    X(too_many, "a limit on concurrent objects is reached") \
    X(rolled_back, "transaction was rolled back at the caller's request") \
    X(unsupported, "not supported here") \
    X(forked, "store belongs to the parent process; open one after fork()")
// clang-format on

// What failed; LOCKSTEP_ERRORS gives the meanings.
enum class ErrorCode : uint16_t {
    none = 0,
#define X(name, text) name,
    LOCKSTEP_ERRORS(X)
#undef X
};

// Name as written in code ("lock_timeout") and one-line meaning. Static strings.
const char* error_name(ErrorCode code);
const char* error_meaning(ErrorCode code);

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
};
static_assert(std::is_trivially_copyable_v<Error>);

// Value or Error, as std::expected. A dropped Result is a compiler warning, in applications too;
// libstdc++ 12 has no [[nodiscard]] on std::expected. To drop one on purpose, cast it to void.
template <class T = void>
class [[nodiscard]] Result : public std::expected<T, Error> {
public:
    using std::expected<T, Error>::expected;
    Result() = default;
    Result(std::expected<T, Error> other) : std::expected<T, Error>(std::move(other)) {}
};

// Makes an error to return. Cold and out of line: hot paths carry one call.
[[gnu::cold, gnu::noinline]] std::unexpected<Error> fail(ErrorCode code, const char* what = nullptr,
                                                         uint64_t a = 0, uint64_t b = 0,
                                                         uint64_t c = 0);
[[gnu::cold, gnu::noinline]] std::unexpected<Error> fail_os(ErrorCode code, int err,
                                                            const char* what = nullptr,
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
#define TRY(...)                                         \
    ({                                                   \
        auto try_result_ = (__VA_ARGS__);                \
        if (!try_result_) [[unlikely]]                   \
            return std::unexpected(try_result_.error()); \
        ::lockstep::detail::take(try_result_);           \
    })
