// public_calls_table.cc - one line for each public call: its name as in the header, whether it may
// wait, and how it is made.
#include <lockstep/fd.h>
#include <lockstep/offload.h>
#include <lockstep/sync.h>
#include <lockstep/timer.h>

#include <poll.h>

#include <mutex>
#include <optional>
#include <span>
#include <thread>

#include "tests/sm/store/public_calls.h"

namespace lockstep {
namespace {

using enum Situation;

// A call with a store, and one with a transaction `t` as well. The last argument is the outcome.
#define CALL(call, wait, ...) \
    PublicCall(call, Waits::wait, []([[maybe_unused]] World& w) { return __VA_ARGS__; })
#define TXN_CALL(call, wait, ...) \
    PublicCall(call, Waits::wait, []([[maybe_unused]] World& w, OpenTxn& t) { return __VA_ARGS__; })

template <class T>
std::string told(const Result<T>& r) {
    return r ? "ok" : std::string("`") + error_name(r.error().code) + "`";
}
std::string truth(bool holds) { return holds ? "true" : "false"; }
std::string filled(bool holds) { return holds ? "ok" : "empty"; }
template <class F>
std::string done(F f) {
    f();
    return "ok";
}
// An object of the class is made and destroyed.
template <class T, class... A>
std::string destroyed(A... a) {
    std::optional<T> object(std::in_place, a...);
    object.reset();
    return "ok";
}
// f(object) for a new object of the class.
template <class T, class F, class... A>
std::string with(F f, A... a) {
    T object(a...);
    return f(object);
}

std::string open_another(World& w) {
    Options small;
    small.pool_bytes = 4 << 20, small.log_bytes = 4 << 20, small.log_ring_bytes = 1 << 20;
    small.log_segment_bytes = 1 << 20;
    return told(Store::open(w.root + "/other", small));
}
bool no_more(Slice&, Slice&) { return false; }
bool each(RecordId, Slice) { return true; }

std::vector<PublicCall> store_calls() {
    return {
        CALL("Store::open(path, options)", may, open_another(w)),
        CALL("Store::~Store()", may, done([&] { Store gone = std::move(w.store); }))
            .not_in(user_thread)
            .last(4),
        CALL("Store::close()", may, told(w.store.close())).last(3),
        CALL("Store::run(fn, options)", may,
             told(w.store.run([&](Txn& txn) { return w.index.put(txn, "run", "v"); }))),
        CALL("Store::spawn(fn, options, worker)", never,
             told(w.store.spawn([](Txn&) -> Result<int> { return 1; }).started())),
        CALL("Store::start(fn, worker)", never,
             told(w.store.start([]() -> Result<int> { return 1; }).started())),
        CALL("Store::begin(options)", may, told(w.store.begin())),
        TXN_CALL("Store::create_index(txn, name)", may, told(w.store.create_index(t.txn, "new"))),
        TXN_CALL("Store::create_heap(txn, name)", may, told(w.store.create_heap(t.txn, "new"))),
        TXN_CALL("Store::open_or_create_index(txn, name)", may,
                 told(w.store.open_or_create_index(t.txn, "i"))),
        TXN_CALL("Store::open_or_create_heap(txn, name)", may,
                 told(w.store.open_or_create_heap(t.txn, "h"))),
        TXN_CALL("Store::drop(txn, name)", may, told(w.store.drop(t.txn, "doomed"))),
        CALL("Store::index(name)", may, told(w.store.index("i"))),
        CALL("Store::heap(name)", may, told(w.store.heap("h"))),
        TXN_CALL("Store::index(txn, name)", may, told(w.store.index(t.txn, "i"))),
        TXN_CALL("Store::heap(txn, name)", may, told(w.store.heap(t.txn, "h"))),
        CALL("Store::list()", never, filled(!w.store.list().empty())),
        TXN_CALL("Store::bulk_load(txn, index, next, fill_percent)", may,
                 told(w.store.bulk_load(t.txn, w.empty, no_more))),
        CALL("Store::wait_durable(point)", may, told(w.store.wait_durable(w.point))),
        CALL("Store::checkpoint()", may, told(w.store.checkpoint())),
        CALL("Store::verify()", may, told(w.store.verify()))
            .either_in(failed, "ok or `store_failed`"),
        CALL("Store::failure()", never, filled(w.store.failure().has_value())),
        CALL("Store::stats()", never, filled(w.store.stats().commits > 0)),
        CALL("Store::steps_stats()", never, done([&] { (void)w.store.steps_stats(); })),
        CALL("Store::set_steps(options)", may, told(w.store.set_steps(w.steps))),
        CALL("Store::options()", never, filled(w.store.options().workers > 0)).not_in(closed),
    };
}

std::vector<PublicCall> txn_calls() {
    return {
        TXN_CALL("Txn::~Txn()", may, done([&] { Txn gone = std::move(t.txn); }))
            .not_in(foreign_thread)
            .last(2),
        TXN_CALL("Txn::commit()", may, told(t.txn.commit())).last(1),
        TXN_CALL("Txn::abort()", may, told(t.txn.abort())).last(1),
        TXN_CALL("Txn::savepoint()", never, told(t.txn.savepoint())),
        TXN_CALL("Txn::rollback_to(savepoint)", may, told(t.txn.rollback_to(t.savepoint))),
        TXN_CALL("Txn::id()", never, filled(t.txn.id() != kTxnNone)),
        TXN_CALL("Txn::live()", never, truth(t.txn.live())),
    };
}

std::string get_many(World& w, OpenTxn& t) {
    Lookup rows[1] = {{.key = "k", .buffer = {}}};
    return told(w.index.get_many(t.txn, rows));
}
std::string insert_many(World& w, OpenTxn& t) {
    const NewRecord records[1] = {{"new", "v"}};
    return told(w.index.insert_many(t.txn, records));
}
std::string get(World& w, OpenTxn& t) {
    std::string value;
    return told(w.index.get(t.txn, "k", value));
}
std::string get_into_buffer(World& w, OpenTxn& t) {
    std::byte room[8];
    return told(w.index.get(t.txn, "k", std::span(room)));
}
std::string heap_get(World& w, OpenTxn& t) {
    std::string value;
    return told(w.heap.get(t.txn, w.record, value));
}

std::vector<PublicCall> object_calls() {
    return {
        CALL("Index::operator bool()", never, truth(static_cast<bool>(w.index))),
        TXN_CALL("Index::get(txn, key, value, access)", may, get(w, t)),
        TXN_CALL("Index::get(txn, key, buffer, access)", may, get_into_buffer(w, t)),
        TXN_CALL("Index::get_many(txn, rows, access)", may, get_many(w, t)),
        TXN_CALL("Index::insert(txn, key, value)", may, told(w.index.insert(t.txn, "new", "v"))),
        TXN_CALL("Index::insert_many(txn, records)", may, insert_many(w, t)),
        TXN_CALL("Index::update(txn, key, value)", may, told(w.index.update(t.txn, "k", "w"))),
        TXN_CALL("Index::put(txn, key, value)", may, told(w.index.put(t.txn, "k", "w"))),
        TXN_CALL("Index::patch(txn, key, offset, part)", may,
                 told(w.index.patch(t.txn, "k", 0, "w"))),
        TXN_CALL("Index::patch(txn, key, offset, part, hint)", may,
                 told(w.index.patch(t.txn, "k", 0, "w", RecordHint{}))),
        TXN_CALL("Index::erase(txn, key)", may, told(w.index.erase(t.txn, "k"))),
        TXN_CALL("Index::scan(txn, low, high, access)", may, told(w.index.scan(t.txn).next())),
        CALL("Index::id()", never, filled(w.index.id() != ObjectId{})).not_in(closed),
        CALL("Heap::operator bool()", never, truth(static_cast<bool>(w.heap))),
        TXN_CALL("Heap::insert(txn, record)", may, told(w.heap.insert(t.txn, "v"))),
        TXN_CALL("Heap::get(txn, id, record, access)", may, heap_get(w, t)),
        TXN_CALL("Heap::update(txn, id, record)", may, told(w.heap.update(t.txn, w.record, "w"))),
        TXN_CALL("Heap::erase(txn, id)", may, told(w.heap.erase(t.txn, w.record))),
        TXN_CALL("Heap::scan(txn, each)", may, told(w.heap.scan(t.txn, each))),
        CALL("Heap::id()", never, filled(w.heap.id() != ObjectId{})).not_in(closed),
        TXN_CALL("Cursor::~Cursor()", never, done([&] { Cursor gone = std::move(t.cursor); }))
            .last(1),
        TXN_CALL("Cursor::next()", may, told(t.cursor.next())),
        TXN_CALL("Cursor::prev()", may, told(t.cursor.prev())),
        TXN_CALL("Cursor::patch(offset, part)", may, told(t.cursor.patch(0, "w"))),
        TXN_CALL("Cursor::key()", never, done([&] { (void)t.cursor.key(); })),
        TXN_CALL("Cursor::value()", never, done([&] { (void)t.cursor.value(); })),
    };
}

std::vector<PublicCall> thread_calls() {
    return {
        CALL("Handle::join()", may, told(w.handle.join())).last(1),
        CALL("Handle::started()", never, told(w.handle.started())),
        CALL("yield()", may, done([] { yield(); })),
        CALL("sleep_for(time)", may, done([] { sleep_for(kMicrosecond); })),
        CALL("sleep_until(deadline)", may, done([] { sleep_until(now() + kMicrosecond); })),
        CALL("now()", never, filled(now() > 0)),
        CALL("thread_waits()", never, done([] { (void)thread_waits(); })),
        CALL("offload(fn)", may, told(offload([]() -> Result<int> { return 1; }))),
        CALL("wait_fd(fd, events, timeout)", may, told(wait_fd(w.fd, POLLIN, kSecond))),
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

}  // namespace

std::vector<PublicCall> public_calls() {
    std::vector<PublicCall> all;
    for (auto part : {store_calls, txn_calls, object_calls, thread_calls, mutex_calls,
                      condition_calls, event_calls, semaphore_calls, channel_calls, timer_calls})
        for (PublicCall& call : part()) all.push_back(std::move(call));
    return all;
}

}  // namespace lockstep
