// reports.cc - of the Python binding: columns of indexes, and reports as Arrow streams.
//
// Concepts   A stream goes to Python as a capsule, as __arrow_c_stream__() demands. Whoever takes
//            it calls it with or without the GIL, on any thread. The Stream around that of the C
//            interface gives the GIL away and looks at signals.
#include <nanobind/stl/string.h>
#include <nanobind/stl/tuple.h>
#include <nanobind/stl/vector.h>

#include <cerrno>
#include <memory>
#include <mutex>
#include <tuple>
#include <vector>

#include "tools/python/src/core.h"

namespace lockstep::python {

namespace {

lockstep_report* c(Number report) { return handle<lockstep_report>(report); }
lockstep_store* store_of(Number store) { return handle<lockstep_store>(store); }

void describe(Number store, nb::handle given, nb::handle columns) {
    const std::string name = text(given, "name"), said = text(columns, "columns");
    call([&](lockstep_error* error) {
        return lockstep_describe(store_of(store), name.c_str(), lockstep_text(said.c_str()), error);
    });
}

std::string columns(Number store, nb::handle given) {
    const std::string name = text(given, "name");
    std::string out;
    size_t bytes = 1024;  // a change between two calls may make the text longer
    while (out.size() < bytes) {
        out.resize(bytes);
        call([&](lockstep_error* error) {
            return lockstep_columns(store_of(store), name.c_str(), out.data(), out.size(), &bytes,
                                    error);
        });
        if (bytes <= out.size()) break;
    }
    out.resize(bytes);
    return out;
}

Number begin(Number store, uint64_t max_age) {
    lockstep_report_options options;
    lockstep_report_options_init(&options, sizeof options);
    options.max_age = max_age;
    lockstep_report* made = nullptr;
    EmptyError error;
    const int code = run(
        [&](lockstep_error* out) {
            return lockstep_report_begin(store_of(store), &options, &made, out);
        },
        error);
    try {
        check(code, error);
    } catch (...) {  // of a signal handler: nobody else could close it
        if (made != nullptr) lockstep_report_close(made, nullptr);
        throw;
    }
    return number(made);
}

// The conditions of a scan, as the C interface takes them. Not copied: they point into themselves.
class Conditions {
public:
    // [(column, comparison, [constants])]
    explicit Conditions(nb::handle given) {
        for (const nb::handle one : given) {
            const auto [column, compare, values] =
                nb::cast<std::tuple<std::string, int, nb::object>>(one);
            Condition& condition = *all_.emplace_back(std::make_unique<Condition>());
            condition.column = column;
            for (const nb::handle value : values) condition.add(value);
            where_.push_back({condition.column.c_str(), compare, condition.values.data(),
                              condition.values.size()});
        }
    }
    Conditions(const Conditions&) = delete;
    const std::vector<lockstep_where>& where() const { return where_; }

private:
    struct Condition {
        std::string column;
        std::vector<lockstep_constant> values;
        std::vector<std::unique_ptr<Bytes>> kept;
        void add(nb::handle value) {
            lockstep_constant& to = values.emplace_back();
            if (PyFloat_Check(value.ptr())) {
                to.kind = LOCKSTEP_REAL;
                to.real = PyFloat_AsDouble(value.ptr());
            } else if (PyIndex_Check(value.ptr()) != 0) {
                const bool negative = nb::handle(value) < nb::int_(0);
                to.kind = negative ? LOCKSTEP_INTEGER : LOCKSTEP_UNSIGNED;
                if (negative) to.integer = whole<int64_t>(value, "constant");
                else to.number = whole<uint64_t>(value, "constant");
            } else {
                to.kind = LOCKSTEP_BYTES;
                to.bytes = kept.emplace_back(std::make_unique<Value>(value))->slice();
            }
        }
    };
    std::vector<std::unique_ptr<Condition>> all_;
    std::vector<lockstep_where> where_;
};

// What has failed in a stream, for the report as well, which may look on another thread.
class Failure {
public:
    void set(const char* text) {
        const std::lock_guard guard(mutex_);
        if (text_.empty()) text_ = text != nullptr ? text : "io_error: a stream has failed";
    }
    std::string text() const {
        const std::lock_guard guard(mutex_);
        return text_;
    }
    // Valid as long as this object: the text is set once.
    const char* c_str() const {
        const std::lock_guard guard(mutex_);
        return text_.c_str();
    }

private:
    mutable std::mutex mutex_;
    std::string text_;
};

// A stream of the C interface.
class Inner {
public:
    explicit Inner(const ArrowArrayStream& stream) : stream_(stream) {}
    Inner(const Inner&) = delete;
    ~Inner() { stream_.release(&stream_); }
    int get_schema(ArrowSchema* out) { return stream_.get_schema(&stream_, out); }
    int get_next(ArrowArray* out) {
        const int code = stream_.get_next(&stream_, out);
        if (code != 0) failure_->set(stream_.get_last_error(&stream_));
        return code;
    }
    int give_up(ArrowArray* out) {
        *out = {};
        failure_->set("cancelled: a signal handler has raised, or a key function waits");
        return ECANCELED;
    }
    const std::shared_ptr<Failure>& failure() const { return failure_; }

private:
    ArrowArrayStream stream_;
    const std::shared_ptr<Failure> failure_ = std::make_shared<Failure>();
};

// What a consumer calls: the inner stream, or its next blocks.
class Part {
public:
    Part(std::shared_ptr<Inner> inner, int64_t blocks) : inner_(std::move(inner)), left_(blocks) {}
    static void move_to(std::unique_ptr<Part> from, ArrowArrayStream* out) {
        *out = {.get_schema = get_schema,
                .get_next = get_next,
                .get_last_error = get_last_error,
                .release = release,
                .private_data = from.release()};
    }

private:
    static Part& of(ArrowArrayStream* self) { return *static_cast<Part*>(self->private_data); }
    static int get_schema(ArrowArrayStream* self, ArrowSchema* out) {
        return of(self).inner_->get_schema(out);
    }
    static int get_next(ArrowArrayStream* self, ArrowArray* out) {
        Part& part = of(self);
        *out = {};
        if (part.left_ == 0) return 0;
        if (part.left_ > 0) --part.left_;
        Inner& inner = *part.inner_;
        if (look_at_signals()) return inner.give_up(out);
        if (!has_gil()) return inner.get_next(out);
        // Some consumers keep it. A key function, for which a worker waits, could not run then.
        if (!may_wait()) return inner.give_up(out);
        const ReleasedGil released;
        return inner.get_next(out);
    }
    static const char* get_last_error(ArrowArrayStream* self) {
        return of(self).inner_->failure()->c_str();
    }
    static void release(ArrowArrayStream* self) {
        self->release = nullptr;
        delete &of(self);
    }

    const std::shared_ptr<Inner> inner_;
    int64_t left_;  // blocks; below 0: all
};

// A structure of Arrow's interface in a capsule, as its consumers name it. Who takes the content
// clears `release`.
constexpr const char* name_of(const ArrowArrayStream*) { return "arrow_array_stream"; }
constexpr const char* name_of(const ArrowSchema*) { return "arrow_schema"; }

template <class T>
nb::object in_capsule(std::unique_ptr<T> content) {
    constexpr const char* kName = name_of(static_cast<const T*>(nullptr));
    PyObject* const capsule = PyCapsule_New(content.get(), kName, [](PyObject* dropped) {
        std::unique_ptr<T> owned(static_cast<T*>(PyCapsule_GetPointer(dropped, kName)));
        if (owned->release != nullptr) owned->release(owned.get());
    });
    if (capsule == nullptr) {
        content->release(content.get());
        throw nb::python_error();
    }
    (void)content.release();
    return nb::steal(capsule);
}

// A scan of a report. Whoever has a capsule keeps it, too.
class ReportStream {
public:
    explicit ReportStream(std::shared_ptr<Inner> inner)
        : failure_(inner->failure()), inner_(std::move(inner)) {}
    // The next blocks as a stream; below 0: all, and then the scan ends with the capsule.
    nb::object capsule(int64_t blocks) {
        auto part = std::make_unique<Part>(inner(), blocks);
        if (blocks < 0) end();
        auto out = std::make_unique<ArrowArrayStream>();
        Part::move_to(std::move(part), out.get());
        return in_capsule(std::move(out));
    }
    // What the blocks are.
    nb::object schema() const {
        auto out = std::make_unique<ArrowSchema>();
        if (inner()->get_schema(out.get()) != 0)
            refuse(LOCKSTEP_OUT_OF_MEMORY, "out_of_memory: schema of a scan");
        return in_capsule(std::move(out));
    }
    void end() { inner_.reset(); }
    // The engine's text; empty: nothing has failed.
    std::string failure() const { return failure_->text(); }

private:
    const std::shared_ptr<Inner>& inner() const {
        if (inner_ == nullptr) refuse(LOCKSTEP_CANCELLED, "cancelled: the stream was given away");
        return inner_;
    }

    std::shared_ptr<Failure> failure_;
    std::shared_ptr<Inner> inner_;
};

ReportStream scan(Number report, nb::handle given, const std::vector<std::string>& columns,
                  nb::handle conditions, bool ordered, int decimals, int policy) {
    const std::string index = text(given, "name");
    const Conditions where(conditions);
    std::vector<const char*> names;
    for (const std::string& name : columns) names.push_back(name.c_str());
    lockstep_scan_options options;
    lockstep_scan_options_init(&options, sizeof options);
    options.columns = names.data();
    options.columns_count = names.size();
    options.where = where.where().data();
    options.where_count = where.where().size();
    options.ordered = ordered;
    options.decimals = decimals;
    options.policy = policy;
    ArrowArrayStream inner{};
    EmptyError error;
    const int code = run(
        [&](lockstep_error* out) {
            return lockstep_report_scan(c(report), index.c_str(), &options, &inner, out);
        },
        error);
    std::shared_ptr<Inner> stream;
    if (code == LOCKSTEP_OK) stream = std::make_shared<Inner>(inner);
    check(code, error);
    return ReportStream(std::move(stream));
}

nb::dict stats(Number store) {
    lockstep_report_stats counted;
    counted.size = sizeof counted;
    call_at_once([&](lockstep_error* error) {
        return lockstep_get_report_stats(handle<lockstep_store>(store), &counted, error);
    });
    nb::dict result;
#define LOCKSTEP_TAKE(field) result[#field] = counted.field;
    LOCKSTEP_REPORT_COUNTERS(LOCKSTEP_TAKE)
#undef LOCKSTEP_TAKE
    return result;
}

nb::list open_reports(Number store) {
    std::vector<lockstep_report_progress> found;
    const auto each = [](void* arg, const lockstep_report_progress* report) {
        static_cast<std::vector<lockstep_report_progress>*>(arg)->push_back(*report);
        return true;
    };
    call_at_once([&](lockstep_error* error) {
        return lockstep_reports(handle<lockstep_store>(store), each, &found, error);
    });
    nb::list result;
    for (const lockstep_report_progress& one : found)
        result.append(nb::make_tuple(one.number, one.sees, one.age_nanos, one.scans, one.ran,
                                     one.progress, one.behind));
    return result;
}

}  // namespace

void add_reports(nb::module_& module) {
    module.def("describe", describe, nb::arg(), nb::arg().none(), nb::arg().none());
    module.def("columns", columns, nb::arg(), nb::arg().none());
    module.def("report_begin", begin);
    module.def("report_sees", [](Number report) { return lockstep_report_sees(c(report)); });
    module.def("report_scan", scan, nb::arg(), nb::arg().none(), nb::arg(), nb::arg(), nb::arg(),
               nb::arg(), nb::arg());
    module.def("report_stats", stats);
    module.def("reports", open_reports);
    nb::class_<ReportStream>(module, "ReportStream")
        .def("capsule", &ReportStream::capsule)
        .def("schema", &ReportStream::schema)
        .def("failure", &ReportStream::failure)
        .def("end", &ReportStream::end);
    module.def("raise_interrupt", raise_interrupt);
    module.def("report_cancel", [](Number report) {
        call([&](lockstep_error* error) { return lockstep_report_cancel(c(report), error); });
    });
    module.def("report_close", [](Number report) {
        call([&](lockstep_error* error) { return lockstep_report_close(c(report), error); });
    });
}

}  // namespace lockstep::python
