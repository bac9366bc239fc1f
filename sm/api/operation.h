// operation.h - the boundary that every record operation of the public API crosses: is the
// transaction usable, and which operation comes next?
//
// Concepts   There is one place at the begin of each operation and one at its failure. The first
//            crosses operation_boundary() (sm/core/operation_boundary.h).
#pragma once

#include <utility>

#include <lockstep/function_ref.h>
#include <lockstep/txn.h>
#include "sm/core/operation_boundary.h"
#include "sm/core/txn_local.h"
#include "sm/engine/engine.h"
#include "threads/steps/ctx.h"
#include "threads/thread/between_calls.h"
#include "threads/thread/worker_local.h"

namespace lockstep::sm {

class BTree;

// Before a transaction begins. Without teams other threads get their turn here: a transaction that
// never waits would otherwise keep the worker. A packet's first transaction goes on at once,
// because the packet began when no other thread was ready.
inline void begin_boundary() {
    if (threads::Steps* steps = threads::worker_local.begin_steps)
        steps->boundary(*threads::current(), OpKind::begin, 0);
    else if (!std::exchange(threads::current()->packet_begins, false)) threads::yield();
}

// The library's own access to the handle.
struct TxnAccess {
    static Engine& engine(const Txn& txn) { return *txn.engine_; }
    // The transaction if the calling thread may use it now; else null, and why_not() tells the
    // reason.
    static txn::Transaction* usable(const Txn& txn) {
        txn::Transaction* t = txn.txn_;
        if (t && txn.generation_ == t->generation && is_own(*t) && t->heed == txn::Heed::nothing)
            [[likely]]
            return t;
        return nullptr;
    }
    static bool is_own(const txn::Transaction& t) {
        return t.thread == threads::current() && t.thread_id == t.thread->id;
    }
    // The transaction if it only has to wait for log space before it goes on; waits if `wait`.
    // Null: why_not() tells the reason.
    [[gnu::cold, gnu::noinline]] static txn::Transaction* after_wait(const Txn& txn, bool wait);
    [[gnu::cold]] static Error why_not(const Txn& txn);
    // A function of the application runs that one of its operations has called.
    static bool inside_call(const Txn& txn) { return txn.live() && inside_call(*txn.txn_); }
    static bool inside_call(const txn::Transaction& t) {
        DCHECK(t.state != txn::TxnState::free);
        return local_of(t).calling != 0;
    }
    // The store was closed, which has rolled the transaction back: the handle refers to nothing.
    static void forget(Txn& txn) { txn.txn_ = nullptr; }
};

// For admit(), if the transaction is not usable at once.
[[gnu::cold, gnu::noinline]] txn::Transaction* admit_after_wait(const Txn& txn,
                                                                const Engine* engine,
                                                                const void* object, bool wait);
// The transaction if it may run an operation on the index or heap. Otherwise null, and refused()
// tells why. `wait`: while the log is scarce it may wait, and others run.
inline txn::Transaction* admit(const Txn& txn, const Engine* engine, const void* object,
                               bool wait) {
    txn::Transaction* t = TxnAccess::usable(txn);
    if (t && object && &TxnAccess::engine(txn) == engine) [[likely]]
        return t;
    return admit_after_wait(txn, engine, object, wait);
}
// Begin of an operation on an index or heap: the same, and crosses the boundary.
template <class Object>
inline txn::Transaction* enter(const Txn& txn, const Engine* engine, const Object* object,
                               OpKind kind) {
    txn::Transaction* t = admit(txn, engine, object, true);
    if (!t) [[unlikely]]
        return nullptr;
    operation_boundary(kind, object->id());
    return t;
}
// The same for operations that change something.
template <class Object>
inline txn::Transaction* enter_change(const Txn& txn, const Engine* engine, const Object* object,
                                      OpKind kind) {
    txn::Transaction* t = enter(txn, engine, object, kind);
    return t && !t->read_only ? t : nullptr;
}
[[gnu::cold, gnu::noinline]] std::unexpected<Error> refused(const Txn& txn, const Engine* engine,
                                                            const void* object);

// The transaction of a schema change: usable, of this store, and not read-only. Crosses the
// boundary. Null engine: store_closed.
Result<txn::Transaction*> schema_txn(Engine* engine, Txn& txn);

// Store::bulk_load() into the tree, whose X lock is held, and into its secondaries. Parks.
Result<void> load_index(Engine& engine, txn::Transaction& txn, BTree& tree,
                        FunctionRef<bool(Slice& key, Slice& value)> next, uint32_t fill_percent);

// While it lives, an operation of the transaction calls functions of the application, and goes on
// behind them. So it can neither end nor be rolled back by them: refuse_inside_call().
class CallsBack {
public:
    explicit CallsBack(txn::Transaction& txn) : local_(local_of(txn)) { ++local_.calling; }
    ~CallsBack() {
        DCHECK(local_.calling > 0);
        --local_.calling;
    }
    CallsBack(const CallsBack&) = delete;
    CallsBack& operator=(const CallsBack&) = delete;

private:
    const threads::InCallback inside_;
    TxnLocal& local_;
};

// bad_argument: the transaction cannot end here, because a call of it goes on (CallsBack).
[[gnu::cold, gnu::noinline]] std::unexpected<Error> refuse_inside_call(const Txn& txn);
// What a repetition of a live transaction needs.
[[gnu::cold, gnu::noinline]] Retry retry_of(const txn::Transaction& txn);

// Decides what an operation's error means for its transaction: some leave it usable, others require
// a rollback. Of a transaction that was ended from outside, the error becomes the reason.
[[gnu::cold, gnu::noinline]] void note_error(txn::Transaction& txn, Error& error);

// Runs `operation()`, notes what its error means for the transaction, and passes the last point.
// The result is made in its last place and not copied.
template <class Operation>
[[gnu::always_inline]] inline auto finish(txn::Transaction& txn, Operation operation) {
    auto result = operation();
    DCHECK(threads::current()->latch_depth == 0);  // no operation leaves a latch behind
    if (!result.has_value()) [[unlikely]]
        note_error(txn, result.error());
    if (threads::worker_local.code_points) [[unlikely]]
        CTX(finished);
    return result;
}

// One operation of the public API on an index or heap: checks the transaction, crosses the
// boundary, runs `operation(transaction)`.
template <class Object, class Operation>
[[gnu::always_inline]] inline auto perform(const Txn& txn, const Engine* engine,
                                           const Object* object, OpKind kind, Operation operation)
    -> std::invoke_result_t<Operation, txn::Transaction&> {
    txn::Transaction* t = enter(txn, engine, object, kind);
    if (!t) [[unlikely]]
        return refused(txn, engine, object);
    return finish(*t, [&] { return operation(*t); });
}
// The same for an operation that changes something.
template <class Object, class Operation>
[[gnu::always_inline]] inline auto perform_change(const Txn& txn, const Engine* engine,
                                                  const Object* object, OpKind kind,
                                                  Operation operation)
    -> std::invoke_result_t<Operation, txn::Transaction&> {
    txn::Transaction* t = enter_change(txn, engine, object, kind);
    if (!t) [[unlikely]]
        return refused(txn, engine, object);
    return finish(*t, [&] { return operation(*t); });
}

}  // namespace lockstep::sm
