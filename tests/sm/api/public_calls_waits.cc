// public_calls_waits.cc - one line for each public call of handles and coroutines, of waits, and of
// the objects that threads wait for.
#include <lockstep/coroutine.h>
#include <lockstep/fd.h>
#include <lockstep/net.h>
#include <lockstep/offload.h>
#include <lockstep/stages.h>
#include <lockstep/sync.h>
#include <lockstep/timer.h>

#include <poll.h>
#include <unistd.h>

#include <exception>
#include <mutex>
#include <thread>

#include "tests/sm/api/public_calls_lines.h"

namespace lockstep {
namespace {

// A coroutine that runs by itself; its frame goes at its end.
struct Detached {
    struct promise_type {  // NOLINT(readability-identifier-naming): the language names it
        Detached get_return_object() { return {}; }
        std::suspend_never initial_suspend() noexcept { return {}; }
        std::suspend_never final_suspend() noexcept { return {}; }
        void return_void() {}
        void unhandled_exception() { std::terminate(); }
    };
};
Detached await_handle(Handle<int> handle, std::string& outcome) {
    const Result<int> result = co_await handle;
    outcome = told(result);
}
Detached await_temporary(Handle<int> handle, std::string& outcome) {
    const Result<int> result = co_await std::move(handle);
    outcome = told(result);
}
template <class Executor>
Detached await_on(Handle<int> handle, Executor executor, std::string& outcome) {
    const Result<int> result = co_await resume_on(handle, executor);
    outcome = told(result);
}
template <class Executor>
Detached await_temporary_on(Handle<int> handle, Executor executor, std::string& outcome) {
    const Result<int> result = co_await resume_on(std::move(handle), executor);
    outcome = told(result);
}

// The handle as such, and as a temporary, is one row. What the coroutine gets without a wait.
std::string awaited(World& w) {
    std::string first = "suspended", second = first;
    await_handle(w.take_handle(), first);
    await_temporary(w.take_handle(), second);
    return first == second ? first : first + ", " + second;
}
std::string awaited_on(World& w) {
    std::string first = "suspended", second = first;
    const auto at_once = [](Resume resume) { resume(); };
    await_on(w.take_handle(), at_once, first);
    await_temporary_on(w.take_handle(), at_once, second);
    return first == second ? first : first + ", " + second;
}
std::string resumed(World& w) {
    std::string outcome = "suspended";
    std::optional<Resume> stored;
    await_on(
        w.take_handle(), [&](Resume resume) { stored = resume; }, outcome);
    if (stored && outcome == "suspended") (*stored)();
    return outcome == "suspended" ? outcome : "ok";
}
std::string called_back(World& w) {
    std::string outcome = "not called";
    const auto given = w.take_handle().then([&](Result<int> result) { outcome = told(result); });
    return given ? outcome : told(given);
}
std::string asked(World& w) {
    const auto result = w.take_handle().try_join();
    return result ? told(*result) : "empty";
}

std::vector<PublicCall> handle_calls() {
    return {
        CALL("Handle::join()", may, told(w.take_handle().join())),
        CALL("Handle::try_join()", never, asked(w)),
        CALL("Handle::ready()", never, truth(w.handle.ready())),
        CALL("Handle::started()", never, told(w.handle.started())),
        CALL("Handle::then(callback)", never, called_back(w)),
        CALL("Handle::cancel()", never, told(w.handle.cancel())),
        CALL("cancel_requested()", never, truth(cancel_requested())),
        CALL("operator co_await(handle)", never, awaited(w)),
        CALL("resume_on(handle, executor)", never, awaited_on(w)),
        CALL("Resume::operator()()", never, resumed(w)),
    };
}

std::string read_one(World& w) {
    std::byte one[1];
    return told(read_socket(w.socket, one, kSecond));
}
std::string write_one(World& w) {
    const std::byte one[1] = {};
    return told(write_socket(w.socket, one, kSecond));
}
// A connection waits already.
std::string accept_one(World& w) {
    const auto accepted = accept_socket(w.listener, kSecond);
    if (accepted) close(*accepted);
    return told(accepted);
}

std::vector<PublicCall> wait_calls() {
    return {
        CALL("current_worker()", never, filled(current_worker() >= 0)),
        CALL("yield()", may, done([] { yield(); })),
        CALL("sleep_for(time)", may, done([] { sleep_for(kMicrosecond); })),
        CALL("sleep_until(deadline)", may, done([] { sleep_until(now() + kMicrosecond); })),
        CALL("now()", never, filled(now() > 0)),
        CALL("thread_waits()", never, done([] { (void)thread_waits(); })),
        CALL("offload(fn)", may, told(offload([]() -> Result<int> { return 1; }))),
        CALL("wait_fd(fd, events, timeout)", may, told(wait_fd(w.fd, POLLIN, kSecond))),
        CALL("read_socket(socket, buffer, timeout)", may, read_one(w)),
        CALL("write_socket(socket, data, timeout)", may, write_one(w)),
        CALL("accept_socket(socket, timeout)", may, accept_one(w)),
    };
}

// The objects of sync.h know no store. Each call gets a new one, and finds what it waits for.
std::vector<PublicCall> mutex_calls() {
    return {
        CALL("Mutex::~Mutex()", never, destroyed<Mutex>()),
        CALL("Mutex::lock()", may,
             with<Mutex>([](Mutex& m) { return m.lock(), m.unlock(), "ok"; })),
        CALL("Mutex::try_lock()", never, with<Mutex>([](Mutex& m) {
                 const bool mine = m.try_lock();
                 if (mine) m.unlock();
                 return truth(mine);
             })),
        CALL("Mutex::try_lock_for(timeout)", may, with<Mutex>([](Mutex& m) {
                 const bool mine = m.try_lock_for(0);
                 if (mine) m.unlock();
                 return truth(mine);
             })),
        CALL("Mutex::unlock()", never,
             with<Mutex>([](Mutex& m) { return m.lock(), m.unlock(), "ok"; })),
    };
}

bool is_ready() { return true; }
std::string wait_for_notify() {
    Mutex mutex;
    Condition condition;
    std::unique_lock guard(mutex);
    std::thread notifier([&] {
        const std::lock_guard other(mutex);  // the waiter has unlocked it
        condition.notify_all();
    });
    condition.wait(mutex);
    guard.unlock();
    notifier.join();
    return "ok";
}
// f(condition, mutex) with the mutex held.
template <class F>
std::string with_condition(F f) {
    Mutex mutex;
    Condition condition;
    const std::lock_guard guard(mutex);
    return f(condition, mutex);
}

std::vector<PublicCall> condition_calls() {
    using C = Condition;
    return {
        CALL("Condition::~Condition()", never, destroyed<C>()),
        CALL("Condition::wait(mutex)", may, wait_for_notify()),
        CALL("Condition::wait_for(mutex, timeout)", may,
             with_condition([](C& c, Mutex& m) { return truth(c.wait_for(m, 0)); })),
        CALL("Condition::wait(mutex, ready)", may,
             with_condition([](C& c, Mutex& m) { return c.wait(m, is_ready), "ok"; })),
        CALL("Condition::wait_for(mutex, timeout, ready)", may,
             with_condition([](C& c, Mutex& m) { return truth(c.wait_for(m, 0, is_ready)); })),
        CALL("Condition::notify_one()", never, with<C>([](C& c) { return c.notify_one(), "ok"; })),
        CALL("Condition::notify_all()", never, with<C>([](C& c) { return c.notify_all(), "ok"; })),
    };
}

std::vector<PublicCall> event_calls() {
    using E = Event;
    return {
        CALL("Event::~Event()", never, destroyed<E>()),
        CALL("Event::set()", never, with<E>([](E& e) { return e.set(), "ok"; })),
        CALL("Event::reset()", never, with<E>([](E& e) { return e.reset(), "ok"; })),
        CALL("Event::is_set()", never, with<E>([](E& e) { return e.set(), truth(e.is_set()); })),
        CALL("Event::close()", never, with<E>([](E& e) { return e.close(), "ok"; })),
        CALL("Event::wait(timeout)", may, with<E>([](E& e) { return e.set(), told(e.wait()); })),
    };
}

std::vector<PublicCall> semaphore_calls() {
    using S = Semaphore;
    return {
        CALL("Semaphore::~Semaphore()", never, destroyed<S>(1)),
        CALL("Semaphore::acquire(units, timeout)", may,
             with<S>([](S& s) { return told(s.acquire()); }, 1)),
        CALL("Semaphore::try_acquire(units)", never,
             with<S>([](S& s) { return truth(s.try_acquire()); }, 1)),
        CALL("Semaphore::release(units)", never,
             with<S>([](S& s) { return s.release(), "ok"; }, 1)),
        CALL("Semaphore::close()", never, with<S>([](S& s) { return s.close(), "ok"; }, 1)),
    };
}

std::string receive_one(Channel<int>& channel) {
    (void)channel.send(1);
    return told(channel.receive());
}

std::vector<PublicCall> channel_calls() {
    using C = Channel<int>;
    return {
        CALL("Channel::~Channel()", never, destroyed<C>(1)),
        CALL("Channel::send(value, timeout)", may,
             with<C>([](C& c) { return told(c.send(1)); }, 1)),
        CALL("Channel::receive(timeout)", may, with<C>(receive_one, 1)),
        CALL("Channel::close()", never, with<C>([](C& c) { return c.close(), "ok"; }, 1)),
        CALL("Channel::closed()", never, with<C>([](C& c) { return truth(c.closed()); }, 1)),
        CALL("Channel::size()", never, with<C>([](C& c) { return filled(c.size() == 0); }, 1)),
    };
}

std::vector<PublicCall> timer_calls() {
    using T = Timer;
    return {
        CALL("Timer::~Timer()", never, destroyed<T>()),
        CALL("Timer::start(first, period)", never, with<T>([](T& t) { return t.start(0), "ok"; })),
        CALL("Timer::cancel()", never, with<T>([](T& t) { return t.cancel(), "ok"; })),
        CALL("Timer::wait()", may, with<T>([](T& t) { return t.start(0), told(t.wait()); })),
    };
}

// f(stages, request) for new ones.
template <class F>
std::string with_stages(F f) {
    constexpr uint64_t kCapacities[] = {1};
    Stages stages(kCapacities, {.workers = 4});
    StagedRequest request;
    return f(stages, request);
}
std::string pass(Stages& stages, StagedRequest& request) {
    stages.enter(request, 0);
    stages.pause(request);
    stages.leave(request);
    return filled(request.visited() == 1);
}

std::vector<PublicCall> stage_calls() {
    using S = Stages;
    using R = StagedRequest;
    std::vector<PublicCall> calls = {
        CALL("StagedRequest::visited()", never,
             with_stages([](S&, R& r) { return filled(r.visited() == 0); })),
        CALL("Stages::~Stages()", never, with_stages([](S&, R&) { return "ok"; })),
        CALL("Stages::enter(request, stage)", may, with_stages(pass)),
        CALL("Stages::pause(request)", may, with_stages(pass)),
        CALL("Stages::leave(request)", never,
             with_stages([](S& s, R& r) { return s.leave(r), "ok"; })),
        CALL("Stages::stats(stage)", never,
             with_stages([](S& s, R&) { return filled(s.stats(0).entered == 0); })),
        CALL("Stages::verify()", never,
             with_stages([](S& s, R&) { return filled(s.verify().empty()); })),
    };
    using enum Situation;
    for (PublicCall& call : calls)  // only on user threads
        if (call.waits == Waits::may)
            for (const Situation situation : {foreign_thread, closed, forked, failed})
                call.not_in(situation);
    return calls;
}

}  // namespace

std::vector<PublicCall> thread_calls() {
    std::vector<PublicCall> all;
    for (auto part : {handle_calls, wait_calls, mutex_calls, condition_calls, event_calls,
                      semaphore_calls, channel_calls, timer_calls, stage_calls})
        for (PublicCall& call : part()) all.push_back(std::move(call));
    return all;
}

}  // namespace lockstep
