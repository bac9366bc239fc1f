// transaction.cc - of the Python binding: begin, commit, rollback, savepoints, needs.
#include <nanobind/stl/string.h>

#include <deque>
#include <memory>
#include <vector>

#include "tools/python/src/core.h"

namespace lockstep::python {

namespace {

lockstep_txn* c(Number txn) { return handle<lockstep_txn>(txn); }

// Rolls back without waiting: for a transaction that nothing refers to. Any thread, also the
// helper, for which a worker of the store may wait. False: it has ended, or a call is in it.
bool abandon(Number txn) {
    auto request = std::make_unique<lockstep_request>();
    lockstep_request_init(request.get(), sizeof *request);
    request->txn = c(txn);
    request->end = LOCKSTEP_END_ABORT;
    request->done = [](void*, lockstep_request* done) { delete done; };
    if (lockstep_submit(request.get()) != LOCKSTEP_OK) return false;
    (void)request.release();  // the callback frees it
    return true;
}

// Sets `_number` of `into`, a Transaction, before the exception of a signal handler is raised: it
// would lose a result, and the transaction would stay open.
void begin(nb::handle into, Number store, int isolation, int durability, bool read_only,
           uint32_t operations, uint32_t priority, uint64_t lock_timeout) {
    const lockstep_txn_options options = {sizeof(lockstep_txn_options),
                                          isolation,
                                          durability,
                                          read_only,
                                          operations,
                                          priority,
                                          lock_timeout};
    lockstep_txn* txn = nullptr;
    EmptyError error;
    const int code = run(
        [&](lockstep_error* out) {
            return lockstep_begin(handle<lockstep_store>(store), &options, &txn, out);
        },
        error);
    static PyObject* const name = PyUnicode_InternFromString("_number");
    if (PyObject_SetAttr(into.ptr(), name, nb::int_(number(txn)).ptr()) == 0)
        return check(code, error);
    (void)abandon(number(txn));
    throw nb::python_error();
}

uint64_t commit(Number txn) {
    uint64_t lsn = 0;
    call([&](lockstep_error* error) { return lockstep_commit(c(txn), &lsn, error); });
    return lsn;
}

void abort(Number txn) {
    call([&](lockstep_error* error) { return lockstep_abort(c(txn), error); });
}

nb::tuple set_savepoint(Number txn) {
    lockstep_savepoint savepoint{};
    call([&](lockstep_error* error) { return lockstep_set_savepoint(c(txn), &savepoint, error); });
    return nb::make_tuple(savepoint.txn, savepoint.number);
}

void rollback_to(Number txn, uint64_t of, uint64_t number) {
    const lockstep_savepoint savepoint = {of, number};
    call([&](lockstep_error* error) { return lockstep_rollback_to(c(txn), &savepoint, error); });
}

// Each need is (index, key, access, bytes).
bool will_need(Number txn, const nb::list& given) {
    std::deque<Key> keys;
    std::vector<lockstep_need> needs;
    for (const nb::handle one : given) {
        const auto need = nb::cast<nb::tuple>(one);
        keys.emplace_back(nb::object(need[1]));
        needs.push_back({index_of(nb::object(need[0])), keys.back().slice(), nb::cast<int>(need[2]),
                         nb::cast<uint32_t>(need[3])});
    }
    bool walked = false;
    call([&](lockstep_error* error) {
        return lockstep_will_need(c(txn), needs.data(), needs.size(), &walked, error);
    });
    return walked;
}

}  // namespace

void add_transaction(nb::module_& module) {
    module.def("begin", begin);
    module.def("commit", commit);
    module.def("abort", abort);
    module.def("abandon", abandon);
    module.def("txn_id", [](Number txn) { return lockstep_txn_id(c(txn)); });
    module.def("set_savepoint", set_savepoint);
    module.def("rollback_to", rollback_to);
    module.def("will_need", will_need);
}

}  // namespace lockstep::python
