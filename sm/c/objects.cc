// objects.cc - from handles to objects: pins, transactions of both forms, cursors, indexes, heaps.
#include "sm/c/objects.h"

#include <limits>
#include <mutex>
#include <new>

#include "sm/api/engine_of.h"
#include "sm/api/operation.h"
#include "sm/c/session.h"
#include "sm/observe/txn_watch.h"

namespace lockstep::c {

namespace {

[[gnu::cold]] Unexpected no_handle(const void* handle, const char* what) {
    return fail(ErrorCode::bad_argument, what, number_of(handle));
}

// The transaction of the present user thread; null: it is a session's, and none of its bodies of
// lockstep_run_in() runs. The owner of the entry is
// read before the entry is seen to live still, so it is that of this handle.
Result<TxnObject*> own_txn(const void* handle) {
    HandleEntry* const entry = entry_of(handle, Kind::txn);
    if (entry == nullptr) [[unlikely]]
        return no_handle(handle, handle == nullptr ? "transaction is NULL" : "no transaction");
    const void* const thread = entry->owner.load(std::memory_order_acquire);
    void* const object = entry->object.load(std::memory_order_acquire);
    if (!entry->is(number_of(handle))) [[unlikely]]
        return fail(ErrorCode::txn_ended, "transaction");
    if (thread == nullptr) return nullptr;
    threads::Thread* const self = threads::current();
    if (thread != self) [[unlikely]]
        return fail(ErrorCode::wrong_thread, "transaction of a user thread");
    auto* const txn = static_cast<TxnObject*>(object);
    if (txn->thread_id != self->id) [[unlikely]]
        return fail(ErrorCode::wrong_thread, "transaction of a user thread that has ended");
    DCHECK(txn->handle == number_of(handle));
    return txn;
}

Result<void> noted(TxnObject& txn, TxnBody body) {
    DCHECK(txn.thread == threads::current() && txn.thread_id == txn.thread->id);  // OB-2
    const uint64_t handle = txn.handle;
    Result<void> result = body(txn);
    // A body may end the transaction, and free it.
    if (!result && entry_of(handle_of<void>(handle), Kind::txn)->is(handle)) [[unlikely]]
        txn.last = result.error();
    return result;
}

[[gnu::noinline]] Result<void> in_session(const void* handle, TxnBody body) {
    if (threads::current() != nullptr)
        return fail(ErrorCode::wrong_thread, "session, which is for kernel threads");
    TRY(sm::require_outside_key_function());
    const Claimed claimed = TRY(claim_session(handle));
    const CallOnStore inside(*claimed.store);
    const auto call = [&](TxnObject& txn) { return noted(txn, body); };
    BodyCommand command(call);
    claimed.session->post(command);
    return command.wait(*claimed.store, claimed.txn);
}

template <class T>
Result<T> object_of(const StoreObject& store, const void* handle, Kind kind, const char* what) {
    HandleEntry* const entry = entry_of(handle, kind);
    if (entry == nullptr) [[unlikely]]
        return no_handle(handle, what);
    const void* const owner = entry->owner.load(std::memory_order_acquire);
    void* const object = entry->object.load(std::memory_order_acquire);
    if (!entry->is(number_of(handle))) [[unlikely]]
        return fail(ErrorCode::store_closed, "index or heap of a store that is closed");
    if (owner != &store) [[unlikely]]
        return fail(ErrorCode::bad_argument, "index or heap of another store");
    return *static_cast<const T*>(object);
}

// One handle for each C++ handle: an index that was made anew has its id, and another tree.
template <class Handle, class T>
Result<Handle*> handle_for(StoreObject& store, const T& object, Kind kind,
                           std::vector<std::unique_ptr<T>>& kept) {
    static_assert(std::is_trivially_copyable_v<T> && sizeof(T) == 2 * sizeof(void*));
    const void* parts[2];
    std::memcpy(static_cast<void*>(parts), &object, sizeof parts);
    const std::lock_guard guard(store.lock);
    uint64_t& handle = store.objects.handles[{object.id().value, parts[1]}];
    if (handle == 0) {
        kept.push_back(std::make_unique<T>(object));
        handle = make_handle(kind, kept.back().get(), &store, object.id().value);
    }
    if (handle == 0) return fail(ErrorCode::too_many, "handles");
    return handle_of<Handle>(handle);
}

// The last act on a transaction of begin_here().
void forget(TxnObject& txn) {
    if (txn.session != nullptr || !txn.own) return;
    const std::unique_ptr<TxnObject> gone(&txn);
    const std::lock_guard guard(txn.store->lock);
    DCHECK(txn.prev != nullptr || txn.store->begun == &txn);
    (txn.prev != nullptr ? txn.prev->next : txn.store->begun) = txn.next;
    if (txn.next != nullptr) txn.next->prev = txn.prev;
}

}  // namespace

// The innermost call of this kernel thread. User threads do not use it: they share kernel threads.
static constinit thread_local const CallOnStore* innermost = nullptr;

CallOnStore::CallOnStore(const StoreObject& store) : store_(store), outer_(innermost) {
    if (threads::current() == nullptr) innermost = this;
}

CallOnStore::~CallOnStore() {
    if (threads::current() != nullptr) return;
    DCHECK(innermost == this);
    innermost = outer_;
}

bool CallOnStore::is_inside(const StoreObject& store) {
    DCHECK(threads::current() == nullptr);
    const CallOnStore* call = innermost;
    while (call != nullptr && &call->store_ != &store) call = call->outer_;
    return call != nullptr;
}

Result<StorePin> pin(lockstep_store* handle) {
    HandleEntry* const entry = entry_of(handle, Kind::store);
    if (entry == nullptr)
        return no_handle(handle, handle == nullptr ? "store is NULL" : "no store");
    const uint64_t number = number_of(handle);
    entry->pins.fetch_add(1, std::memory_order_seq_cst);
    // Behind the pin: lockstep_close() marks the entry, and then waits for pins.
    if (entry->word.load(std::memory_order_seq_cst) == number)
        return StorePin(static_cast<StoreObject*>(entry->object.load(std::memory_order_acquire)));
    entry->pins.fetch_sub(1, std::memory_order_seq_cst);
    return fail(ErrorCode::store_closed, "store");
}

Result<uint64_t> keep(StoreObject& store, Kind kind, std::shared_ptr<void> object, uint64_t link) {
    const std::lock_guard guard(store.lock);
    const uint64_t handle = make_handle(kind, object.get(), handle_of<void>(store.handle), link);
    if (handle == 0) return fail(ErrorCode::too_many, "handles");
    store.kept.emplace(handle, std::move(object));
    return handle;
}

void end_kept(StoreObject& store, uint64_t handle) {
    const std::lock_guard guard(store.lock);
    if (store.kept.erase(handle) != 0) end_handle(handle);
}

Result<Kept> kept_of(const void* handle, const Keeps& what) {
    HandleEntry* const entry = entry_of(handle, what.kind);
    if (entry == nullptr) return no_handle(handle, handle == nullptr ? what.null : what.none);
    const auto* const of = entry->owner.load(std::memory_order_acquire);
    if (!entry->is(number_of(handle))) return fail(ErrorCode::txn_ended, what.ended);
    auto store = pin(handle_of<lockstep_store>(number_of(of)));
    if (!store) return fail(ErrorCode::txn_ended, what.ended);
    if ((*store)->mark.forked()) return fail(ErrorCode::forked, what.noun);
    const std::lock_guard guard((*store)->lock);
    const auto at = (*store)->kept.find(number_of(handle));
    if (at == (*store)->kept.end()) return fail(ErrorCode::txn_ended, what.ended);
    return Kept{*std::move(store), at->second};
}

Result<void> cancel_txn(StoreObject& store, TxnId id) {
    sm::Engine& engine = sm::engine_of(store.store);
    if (engine.forked()) return sm::Engine::refuse_child();
    return engine.watch->end(id, txn::Heed::cancelled);
}

Result<void> in_txn(const void* handle, TxnBody body) {
    TxnObject* const txn = TRY(own_txn(handle));
    return txn != nullptr ? noted(*txn, body) : in_session(handle, body);
}

int on_cursor(lockstep_cursor* handle, lockstep_error* error,
              FunctionRef<Result<void>(TxnObject&, CursorObject&)> body) {
    const auto call = [&]() -> Result<void> {
        HandleEntry* const entry = entry_of(handle, Kind::cursor);
        if (entry == nullptr) return no_handle(handle, "no cursor");
        const uint64_t txn = entry->link.load(std::memory_order_acquire);
        constexpr const char* kEnded = "cursor, which was closed or whose transaction has ended";
        if (!entry->is(number_of(handle))) return fail(ErrorCode::txn_ended, kEnded);
        return in_txn(handle_of<void>(txn), [&](TxnObject& of) -> Result<void> {
            if (!entry->is(number_of(handle))) return fail(ErrorCode::txn_ended, kEnded);
            auto& cursor = *static_cast<CursorObject*>(entry->object.load());
            DCHECK(cursor.txn == &of && cursor.handle == number_of(handle));
            return body(of, cursor);
        });
    };
    return report(call(), error);
}

Result<Index> index_of(const StoreObject& store, const void* handle) {
    return object_of<Index>(store, handle, Kind::index, "no index");
}
Result<Heap> heap_of(const StoreObject& store, const void* handle) {
    return object_of<Heap>(store, handle, Kind::heap, "no heap");
}
Result<RecordId> record_id_of(lockstep_record_id id) {
    using Slot = decltype(SlotNo::value);
    if (id.slot > std::numeric_limits<Slot>::max()) [[unlikely]]
        return fail(ErrorCode::bad_argument, "slot of a record id", id.slot);
    return RecordId{PageId{id.page}, SlotNo{static_cast<Slot>(id.slot)}};
}
Result<lockstep_index*> to_c(StoreObject& store, const Index& index) {
    return handle_for<lockstep_index>(store, index, Kind::index, store.objects.indexes);
}
Result<lockstep_heap*> to_c(StoreObject& store, const Heap& heap) {
    return handle_for<lockstep_heap>(store, heap, Kind::heap, store.objects.heaps);
}

void TxnObject::end() {
    DCHECK(handle != 0);
    while (cursors != nullptr) {
        end_handle(cursors->handle);
        cursors = std::move(cursors->next);
    }
    end_handle(std::exchange(handle, 0));
}

void TxnObject::call_back(FunctionRef<void()> fn) {
    if (caller != nullptr) caller->call_back(fn);
    else fn();
}

Result<uint64_t> begin_here(StoreObject& store, const TxnOptions& options) {
    auto* const txn = new (std::nothrow) TxnObject;
    if (txn == nullptr) return fail(ErrorCode::out_of_memory, "transaction");
    std::unique_ptr<TxnObject> made(txn);
    made->txn = &made->own.emplace(TRY(store.store.begin(options)));
    made->store = &store;
    made->thread = threads::current();
    made->thread_id = made->thread->id;
    made->handle = make_handle(Kind::txn, txn, made->thread, made->txn->id().value);
    if (made->handle == 0) return fail(ErrorCode::too_many, "handles");
    const std::lock_guard guard(store.lock);
    txn->next = store.begun;
    if (txn->next != nullptr) txn->next->prev = txn;
    store.begun = made.release();
    return txn->handle;
}

Result<Lsn> commit_here(TxnObject& txn) {
    if (sm::TxnAccess::inside_call(*txn.txn)) return sm::refuse_inside_call(*txn.txn);
    txn.end();
    const Result<Lsn> done = txn.txn->commit();
    if (!done && txn.txn->live()) (void)txn.txn->abort();
    forget(txn);
    return done;
}

Result<void> abort_here(TxnObject& txn) {
    if (sm::TxnAccess::inside_call(*txn.txn)) return sm::refuse_inside_call(*txn.txn);
    txn.end();
    const Result<void> done = txn.txn->abort();
    forget(txn);
    return done;
}

Result<Vote> prepare_here(TxnObject& txn, Slice gid) {
    Result<Vote> vote = txn.txn->prepare(gid);
    if (txn.txn->live()) return vote;
    txn.end();
    forget(txn);
    return vote;
}

}  // namespace lockstep::c
