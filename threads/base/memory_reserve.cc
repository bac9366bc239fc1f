// memory_reserve.cc - the process's one reserve, and the handler that releases it.
#include "threads/base/memory_reserve.h"

#include <new>
#include <utility>

#include "threads/base/check.h"
#include "threads/base/spin_lock.h"

namespace lockstep {

namespace {

// Protected by lock. A holder must not allocate, because the handler takes the lock too.
SpinLock lock;
void* reserve = nullptr;
uint32_t holders = 0;
uint32_t given = 0;  // how often the reserve was released
// Threads that hold the reserve, or memory that they are about to free.
uint32_t borrowers = 0;
// The application's handler, called when the reserve is used up.
std::new_handler next_handler = nullptr;

thread_local uint32_t given_seen = 0;
thread_local bool borrows = false;

// A thread whose `new` fails meanwhile retries. The borrower does not: it may fail, so the handler
// gives it nothing.
class Borrowing {
public:
    Borrowing() { count(1, true); }
    ~Borrowing() { count(-1, false); }
    Borrowing(const Borrowing&) = delete;
    Borrowing& operator=(const Borrowing&) = delete;

private:
    static void count(int change, bool mine) {
        SpinGuard guard(lock);
        DCHECK(change > 0 || borrowers > 0);
        borrowers += static_cast<uint32_t>(change);
        borrows = mine;
    }
};

}  // namespace

std::atomic<bool> MemoryReserve::used_up_{false};

// A return means: retry. Each other thread whose `new` failed before the release retries once, too.
// The reserve is freed under the lock, so that the next thread finds the memory. This file is
// compiled with exceptions, because `new` without exceptions has to catch one.
void MemoryReserve::give() {
    if (!borrows) {
        SpinGuard guard(lock);
        if (reserve != nullptr) {
            ::operator delete(std::exchange(reserve, nullptr));
            ++given;
            used_up_.store(true);
        }
        if (std::exchange(given_seen, given) != given || borrowers != 0) return;
    }
    if (next_handler == nullptr) throw std::bad_alloc();
    next_handler();
}

Result<void> MemoryReserve::put_back() {
    const Borrowing borrowing;
    void* fresh = ::operator new(kBytes, std::nothrow);
    if (fresh == nullptr) return fail(ErrorCode::out_of_memory, "memory reserve", kBytes);
    {
        SpinGuard guard(lock);
        DCHECK(reserve == nullptr || holders > 0);
        if (reserve == nullptr && holders > 0) {
            reserve = std::exchange(fresh, nullptr);
            used_up_.store(false);
        }
    }
    ::operator delete(fresh);  // another thread was faster
    return {};
}

bool MemoryReserve::has_room_for(size_t bytes) {
    const Borrowing borrowing;
    void* const probe = ::operator new(bytes, std::nothrow);
    ::operator delete(probe);
    return probe != nullptr;
}

Result<void> MemoryReserve::hold() {
    CHECK(!holds_);
    {
        SpinGuard guard(lock);
        DCHECK(holders > 0 || reserve == nullptr);
        if (holders++ == 0) next_handler = std::set_new_handler(&MemoryReserve::give);
    }
    holds_ = true;
    return put_back();
}

// The last holder removes the handler, unless the application has replaced it.
void MemoryReserve::drop() {
    if (!std::exchange(holds_, false)) return;
    void* last = nullptr;
    {
        SpinGuard guard(lock);
        DCHECK(holders > 0);
        if (--holders == 0) {
            last = std::exchange(reserve, nullptr);
            if (std::get_new_handler() == &MemoryReserve::give) std::set_new_handler(next_handler);
            used_up_.store(false);
        }
    }
    ::operator delete(last);
}

}  // namespace lockstep
