// transaction.cc - the C interface of transactions: begin, end, savepoints, needs, schema changes.
#include <lockstep/c/transaction.h>

#include <algorithm>

#include <lockstep/need.h>
#include "sm/c/objects.h"
#include "sm/c/session.h"

// What lockstep_keys_add() adds to.
struct lockstep_keys {
    lockstep::SecondaryKeys* keys;
};

namespace lockstep::c {

namespace {

constexpr size_t kNeedsMax = 64;  // a walk takes no more

KeyFunction key_function(lockstep_key_function key, void* arg) {
    DCHECK(key != nullptr);
    return [key, arg](Slice record_key, Slice value, SecondaryKeys& keys) {
        lockstep_keys taker{&keys};
        key(arg, {record_key.data(), record_key.size()}, {value.data(), value.size()}, &taker);
    };
}

lockstep_secondary_options secondary_defaults() {
    lockstep_secondary_options o = {};
    o.size = sizeof o;
    o.build_bytes = SecondaryOptions{}.build_bytes;
    return o;
}

Result<SecondaryOptions> secondary_of(TxnObject& txn, const lockstep_secondary_options& given) {
    const auto o = TRY(sized(&given, secondary_defaults(), "size of lockstep_secondary_options"));
    SecondaryOptions options{
        .of = TRY(index_of(*txn.store, o.of)), .unique = o.unique, .build_bytes = o.build_bytes};
    if (o.key != nullptr) options.key = key_function(o.key, o.key_arg);
    if (o.progress != nullptr)
        options.progress = [&txn, take = o.progress, arg = o.progress_arg](const BuildProgress& p) {
            txn.call_back([&] { take(arg, p.pages_read, p.entries_loaded); });
        };
    return options;
}

// make(StoreObject, Txn) -> Result<Index or Heap>, in the transaction.
template <class Handle, class Make>
int object_in(lockstep_txn* txn, const char* name, Handle** out, lockstep_error* error, Make make) {
    if (out != nullptr) *out = nullptr;
    return in_txn(txn, error, [&](TxnObject& t) -> Result<void> {
        LOCKSTEP_NOT_NULL(out);
        LOCKSTEP_NOT_NULL(name);
        *out = TRY(to_c(*t.store, TRY(make(t))));
        return {};
    });
}

}  // namespace
}  // namespace lockstep::c

namespace c = lockstep::c;
using c::TxnObject;
using lockstep::Result;

int lockstep_begin(lockstep_store* store, const lockstep_txn_options* options, lockstep_txn** txn,
                   lockstep_error* error) {
    return c::on_store(store, error, [&](c::StoreObject& s) -> Result<void> {
        LOCKSTEP_NOT_NULL(txn);
        *txn = nullptr;
        const lockstep::TxnOptions how = TRY(c::txn_options_of(options));
        const bool here = lockstep::threads::current() != nullptr;
        const uint64_t handle = TRY(here ? c::begin_here(s, how) : c::begin_session(s, how));
        *txn = c::handle_of<lockstep_txn>(handle);
        return {};
    });
}

int lockstep_commit(lockstep_txn* txn, uint64_t* lsn, lockstep_error* error) {
    return c::in_txn(txn, error, [&](TxnObject& t) -> Result<void> {
        c::set(lsn, TRY(c::commit_here(t)).value);
        return {};
    });
}
int lockstep_abort(lockstep_txn* txn, lockstep_error* error) {
    return c::in_txn(txn, error, [](TxnObject& t) { return c::abort_here(t); });
}

// The entry has the number, so that no call is handed over to a session.
uint64_t lockstep_txn_id(lockstep_txn* txn) {
    c::HandleEntry* const entry = c::entry_of(txn, c::Kind::txn);
    if (entry == nullptr) return 0;
    const uint64_t id = entry->link.load(std::memory_order_acquire);
    return entry->is(c::number_of(txn)) ? id : 0;
}

int lockstep_set_savepoint(lockstep_txn* txn, lockstep_savepoint* savepoint,
                           lockstep_error* error) {
    return c::in_txn(txn, error, [&](TxnObject& t) -> Result<void> {
        LOCKSTEP_NOT_NULL(savepoint);
        const lockstep::Savepoint made = TRY(t.txn->savepoint());
        *savepoint = {made.txn.value, made.number};
        return {};
    });
}
int lockstep_rollback_to(lockstep_txn* txn, const lockstep_savepoint* savepoint,
                         lockstep_error* error) {
    return c::in_txn(txn, error, [&](TxnObject& t) -> Result<void> {
        LOCKSTEP_NOT_NULL(savepoint);
        if (savepoint->number > UINT32_MAX)
            return lockstep::fail(lockstep::ErrorCode::bad_argument, "savepoint",
                                  savepoint->number);
        return t.txn->rollback_to({.txn = lockstep::TxnId{savepoint->txn},
                                   .number = static_cast<uint32_t>(savepoint->number)});
    });
}

int lockstep_will_need(lockstep_txn* txn, const lockstep_need* needs, size_t count, bool* walked,
                       lockstep_error* error) {
    return c::in_txn(txn, error, [&](TxnObject& t) -> Result<void> {
        if (count != 0) LOCKSTEP_NOT_NULL(needs);
        lockstep::Need told[c::kNeedsMax];
        const size_t n = std::min(count, c::kNeedsMax);
        for (size_t i = 0; i < n; ++i) {
            LOCKSTEP_SOUND(needs[i].key);
            told[i] = {.index = TRY(c::index_of(*t.store, needs[i].index)),
                       .key = c::slice_of(needs[i].key),
                       .access = TRY(c::access_of(needs[i].access)),
                       .bytes = needs[i].bytes != 0 ? needs[i].bytes : lockstep::Need{}.bytes};
        }
        t.txn->will_need({told, n});
        c::set(walked, t.txn->walks_needs());
        return {};
    });
}

void lockstep_keys_add(lockstep_keys* keys, lockstep_slice key) {
    if (keys != nullptr && c::sound(key)) keys->keys->add(c::slice_of(key));
}

void lockstep_secondary_options_init(lockstep_secondary_options* options, size_t size) {
    c::initialise(options, size, c::secondary_defaults());
}

int lockstep_create_index(lockstep_txn* txn, const char* name,
                          const lockstep_secondary_options* options, lockstep_index** index,
                          lockstep_error* error) {
    return c::object_in(txn, name, index, error, [&](TxnObject& t) -> Result<lockstep::Index> {
        if (options == nullptr) return t.store->store.create_index(*t.txn, name);
        return t.store->store.create_index(*t.txn, name, TRY(c::secondary_of(t, *options)));
    });
}
int lockstep_open_or_create_index(lockstep_txn* txn, const char* name,
                                  const lockstep_secondary_options* options, lockstep_index** index,
                                  lockstep_error* error) {
    return c::object_in(txn, name, index, error, [&](TxnObject& t) -> Result<lockstep::Index> {
        if (options == nullptr) return t.store->store.open_or_create_index(*t.txn, name);
        return t.store->store.open_or_create_index(*t.txn, name, TRY(c::secondary_of(t, *options)));
    });
}
int lockstep_create_heap(lockstep_txn* txn, const char* name, lockstep_heap** heap,
                         lockstep_error* error) {
    return c::object_in(txn, name, heap, error,
                        [&](TxnObject& t) { return t.store->store.create_heap(*t.txn, name); });
}
int lockstep_open_or_create_heap(lockstep_txn* txn, const char* name, lockstep_heap** heap,
                                 lockstep_error* error) {
    return c::object_in(txn, name, heap, error, [&](TxnObject& t) {
        return t.store->store.open_or_create_heap(*t.txn, name);
    });
}
int lockstep_find_index_in(lockstep_txn* txn, const char* name, lockstep_index** index,
                           lockstep_error* error) {
    return c::object_in(txn, name, index, error,
                        [&](TxnObject& t) { return t.store->store.index(*t.txn, name); });
}
int lockstep_find_heap_in(lockstep_txn* txn, const char* name, lockstep_heap** heap,
                          lockstep_error* error) {
    return c::object_in(txn, name, heap, error,
                        [&](TxnObject& t) { return t.store->store.heap(*t.txn, name); });
}
int lockstep_drop(lockstep_txn* txn, const char* name, lockstep_error* error) {
    return c::in_txn(txn, error, [&](TxnObject& t) -> Result<void> {
        LOCKSTEP_NOT_NULL(name);
        return t.store->store.drop(*t.txn, name);
    });
}

int lockstep_attach_key(lockstep_store* store, const char* name, lockstep_key_function key,
                        void* arg, lockstep_error* error) {
    return c::on_store(store, error, [&](c::StoreObject& s) -> Result<void> {
        LOCKSTEP_NOT_NULL(name);
        LOCKSTEP_NOT_NULL(key);
        return s.store.attach_key(name, c::key_function(key, arg));
    });
}
