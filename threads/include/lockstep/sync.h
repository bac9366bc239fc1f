// sync.h - mutex, condition, event, semaphore and channel, whose waits suspend the user thread.
//
// Concepts   A wait suspends a user thread and blocks any other kernel thread. Threads of several
//            stores and foreign kernel threads may share an object. A kernel-thread mutex or
//            std::condition_variable stops all user threads of the worker instead.
//            A timeout is in nanoseconds of the caller's clock (lockstep::now()). 0 does not wait,
//            kNever waits without limit.
// Limits     These waits are invisible to the store's deadlock search. A thread that holds locks of
//            a transaction must not wait here for a thread that needs one of them; lock_timeout
//            would end that wait. Store::close() waits for user threads, and so for these waits.
//            fork(): the child must not use an object that threads of the parent used.
// Invariants SY-1 A waiter is in one queue. Under the object's lock it either leaves with what it
//            waited for, or leaves with nothing; so no wake-up and no unit is lost.
//            SY-2 First come, first served: a newcomer takes nothing while an earlier thread waits.
//            SY-3 Behind a return from a wait, the waking thread does not touch the object any
//            more. The last waiter may destroy it.
// Blocking   Waits only. set(), release(), notify, close() and unlock() never suspend or block.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <new>
#include <optional>
#include <type_traits>
#include <utility>

#include <lockstep/result.h>
#include <lockstep/types.h>

namespace lockstep {

namespace detail {

struct SyncWaiter;

// Waiting threads, first come first. Protected by the lock of the object.
struct SyncQueue {
    SyncWaiter* first = nullptr;
    SyncWaiter* last = nullptr;
};

// The lock of an object: a byte that sync.cc uses as a SpinLock.
class SyncLock {
public:
    SyncLock();

private:
    friend struct SyncAccess;
    std::byte memory_[1];
};

// The deadline of a timeout from now, by the caller's clock.
Nanos deadline_in(Nanos timeout);

}  // namespace detail

// Mutual exclusion between threads, also over waits for locks, pages and the log. unlock() passes
// the mutex to the thread that has waited longest. std::lock_guard, std::unique_lock and
// std::scoped_lock accept it.
class Mutex {
public:
    Mutex() = default;
    // No thread may hold it or wait for it.
    ~Mutex();
    Mutex(const Mutex&) = delete;
    Mutex& operator=(const Mutex&) = delete;
    // Waits until the mutex is the caller's. A thread that has it already stops the process.
    void lock();
    // False if a thread has it or waits for it. Never waits.
    bool try_lock();
    // False if the mutex did not become the caller's in `timeout` nanoseconds.
    bool try_lock_for(Nanos timeout);
    // Only by the thread that has it; another one stops the process.
    void unlock();

private:
    friend class Condition;
    bool lock_until(Nanos deadline);
    void assert_state() const;

    detail::SyncLock lock_;
    const void* owner_ = nullptr;  // under lock_
    detail::SyncQueue waiters_;    // under lock_
};

// Waits of threads for a condition that a Mutex protects. A wait may end without a notify, so
// repeat the test of the condition; the variants with `ready` do.
class Condition {
public:
    Condition() = default;
    // No thread may wait.
    ~Condition();
    Condition(const Condition&) = delete;
    Condition& operator=(const Condition&) = delete;
    // Unlocks `mutex`, which the caller has, waits for a notify, and locks it again.
    void wait(Mutex& mutex) { (void)wait_until(mutex, kNever); }
    // The same for at most `timeout` nanoseconds. False if no notify came; the caller has the mutex
    // in both cases. Locking it again has no limit.
    bool wait_for(Mutex& mutex, Nanos timeout) {
        return wait_until(mutex, detail::deadline_in(timeout));
    }
    // Waits until `ready()`, which runs with the mutex held, returns true.
    template <class Ready>
    void wait(Mutex& mutex, Ready ready) {
        while (!ready()) wait(mutex);
    }
    // The same for at most `timeout` nanoseconds; the last result of `ready()`.
    template <class Ready>
    bool wait_for(Mutex& mutex, Nanos timeout, Ready ready) {
        const Nanos deadline = detail::deadline_in(timeout);
        while (!ready())
            if (!wait_until(mutex, deadline)) return ready();
        return true;
    }
    // Ends the wait of the thread that has waited longest, if there is one.
    void notify_one();
    // Ends all waits.
    void notify_all();

private:
    bool wait_until(Mutex& mutex, Nanos deadline);

    detail::SyncLock lock_;
    detail::SyncQueue waiters_;  // under lock_
};

// A flag that threads wait for. It stays set until reset().
class Event {
public:
    Event() = default;
    // No thread may wait.
    ~Event();
    Event(const Event&) = delete;
    Event& operator=(const Event&) = delete;
    // Ends all waits, and later ones at once.
    void set();
    // Later waits wait again. Does nothing after close().
    void reset();
    // Whether it is set. Never waits. True says nothing about SY-3: only wait() does.
    bool is_set() const { return set_.load(std::memory_order_acquire); }
    // Ends all waits with the error cancelled, and later ones at once unless the event is set.
    void close();
    // Waits until the event is set. Errors: timeout; cancelled after close().
    Result<void> wait(Nanos timeout = kNever);

private:
    void assert_state() const;

    detail::SyncLock lock_;
    std::atomic<bool> set_{false};  // written under lock_
    bool closed_ = false;           // under lock_
    detail::SyncQueue waiters_;     // under lock_
};

// A count of units that threads take and give back.
class Semaphore {
public:
    // Begins with `units` units.
    explicit Semaphore(uint64_t units) : units_(units) {}
    // No thread may wait.
    ~Semaphore();
    Semaphore(const Semaphore&) = delete;
    Semaphore& operator=(const Semaphore&) = delete;
    // Waits until `units` (at least 1) are free and takes them. A thread that waits for many units
    // is not overtaken by one that wants few. Errors: timeout; cancelled if close() came and the
    // units were not free; bad_argument for 0.
    Result<void> acquire(uint64_t units = 1, Nanos timeout = kNever);
    // Takes the units if they are free and no thread waits. Never waits.
    bool try_acquire(uint64_t units = 1);
    // Gives units back, also ones that nobody took.
    void release(uint64_t units = 1);
    // Ends all waits with the error cancelled. Units that are free can still be taken.
    void close();

private:
    void grant(uint64_t units);
    void assert_state() const;

    detail::SyncLock lock_;
    bool closed_ = false;        // under lock_
    uint64_t units_;             // under lock_
    detail::SyncQueue waiters_;  // under lock_
};

namespace detail {

// A value on its way, in the memory of its Channel<T>.
struct ChannelItem {
    ChannelItem* next = nullptr;
};

// A channel without the type of its values. A sender owns its item until send() succeeds.
class ChannelCore {
public:
    explicit ChannelCore(size_t capacity) : capacity_(capacity) {}
    ~ChannelCore();
    Result<void> send(ChannelItem& item, Nanos timeout);
    Result<ChannelItem*> receive(Nanos timeout);  // null: closed and empty
    void close();
    bool closed() const;
    size_t size() const;
    ChannelItem* take_all();  // for the destructor: items linked by `next`

private:
    void append(ChannelItem& item);
    ChannelItem* remove_first();
    void assert_state() const;

    mutable SyncLock lock_;
    bool closed_ = false;           // under lock_, as all below
    const size_t capacity_;         // constant
    size_t size_ = 0;               // items in the list
    ChannelItem* first_ = nullptr;  // sent and not received
    ChannelItem* last_ = nullptr;
    SyncQueue senders_, receivers_;
};

}  // namespace detail

// A queue of values between threads, first in, first out. T is movable.
template <class T>
class Channel {
public:
    // At most `capacity` values are in the channel. 0: send() waits until a receiver takes the
    // value.
    explicit Channel(size_t capacity) : core_(capacity) {}
    // No thread may wait. Destroys values that were not received.
    ~Channel() {
        for (detail::ChannelItem* item = core_.take_all(); item != nullptr;)
            delete static_cast<Item*>(std::exchange(item, item->next));
    }
    Channel(const Channel&) = delete;
    Channel& operator=(const Channel&) = delete;
    // Puts `value` in, and waits while the channel is full. After an error the value is destroyed.
    // Errors: timeout; cancelled after close(); out_of_memory.
    Result<void> send(T value, Nanos timeout = kNever) {
        Item* item = new (std::nothrow) Item{{}, std::move(value)};
        if (item == nullptr) return fail(ErrorCode::out_of_memory, "value of a channel");
        Result<void> sent = core_.send(*item, timeout);
        if (!sent) delete item;
        return sent;
    }
    // Takes the oldest value, and waits while there is none. Empty: the channel is closed and all
    // its values were received. Error: timeout.
    Result<std::optional<T>> receive(Nanos timeout = kNever) {
        Item* item = static_cast<Item*>(LOCKSTEP_TRY(core_.receive(timeout)));
        if (item == nullptr) return std::optional<T>();
        std::optional<T> value(std::move(item->value));
        delete item;
        return value;
    }
    // Refuses further values and ends the waits of senders with the error cancelled. Receivers get
    // the values that were sent, and then the end. A second call does nothing.
    void close() { core_.close(); }
    // Whether close() was called.
    bool closed() const { return core_.closed(); }
    // Values in the channel now; those of waiting senders do not count.
    size_t size() const { return core_.size(); }

private:
    static_assert(std::is_move_constructible_v<T>);
    struct Item : detail::ChannelItem {
        T value;
    };
    detail::ChannelCore core_;
};

}  // namespace lockstep
