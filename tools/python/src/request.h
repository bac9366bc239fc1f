// request.h - of the Python binding: a request of the C interface with all that it points to.
//
// Concepts   A request is filled by the calls get() ... heap_change(), and performed by batch(),
//            which waits, or by submit(). What is submitted to a Completions comes back from its
//            drain(), which an event loop calls when fd() is readable.
//            What is submitted to begin a transaction has an operation before all others, which
//            notes the number of the transaction, and refuses it if the request is cancelled.
// States     filled -> running (submit) -> done (drain) -> filled (batch, submit: may be repeated)
// Invariants RQ-1 A submitted request is referenced until drain() gives it back.
//            [test: tests/python/test_async.py]
//            RQ-2 While a request runs, nothing touches it but the library and cancel().
//            [checked: idle()]
//            RQ-3 A transaction that begins behind cancel() does nothing. cancel() returns the
//            number of one that began before. [test: tests/python/test_async.py]
#pragma once

#include <atomic>
#include <deque>
#include <memory>
#include <vector>

#include "tools/python/src/core.h"
#include "tools/python/src/procedures.h"

namespace lockstep::python {

class Request;

// The done requests of an event loop. The user threads that end requests push, the loop drains.
class DoneList {
public:
    DoneList();
    ~DoneList();
    DoneList(const DoneList&) = delete;
    void push(Request* request);
    // The first of those that were pushed; Request::next leads on.
    Request* take();
    int fd() const { return fd_; }

private:
    std::atomic<Request*> first_{nullptr};
    int fd_;
};

class Completions {
public:
    int fd() const { return list_->fd(); }
    // Takes the requests that are done, and clears the descriptor.
    nb::list drain();
    const std::shared_ptr<DoneList>& list() const { return list_; }

private:
    std::shared_ptr<DoneList> list_ = std::make_shared<DoneList>();
};

class Request {
public:
    Request();
    Request(const Request&) = delete;

    void get(nb::handle index, nb::handle key, nb::handle access, size_t room);
    void put(int kind, nb::handle index, nb::handle key, nb::handle value);
    void patch(nb::handle index, nb::handle key, nb::handle offset, nb::handle part);
    void erase(nb::handle index, nb::handle key);
    void heap_get(nb::handle heap, nb::handle id, nb::handle access, size_t room);
    void heap_insert(nb::handle heap, nb::handle record);
    void heap_change(int kind, nb::handle heap, nb::handle id, nb::handle record);
    // A step of a procedure object. A request has at most one.
    void step(nb::handle object, const std::string& procedure, nb::handle request);
    size_t size() const { return operations_.size() - kNotes; }

    // The transaction, or 0 and the store with options for a new one.
    void use(Number txn);
    void begin_in(Number store, int isolation, int durability, bool read_only, uint32_t operations,
                  uint32_t priority, uint64_t lock_timeout, const Retry& retry);
    // Performs the operations from number `from` on, then ends as lockstep_request_end says.
    // Returns the code of the error, 0 if there is none.
    int batch(int end, size_t from);
    // The name for the ends that prepare, or end what is prepared.
    void name(nb::handle gid);
    void submit(nb::handle self, const Completions& completions, int end, size_t from);
    // Of a submitted request that begins a transaction: that has begun, 0 if none will (RQ-3).
    uint64_t cancel();
    // No loop waits for the request any more: it ends by itself. False: drain() has it, or will.
    bool detach();

    int code() const { return request_.code; }
    uint64_t lsn() const { return request_.lsn; }
    bool prepared() const { return request_.vote == LOCKSTEP_VOTE_PREPARED; }
    Number txn() const { return number(request_.txn); }
    // The number of the transaction of the step, also while it runs; 0: it has not begun.
    uint64_t step_txn() const { return step_ == nullptr ? 0 : step_->txn(); }
    // The code of the step, and its reply or its error's text.
    nb::object step_outcome() const;
    size_t performed() const {
        return from_ + request_.performed - (notes_ && request_.performed > 0 ? kNotes : 0);
    }
    // Gives each get that did not fit the room that it needs. False if there was none.
    bool make_room();
    [[noreturn]] void fail() const { raise(error_); }
    // What each operation returns.
    nb::list results() const;

    Request* next = nullptr;   // in a DoneList
    PyObject* self = nullptr;  // RQ-1

private:
    static constexpr size_t kNotes = 1;  // operations_ begin with that of note()

    static int note(lockstep_txn* txn, void* self);
    static void finish(void* self, lockstep_request*);
    lockstep_operation& add(int kind);
    void prepare(int end, size_t from, bool notes);
    void idle() const;
    lockstep_slice keep_key(nb::handle key);
    lockstep_slice keep_value(nb::handle value);

    lockstep_request request_;
    lockstep_txn_options options_{};
    EmptyError error_;
    std::vector<lockstep_operation> operations_;
    std::vector<std::unique_ptr<char[]>> buffers_;  // of the operations; null: none
    std::deque<Bytes> bytes_;
    std::unique_ptr<StepCall> step_;
    std::shared_ptr<DoneList> done_;  // while it runs
    const lockstep_function note_{note, this};
    std::atomic<uint64_t> noted_{0};
    std::atomic<bool> cancelled_{false};
    enum : uint8_t { kAwaited, kDetached, kDone };
    std::atomic<uint8_t> fate_{kAwaited};  // of one that was submitted
    bool notes_ = false;                   // note() is among the operations that were handed over
    size_t from_ = 0;
};

}  // namespace lockstep::python
