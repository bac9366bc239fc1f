// procedures.h - of the Python binding: a procedure object that is open on a store, and a call of
// it as an operation of a request.
#pragma once

#include <atomic>
#include <string>
#include <vector>

#include "tools/python/src/core.h"

namespace lockstep::python {

class ProcedureObject {
public:
    // Loads and opens it. Raises the error of either.
    ProcedureObject(const std::string& path, Number store, const std::string& options);
    ProcedureObject(const ProcedureObject&) = delete;

    std::vector<std::string> names() const;
    // Packed requests, each a transaction; their packed outcomes.
    nb::object run(const std::string& procedure, nb::handle requests);
    // The code, and the reply or the error's text.
    nb::object step(Number txn, const std::string& procedure, nb::handle request);
    // Nothing may run in it.
    void close();

private:
    friend class StepCall;
    void check_open() const;
    void check_steps() const;

    const lockstep_procedures& procedures_;
    void* self_ = nullptr;
    bool open_ = false;
};

// A step of a transaction, which does not move: an operation points to it. Made and destroyed with
// the GIL.
class StepCall {
public:
    StepCall(nb::handle object, std::string procedure, nb::handle request);
    StepCall(const StepCall&) = delete;
    ~StepCall() { lockstep_call_clear(&call_); }

    const lockstep_function* function() const { return &function_; }
    // The number of the transaction that it is a part of, as it began last; 0: not begun.
    uint64_t txn() const { return txn_.load(std::memory_order_relaxed); }
    int code() const { return call_.code; }
    // The reply, or the error's text.
    lockstep_slice content() const {
        return call_.code == 0 ? call_.reply : lockstep_text(call_.text);
    }

private:
    int run(lockstep_txn* txn);

    nb::object owner_;
    const ProcedureObject& object_;
    std::string procedure_;
    Value request_;
    lockstep_call call_;
    lockstep_function function_;
    std::atomic<uint64_t> txn_{0};
};

}  // namespace lockstep::python
