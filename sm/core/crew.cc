// crew.cc - handing pieces out.
#include "sm/core/crew.h"

#include <algorithm>
#include <atomic>
#include <memory>

#include "threads/base/check.h"
#include "threads/base/spin_lock.h"
#include "threads/sync/event.h"

namespace lockstep::sm {
namespace {

struct Work {
    Work(FunctionRef<Result<void>(size_t)> work, size_t n) : each(work), count(n) {}
    FunctionRef<Result<void>(size_t)> each;
    const size_t count;
    std::atomic<size_t> next{0};
    std::atomic<bool> failed{false};
    SpinLock lock;
    Error error{};  // the first; under lock
    threads::Semaphore done{0};

    void run() {
        DCHECK(threads::current() != nullptr && threads::current()->latch_depth == 0);
        while (!failed.load(std::memory_order_relaxed)) {
            const size_t i = next.fetch_add(1);
            if (i >= count) return;
            if (auto result = each(i); !result) {
                SpinGuard guard(lock);
                if (!failed.exchange(true)) error = result.error();
            }
            threads::yield();  // services of this worker
        }
    }
};

}  // namespace

Crew::Crew(threads::Runtime& runtime, uint32_t members)
    : runtime_(runtime), members_(std::clamp(members, 1u, runtime.workers())) {}

Result<void> Crew::for_each(size_t n, FunctionRef<Result<void>(size_t)> each) {
    DCHECK(members_ >= 1 && members_ <= runtime_.workers());
    if (members_ == 1 || n < 2) {
        for (size_t i = 0; i < n; ++i) TRY(each(i));
        return {};
    }
    DCHECK(threads::current() != nullptr && threads::current()->latch_depth == 0);
    // Shared, because a member still touches the semaphore when the caller goes on.
    const auto work = std::make_shared<Work>(each, n);
    uint32_t started = 0;
    Result<void> spawned{};
    for (uint32_t worker = 0; worker < members_ && spawned; ++worker) {
        const auto thread = runtime_.spawn(worker, "crew", [work] {
            work->run();
            work->done.release();
        });
        if (thread) ++started;
        else spawned = std::unexpected(thread.error());
    }
    // Too few members are enough; the caller is the last resort.
    DCHECK(started <= members_);
    if (started == 0) work->run();
    else work->done.acquire(started, kNever, threads::ParkReason::event);
    DCHECK(work->failed.load() || work->next.load() >= n);  // every piece was handed out
    if (!work->failed.load()) return {};
    return std::unexpected(work->error);
}

}  // namespace lockstep::sm
