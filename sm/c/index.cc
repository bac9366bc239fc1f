// index.cc - the C interface of indexes: one record, many records, bulk load.
#include <lockstep/c/index.h>

#include <algorithm>
#include <memory>
#include <new>
#include <string>
#include <vector>

#include "sm/c/objects.h"

namespace lockstep::c {

namespace {

constexpr size_t kLookupsMax = 65536;
constexpr size_t kFewLookups = 16;      // that need no memory of their own
constexpr size_t kInsertsAtOnce = 64;   // rows of insert_many() that are converted at a time
constexpr size_t kLoadBytes = 1 << 16;  // of records that bulk load fetches in one call back

// body(Index) -> Result<void> in the transaction.
template <class Body>
int on_index(lockstep_txn* txn, lockstep_index* index, lockstep_error* error, Body body) {
    return in_txn(txn, error, [&](TxnObject& t) -> Result<void> {
        return body(*t.txn, TRY(index_of(*t.store, index)));
    });
}

RecordHint hint_of(const lockstep_hint& hint) {
    return {.page = PageId{hint.page},
            .slot = static_cast<uint16_t>(hint.slot),
            .leaves_freed = hint.leaves_freed};
}
lockstep_hint c_hint(const RecordHint& hint) {
    return {hint.page.value, hint.slot, hint.leaves_freed};
}

// The records of a bulk load. In the session form each call back fetches many: it copies them,
// since each is valid until the next one is asked for only.
class LoadSource {
public:
    LoadSource(TxnObject& txn, bool (*next)(void*, lockstep_record*), void* arg)
        : txn_(txn), next_(next), arg_(arg) {}

    bool take(Slice& key, Slice& value) {
        if (at_ == ends_.size()) {
            if (ended_) return false;
            txn_.call_back([this] { fetch(); });
            if (ends_.empty()) return false;
        }
        const auto [middle, end] = ends_[at_++];
        key = Slice(bytes_).substr(begin_, middle - begin_);
        value = Slice(bytes_).substr(middle, end - middle);
        begin_ = end;
        return true;
    }
    bool unsound() const { return unsound_; }

private:
    void fetch() {
        bytes_.clear();
        ends_.clear();
        at_ = begin_ = 0;
        do {
            lockstep_record record = {};
            ended_ = !next_(arg_, &record);
            if (ended_) return;
            unsound_ = !sound(record.key) || !sound(record.value) ||
                       record.key.size > kKeyBytesMax || record.value.size > kValueBytesMax;
            if (unsound_) {
                ended_ = true;
                return;
            }
            bytes_.append(slice_of(record.key));
            const size_t middle = bytes_.size();
            bytes_.append(slice_of(record.value));
            ends_.emplace_back(middle, bytes_.size());
        } while (txn_.caller != nullptr && bytes_.size() < kLoadBytes);
    }

    TxnObject& txn_;
    bool (*const next_)(void*, lockstep_record*);
    void* const arg_;
    bool ended_ = false, unsound_ = false;
    std::string bytes_;
    std::vector<std::pair<size_t, size_t>> ends_;  // of key and value in bytes_
    size_t at_ = 0, begin_ = 0;
};

}  // namespace

Result<size_t> look_up(lockstep_lookup* rows, size_t count,
                       FunctionRef<Result<size_t>(std::span<Lookup>)> get_many) {
    if (count != 0) LOCKSTEP_NOT_NULL(rows);
    if (count > kLookupsMax) return fail(ErrorCode::bad_argument, "count of rows", count);
    Lookup few[kFewLookups];
    std::unique_ptr<Lookup[]> many;
    if (count > kFewLookups) {
        many.reset(new (std::nothrow) Lookup[count]);
        if (many == nullptr) return fail(ErrorCode::out_of_memory, "rows of lockstep_get_many()");
    }
    Lookup* const all = many != nullptr ? many.get() : few;
    for (size_t i = 0; i < count; ++i) {
        LOCKSTEP_SOUND(rows[i].key);
        if (rows[i].buffer == nullptr && rows[i].room != 0) return is_null("buffer of a row");
        all[i].key = slice_of(rows[i].key);
        all[i].buffer = {static_cast<std::byte*>(rows[i].buffer), rows[i].room};
    }
    const size_t found = TRY(get_many({all, count}));
    for (size_t i = 0; i < count; ++i) {
        rows[i].bytes = all[i].bytes;
        rows[i].found = all[i].found;
        rows[i].hint = c_hint(all[i].hint);
    }
    return found;
}

}  // namespace lockstep::c

namespace c = lockstep::c;
using lockstep::Index;
using lockstep::Result;
using lockstep::Txn;

int lockstep_get(lockstep_txn* txn, lockstep_index* index, lockstep_slice key, int access,
                 void* buffer, size_t room, size_t* bytes, bool* found, lockstep_error* error) {
    return c::on_index(txn, index, error, [&](Txn& t, const Index& i) -> Result<void> {
        LOCKSTEP_SOUND(key);
        if (room != 0) LOCKSTEP_NOT_NULL(buffer);
        const c::Reading how = TRY(c::reading_of(access));
        const auto size = TRY(i.get(t, c::slice_of(key), {static_cast<std::byte*>(buffer), room},
                                    how.access, how.if_locked));
        c::set(bytes, size.value_or(0));
        c::set(found, size.has_value());
        return {};
    });
}

int lockstep_get_many(lockstep_txn* txn, lockstep_index* index, lockstep_lookup* rows, size_t count,
                      int access, size_t* found_count, lockstep_error* error) {
    return c::on_index(txn, index, error, [&](Txn& t, const Index& i) -> Result<void> {
        const c::Reading how = TRY(c::reading_of(access));
        c::set(found_count, TRY(c::look_up(rows, count, [&](std::span<lockstep::Lookup> asked) {
                   return how.if_locked == lockstep::IfLocked::wait
                              ? i.get_many(t, asked, how.access)
                              : i.get_many(t, asked, how.access, how.if_locked);
               })));
        return {};
    });
}

int lockstep_insert(lockstep_txn* txn, lockstep_index* index, lockstep_slice key,
                    lockstep_slice value, lockstep_error* error) {
    return c::on_index(txn, index, error, [&](Txn& t, const Index& i) -> Result<void> {
        LOCKSTEP_SOUND(key);
        LOCKSTEP_SOUND(value);
        return i.insert(t, c::slice_of(key), c::slice_of(value));
    });
}

int lockstep_insert_many(lockstep_txn* txn, lockstep_index* index, const lockstep_record* records,
                         size_t count, lockstep_error* error) {
    return c::on_index(txn, index, error, [&](Txn& t, const Index& i) -> Result<void> {
        if (count != 0) LOCKSTEP_NOT_NULL(records);
        lockstep::NewRecord rows[c::kInsertsAtOnce];
        for (size_t begin = 0; begin < count; begin += c::kInsertsAtOnce) {
            const size_t n = std::min(count - begin, c::kInsertsAtOnce);
            for (size_t k = 0; k < n; ++k) {
                const lockstep_record& record = records[begin + k];
                LOCKSTEP_SOUND(record.key);
                LOCKSTEP_SOUND(record.value);
                rows[k] = {c::slice_of(record.key), c::slice_of(record.value)};
            }
            TRY(i.insert_many(t, {rows, n}));
        }
        return {};
    });
}

int lockstep_put(lockstep_txn* txn, lockstep_index* index, lockstep_slice key, lockstep_slice value,
                 lockstep_error* error) {
    return c::on_index(txn, index, error, [&](Txn& t, const Index& i) -> Result<void> {
        LOCKSTEP_SOUND(key);
        LOCKSTEP_SOUND(value);
        return i.put(t, c::slice_of(key), c::slice_of(value));
    });
}

int lockstep_update(lockstep_txn* txn, lockstep_index* index, lockstep_slice key,
                    lockstep_slice value, bool* found, lockstep_error* error) {
    return c::on_index(txn, index, error, [&](Txn& t, const Index& i) -> Result<void> {
        LOCKSTEP_SOUND(key);
        LOCKSTEP_SOUND(value);
        c::set(found, TRY(i.update(t, c::slice_of(key), c::slice_of(value))));
        return {};
    });
}

int lockstep_patch(lockstep_txn* txn, lockstep_index* index, lockstep_slice key, size_t offset,
                   lockstep_slice part, const lockstep_hint* hint, bool* found,
                   lockstep_error* error) {
    return c::on_index(txn, index, error, [&](Txn& t, const Index& i) -> Result<void> {
        LOCKSTEP_SOUND(key);
        LOCKSTEP_SOUND(part);
        const auto k = c::slice_of(key);
        const auto p = c::slice_of(part);
        c::set(found, TRY(hint == nullptr ? i.patch(t, k, offset, p)
                                          : i.patch(t, k, offset, p, c::hint_of(*hint))));
        return {};
    });
}

int lockstep_add(lockstep_txn* txn, lockstep_index* index, lockstep_slice key, size_t offset,
                 int64_t n, int64_t* sum, bool* found, lockstep_error* error) {
    return c::on_index(txn, index, error, [&](Txn& t, const Index& i) -> Result<void> {
        LOCKSTEP_SOUND(key);
        const auto added = TRY(i.add(t, c::slice_of(key), offset, n));
        c::set(sum, added.value_or(0));
        c::set(found, added.has_value());
        return {};
    });
}

int lockstep_erase(lockstep_txn* txn, lockstep_index* index, lockstep_slice key, bool* found,
                   lockstep_error* error) {
    return c::on_index(txn, index, error, [&](Txn& t, const Index& i) -> Result<void> {
        LOCKSTEP_SOUND(key);
        c::set(found, TRY(i.erase(t, c::slice_of(key))));
        return {};
    });
}

int lockstep_erase_range(lockstep_txn* txn, lockstep_index* index, lockstep_slice low,
                         lockstep_slice high, size_t* count, lockstep_error* error) {
    return c::on_index(txn, index, error, [&](Txn& t, const Index& i) -> Result<void> {
        LOCKSTEP_SOUND(low);
        LOCKSTEP_SOUND(high);
        c::set(count, TRY(i.erase_range(t, c::slice_of(low), c::slice_of(high))));
        return {};
    });
}

uint32_t lockstep_index_id(lockstep_index* index) {
    const c::HandleEntry* const entry = c::entry_of(index, c::Kind::index);
    if (entry == nullptr) return 0;
    const uint64_t id = entry->link.load(std::memory_order_acquire);
    return entry->is(c::number_of(index)) ? static_cast<uint32_t>(id) : 0;
}

int lockstep_bulk_load(lockstep_txn* txn, lockstep_index* index,
                       bool (*next)(void* arg, lockstep_record* record), void* arg,
                       uint32_t fill_percent, lockstep_error* error) {
    return c::in_txn(txn, error, [&](c::TxnObject& t) -> Result<void> {
        LOCKSTEP_NOT_NULL(next);
        const Index i = TRY(c::index_of(*t.store, index));
        c::LoadSource source(t, next, arg);
        TRY(t.store->store.bulk_load(
            *t.txn, i,
            [&](lockstep::Slice& key, lockstep::Slice& value) { return source.take(key, value); },
            fill_percent));
        if (source.unsound())
            return lockstep::fail(lockstep::ErrorCode::bad_argument,
                                  "record of a bulk load: NULL, or longer than the limit");
        return {};
    });
}
