// callbacks.cc - of the Python binding: the helper thread and the functions that stores keep.
#include "tools/python/src/callbacks.h"

#include <pthread.h>

#include <array>
#include <atomic>
#include <condition_variable>
#include <deque>
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
    void post(std::function<void()> fn) {
        const std::lock_guard guard(lock_);
        if (stopped_) return;
        if (!thread_.joinable()) thread_ = std::thread([this] { work(); });
        jobs_.push_back(std::move(fn));
        ready_.notify_one();
    }
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
        for (std::unique_lock guard(lock_);;) {
            ready_.wait(guard, [this] { return stopped_ || !jobs_.empty(); });
            if (jobs_.empty()) return;
            const std::function<void()> job = std::move(jobs_.front());
            jobs_.pop_front();
            guard.unlock();
            {
                const nb::gil_scoped_acquire gil;
                job();
            }
            guard.lock();
        }
    }

    std::mutex lock_;
    std::condition_variable ready_;
    std::deque<std::function<void()>> jobs_;
    std::thread thread_;
    bool stopped_ = false;
};

// Never destroyed: threads of the store may outlive the interpreter. fork() copies no thread, so
// the child gets a helper of its own, and leaves that of the parent as it is.
std::atomic<Helper*>& helper_of_process() {
    static std::atomic<Helper*> now = [] {
        pthread_atfork(nullptr, nullptr, [] { helper_of_process().store(new Helper); });
        return new Helper;
    }();
    return now;
}

Helper& helper() { return *helper_of_process().load(); }

using Functions = std::unordered_map<Number, std::vector<std::unique_ptr<Function>>>;
// Under the GIL.
Functions& functions() {
    static auto* const kept = new Functions;
    return *kept;
}

void add_keys_of(PyObject* function, const lockstep_slice& key, const lockstep_slice& value,
                 lockstep_keys* keys) {
    const nb::object made = invoke(function, bytes_of(key), bytes_of(value));
    if (made.is_none()) return;
    if (PyList_Check(made.ptr())) {
        for (const nb::handle one : nb::borrow<nb::list>(made)) {
            const Key bytes(one);
            lockstep_keys_add(keys, bytes.slice());
        }
        return;
    }
    const Key bytes(made);
    lockstep_keys_add(keys, bytes.slice());
}

}  // namespace

void post_to_helper(std::function<void()> fn) { helper().post(std::move(fn)); }

void run_on_helper(const std::function<void()>& fn) {
    std::binary_semaphore done(0);
    helper().post([&] {
        fn();
        done.release();
    });
    done.acquire();
}

Function* keep(Number store, nb::handle function) {
    auto& kept = functions()[store];
    kept.push_back(std::make_unique<Function>(Function{function.inc_ref().ptr()}));
    return kept.back().get();
}

void forget(Number store) {
    const auto found = functions().find(store);
    if (found == functions().end()) return;
    post_to_helper([kept = std::make_shared<Functions::mapped_type>(std::move(found->second))] {
        for (const auto& function : *kept) Py_DECREF(function->function);
    });
    functions().erase(found);
}

void name_store(Number store) {
    auto unnamed = functions().extract(0);
    if (unnamed.empty()) return;
    unnamed.key() = store;
    functions().insert(std::move(unnamed));
}

void log_line(void* function, int level, const char* text, size_t bytes) {
    PyObject* const log = static_cast<Function*>(function)->function;
    post_to_helper([log, level, line = std::string(text, bytes)] {
        guarded(log, [&] { invoke(log, level, nb::str(line.data(), line.size())); });
    });
}

// A function that raises gives a key that no index takes, so the call that changes the record fails
// with key_too_long, and no entry is lost unnoticed.
void secondary_keys(void* function, lockstep_slice key, lockstep_slice value, lockstep_keys* keys) {
    PyObject* const made = static_cast<Function*>(function)->function;
    run_on_helper([&] {
        if (guarded(made, [&] { add_keys_of(made, key, value, keys); })) return;
        static constexpr std::array<char, LOCKSTEP_KEY_BYTES_MAX + 1> kRefused{};
        lockstep_keys_add(keys, lockstep_bytes(kRefused.data(), kRefused.size()));
    });
}

void add_callbacks(nb::module_& module) {
    module.def("stop_helper", [] {
        const nb::gil_scoped_release released;
        helper().stop();
    });
}

}  // namespace lockstep::python
