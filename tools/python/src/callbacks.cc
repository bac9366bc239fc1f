// callbacks.cc - of the Python binding: the helper thread and the functions that stores keep.
#include "tools/python/src/callbacks.h"

#include <pthread.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <condition_variable>
#include <deque>
#include <exception>
#include <memory>
#include <mutex>
#include <semaphore>
#include <thread>
#include <unordered_map>
#include <vector>

namespace lockstep::python {

namespace {

class Helper {
public:
    // False: it has stopped.
    bool post(std::function<void()> fn) {
        const std::lock_guard guard(lock_);
        if (stopped_) return false;
        if (!thread_.joinable()) thread_ = std::thread([this] { work(); });
        jobs_.push_back(std::move(fn));
        ready_.notify_one();
        return true;
    }
    // Whether the calling thread is a helper.
    static bool is_current() { return current_; }
    // Carries out what was posted, and ends. Without the GIL.
    void stop() {
        {
            const std::lock_guard guard(lock_);
            stopped_ = true;
            ready_.notify_one();
        }
        if (thread_.joinable()) thread_.join();
    }

private:
    void work() {
        current_ = true;
        for (std::unique_lock guard(lock_);;) {
            ready_.wait(guard, [this] { return stopped_ || !jobs_.empty(); });
            if (jobs_.empty()) return;
            const std::function<void()> job = std::move(jobs_.front());
            jobs_.pop_front();
            guard.unlock();
            {
                const HeldGil gil;
                job();
            }
            guard.lock();
        }
    }

    static inline thread_local bool current_ = false;
    std::mutex lock_;
    std::condition_variable ready_;
    std::deque<std::function<void()>> jobs_;
    std::thread thread_;
    bool stopped_ = false;
};

struct Helpers {
    Helper key_functions, loggers;
};

// Never destroyed: threads of the store may outlive the interpreter. fork() copies no thread, so
// the child gets helpers of its own, and leaves those of the parent as they are.
std::atomic<Helpers*>& helpers_of_process() {
    static std::atomic<Helpers*> now = [] {
        pthread_atfork(nullptr, nullptr, [] { helpers_of_process().store(new Helpers); });
        return new Helpers;
    }();
    return now;
}

Helper& helper(HelperOf which) {
    Helpers& all = *helpers_of_process().load();
    return which == HelperOf::key_functions ? all.key_functions : all.loggers;
}

using Functions = std::unordered_map<Number, std::vector<std::unique_ptr<Function>>>;
// Under the GIL.
Functions& functions() {
    static auto* const kept = new Functions;
    return *kept;
}

// An exception of a key function, until a call raises it.
struct Raised {
    std::exception_ptr exception;
    const Function* function;
    std::string key;     // of the record
    uint64_t order = 0;  // later ones have larger numbers; 0: nothing is kept here
};
// The place of a Raised tells how long the refused key is. An entry is as long, or longer by the
// key of the record and two bytes (sm/secondary/secondary_key.h). No key of an application is like
// it.
constexpr size_t kRaisedMax = 32, kRefusedFirst = 64 << 10, kRefusedStep = 2048;
// Tells of no exception.
constexpr size_t kRefusedLast = kRefusedFirst + kRaisedMax * kRefusedStep;
static_assert(LOCKSTEP_KEY_BYTES_MAX + 2 < kRefusedStep && LOCKSTEP_KEY_BYTES_MAX < kRefusedFirst);

// Under the GIL. Never destroyed: the interpreter may have ended.
struct AllRaised {
    std::array<Raised, kRaisedMax> kept;
    uint64_t last = 0;  // the largest order
};
AllRaised& all_raised() {
    static auto* const all = new AllRaised;
    return *all;
}

void drop(Raised& raised) {
    if (!raised.exception) return;
    const Raised gone = std::exchange(raised, {});
    guarded(gone.function->function, [&] { std::rethrow_exception(gone.exception); });
}

// The length of the key that refuses the change. A free place is taken first: a call may be slow to
// take its exception, while others come and go.
size_t keep_raised(const Function& function, const lockstep_slice& key) {
    AllRaised& all = all_raised();
    const auto place = std::ranges::min_element(all.kept, {}, &Raised::order);
    Raised fresh{std::current_exception(), &function,
                 std::string(static_cast<const char*>(key.data), key.size), ++all.last};
    std::swap(*place, fresh);
    drop(fresh);
    return kRefusedFirst + static_cast<size_t>(place - all.kept.begin()) * kRefusedStep;
}

// The exception behind an entry of this length; empty if there is none.
Raised take_raised(size_t bytes) {
    const size_t place = (bytes - kRefusedFirst) / kRefusedStep;
    if (bytes < kRefusedFirst || place >= kRaisedMax) return {};
    Raised& raised = all_raised().kept[place];
    const size_t more = bytes - kRefusedFirst - place * kRefusedStep;
    if (more != 0 && more != raised.key.size() + 2) return {};
    return std::exchange(raised, {});
}

// Says in the exception which record it is about. One that takes no note stays as it is.
void add_note(const nb::python_error& exception, const Raised& raised) {
    const nb::str note("the key function of {!r} has raised this for the record of key {!r}");
    try {
        exception.value().attr("add_note")(
            note.attr("format")(nb::str(raised.function->name.c_str()),
                                bytes_of(raised.key.data(), raised.key.size())));
    } catch (const nb::python_error&) {
        return;
    }
}

// All keys or, if one is wrong, none.
void add_keys_of(PyObject* function, const lockstep_slice& key, const lockstep_slice& value,
                 lockstep_keys* keys) {
    const nb::object made = invoke(function, bytes_of(key), bytes_of(value));
    if (made.is_none()) return;
    std::deque<Key> all;
    if (PyList_Check(made.ptr()))
        for (const nb::handle one : nb::borrow<nb::list>(made)) all.emplace_back(one);
    else all.emplace_back(made);
    for (const Key& one : all) lockstep_keys_add(keys, one.slice());
}

}  // namespace

bool post_to_helper(HelperOf which, std::function<void()> fn) {
    return helper(which).post(std::move(fn));
}

bool run_on_helper(HelperOf which, const std::function<void()>& fn) {
    std::binary_semaphore done(0);
    const bool posted = helper(which).post([&] {
        fn();
        done.release();
    });
    if (posted) done.acquire();
    return posted;
}

bool InsideCall::of(Number store) {
    const InsideCall* call = innermost_;
    while (call != nullptr && call->store_ != store) call = call->outer_;
    return call != nullptr;
}

std::unique_ptr<Function> referenced(nb::handle function, const std::string& name) {
    return std::make_unique<Function>(Function{function.inc_ref().ptr(), name});
}

// If the helper has stopped, so has the interpreter: then the reference stays.
void release(std::unique_ptr<Function> function) {
    const auto runs_it = function->name.empty() ? HelperOf::loggers : HelperOf::key_functions;
    post_to_helper(runs_it, [kept = std::shared_ptr<Function>(std::move(function))] {
        Py_DECREF(kept->function);
    });
}

Function* keep(Number store, std::unique_ptr<Function> function) {
    auto& kept = functions()[store];
    const auto same = std::find_if(kept.begin(), kept.end(), [&](const auto& other) {
        return other->function == function->function && other->name == function->name;
    });
    if (same != kept.end()) {
        Py_DECREF(function->function);  // the other reference stays
        ++(*same)->uses;
        return same->get();
    }
    function->store = store;
    function->uses = 1;
    kept.push_back(std::move(function));
    return kept.back().get();
}

void discard(Number store, Function* function) {
    const auto kept = functions().find(store);
    if (kept == functions().end()) return;
    const auto found = std::ranges::find(kept->second, function, &std::unique_ptr<Function>::get);
    if (found == kept->second.end() || --function->uses != 0) return;
    release(std::move(*found));
    kept->second.erase(found);
    if (kept->second.empty()) functions().erase(kept);
}

void drop_raised(Number store) {
    for (Raised& raised : all_raised().kept)
        if (raised.exception && raised.function->store == store) drop(raised);
}

void discard_raised(const Function* function) {
    for (Raised& raised : all_raised().kept)
        if (raised.function == function) const Raised gone = std::exchange(raised, {});
}

void raise_again(const lockstep_error& error) {
    if (error.code != LOCKSTEP_KEY_TOO_LONG) return;
    const Raised raised = take_raised(error.b);
    if (!raised.exception) return;
    try {
        std::rethrow_exception(raised.exception);
    } catch (const nb::python_error& exception) {
        add_note(exception, raised);
        throw;
    }
}

void forget(Number store) {
    drop_raised(store);
    const auto found = functions().find(store);
    if (found == functions().end()) return;
    for (auto& function : found->second) release(std::move(function));
    functions().erase(found);
}

void log_line(void* function, int level, const char* text, size_t bytes) {
    PyObject* const log = static_cast<Function*>(function)->function;
    post_to_helper(HelperOf::loggers, [log, level, line = std::string(text, bytes)] {
        guarded(log, [&] { invoke(log, level, nb::str(line.data(), line.size())); });
    });
}

// A function that raises or cannot run gives a key that no index takes. So the call that changes
// the record is refused, and no entry is lost unnoticed.
void secondary_keys(void* function, lockstep_slice key, lockstep_slice value, lockstep_keys* keys) {
    const auto& made = *static_cast<Function*>(function);
    const auto refuse = [&](size_t bytes) {
        const std::string refused(bytes, '\1');
        lockstep_keys_add(keys, lockstep_bytes(refused.data(), refused.size()));
    };
    const bool ran = run_on_helper(HelperOf::key_functions, [&] {
        const InsideCall inside(made.store);
        const InKeyFunction refuses_waits;
        try {
            add_keys_of(made.function, key, value, keys);
        } catch (...) {
            refuse(keep_raised(made, key));
        }
    });
    if (!ran) refuse(kRefusedLast);
}

void add_callbacks(nb::module_& module) {
    module.def("stop_helper", [] {
        const ReleasedGil released;
        helper(HelperOf::key_functions).stop();
        helper(HelperOf::loggers).stop();
    });
    module.def("on_helper", Helper::is_current);
}

}  // namespace lockstep::python
