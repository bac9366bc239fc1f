// memory_reserve.cc - the process's one reserve, and the handler that gives it away.
#include "threads/base/memory_reserve.h"

#include <new>
#include <utility>

#include "threads/base/check.h"
#include "threads/base/spin_lock.h"

namespace lockstep {

namespace {

// Under lock. Nothing is allocated while it is held: the handler wants it, too.
SpinLock lock;
void* reserve = nullptr;
uint32_t holders = 0;
uint32_t given = 0;  // how often the reserve was
// Threads that hold memory which is about to be free again, or the reserve.
uint32_t borrowers = 0;
// The application's, whose turn it is when the reserve is gone.
std::new_handler next_handler = nullptr;

thread_local uint32_t given_seen = 0;
thread_local bool borrows = false;

// Whoever finds no memory meanwhile tries again. The borrower does not: it may fail, so nothing is
// given to it.
class Borrowing {
public:
    Borrowing() { count(1, true); }
    ~Borrowing() { count(-1, false); }
    Borrowing(const Borrowing&) = delete;
    Borrowing& operator=(const Borrowing&) = delete;

private:
    static void count(int change, bool mine) {
        SpinGuard guard(lock);
        borrowers += static_cast<uint32_t>(change);
        borrows = mine;
    }
};

}  // namespace

std::atomic<bool> MemoryReserve::used_up_{false};

// Returning means: try again. So does everybody else once whose `new` failed before the reserve was
// given. It is freed under the lock, so that who comes next finds the memory there. This file is
// compiled with exceptions: `new` without exceptions wants to catch one.
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
        if (reserve == nullptr && holders > 0) {
            reserve = std::exchange(fresh, nullptr);
            used_up_.store(false);
        }
    }
    ::operator delete(fresh);  // somebody else was faster
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
        if (holders++ == 0) next_handler = std::set_new_handler(&MemoryReserve::give);
    }
    holds_ = true;
    return put_back();
}

// The handler goes with the last holder, unless the application has put another in its place.
void MemoryReserve::drop() {
    if (!std::exchange(holds_, false)) return;
    void* last = nullptr;
    {
        SpinGuard guard(lock);
        if (--holders == 0) {
            last = std::exchange(reserve, nullptr);
            if (std::get_new_handler() == &MemoryReserve::give) std::set_new_handler(next_handler);
            used_up_.store(false);
        }
    }
    ::operator delete(last);
}

}  // namespace lockstep
