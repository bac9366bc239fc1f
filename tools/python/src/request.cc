// request.cc - of the Python binding: requests, performed or submitted, and what comes of them.
#include "tools/python/src/request.h"

#include <nanobind/stl/string.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <cerrno>

#include "tools/python/src/callbacks.h"

namespace lockstep::python {

DoneList::DoneList() : fd_(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)) {
    if (fd_ >= 0) return;
    PyErr_SetFromErrno(PyExc_OSError);
    throw nb::python_error();
}

DoneList::~DoneList() { ::close(fd_); }

// A user thread's. The loop is told once for all that it has not taken.
void DoneList::push(Request* request) {
    Request* first = first_.load(std::memory_order_relaxed);
    do {
        request->next = first;
    } while (!first_.compare_exchange_weak(first, request, std::memory_order_acq_rel));
    if (first != nullptr) return;
    const uint64_t one = 1;
    [[maybe_unused]] const ssize_t written = write(fd_, &one, sizeof one);
}

// The descriptor is cleared first: what is pushed behind that sets it again.
Request* DoneList::take() {
    uint64_t count = 0;
    [[maybe_unused]] const ssize_t cleared = read(fd_, &count, sizeof count);
    return first_.exchange(nullptr, std::memory_order_acq_rel);
}

nb::list Completions::drain() {
    nb::list done;
    for (Request* request = list_->take(); request != nullptr;) {
        Request* const next = request->next;
        done.append(nb::steal(std::exchange(request->self, nullptr)));
        request = next;
    }
    done.attr("reverse")();
    return done;
}

Request::Request() {
    lockstep_request_init(&request_, sizeof request_);
    request_.error = &error_;
    add(LOCKSTEP_OP_CALL).buffer = const_cast<lockstep_function*>(&note_);
}

// On the user thread of the transaction, without the GIL. Of the two sides at least one sees what
// the other has written (RQ-3).
int Request::note(lockstep_txn* txn, void* self) {
    auto& request = *static_cast<Request*>(self);
    request.noted_.store(lockstep_txn_id(txn), std::memory_order_seq_cst);
    return request.cancelled_.load(std::memory_order_seq_cst) ? LOCKSTEP_CANCELLED : LOCKSTEP_OK;
}

uint64_t Request::cancel() {
    cancelled_.store(true, std::memory_order_seq_cst);
    return noted_.load(std::memory_order_seq_cst);
}

lockstep_operation& Request::add(int kind) {
    idle();
    operations_.push_back({});
    operations_.back().kind = kind;
    buffers_.emplace_back();
    return operations_.back();
}

lockstep_slice Request::keep_key(nb::handle key) {
    return bytes_.emplace_back(key, Bytes::Use::key).slice();
}

lockstep_slice Request::keep_value(nb::handle value) {
    return bytes_.emplace_back(value, Bytes::Use::value).slice();
}

void Request::get(nb::handle object, nb::handle key, nb::handle access, size_t room) {
    lockstep_index* const index = index_of(object);
    const int lock = access_of(access);
    const lockstep_slice bytes = keep_key(key);
    lockstep_operation& o = add(LOCKSTEP_OP_GET_WHOLE);
    o.index = index;
    o.key = bytes;
    o.access = lock;
    o.room = room;
}

void Request::put(int kind, nb::handle object, nb::handle key, nb::handle value) {
    lockstep_index* const index = index_of(object);
    const lockstep_slice k = keep_key(key), v = keep_value(value);
    lockstep_operation& o = add(kind);
    o.index = index;
    o.key = k;
    o.value = v;
}

void Request::patch(nb::handle object, nb::handle key, nb::handle offset, nb::handle part) {
    const auto from = whole<size_t>(offset, "offset");
    put(LOCKSTEP_OP_PATCH, object, key, part);
    operations_.back().offset = from;
}

void Request::erase(nb::handle object, nb::handle key) {
    lockstep_index* const index = index_of(object);
    const lockstep_slice bytes = keep_key(key);
    lockstep_operation& o = add(LOCKSTEP_OP_ERASE);
    o.index = index;
    o.key = bytes;
}

void Request::heap_get(nb::handle object, nb::handle id, nb::handle access, size_t room) {
    lockstep_heap* const heap = heap_of(object);
    const lockstep_record_id place = record_id_of(id);
    const int lock = access_of(access);
    lockstep_operation& o = add(LOCKSTEP_OP_HEAP_GET_WHOLE);
    o.heap = heap;
    o.id = place;
    o.access = lock;
    o.room = room;
}

void Request::heap_insert(nb::handle object, nb::handle record) {
    lockstep_heap* const heap = heap_of(object);
    const lockstep_slice value = keep_value(record);
    lockstep_operation& o = add(LOCKSTEP_OP_HEAP_INSERT);
    o.heap = heap;
    o.value = value;
}

void Request::heap_change(int kind, nb::handle object, nb::handle id, nb::handle record) {
    lockstep_heap* const heap = heap_of(object);
    const lockstep_record_id place = record_id_of(id);
    const lockstep_slice value =
        kind == LOCKSTEP_OP_HEAP_ERASE ? lockstep_slice{} : keep_value(record);
    lockstep_operation& o = add(kind);
    o.heap = heap;
    o.id = place;
    o.value = value;
}

void Request::step(nb::handle object, const std::string& procedure, nb::handle request) {
    if (step_ != nullptr) raise(PyExc_ValueError, "a request has one step of a procedure object");
    auto made = std::make_unique<StepCall>(object, procedure, request);
    add(LOCKSTEP_OP_CALL).buffer = const_cast<lockstep_function*>(made->function());
    step_ = std::move(made);
}

nb::object Request::step_outcome() const {
    idle();
    if (step_ == nullptr) return nb::make_tuple(0, nb::none());
    return nb::make_tuple(step_->code(), bytes_of(step_->content()));
}

void Request::use(Number txn) {
    idle();
    request_.txn = handle<lockstep_txn>(txn);
    request_.store = nullptr;
}

void Request::begin_in(Number store, int isolation, int durability, bool read_only,
                       uint32_t operations, uint32_t priority, uint64_t lock_timeout) {
    idle();
    options_ = {sizeof options_, isolation, durability,  read_only,
                operations,      priority,  lock_timeout};
    request_.txn = nullptr;
    request_.store = handle<lockstep_store>(store);
    request_.options = &options_;
}

void Request::name(nb::handle gid) {
    idle();
    request_.gid = keep_value(gid);
}

void Request::idle() const {
    if (self != nullptr) raise(PyExc_RuntimeError, "the request is running");
}

void Request::prepare(int end, size_t from, bool notes) {
    idle();
    for (size_t n = kNotes + from; n < operations_.size(); ++n) {
        lockstep_operation& o = operations_[n];
        if (o.room == 0 || o.buffer != nullptr) continue;
        buffers_[n] = std::make_unique_for_overwrite<char[]>(o.room);
        o.buffer = buffers_[n].get();
    }
    from_ = from;
    notes_ = notes;
    noted_ = 0;
    cancelled_ = false;
    request_.operations = operations_.data() + (notes ? 0 : kNotes + from);
    request_.count = size() - from + (notes ? kNotes : 0);
    request_.end = end;
}

int Request::batch(int end, size_t from) {
    prepare(end, from, false);
    request_.done = nullptr;
    // While it runs, other threads of Python see that.
    self = Py_None;
    const auto unmark = [this](void*) { self = nullptr; };
    const std::unique_ptr<void, decltype(unmark)> marked(this, unmark);
    {
        const Wait wait;
        lockstep_batch(&request_);
    }
    raise_interrupt();
    return request_.code;
}

void Request::submit(nb::handle python, const Completions& completions, int end, size_t from) {
    const bool begins = request_.store != nullptr && end <= LOCKSTEP_END_PREPARE;
    prepare(end, from, begins && from == 0 && step_ == nullptr);  // a step has its own number
    Wait::require_allowed();
    done_ = completions.list();
    request_.done_arg = this;
    request_.done = finish;
    fate_ = kAwaited;
    self = python.inc_ref().ptr();
    if (lockstep_submit(&request_) == LOCKSTEP_OK) return;
    Py_CLEAR(self);
    done_.reset();
    raise(error_);
}

// On a user thread, without the GIL.
void Request::finish(void* arg, lockstep_request*) {
    auto* const request = static_cast<Request*>(arg);
    // Behind the push the request may be gone, and the loop with its descriptor.
    const std::shared_ptr<DoneList> done = std::move(request->done_);
    if (request->fate_.exchange(kDone) != kDetached) return done->push(request);
    post_to_helper(HelperOf::loggers, [request] {
        PyObject* const last = std::exchange(request->self, nullptr);
        Py_DECREF(last);
    });
}

bool Request::detach() {
    uint8_t awaited = kAwaited;
    return fate_.compare_exchange_strong(awaited, kDetached);
}

bool Request::make_room() {
    idle();
    bool made = false;
    for (size_t n = kNotes + from_; n < operations_.size(); ++n) {
        lockstep_operation& o = operations_[n];
        if (!o.found || o.bytes <= o.room) continue;
        o.room = o.bytes;
        o.buffer = nullptr;
        made = true;
    }
    return made;
}

nb::list Request::results() const {
    idle();
    nb::list list;
    for (size_t n = kNotes; n < operations_.size(); ++n) {
        const lockstep_operation& o = operations_[n];
        switch (o.kind) {
            case LOCKSTEP_OP_GET_WHOLE:
            case LOCKSTEP_OP_HEAP_GET_WHOLE:
                list.append(o.found ? bytes_of(o.buffer, o.bytes) : nb::none());
                break;
            case LOCKSTEP_OP_INSERT:
            case LOCKSTEP_OP_PUT:
            case LOCKSTEP_OP_CALL: list.append(nb::none()); break;
            case LOCKSTEP_OP_HEAP_INSERT: list.append(record_id(o.id)); break;
            default: list.append(nb::bool_(o.found));
        }
    }
    return list;
}

void add_batch(nb::module_& module) {
    nb::class_<Completions>(module, "Completions")
        .def(nb::init<>())
        .def("fd", &Completions::fd)
        .def("drain", &Completions::drain);
    nb::class_<Request>(module, "Request")
        .def(nb::init<>())
        .def("get", &Request::get, nb::arg().none(), nb::arg().none(), nb::arg().none(), nb::arg())
        .def("put", &Request::put, nb::arg(), nb::arg().none(), nb::arg().none(), nb::arg().none())
        .def("patch", &Request::patch, nb::arg().none(), nb::arg().none(), nb::arg().none(),
             nb::arg().none())
        .def("erase", &Request::erase, nb::arg().none(), nb::arg().none())
        .def("heap_get", &Request::heap_get, nb::arg().none(), nb::arg().none(), nb::arg().none(),
             nb::arg())
        .def("heap_insert", &Request::heap_insert, nb::arg().none(), nb::arg().none())
        .def("heap_change", &Request::heap_change, nb::arg(), nb::arg().none(), nb::arg().none(),
             nb::arg().none())
        .def("__len__", &Request::size)
        .def("step", &Request::step, nb::arg(), nb::arg(), nb::arg().none())
        .def("use", &Request::use)
        .def("begin_in", &Request::begin_in)
        .def("name", &Request::name, nb::arg().none())
        .def("batch", &Request::batch)
        .def("submit",
             [](nb::handle self, const Completions& completions, int end, size_t from) {
                 nb::cast<Request&>(self).submit(self, completions, end, from);
             })
        .def("cancel", &Request::cancel)
        .def("detach", &Request::detach)
        .def("code", &Request::code)
        .def("lsn", &Request::lsn)
        .def("prepared", &Request::prepared)
        .def("txn", &Request::txn)
        .def("step_txn", &Request::step_txn)
        .def("step_outcome", &Request::step_outcome)
        .def("performed", &Request::performed)
        .def("make_room", &Request::make_room)
        .def("fail", &Request::fail)
        .def("results", &Request::results);
}

}  // namespace lockstep::python
