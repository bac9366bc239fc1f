// backup.cc - of the Python binding: backups, restore.
#include <nanobind/stl/optional.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include <optional>
#include <string>
#include <vector>

#include "tools/python/src/callbacks.h"

namespace lockstep::python {

namespace {

nb::tuple as_tuple(const lockstep_backup_info& i) {
    return nb::make_tuple(i.lsn, i.redo_from, i.since, nb::make_tuple(i.store[0], i.store[1]),
                          i.pages, i.pages_copied, i.pages_zeroed, i.bytes, i.log_bytes, i.nanos,
                          i.ended_at, i.history);
}

lockstep_backup_info info_from(const nb::tuple& t) {
    lockstep_backup_info i{};
    i.size = sizeof i;
    uint64_t* const fields[] = {&i.lsn,       &i.redo_from,    &i.since,        nullptr,
                                &i.pages,     &i.pages_copied, &i.pages_zeroed, &i.bytes,
                                &i.log_bytes, &i.nanos,        &i.ended_at,     &i.history};
    for (size_t n = 0; n < std::size(fields); ++n)
        if (fields[n] != nullptr) *fields[n] = nb::cast<uint64_t>(t[n]);
    const auto store = nb::cast<nb::tuple>(t[3]);
    i.store[0] = nb::cast<uint64_t>(store[0]);
    i.store[1] = nb::cast<uint64_t>(store[1]);
    return i;
}

// A function that hears of a backup's progress, and what it is told.
struct Listener {
    Number store;
    nb::handle function;
    uint64_t pages = 0, pages_total = 0, bytes = 0;
};

// On a kernel thread that may block.
int tell_listener(void* arg) {
    const auto& now = *static_cast<const Listener*>(arg);
    const HeldGil gil;
    const InsideCall inside(now.store);
    guarded(now.function,
            [&] { invoke(now.function.ptr(), now.pages, now.pages_total, now.bytes); });
    return 0;
}

// The function may use the store, so it must not hold a worker.
void progressed(void* arg, uint64_t pages, uint64_t pages_total, uint64_t bytes) {
    auto& listener = *static_cast<Listener*>(arg);
    listener.pages = pages;
    listener.pages_total = pages_total;
    listener.bytes = bytes;
    lockstep_offload(tell_listener, arg, nullptr);
}

// A function that takes a backup, and the exception that it raised.
struct Sink {
    Number store;
    nb::handle function;
    std::exception_ptr raised;
    const char* file;
    uint64_t offset;
    lockstep_slice bytes;
};

// On a kernel thread that may block.
int take_piece(void* arg) {
    auto& sink = *static_cast<Sink*>(arg);
    const HeldGil gil;
    const InsideCall inside(sink.store);
    try {
        invoke(sink.function.ptr(), nb::str(sink.file), sink.offset, bytes_of(sink.bytes));
        return 0;
    } catch (...) {
        sink.raised = std::current_exception();
        return -1;
    }
}

int take(void* arg, const char* file, uint64_t offset, lockstep_slice bytes) {
    auto& sink = *static_cast<Sink*>(arg);
    sink.file = file;
    sink.offset = offset;
    sink.bytes = bytes;
    return lockstep_offload(take_piece, &sink, nullptr);
}

nb::tuple backup(Number store, const std::optional<std::string>& directory, nb::handle function,
                 nb::handle bytes_per_second, const std::optional<nb::tuple>& since,
                 nb::handle progress) {
    lockstep_backup_options options;
    lockstep_backup_options_init(&options, sizeof options);
    if (!bytes_per_second.is_none()) {
        options.bytes_per_second = whole<uint64_t>(bytes_per_second, "bytes_per_second");
        if (options.bytes_per_second == LOCKSTEP_UNLIMITED)
            refuse_range("bytes_per_second", "1", std::to_string(LOCKSTEP_UNLIMITED - 1),
                         bytes_per_second);
    }
    if (!directory) python::function(function, "sink");
    lockstep_backup_info from{};
    if (since) {
        from = info_from(*since);
        options.since = &from;
    }
    Listener listener{store, progress, 0, 0, 0};
    if (!progress.is_none()) {
        python::function(progress, "progress");
        options.progress = progressed;
        options.progress_arg = &listener;
    }
    lockstep_backup_info info{};
    info.size = sizeof info;
    Sink sink{store, function, nullptr, nullptr, 0, {}};
    EmptyError error;
    const int code = run(
        [&](lockstep_error* out) {
            auto* const c = handle<lockstep_store>(store);
            if (directory) return lockstep_backup(c, directory->c_str(), &options, &info, out);
            return lockstep_backup_to(c, take, &sink, &options, &info, out);
        },
        error);
    raise_interrupt();
    if (sink.raised) std::rethrow_exception(std::exchange(sink.raised, nullptr));
    check(code, error);
    return as_tuple(info);
}

nb::tuple read_backup(const std::string& directory) {
    lockstep_backup_info info{};
    info.size = sizeof info;
    call([&](lockstep_error* error) {
        return lockstep_read_backup(directory.c_str(), &info, error);
    });
    return as_tuple(info);
}

nb::list as_list(const std::vector<std::string>& faults) {
    nb::list result;
    for (const std::string& fault : faults) result.append(fault);
    return result;
}
void add_fault(void* faults, const char* text) {
    static_cast<std::vector<std::string>*>(faults)->emplace_back(text);
}

nb::list verify_backup(const std::string& directory) {
    std::vector<std::string> faults;
    call([&](lockstep_error* error) {
        return lockstep_verify_backup(directory.c_str(), add_fault, &faults, nullptr, error);
    });
    return as_list(faults);
}

// What a restore reads, and to which point.
struct Source {
    Source(const std::vector<std::string>& backups, const std::optional<std::string>& archive,
           nb::handle until, nb::handle until_time, nb::handle history, nb::handle memory_bytes)
        : lsn(given(until, "until")),
          time(given(until_time, "until in nanoseconds")),
          followed(given(history, "history")) {
        lockstep_restore_options_init(&options, sizeof options);
        if (archive) options.archive = archive->c_str();
        if (lsn) options.until = &*lsn;
        if (time) options.until_time = &*time;
        if (followed) options.history = &*followed;
        if (const auto memory = given(memory_bytes, "memory_bytes")) options.memory_bytes = *memory;
        for (const std::string& backup : backups) names.push_back(backup.c_str());
    }
    Source(const Source&) = delete;  // the options point into it
    Source& operator=(const Source&) = delete;

    static std::optional<uint64_t> given(nb::handle value, const char* name) {
        return value.is_none() ? std::nullopt : std::optional(whole<uint64_t>(value, name));
    }

    std::optional<uint64_t> lsn, time, followed;
    lockstep_restore_options options;
    std::vector<const char*> names;
};

nb::list verify_restore(const std::vector<std::string>& backups,
                        const std::optional<std::string>& archive, nb::handle until,
                        nb::handle until_time, nb::handle history, nb::handle memory_bytes) {
    const Source from(backups, archive, until, until_time, history, memory_bytes);
    std::vector<std::string> faults;
    call([&](lockstep_error* error) {
        return lockstep_verify_restore(from.names.data(), from.names.size(), &from.options,
                                       add_fault, &faults, nullptr, error);
    });
    return as_list(faults);
}

nb::tuple restore_backup(const std::vector<std::string>& backups, const std::string& to,
                         const std::optional<std::string>& archive, nb::handle until,
                         nb::handle until_time, nb::handle history, nb::handle memory_bytes) {
    const Source from(backups, archive, until, until_time, history, memory_bytes);
    lockstep_backup_info info{};
    info.size = sizeof info;
    call([&](lockstep_error* error) {
        return lockstep_restore_backup(from.names.data(), from.names.size(), to.c_str(),
                                       &from.options, &info, error);
    });
    return as_tuple(info);
}

nb::tuple update_backup(const std::string& full, const std::string& next) {
    lockstep_backup_info info{};
    info.size = sizeof info;
    call([&](lockstep_error* error) {
        return lockstep_update_backup(full.c_str(), next.c_str(), &info, error);
    });
    return as_tuple(info);
}

}  // namespace

void add_backup(nb::module_& module) {
    module.def("backup", backup, nb::arg(), nb::arg().none(), nb::arg().none(), nb::arg().none(),
               nb::arg().none(), nb::arg().none());
    module.def("read_backup", read_backup);
    module.def("update_backup", update_backup);
    module.def("verify_backup", verify_backup);
    module.def("verify_restore", verify_restore, nb::arg(), nb::arg().none(), nb::arg().none(),
               nb::arg().none(), nb::arg().none(), nb::arg().none());
    module.def("restore_backup", restore_backup, nb::arg(), nb::arg(), nb::arg().none(),
               nb::arg().none(), nb::arg().none(), nb::arg().none(), nb::arg().none());
}

}  // namespace lockstep::python
