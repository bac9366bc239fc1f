// once.cc - the C interface of calls on indexes without a transaction.
#include <lockstep/c/index.h>

#include "sm/c/objects.h"
#include "sm/c/session.h"

namespace lockstep::c {

namespace {

// body(store, index, options) -> Result<void>.
template <class Body>
int once(lockstep_store* store, lockstep_index* index, const lockstep_txn_options* options,
         lockstep_error* error, Body body) {
    return on_store(store, error, [&](StoreObject& s) -> Result<void> {
        const TxnOptions how = TRY(txn_options_of(options));
        return body(s, TRY(index_of(s, index)),
                    CallOptions{.durability = how.durability, .lock_timeout = how.lock_timeout});
    });
}

// A call that may wait for others.
template <class Body>
int change_once(lockstep_store* store, lockstep_index* index, const lockstep_txn_options* options,
                lockstep_error* error, Body body) {
    return once(store, index, options, error,
                [&](StoreObject& s, const Index& i, const CallOptions& how) {
                    return run_and_watch(s, [&] { return body(i, how); });
                });
}

// Most reads wait for nobody, and then need no watch, which takes a user thread.
template <class Get>
Result<void> get_watched(StoreObject& store, const CallOptions& how, Get get) {
    DCHECK(how.durability <= Durability::lazy);
    CallOptions at_once = how;
    at_once.lock_timeout = 0;
    const Result<void> done = get(at_once);
    if (done || done.error().code != ErrorCode::lock_timeout) return done;
    return run_and_watch(store, [&] { return get(how); });
}

}  // namespace
}  // namespace lockstep::c

namespace c = lockstep::c;
using c::StoreObject;
using lockstep::CallOptions;
using lockstep::Index;
using lockstep::Result;

int lockstep_get_once(lockstep_store* store, lockstep_index* index, lockstep_slice key,
                      void* buffer, size_t room, size_t* bytes, bool* found,
                      const lockstep_txn_options* options, lockstep_error* error) {
    return c::once(store, index, options, error,
                   [&](StoreObject& s, const Index& i, const CallOptions& how) -> Result<void> {
                       LOCKSTEP_SOUND(key);
                       if (room != 0) LOCKSTEP_NOT_NULL(buffer);
                       return c::get_watched(s, how, [&](const CallOptions& wait) -> Result<void> {
                           const auto size = TRY(i.get(
                               c::slice_of(key), {static_cast<std::byte*>(buffer), room}, wait));
                           c::set(bytes, size.value_or(0));
                           c::set(found, size.has_value());
                           return {};
                       });
                   });
}

int lockstep_get_many_once(lockstep_store* store, lockstep_index* index, lockstep_lookup* rows,
                           size_t count, size_t* found_count, const lockstep_txn_options* options,
                           lockstep_error* error) {
    return c::once(store, index, options, error,
                   [&](StoreObject& s, const Index& i, const CallOptions& how) -> Result<void> {
                       return c::get_watched(s, how, [&](const CallOptions& wait) -> Result<void> {
                           const auto get = [&](std::span<lockstep::Lookup> asked) {
                               return i.get_many(asked, wait);
                           };
                           c::set(found_count, TRY(c::look_up(rows, count, get)));
                           return {};
                       });
                   });
}

int lockstep_modify_once(
    lockstep_store* store, lockstep_index* index, lockstep_slice key, void* buffer, size_t room,
    void (*change)(void* arg, void* value, size_t bytes, size_t* offset, size_t* changed),
    void* arg, bool* found, const lockstep_txn_options* options, lockstep_error* error) {
    return c::change_once(
        store, index, options, error, [&](const Index& i, const CallOptions& how) -> Result<void> {
            LOCKSTEP_SOUND(key);
            LOCKSTEP_NOT_NULL(change);
            if (room != 0) LOCKSTEP_NOT_NULL(buffer);
            const auto change_value = [&](std::span<std::byte> value) {
                size_t offset = 0, changed = 0;
                change(arg, value.data(), value.size(), &offset, &changed);
                return lockstep::ByteRange{offset, changed};
            };
            c::set(found, TRY(i.modify(c::slice_of(key), {static_cast<std::byte*>(buffer), room},
                                       change_value, how)));
            return {};
        });
}

int lockstep_scan_once(lockstep_store* store, lockstep_index* index, lockstep_slice low,
                       lockstep_slice high,
                       bool (*each)(void* arg, lockstep_slice key, lockstep_slice value), void* arg,
                       size_t* count, const lockstep_txn_options* options, lockstep_error* error) {
    return c::change_once(
        store, index, options, error, [&](const Index& i, const CallOptions& how) -> Result<void> {
            LOCKSTEP_SOUND(low);
            LOCKSTEP_SOUND(high);
            LOCKSTEP_NOT_NULL(each);
            const auto give = [&](lockstep::Slice key, lockstep::Slice value) {
                return each(arg, {key.data(), key.size()}, {value.data(), value.size()});
            };
            c::set(count, TRY(i.scan(c::slice_of(low), c::slice_of(high), give, how)));
            return {};
        });
}

int lockstep_insert_once(lockstep_store* store, lockstep_index* index, lockstep_slice key,
                         lockstep_slice value, const lockstep_txn_options* options,
                         lockstep_error* error) {
    return c::change_once(store, index, options, error,
                          [&](const Index& i, const CallOptions& how) -> Result<void> {
                              LOCKSTEP_SOUND(key);
                              LOCKSTEP_SOUND(value);
                              return i.insert(c::slice_of(key), c::slice_of(value), how);
                          });
}

int lockstep_put_once(lockstep_store* store, lockstep_index* index, lockstep_slice key,
                      lockstep_slice value, const lockstep_txn_options* options,
                      lockstep_error* error) {
    return c::change_once(store, index, options, error,
                          [&](const Index& i, const CallOptions& how) -> Result<void> {
                              LOCKSTEP_SOUND(key);
                              LOCKSTEP_SOUND(value);
                              return i.put(c::slice_of(key), c::slice_of(value), how);
                          });
}

int lockstep_erase_once(lockstep_store* store, lockstep_index* index, lockstep_slice key,
                        bool* found, const lockstep_txn_options* options, lockstep_error* error) {
    return c::change_once(store, index, options, error,
                          [&](const Index& i, const CallOptions& how) -> Result<void> {
                              LOCKSTEP_SOUND(key);
                              c::set(found, TRY(i.erase(c::slice_of(key), how)));
                              return {};
                          });
}

int lockstep_add_once(lockstep_store* store, lockstep_index* index, lockstep_slice key,
                      size_t offset, int64_t n, int64_t* sum, bool* found,
                      const lockstep_txn_options* options, lockstep_error* error) {
    return c::change_once(store, index, options, error,
                          [&](const Index& i, const CallOptions& how) -> Result<void> {
                              LOCKSTEP_SOUND(key);
                              const auto added = TRY(i.add(c::slice_of(key), offset, n, how));
                              c::set(sum, added.value_or(0));
                              c::set(found, added.has_value());
                              return {};
                          });
}

int lockstep_erase_range_once(lockstep_store* store, lockstep_index* index, lockstep_slice low,
                              lockstep_slice high, size_t* count,
                              const lockstep_txn_options* options, lockstep_error* error) {
    return c::change_once(
        store, index, options, error, [&](const Index& i, const CallOptions& how) -> Result<void> {
            LOCKSTEP_SOUND(low);
            LOCKSTEP_SOUND(high);
            c::set(count, TRY(i.erase_range(c::slice_of(low), c::slice_of(high), how)));
            return {};
        });
}

int lockstep_approximate_size(lockstep_store* store, lockstep_index* index, lockstep_slice low,
                              lockstep_slice high, uint64_t* bytes, uint64_t* records,
                              lockstep_error* error) {
    return c::change_once(
        store, index, nullptr, error, [&](const Index& i, const CallOptions&) -> Result<void> {
            LOCKSTEP_SOUND(low);
            LOCKSTEP_SOUND(high);
            const auto size = TRY(i.approximate_size(c::slice_of(low), c::slice_of(high)));
            c::set(bytes, size.bytes);
            c::set(records, size.records);
            return {};
        });
}

int lockstep_count_once(lockstep_store* store, lockstep_index* index, lockstep_slice low,
                        lockstep_slice high, size_t* count, lockstep_error* error) {
    return c::change_once(store, index, nullptr, error,
                          [&](const Index& i, const CallOptions& how) -> Result<void> {
                              LOCKSTEP_SOUND(low);
                              LOCKSTEP_SOUND(high);
                              c::set(count, TRY(i.count(c::slice_of(low), c::slice_of(high), how)));
                              return {};
                          });
}
