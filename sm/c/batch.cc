// batch.cc - the C interface of requests: many operations of one transaction in one hand-over.
// The caller waits for them, or is told when they are done.
//
// Concepts   A request for an open session is a command of that session. A request for a new
//            transaction that stays open begins a session with itself as the first command. A whole
//            transaction is a packet: it waits in the admission stage, and Store::run() repeats it.
// Invariants BR-1 A submitted request pins its store until its callback has returned.
//            [test: CSession.SubmittedRequests]
//            BR-2 `done` is the last word of a request that is written; behind it the caller may
//            free it. What tells the end is copied before. [kept by: tell()]
#include <lockstep/c/batch.h>

#include <unistd.h>

#include <algorithm>
#include <new>
#include <span>
#include <string>

#include "sm/c/attempt.h"
#include "sm/c/session.h"

namespace lockstep::c {

namespace {

enum : uint64_t { kIdle, kSubmitted, kDone };  // opaque[0] of a request
constexpr lockstep_request kEmpty = {.size = sizeof(lockstep_request),
                                     .txn = nullptr,
                                     .store = nullptr,
                                     .options = nullptr,
                                     .operations = nullptr,
                                     .count = 0,
                                     .end = LOCKSTEP_END_KEEP,
                                     .performed = 0,
                                     .lsn = 0,
                                     .error = nullptr,
                                     .done = nullptr,
                                     .done_arg = nullptr,
                                     .event_fd = -1,
                                     .code = 0,
                                     .opaque = {},
                                     .gid = {},
                                     .vote = 0};
// The size before requests could prepare. Fields behind it belong to newer callers only.
constexpr size_t kSizeWithoutGid = offsetof(lockstep_request, gid);

std::span<std::byte> buffer_of(const lockstep_operation& o) {
    return {static_cast<std::byte*>(o.buffer), o.buffer != nullptr ? o.room : 0};
}

Result<void> on_index(TxnObject& t, lockstep_operation& o) {
    LOCKSTEP_SOUND(o.key);
    LOCKSTEP_SOUND(o.value);
    const Index index = TRY(index_of(*t.store, o.index));
    const Slice key = slice_of(o.key), value = slice_of(o.value);
    switch (o.kind) {
        case LOCKSTEP_OP_GET:
        case LOCKSTEP_OP_GET_WHOLE: {
            const Reading how = TRY(reading_of(o.access));
            const auto size = TRY(index.get(*t.txn, key, buffer_of(o), how.access, how.if_locked));
            o.found = size.has_value();
            o.bytes = size.value_or(0);
            return {};
        }
        case LOCKSTEP_OP_INSERT: o.found = true; return index.insert(*t.txn, key, value);
        case LOCKSTEP_OP_PUT: o.found = true; return index.put(*t.txn, key, value);
        case LOCKSTEP_OP_UPDATE: o.found = TRY(index.update(*t.txn, key, value)); return {};
        case LOCKSTEP_OP_PATCH: o.found = TRY(index.patch(*t.txn, key, o.offset, value)); return {};
        default: o.found = TRY(index.erase(*t.txn, key)); return {};
    }
}

Result<void> on_heap(TxnObject& t, lockstep_operation& o) {
    LOCKSTEP_SOUND(o.value);
    const Heap heap = TRY(heap_of(*t.store, o.heap));
    if (o.kind == LOCKSTEP_OP_HEAP_INSERT) {
        const RecordId made = TRY(heap.insert(*t.txn, slice_of(o.value)));
        o.id = {made.page.value, made.slot.value};
        o.found = true;
        return {};
    }
    const RecordId id = TRY(record_id_of(o.id));
    switch (o.kind) {
        case LOCKSTEP_OP_HEAP_GET:
        case LOCKSTEP_OP_HEAP_GET_WHOLE: {
            std::string record;
            o.found = TRY(heap.get(*t.txn, id, record, TRY(access_of(o.access))));
            const auto room = buffer_of(o);
            return copy_text(record, reinterpret_cast<char*>(room.data()), room.size(), &o.bytes);
        }
        case LOCKSTEP_OP_HEAP_UPDATE:
            o.found = TRY(heap.update(*t.txn, id, slice_of(o.value)));
            return {};
        default: o.found = TRY(heap.erase(*t.txn, id)); return {};
    }
}

// What a get of the whole value returns.
Result<void> whole(const lockstep_operation& o) {
    if (!o.found || o.bytes <= buffer_of(o).size()) return {};
    return fail(ErrorCode::value_too_long, "buffer of the operation", o.bytes, o.room);
}

Result<void> call(TxnObject& t, lockstep_operation& o) {
    const auto* const function = static_cast<const lockstep_function*>(o.buffer);
    LOCKSTEP_NOT_NULL(function);
    LOCKSTEP_NOT_NULL(function->body);
    if (t.handle == 0) TRY(give_handle(t));
    int code = 0;
    return call_body(t, function->body, function->arg, code);
}

Result<void> perform(TxnObject& t, lockstep_operation& o) {
    if (o.kind == LOCKSTEP_OP_CALL) return call(t, o);
    if (o.kind == LOCKSTEP_OP_GET_WHOLE || o.kind == LOCKSTEP_OP_HEAP_GET_WHOLE) {
        TRY(o.kind == LOCKSTEP_OP_GET_WHOLE ? on_index(t, o) : on_heap(t, o));
        return whole(o);
    }
    if (o.kind >= LOCKSTEP_OP_GET && o.kind <= LOCKSTEP_OP_ERASE) return on_index(t, o);
    if (o.kind >= LOCKSTEP_OP_HEAP_INSERT && o.kind <= LOCKSTEP_OP_HEAP_ERASE) return on_heap(t, o);
    return fail(ErrorCode::bad_argument, "kind of an operation", static_cast<uint64_t>(o.kind));
}

Result<void> perform_all(TxnObject& t, lockstep_request& r) {
    r.performed = 0;
    for (size_t i = 0; i < r.count; ++i) {
        lockstep_operation& o = r.operations[i];
        const Result<void> done = perform(t, o);
        o.code = report(done, nullptr);
        if (!done) return done;
        ++r.performed;
    }
    return {};
}

// Commits, rolls back or prepares as a request asks for.
Result<void> end(TxnObject& t, lockstep_request& r) {
    DCHECK(r.end != LOCKSTEP_END_KEEP);
    if (r.end == LOCKSTEP_END_ABORT) return abort_here(t);
    if (r.end == LOCKSTEP_END_PREPARE)
        r.vote = static_cast<int>(TRY(prepare_here(t, slice_of(r.gid))));
    else r.lsn = TRY(commit_here(t)).value;
    return {};
}

// The operations and the end of a request for an open transaction.
Result<void> carry_out(TxnObject& t, lockstep_request& r) {
    TRY(perform_all(t, r));
    if (r.end == LOCKSTEP_END_KEEP) return {};
    const uint64_t handle = t.handle;
    const Result<void> done = end(t, r);
    // Behind its end the transaction may be freed. One that is refused goes on.
    if (!entry_of(handle_of<void>(handle), Kind::txn)->is(handle)) r.txn = nullptr;
    return done;
}

// A request that begins a transaction which stays open. If an operation fails, nobody would know
// the handle: it is rolled back.
Result<void> carry_out_first(TxnObject& t, lockstep_request& r) {
    const Result<void> done = perform_all(t, r);
    if (done) r.txn = handle_of<lockstep_txn>(t.handle);
    else (void)abort_here(t);
    return done;
}

// The operations of a whole transaction, on a user thread.
Result<void> carry_out_whole(StoreObject& store, lockstep_request& r, const TxnOptions& options) {
    return store.store.run(
        [&](Txn& cpp) -> Result<void> {
            TxnObject txn = txn_object_of(store, cpp);
            const Result<void> performed = perform_all(txn, r);
            if (txn.handle != 0) txn.end();
            TRY(performed);
            if (r.end == LOCKSTEP_END_ABORT) return cpp.abort();
            if (r.end == LOCKSTEP_END_PREPARE) {
                r.vote = static_cast<int>(TRY(cpp.prepare(slice_of(r.gid))));
                return {};
            }
            r.lsn = TRY(cpp.commit()).value;
            return {};
        },
        options);
}

bool ends_prepared(const lockstep_request& r) { return r.end > LOCKSTEP_END_PREPARE; }

// Ends a prepared transaction.
Result<void> end_prepared(StoreObject& store, lockstep_request& r) {
    DCHECK(r.txn == nullptr && r.count == 0);
    const Slice gid = slice_of(r.gid);
    r.performed = TRY(r.end == LOCKSTEP_END_COMMIT_PREPARED ? store.store.commit_prepared(gid)
                                                            : store.store.rollback_prepared(gid));
    return {};
}

Result<void> carry_out_alone(StoreObject& store, lockstep_request& r, const TxnOptions& options) {
    return ends_prepared(r) ? end_prepared(store, r) : carry_out_whole(store, r, options);
}

Result<void> check(const lockstep_request& r) {
    TRY(require_known(r, "size of lockstep_request", kSizeWithoutGid));
    if (r.size > kSizeWithoutGid && r.size < sizeof r)
        return fail(ErrorCode::bad_option, "size of lockstep_request", r.size);
    if (r.count != 0) LOCKSTEP_NOT_NULL(r.operations);
    (void)TRY(enum_of<lockstep_request_end>(r.end, r.size >= sizeof r ? 6 : 3,
                                            ErrorCode::bad_argument, "end of a request"));
    if (r.end >= LOCKSTEP_END_PREPARE) LOCKSTEP_SOUND(r.gid);
    if (ends_prepared(r) && (r.txn != nullptr || r.count != 0))
        return fail(ErrorCode::bad_argument,
                    "request with a transaction or operations that ends what is prepared");
    return {};
}

// Writes the result and tells it.
void tell(lockstep_request& r, const Result<void>& result) {
    r.code = report(result, r.error);
    const auto done = r.done;
    void* const arg = r.done_arg;
    const int fd = r.event_fd;
    __atomic_store_n(&r.opaque[0], kDone, __ATOMIC_RELEASE);  // BR-2
    if (fd >= 0) {
        const uint64_t one = 1;
        [[maybe_unused]] const ssize_t written = write(fd, &one, sizeof one);
    }
    if (done != nullptr) done(arg, &r);
}

// A submitted request for a session.
class RequestCommand final : public Command {
public:
    RequestCommand(lockstep_request& request, StoreObject* store, bool first)
        : request_(request), store_(store), first_(first) {}
    void run(TxnObject& txn) override {
        result_ = first_ ? carry_out_first(txn, request_) : carry_out(txn, request_);
    }
    void refuse(const Error& error) override { result_ = Unexpected(error); }
    void finish() override {
        tell(request_, result_);
        store_->unpin();  // BR-1
        delete this;
    }

private:
    lockstep_request& request_;
    StoreObject* const store_;  // pinned
    const bool first_;
    Result<void> result_;
};

// A submitted request that is a whole transaction.
class WholeRequest final : public Packet {
public:
    WholeRequest(lockstep_request& request, StoreObject* store, const TxnOptions& options)
        : request_(request), store_(store), options_(options) {}
    void run() override {
        tell(request_, carry_out_alone(*store_, request_, options_));
        store_->unpin();  // BR-1
        delete this;
    }

private:
    lockstep_request& request_;
    StoreObject* const store_;  // pinned
    const TxnOptions options_;
};

Result<void> submit_to_session(lockstep_request& r) {
    Claimed claimed = TRY(claim_session(r.txn));
    auto* const command = new (std::nothrow) RequestCommand(r, &*claimed.store, false);
    if (command == nullptr) {
        entry_of(r.txn, Kind::txn)->release(number_of(r.txn));
        return fail(ErrorCode::out_of_memory, "request");
    }
    // The command's pin; the claimer's lasts until post() has returned.
    claimed.store->add_pin();
    claimed.session->post(*command);
    return {};
}

Result<void> submit_new(lockstep_request& r) {
    // This pin lasts until the submission has returned; the request may have ended before.
    const StorePin store = TRY(pin(r.store));
    const TxnOptions options = TRY(txn_options_of(r.options));
    // Pins for the request; submit(*made) gives it to the store (BR-1).
    const auto hand_over = [&](auto* made, auto submit) -> Result<void> {
        if (made == nullptr) return fail(ErrorCode::out_of_memory, "request");
        store->add_pin();
        Result<void> submitted = submit(*made);
        if (submitted) return submitted;
        store->unpin();
        delete made;
        return submitted;
    };
    if (r.end == LOCKSTEP_END_KEEP)
        return hand_over(new (std::nothrow) RequestCommand(r, &*store, true),
                         [&](Command& first) { return Session::start(*store, options, first); });
    return hand_over(new (std::nothrow) WholeRequest(r, &*store, options), [&](Packet& whole) {
        return store->store.submit(
            whole, {.priority = static_cast<uint8_t>(std::min(options.priority, 3u))});
    });
}

Result<void> batch(lockstep_request& r) {
    TRY(check(r));
    if (r.txn != nullptr) return in_txn(r.txn, [&](TxnObject& txn) { return carry_out(txn, r); });
    const StorePin store = TRY(pin(r.store));
    const TxnOptions options = TRY(txn_options_of(r.options));
    if (r.end != LOCKSTEP_END_KEEP)
        return run_and_watch(*store, [&] { return carry_out_alone(*store, r, options); });
    if (threads::current() != nullptr) {
        const uint64_t handle = TRY(begin_here(*store, options));
        return in_txn(handle_of<void>(handle),
                      [&](TxnObject& txn) { return carry_out_first(txn, r); });
    }
    const auto first = [&](TxnObject& txn) { return carry_out_first(txn, r); };
    BodyCommand command(first);
    TRY(Session::start(*store, options, command));
    return command.wait(*store, kTxnNone);
}

}  // namespace
}  // namespace lockstep::c

namespace c = lockstep::c;
using lockstep::Result;

void lockstep_request_init(lockstep_request* request, size_t size) {
    c::initialise(request, size, c::kEmpty);
}

int lockstep_batch(lockstep_request* request) {
    if (request == nullptr) return LOCKSTEP_BAD_ARGUMENT;
    const Result<void> done = c::batch(*request);
    return request->code = c::report(done, request->error);
}

int lockstep_submit(lockstep_request* request) {
    if (request == nullptr) return LOCKSTEP_BAD_ARGUMENT;
    const auto submit = [&]() -> Result<void> {
        TRY(c::check(*request));
        request->opaque[0] = c::kSubmitted;
        return request->txn != nullptr ? c::submit_to_session(*request) : c::submit_new(*request);
    };
    // Behind a success the request may be done, and freed.
    const Result<void> submitted = submit();
    if (submitted) return LOCKSTEP_OK;
    request->opaque[0] = c::kIdle;
    return request->code = c::report(submitted, request->error);
}

bool lockstep_request_done(const lockstep_request* request) {
    return request != nullptr && __atomic_load_n(&request->opaque[0], __ATOMIC_ACQUIRE) == c::kDone;
}
