// log_failure.cc - LOG-5: stopping the store, and the cause that every later error repeats.
#include <cstring>
#include <utility>

#include "txn/log/log_impl.h"

namespace lockstep {

std::string StoreFailure::text() const {
    std::string line = what;
    line += " failed";
    if (!file.empty()) line += " on " + file;
    if (cause.os == 0) return line + ": " + cause.text();
    return line + ": " + std::strerror(cause.os) + " (errno " + std::to_string(cause.os) + ")";
}

namespace txn {

// Appends continue into memory, so that callers unwind as usual. No more writes follow. `failure`
// is written before `failed` and never again, so readers of `failed` need no lock.
std::unexpected<Error> Log::Impl::fail(StoreFailure why, bool told) {
    DCHECK(why.what != nullptr && why.cause.code != ErrorCode::none);
    const Error error = why.cause;
    bool first = false;
    {
        SpinGuard guard(ring_lock);
        if (!failed.load()) {
            first = true;
            failure = std::move(why);
            failed.store(true);
        }
        hard_limit.store(UINT64_MAX);
        limit.store(UINT64_MAX);
    }
    DCHECK(failed.load() && failure.cause.code != ErrorCode::none);
    update_promise_limit();  // a worker's spare bytes are no leave to go on
    if (first && told && on_failure) on_failure(failure);
    wake_durable_waiters();
    wake_all(ring_lock, ring_waiters);
    wake_all(room_lock, room_waiters);
    return std::unexpected(error);
}

std::unexpected<Error> Log::Impl::fail(const char* what, std::string file, const Error& cause) {
    return fail({.what = what, .file = std::move(file), .cause = cause}, true);
}

std::unexpected<Error> Log::Impl::refused() const {
    DCHECK(failed.load() && failure.what != nullptr);
    return std::unexpected(Error{.code = ErrorCode::store_failed,
                                 .os = failure.cause.os,
                                 .what = failure.what,
                                 .a = failure.cause.a});
}

void Log::fail_store(StoreFailure why) {
    DCHECK(why.cause.code != ErrorCode::store_failed || failed());  // a cause, not a consequence
    (void)impl_->fail(std::move(why), true);
}

void Log::give_up() {
    (void)impl_->fail({.what = "opening the store",
                       .file = impl_->files.directory().path(),
                       .cause = lockstep::fail(ErrorCode::store_closed, "store").error()},
                      false);
}

void Log::on_failure(std::function<void(const StoreFailure&)> told) {
    DCHECK(!impl_->running.load());
    impl_->on_failure = std::move(told);
}

const StoreFailure* Log::failure() const { return failed() ? &impl_->failure : nullptr; }

std::unexpected<Error> Log::refused() const { return impl_->refused(); }

std::string Log::segment_path(Lsn lsn) const {
    return impl_->files.segment_path(impl_->files.number_of(lsn.value));
}

}  // namespace txn
}  // namespace lockstep
