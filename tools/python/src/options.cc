// options.cc - of the Python binding: options of a store, of STEPS, from and to dictionaries.
#include "tools/python/src/options.h"

#include <cstring>

namespace lockstep::python {

namespace {

// clang-format off
#define LOCKSTEP_STORE_FIELDS(X) \
    X(create) X(read_only) X(pin_workers) X(sync) X(control) X(workers) X(pool_bytes) \
    X(stack_bytes) X(transactions_max) X(user_threads_max) X(executors) X(packets_max) \
    X(packet_policy) X(lock_policy) X(lock_bypass_max) X(io) X(transaction_age_max) X(log_bytes) \
    X(log_segment_bytes) X(log_ring_bytes) X(lazy_flush_interval) X(checkpoint_log_bytes) \
    X(lock_timeout) X(lock_table_bytes_log2) X(escalate_at) X(version_bytes) X(retries_max) \
    X(offload_threads) X(slice_warning) X(archive) X(archive_interval) X(archive_backlog_bytes) \
    X(archive_failure) X(file_mode) X(scan_bytes) X(scan_share) X(scan_workers) \
    X(changes_log_bytes)
#define LOCKSTEP_STEPS_FIELDS(X) \
    X(mode) X(team_max) X(policy) X(gate) X(rounds_max) X(points) X(window_records) \
    X(float_state) X(ignore_latches)
// clang-format on

template <class T>
void set_field(T& field, const char* name, nb::handle value) {
    field = whole<T>(value, std::string("option ") + name);
}

void set_field(double& field, const char* name, nb::handle value) {
    if (PyBool_Check(value.ptr()) || !PyNumber_Check(value.ptr()))
        refuse_type(std::string("option ") + name, "a number", value);
    const nb::object number = nb::steal(PyNumber_Float(value.ptr()));
    if (!number.is_valid()) throw nb::python_error();
    field = PyFloat_AsDouble(number.ptr());
}

void set_field(bool& field, const char* name, nb::handle value) {
    field = flag(value, std::string("option ") + name);
}

// The text lives as long as the dictionary of the options.
void set_field(const char*& field, const char* name, nb::handle value) {
    field = value.is_none() ? nullptr : PyUnicode_AsUTF8AndSize(value.ptr(), nullptr);
    if (field != nullptr || value.is_none()) return;
    PyErr_Clear();
    refuse_type(std::string("option ") + name, "a text", value);
}

[[noreturn]] void unknown(const char* name) {
    raise(PyExc_TypeError, std::string("unknown option ") + name);
}

void set_option(lockstep_options& options, const char* name, nb::handle value) {
#define LOCKSTEP_SET(field) \
    if (std::strcmp(name, #field) == 0) return set_field(options.field, name, value);
    LOCKSTEP_STORE_FIELDS(LOCKSTEP_SET)
#undef LOCKSTEP_SET
    unknown(name);
}

void set_option(lockstep_steps_options& options, const char* name, nb::handle value) {
#define LOCKSTEP_SET(field) \
    if (std::strcmp(name, #field) == 0) return set_field(options.field, name, value);
    LOCKSTEP_STEPS_FIELDS(LOCKSTEP_SET)
#undef LOCKSTEP_SET
    unknown(name);
}

template <class Options>
void set_all(Options& options, const nb::dict& given) {
    for (const auto& [name, value] : given)
        set_option(options, nb::cast<nb::str>(name).c_str(), value);
}

nb::dict as_dict(const lockstep_options& options) {
    nb::dict result;
#define LOCKSTEP_TAKE(field) result[#field] = options.field;
    LOCKSTEP_STORE_FIELDS(LOCKSTEP_TAKE)
    return result;
}

nb::dict as_dict(const lockstep_steps_options& options) {
    nb::dict result;
    LOCKSTEP_STEPS_FIELDS(LOCKSTEP_TAKE)
#undef LOCKSTEP_TAKE
    return result;
}

nb::tuple get_options(Number store) {
    lockstep_options options{};
    lockstep_steps_options steps{};
    options.size = sizeof options;
    steps.size = sizeof steps;
    call_at_once([&](lockstep_error* error) {
        return lockstep_get_options(handle<lockstep_store>(store), &options, &steps, error);
    });
    return nb::make_tuple(as_dict(options), as_dict(steps));
}

uint32_t ctx_points(const std::string& text) {
    uint32_t points = 0;
    call_at_once(
        [&](lockstep_error* error) { return lockstep_ctx_points(text.c_str(), &points, error); });
    return points;
}

}  // namespace

lockstep_options options_from(const nb::dict& given) {
    lockstep_options options;
    lockstep_options_init(&options, sizeof options);
    set_all(options, given);
    return options;
}

lockstep_steps_options steps_from(const nb::dict& given) {
    lockstep_steps_options options;
    lockstep_steps_options_init(&options, sizeof options);
    set_all(options, given);
    return options;
}

void add_options(nb::module_& module) {
    module.def("get_options", get_options);
    module.def("ctx_points", ctx_points);
}

}  // namespace lockstep::python
