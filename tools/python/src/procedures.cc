// procedures.cc - of the Python binding: procedure objects (<lockstep/c/procedures.h>).
//
// Concepts   Many requests are one bytes object, and so are their outcomes: packed, so that Python
//            does nothing for each of them. Numbers are little-endian, as the processor's.
//              requests  u32 count, u32 size[count], the requests
//              outcomes  u32 count, i32 code[count], u32 size[count], the replies; in the place of
//                        a reply the error's text if the code is not 0
// Blocking   open, run, step and close release the GIL.
#include "tools/python/src/procedures.h"

#include <dlfcn.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include <cstring>
#include <string>
#include <vector>

namespace lockstep::python {

namespace {

// The struct of a shared object, which stays loaded for ever: its code may be on a stack.
const lockstep_procedures& load(const std::string& path) {
    void* const object = dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);
    if (object == nullptr) refuse(LOCKSTEP_BAD_PATH, dlerror());
    const void* const symbol = dlsym(object, LOCKSTEP_PROCEDURES_SYMBOL);
    if (symbol == nullptr)
        refuse(LOCKSTEP_BAD_VERSION,
               path + " is no procedure object: it does not export " LOCKSTEP_PROCEDURES_SYMBOL);
    // Its symbol if the object has a copy of the library, else the one that this extension uses.
    const void* const own = dlsym(object, "lockstep_run_calls");
    if (own != nullptr && own != reinterpret_cast<const void*>(lockstep_run_calls))
        refuse(LOCKSTEP_BAD_VERSION, path +
                                         " uses another copy of liblockstep than the Python"
                                         " package: link it with the package's shared library");
    const auto& procedures = *static_cast<const lockstep_procedures*>(symbol);
    if (procedures.version != LOCKSTEP_PROCEDURES_VERSION || procedures.size < sizeof procedures)
        refuse(LOCKSTEP_BAD_VERSION, path + " has version " + std::to_string(procedures.version) +
                                         " and " + std::to_string(procedures.size) +
                                         " bytes of lockstep_procedures, not version " +
                                         std::to_string(LOCKSTEP_PROCEDURES_VERSION) + " and " +
                                         std::to_string(sizeof procedures) + ": build it anew");
    return procedures;
}

template <class T>
void append(std::string& out, T value) {
    out.append(reinterpret_cast<const char*>(&value), sizeof value);
}

class Calls {
public:
    Calls(const char* procedure, lockstep_slice packed) {
        const char* at = static_cast<const char*>(packed.data);
        size_t left = packed.size;
        const auto take = [&](size_t bytes) {
            if (bytes > left) raise(PyExc_ValueError, "the packed requests are cut off");
            left -= bytes;
            return std::exchange(at, at + bytes);
        };
        uint32_t count = 0;
        std::memcpy(&count, take(sizeof count), sizeof count);
        const char* const sizes = take(size_t{count} * sizeof(uint32_t));
        calls_.resize(count);
        for (uint32_t i = 0; i < count; ++i) {
            uint32_t size = 0;
            std::memcpy(&size, sizes + i * sizeof size, sizeof size);
            lockstep_call_init(&calls_[i], sizeof calls_[i]);
            calls_[i].procedure = procedure;
            calls_[i].request = {take(size), size};
        }
        if (left != 0) raise(PyExc_ValueError, "bytes behind the packed requests");
    }
    Calls(const Calls&) = delete;
    ~Calls() {
        for (lockstep_call& call : calls_) lockstep_call_clear(&call);
    }

    lockstep_call* data() { return calls_.data(); }
    size_t size() const { return calls_.size(); }
    std::string outcomes() const {
        std::string out;
        append(out, static_cast<uint32_t>(calls_.size()));
        for (const lockstep_call& call : calls_) append(out, static_cast<int32_t>(call.code));
        for (const lockstep_call& call : calls_)
            append(out, static_cast<uint32_t>(content(call).size));
        for (const lockstep_call& call : calls_)
            if (content(call).size != 0)
                out.append(static_cast<const char*>(content(call).data), content(call).size);
        return out;
    }
    static lockstep_slice content(const lockstep_call& call) {
        return call.code == 0 ? call.reply : lockstep_text(call.text);
    }

private:
    std::vector<lockstep_call> calls_;
};

}  // namespace

ProcedureObject::ProcedureObject(const std::string& path, Number store, const std::string& options)
    : procedures_(load(path)) {
    call([&](lockstep_error* error) {
        return procedures_.open(handle<lockstep_store>(store), options.c_str(), &self_, error);
    });
    open_ = true;
}

std::vector<std::string> ProcedureObject::names() const {
    std::vector<std::string> all;
    for (const char* const* name = procedures_.names; *name != nullptr; ++name)
        all.emplace_back(*name);
    return all;
}

nb::object ProcedureObject::run(const std::string& procedure, nb::handle requests) {
    check_open();
    const Value packed(requests);
    Calls calls(procedure.c_str(), packed.slice());
    std::string outcomes;
    {
        const Wait wait;
        procedures_.run(self_, calls.data(), calls.size());
        outcomes = calls.outcomes();
    }
    raise_interrupt();
    return bytes_of(outcomes.data(), outcomes.size());
}

nb::object ProcedureObject::step(Number txn, const std::string& procedure, nb::handle request) {
    StepCall step(nb::find(*this), procedure, request);
    call([&](lockstep_error* error) {
        const lockstep_function* const function = step.function();
        const int code =
            lockstep_run_in(handle<lockstep_txn>(txn), function->body, function->arg, error);
        return step.code() == 0 ? code : LOCKSTEP_OK;
    });
    return nb::make_tuple(step.code(), bytes_of(step.content()));
}

void ProcedureObject::close() {
    if (!open_) return;
    open_ = false;
    const ReleasedGil released;
    procedures_.close(self_);
}

void ProcedureObject::check_open() const {
    if (!open_) refuse(LOCKSTEP_STORE_CLOSED, "the procedure object is closed");
}

void ProcedureObject::check_steps() const {
    check_open();
    if (procedures_.step == nullptr)
        refuse(LOCKSTEP_UNSUPPORTED, "the procedure object has no steps of transactions");
}

StepCall::StepCall(nb::handle object, std::string procedure, nb::handle request)
    : owner_(nb::borrow(object)),
      object_(nb::cast<const ProcedureObject&>(object)),
      procedure_(std::move(procedure)),
      request_(request),
      function_{[](lockstep_txn* txn, void* arg) { return static_cast<StepCall*>(arg)->run(txn); },
                this} {
    object_.check_steps();
    lockstep_call_init(&call_, sizeof call_);
    call_.procedure = procedure_.c_str();
    call_.request = request_.slice();
}

// On the user thread of the transaction, without the GIL.
int StepCall::run(lockstep_txn* txn) {
    txn_.store(lockstep_txn_id(txn), std::memory_order_relaxed);
    lockstep_call_clear(&call_);  // an attempt before may have set a reply
    object_.procedures_.step(object_.self_, txn, &call_);
    return call_.code;
}

void add_procedures(nb::module_& module) {
    nb::class_<ProcedureObject>(module, "ProcedureObject")
        .def(nb::init<const std::string&, Number, const std::string&>())
        .def("names", &ProcedureObject::names)
        .def("run", &ProcedureObject::run)
        .def("step", &ProcedureObject::step)
        .def("close", &ProcedureObject::close);
}

}  // namespace lockstep::python
