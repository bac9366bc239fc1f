// objects.h - what the handles of the C interface stand for, and how a call reaches it.
//
// Concepts   A call on a store pins it. A call on a transaction runs a body: at once in the
//            callback form, on the user thread of the session otherwise. What belongs to a
//            transaction is touched by such bodies only, and a store outlives its transactions.
// Invariants OB-1 A store is freed when it has neither sessions nor pins. [checked: lockstep_close]
//            OB-2 A body runs on the user thread that the transaction belongs to.
//            [checked: in_txn()]
// Blocking   As the calls of the C++ interface.
#pragma once

#include <map>
#include <memory>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include <lockstep/c/base.h>
#include <lockstep/c/index.h>
#include <lockstep/c/options.h>
#include <lockstep/store.h>
#include <lockstep/sync.h>
#include "sm/c/handles.h"
#include "sm/c/report.h"
#include "sm/secondary/key_call.h"
#include "threads/thread/fork_watch.h"
#include "threads/thread/thread.h"

namespace lockstep::c {

class HandOver;
class Session;
struct TxnObject;

struct StoreObject {
    explicit StoreObject(Store opened) : store(std::move(opened)) {}

    Store store;
    uint64_t handle = 0;
    HandleEntry* entry = nullptr;
    const threads::ForkMark mark = {};  // made behind open()
    std::atomic<bool> closing{false};
    Mutex lock;                                      // of what follows
    Session* sessions = nullptr;                     // that have begun
    TxnObject* begun = nullptr;                      // of lockstep_begin() on user threads
    std::map<uint64_t, std::shared_ptr<void>> kept;  // reports and feeds, by handle
    // Handles that were given away, by what the C++ handle consists of.
    struct Objects {
        std::map<std::pair<uint32_t, const void*>, uint64_t> handles;
        std::vector<std::unique_ptr<Index>> indexes;
        std::vector<std::unique_ptr<Heap>> heaps;
    } objects;

    // By what keeps the store meanwhile: a pin, or a claimed session.
    void add_pin() { entry->pins.fetch_add(1, std::memory_order_seq_cst); }
    void unpin() { entry->pins.fetch_sub(1, std::memory_order_seq_cst); }
};

// A pinned store.
class [[nodiscard]] StorePin {
public:
    explicit StorePin(StoreObject* store) : store_(store) {}
    StorePin(StorePin&& other) noexcept : store_(std::exchange(other.store_, nullptr)) {}
    StorePin(const StorePin&) = delete;
    ~StorePin() {
        if (store_ != nullptr) store_->unpin();
    }
    StoreObject& operator*() const { return *store_; }
    StoreObject* operator->() const { return store_; }

private:
    StoreObject* store_;
};
// Errors: store_closed, bad_argument.
Result<StorePin> pin(lockstep_store* handle);

// A call that a foreign kernel thread makes on a store, or on a transaction of it. Its callbacks
// run on that thread, where lockstep_close() would wait for the call itself.
class CallOnStore {
public:
    explicit CallOnStore(const StoreObject& store);
    ~CallOnStore();
    CallOnStore(const CallOnStore&) = delete;
    CallOnStore& operator=(const CallOnStore&) = delete;

    // Whether the calling thread is inside a call on the store.
    static bool is_inside(const StoreObject& store);

private:
    const StoreObject& store_;
    const CallOnStore* const outer_;
};

// Runs body(StoreObject&) with the store pinned.
template <class Body>
int on_store(lockstep_store* handle, lockstep_error* error, Body body) {
    const auto call = [&]() -> Result<void> {
        const StorePin store = TRY(pin(handle));
        TRY(sm::require_outside_key_function());
        const CallOnStore inside(*store);
        return body(*store);
    };
    return report(call(), error);
}

// A kind of object that its store keeps under its handle, until the application closes it.
struct Keeps {
    Kind kind;
    const char *noun, *null, *none, *ended;  // what it is, and what is wrong with a handle
};
// Keeps it. `link`: HandleEntry::link. Error: too_many.
Result<uint64_t> keep(StoreObject& store, Kind kind, std::shared_ptr<void> object, uint64_t link);
// Keeps it no longer. Of two calls one ends the handle.
void end_kept(StoreObject& store, uint64_t handle);
// The store of the handle, pinned, and the object. Errors: bad_argument, txn_ended, forked.
struct Kept {
    StorePin store;
    const std::shared_ptr<void> object;
};
Result<Kept> kept_of(const void* handle, const Keeps& what);
// Runs body(StoreObject&, Object&) while the store is pinned.
template <class Object, class Body>
int on_kept(const void* handle, const Keeps& what, lockstep_error* error, Body body) {
    const auto call = [&]() -> Result<void> {
        const Kept kept = TRY(kept_of(handle, what));
        TRY(sm::require_outside_key_function());
        const CallOnStore inside(*kept.store);
        return body(*kept.store, *static_cast<Object*>(kept.object.get()));
    };
    return report(call(), error);
}

struct CursorObject {
    TxnObject* txn = nullptr;
    Index index;
    bool secondary = false;
    Access access = Access::read;
    IfLocked if_locked = IfLocked::wait;
    std::optional<Cursor> plain;
    std::optional<SecondaryCursor> by;
    bool waits = false;  // the current record waits for lockstep_cursor_read()
    bool waits_forward = false;
    uint64_t handle = 0;
    std::unique_ptr<CursorObject> next;  // of the same transaction
};

// An open transaction. Of lockstep_run() it lies on the stack, of a session in the session.
struct TxnObject {
    StoreObject* store = nullptr;
    Txn* txn = nullptr;
    std::optional<Txn> own;             // unless it is lockstep_run()'s
    threads::Thread* thread = nullptr;  // its user thread
    uint64_t thread_id = 0;
    Session* session = nullptr;
    HandOver* caller = nullptr;  // of the session's present call, if a kernel thread waits for it
    std::unique_ptr<CursorObject> cursors;
    Error last = {};                             // of the last call that failed
    uint64_t handle = 0;                         // 0: it has ended
    TxnObject *prev = nullptr, *next = nullptr;  // in StoreObject::begun

    // Ends the handle and the cursors; the Txn stays.
    void end();
    // Calls fn on the kernel thread that made the call, or here in the callback form.
    void call_back(FunctionRef<void()> fn);
};

// Ends a transaction for the application: lockstep_cancel_transaction(). Waits until it is marked.
Result<void> cancel_txn(StoreObject& store, TxnId id);

using TxnBody = FunctionRef<Result<void>(TxnObject&)>;

// Runs the body where the transaction belongs, and notes its error. Errors: txn_ended,
// wrong_thread, bad_argument, forked, store_closed.
Result<void> in_txn(const void* handle, TxnBody body);
inline int in_txn(const void* handle, lockstep_error* error, TxnBody body) {
    return report(in_txn(handle, body), error);
}
// The same for a cursor and its transaction.
int on_cursor(lockstep_cursor* handle, lockstep_error* error,
              FunctionRef<Result<void>(TxnObject&, CursorObject&)> body);

// The index or heap of a handle, which must be one of the store.
Result<Index> index_of(const StoreObject& store, const void* handle);
Result<Heap> heap_of(const StoreObject& store, const void* handle);
// Fills the rows by get_many(). Errors: its, bad_argument, out_of_memory.
Result<size_t> look_up(lockstep_lookup* rows, size_t count,
                       FunctionRef<Result<size_t>(std::span<Lookup>)> get_many);
// Errors: bad_argument for a slot that no page has.
Result<RecordId> record_id_of(lockstep_record_id id);
inline lockstep_record_id to_c(RecordId id) { return {id.page.value, id.slot.value}; }
// The handle of an index or heap; one for each that was found.
Result<lockstep_index*> to_c(StoreObject& store, const Index& index);
Result<lockstep_heap*> to_c(StoreObject& store, const Heap& heap);

// Options of the C interface as those of the C++ interface.
Result<Options> options_of(const lockstep_options* given);
Result<StepsOptions> steps_of(const lockstep_steps_options* given);
Result<TxnOptions> txn_options_of(const lockstep_txn_options* given);

// Begins a transaction on the present user thread, for lockstep_begin().
Result<uint64_t> begin_here(StoreObject& store, const TxnOptions& options);
// Ends a transaction of the present user thread: commit, or rollback.
Result<Lsn> commit_here(TxnObject& txn);
Result<void> abort_here(TxnObject& txn);
// Prepares it; an error may leave it as it was, with its handle.
Result<Vote> prepare_here(TxnObject& txn, Slice gid);

}  // namespace lockstep::c
