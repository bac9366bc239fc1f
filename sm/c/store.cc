// store.cc - the C interface of a store: open, close, run, objects, maintenance.
#include <lockstep/c/store.h>

#include <string>
#include <vector>

#include <lockstep/offload.h>
#include "sm/api/engine_of.h"
#include "sm/api/operation.h"
#include "sm/c/attempt.h"
#include "sm/c/objects.h"
#include "sm/c/session.h"

namespace lockstep::c {

namespace {

constexpr Nanos kClosePause = 100 * kMicrosecond;

Result<lockstep_store*> open(const char* path, const lockstep_options* options) {
    // TRY() inside the new expression would leak what that has allocated.
    Store opened = TRY(Store::open(path, TRY(options_of(options))));
    auto made = std::make_unique<StoreObject>(std::move(opened));
    made->handle = make_handle(Kind::store, made.get());
    if (made->handle == 0) return fail(ErrorCode::too_many, "handles");
    made->entry = entry_of(handle_of<void>(made->handle), Kind::store);
    return handle_of<lockstep_store>(made.release()->handle);
}

// Ends all handles of the store; nothing uses it any more.
void destroy(StoreObject* store) {
    DCHECK(store->sessions == nullptr && store->entry->pins.load() == 0);  // OB-1
    for (const auto& [id, handle] : store->objects.handles)
        if (handle != 0) end_handle(handle);
    for (const auto& [handle, object] : store->kept) end_handle(handle);
    end_handle(store->handle);
    // Left open by user threads that have ended; close() has rolled them back.
    for (TxnObject* txn = store->begun; txn != nullptr;) {
        TxnObject* const next = txn->next;
        txn->end();
        if (txn->own) sm::TxnAccess::forget(*txn->own);
        delete txn;
        txn = next;
    }
    delete store;
}

Result<void> close(lockstep_store* handle) {
    if (threads::current() != nullptr)
        return fail(ErrorCode::wrong_thread, "lockstep_close() on a user thread");
    StoreObject* object = nullptr;
    {
        const StorePin store = TRY(pin(handle));
        if (store->mark.forked()) return fail(ErrorCode::forked, "store");
        TRY(sm::require_outside_key_function());
        if (CallOnStore::is_inside(*store))
            return fail(ErrorCode::wrong_thread,
                        "lockstep_close() in a callback of a call on the store, which it would "
                        "wait for");
        if (sm::engine_of(store->store).offloads_here())
            return fail(ErrorCode::wrong_thread,
                        "lockstep_close() in lockstep_offload(), for which a user thread waits");
        if (!store->entry->claim(number_of(handle))) return fail(ErrorCode::store_closed, "store");
        object = &*store;
    }
    object->closing.store(true, std::memory_order_release);
    // Calls that were inside before may still begin sessions.
    do {
        end_sessions(*object);
        if (object->entry->pins.load(std::memory_order_seq_cst) == 0) break;
        sleep_for(kClosePause);
    } while (true);
    end_sessions(*object);
    const Result<void> closed = object->store.close();
    destroy(object);
    return closed;
}

template <class Handle, class Find>
int find(lockstep_store* store, const char* name, Handle** out, lockstep_error* error, Find by) {
    return on_store(store, error, [&](StoreObject& s) -> Result<void> {
        LOCKSTEP_NOT_NULL(out);
        *out = nullptr;
        LOCKSTEP_NOT_NULL(name);
        *out = TRY(to_c(s, TRY(by(s))));
        return {};
    });
}

}  // namespace
}  // namespace lockstep::c

namespace c = lockstep::c;
using c::StoreObject;
using lockstep::Result;

int lockstep_open(const char* path, const lockstep_options* options, lockstep_store** store,
                  lockstep_error* error) {
    const auto call = [&]() -> Result<void> {
        LOCKSTEP_NOT_NULL(store);
        *store = nullptr;
        LOCKSTEP_NOT_NULL(path);
        *store = TRY(c::open(path, options));
        return {};
    };
    return c::report(call(), error);
}

int lockstep_close(lockstep_store* store, lockstep_error* error) {
    return c::report(c::close(store), error);
}

int lockstep_run(lockstep_store* store, lockstep_body body, void* arg,
                 const lockstep_txn_options* options, lockstep_error* error) {
    int code = 0;
    const int result = c::on_store(store, error, [&](StoreObject& s) -> Result<void> {
        LOCKSTEP_NOT_NULL(body);
        c::Attempt attempt{s, body, arg};
        const lockstep::TxnOptions how = TRY(c::txn_options_of(options));
        const auto done = c::run_and_watch(s, [&] { return s.store.run(attempt, how); });
        if (!done) code = attempt.code;
        return done;
    });
    if (result != LOCKSTEP_ROLLED_BACK || code >= 0) return result;
    if (error != nullptr) error->code = code;
    return code;
}

int lockstep_user_error(lockstep_txn* txn, uint64_t code, const char* text) {
    return c::in_txn(txn, nullptr, [&](c::TxnObject&) -> Result<void> {
        LOCKSTEP_NOT_NULL(text);
        return lockstep::Error::user(code, text);
    });
}

int lockstep_find_index(lockstep_store* store, const char* name, lockstep_index** index,
                        lockstep_error* error) {
    return c::find(store, name, index, error, [&](StoreObject& s) { return s.store.index(name); });
}
int lockstep_find_heap(lockstep_store* store, const char* name, lockstep_heap** heap,
                       lockstep_error* error) {
    return c::find(store, name, heap, error, [&](StoreObject& s) { return s.store.heap(name); });
}

int lockstep_list(lockstep_store* store, bool (*each)(void* arg, const lockstep_object* object),
                  void* arg, lockstep_error* error) {
    return c::on_store(store, error, [&](StoreObject& s) -> Result<void> {
        LOCKSTEP_NOT_NULL(each);
        for (const auto& entry : s.store.list()) {
            const lockstep_object object{.size = sizeof(lockstep_object),
                                         .name = entry.name.c_str(),
                                         .is_index = entry.is_index,
                                         .id = entry.id.value,
                                         .of = entry.of.value};
            if (!each(arg, &object)) break;
        }
        return {};
    });
}

int lockstep_wait_durable(lockstep_store* store, uint64_t lsn, lockstep_error* error) {
    return c::on_store(store, error,
                       [&](StoreObject& s) { return s.store.wait_durable(lockstep::Lsn{lsn}); });
}
int lockstep_checkpoint(lockstep_store* store, lockstep_error* error) {
    return c::on_store(store, error, [&](StoreObject& s) { return s.store.checkpoint(); });
}
int lockstep_give_back_space(lockstep_store* store, uint64_t* bytes, lockstep_error* error) {
    return c::on_store(store, error, [&](StoreObject& s) -> Result<void> {
        c::set(bytes, TRY(s.store.give_back_space()));
        return {};
    });
}

int lockstep_verify(lockstep_store* store, uint32_t threads, lockstep_line each, void* arg,
                    size_t* faults, lockstep_error* error) {
    return c::on_store(store, error, [&](StoreObject& s) -> Result<void> {
        const std::vector<std::string> found = TRY(s.store.verify(threads));
        for (const std::string& fault : found)
            if (each != nullptr) each(arg, fault.c_str());
        c::set(faults, found.size());
        return {};
    });
}

int lockstep_set_steps(lockstep_store* store, const lockstep_steps_options* steps,
                       lockstep_error* error) {
    return c::on_store(store, error, [&](StoreObject& s) -> Result<void> {
        return s.store.set_steps(TRY(c::steps_of(steps)));
    });
}

void lockstep_watch_waits(int (*watch)(void* arg), void* arg) {
    lockstep::threads::watch_waits(watch, arg);
}

void lockstep_yield(void) { lockstep::yield(); }
void lockstep_sleep_for(uint64_t nanos) { lockstep::sleep_for(nanos); }
uint64_t lockstep_now(void) { return lockstep::now(); }

int lockstep_offload(int (*fn)(void* arg), void* arg, lockstep_error* error) {
    int code = 0;
    const auto call = [&]() -> Result<void> {
        LOCKSTEP_NOT_NULL(fn);
        code = TRY(lockstep::offload([&] { return fn(arg); }));
        return {};
    };
    const int failed = c::report(call(), error);
    return failed != 0 ? failed : code;
}
