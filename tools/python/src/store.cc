// store.cc - of the Python binding: open, close, objects, maintenance.
#include <nanobind/stl/optional.h>
#include <nanobind/stl/string.h>

#include <memory>
#include <optional>
#include <vector>

#include "tools/python/src/callbacks.h"
#include "tools/python/src/options.h"

namespace lockstep::python {

namespace {

lockstep_store* c(Number store) { return handle<lockstep_store>(store); }

// Adds the handle to `opened` before the exception of a signal handler is raised: a result would be
// lost then, and with it the store.
void open(nb::list opened, const std::string& path, const nb::dict& given,
          const std::optional<nb::dict>& given_steps, nb::handle logger) {
    lockstep_options options = options_from(given);
    lockstep_steps_options steps{};
    if (given_steps) {
        steps = steps_from(*given_steps);
        options.steps = &steps;
    }
    std::unique_ptr<Function> log;
    if (!logger.is_none()) {
        log = referenced(function(logger, "option logger"), "");
        options.logger = log_line;
        options.logger_arg = log.get();
    }
    lockstep_store* store = nullptr;
    EmptyError error;
    const int code =
        run([&](lockstep_error* out) { return lockstep_open(path.c_str(), &options, &store, out); },
            error);
    if (log != nullptr && code == LOCKSTEP_OK) keep(number(store), std::move(log));
    else if (log != nullptr) release(std::move(log));
    if (code == LOCKSTEP_OK) opened.append(number(store));
    check(code, error);
}

// Whether a close with this code has ended the handle. Of calls at the same time one does.
bool ends(int code) {
    return code != LOCKSTEP_FORKED && code != LOCKSTEP_WRONG_THREAD &&
           code != LOCKSTEP_STORE_CLOSED;
}

void close(Number store) {
    if (InsideCall::of(store))
        refuse(LOCKSTEP_WRONG_THREAD,
               "wrong_thread: close() in a function that a call on the store calls: the call, for "
               "which it would wait, waits for the function");
    EmptyError error;
    const int code = run([&](lockstep_error* out) { return lockstep_close(c(store), out); }, error);
    if (ends(code)) forget(store);
    check(code, error);
}

Number find(Number store, nb::handle given, bool is_index) {
    const std::string name = text(given, "name");
    Number found = 0;
    call([&](lockstep_error* error) {
        if (is_index) {
            lockstep_index* index = nullptr;
            const int code = lockstep_find_index(c(store), name.c_str(), &index, error);
            found = number(index);
            return code;
        }
        lockstep_heap* heap = nullptr;
        const int code = lockstep_find_heap(c(store), name.c_str(), &heap, error);
        found = number(heap);
        return code;
    });
    return found;
}

struct Object {
    std::string name;
    bool is_index;
    uint32_t id, of;
};

nb::list objects(Number store) {
    std::vector<Object> found;
    const auto each = [](void* arg, const lockstep_object* o) {
        static_cast<std::vector<Object>*>(arg)->push_back({o->name, o->is_index, o->id, o->of});
        return true;
    };
    call([&](lockstep_error* error) { return lockstep_list(c(store), each, &found, error); });
    nb::list result;
    for (const Object& o : found) result.append(nb::make_tuple(o.name, o.is_index, o.id, o.of));
    return result;
}

void wait_durable(Number store, nb::handle given) {
    const auto lsn = whole<uint64_t>(given, "lsn");
    call([&](lockstep_error* error) { return lockstep_wait_durable(c(store), lsn, error); });
}

nb::list verify(Number store, nb::handle given) {
    const auto threads = whole<uint32_t>(given, "threads");
    std::vector<std::string> faults;
    const auto each = [](void* arg, const char* text) {
        static_cast<std::vector<std::string>*>(arg)->emplace_back(text);
    };
    call([&](lockstep_error* error) {
        return lockstep_verify(c(store), threads, each, &faults, nullptr, error);
    });
    drop_raised(store);
    nb::list result;
    for (const std::string& fault : faults) result.append(fault);
    return result;
}

uint64_t give_back_space(Number store) {
    uint64_t bytes = 0;
    call([&](lockstep_error* error) { return lockstep_give_back_space(c(store), &bytes, error); });
    return bytes;
}

void set_steps(Number store, const nb::dict& given) {
    const lockstep_steps_options steps = steps_from(given);
    call([&](lockstep_error* error) { return lockstep_set_steps(c(store), &steps, error); });
}

void attach_key(Number store, nb::handle given, nb::handle key) {
    const std::string name = text(given, "name");
    Function* const kept = keep(store, referenced(function(key, "key"), name));
    EmptyError error;
    const int code = run(
        [&](lockstep_error* out) {
            return lockstep_attach_key(c(store), name.c_str(), secondary_keys, kept, out);
        },
        error);
    if (code != LOCKSTEP_OK) discard(store, kept);
    check(code, error);
}

}  // namespace

void add_store(nb::module_& module) {
    module.def("open", open, nb::arg(), nb::arg(), nb::arg(), nb::arg().none(), nb::arg().none());
    module.def("close", close);
    module.def("find", find, nb::arg(), nb::arg().none(), nb::arg());
    module.def("objects", objects);
    module.def("verify", verify, nb::arg(), nb::arg().none());
    module.def("give_back_space", give_back_space);
    module.def("set_steps", set_steps);
    module.def("attach_key", attach_key, nb::arg(), nb::arg().none(), nb::arg().none());
    module.def("wait_durable", wait_durable, nb::arg(), nb::arg().none());
    module.def("checkpoint", [](Number store) {
        call([&](lockstep_error* error) { return lockstep_checkpoint(c(store), error); });
    });
}

}  // namespace lockstep::python
