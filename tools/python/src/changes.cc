// changes.cc - of the Python binding: the change feed.
#include <nanobind/stl/string.h>

#include <optional>
#include <string>

#include "tools/python/src/core.h"

namespace lockstep::python {

namespace {

constexpr size_t kPositionBytes = 100;  // lockstep_changes_position()

lockstep_changes* c(Number feed) { return handle<lockstep_changes>(feed); }

Number begin(Number store, nb::handle given) {
    const std::string position = text(given, "position");
    lockstep_changes* made = nullptr;
    EmptyError error;
    const int code = run(
        [&](lockstep_error* out) {
            return lockstep_changes_begin(handle<lockstep_store>(store),
                                          lockstep_bytes(position.data(), position.size()), &made,
                                          out);
        },
        error);
    try {
        check(code, error);
    } catch (...) {  // of a signal handler: nobody else could close it
        if (made != nullptr) lockstep_changes_close(made, nullptr);
        throw;
    }
    return number(made);
}

// One change, outside the memory of the feed.
struct Told {
    lockstep_change change;
    std::string object, key, value, old;

    static bool take(void* arg, const lockstep_change* given) {
        const auto text_of = [](const lockstep_slice& slice) {
            return std::string(static_cast<const char*>(slice.data), slice.size);
        };
        static_cast<std::optional<Told>*>(arg)->emplace(*given, text_of(given->object),
                                                        text_of(given->key), text_of(given->value),
                                                        text_of(given->old));
        return false;
    }
};

// (kind, object, is_index, id, of, key, record, offset, value, old, txn, commit, time), or None.
nb::object read(Number feed, uint64_t wait) {
    std::optional<Told> told;
    EmptyError error;
    const int code = run(
        [&](lockstep_error* out) {
            return lockstep_changes_read(c(feed), wait, Told::take, &told, nullptr, out);
        },
        error);
    // A change that was given counts as read: what a signal handler has raised comes next time.
    if (!told) check(code, error);
    if (!told) return nb::none();
    const auto bytes = [](const std::string& from) { return nb::bytes(from.data(), from.size()); };
    const auto present = [&](bool is_there, const std::string& from) -> nb::object {
        return is_there ? nb::object(bytes(from)) : nb::none();
    };
    const lockstep_change& change = told->change;
    const bool has_value = change.kind == LOCKSTEP_CHANGE_INSERT ||
                           change.kind == LOCKSTEP_CHANGE_UPDATE ||
                           change.kind == LOCKSTEP_CHANGE_PATCH;
    const bool of_record = has_value || change.kind == LOCKSTEP_CHANGE_ERASE;
    return nb::make_tuple(
        lockstep_change_kind_name(change.kind),
        told->object.empty() ? nb::object(nb::none()) : nb::object(nb::str(told->object.c_str())),
        change.is_index, change.id, change.of, present(of_record && change.is_index, told->key),
        of_record && !change.is_index ? record_id(change.record) : nb::object(nb::none()),
        change.offset, present(has_value, told->value), present(change.has_old, told->old),
        change.txn, change.commit, change.time);
}

std::string position(Number feed) {
    std::string out(kPositionBytes, '\0');
    size_t bytes = 0;
    call_at_once([&](lockstep_error* error) {
        return lockstep_changes_position(c(feed), out.data(), out.size(), &bytes, error);
    });
    out.resize(bytes);
    return out;
}

nb::tuple point(Number txn) {
    std::string out(kPositionBytes, '\0');
    size_t bytes = 0;
    uint64_t lsn = 0;
    call([&](lockstep_error* error) {
        return lockstep_changes_point(handle<lockstep_txn>(txn), out.data(), out.size(), &bytes,
                                      &lsn, error);
    });
    out.resize(bytes);
    return nb::make_tuple(out, lsn);
}

}  // namespace

void add_changes(nb::module_& module) {
    module.def("changes_begin", begin, nb::arg(), nb::arg().none());
    module.def("changes_read", read);
    module.def("changes_position", position);
    module.def("changes_point", point);
    module.def("changes_close", [](Number feed) {
        call_at_once([&](lockstep_error* error) { return lockstep_changes_close(c(feed), error); });
    });
}

}  // namespace lockstep::python
