// index_api.cc - public index and cursor: check the transaction, cross the operation boundary, call
// the B-tree.
#include <algorithm>
#include <cstring>
#include <utility>

#include <lockstep/index.h>
#include "sm/api/key_behind.h"
#include "sm/api/operation.h"
#include "sm/btree/btree_cursor.h"
#include "sm/core/lock_wait.h"

namespace lockstep {

using sm::OpKind;
using sm::TxnAccess;

Result<bool> Index::get(Txn& txn, Slice key, std::string& value, Access access) const {
    return sm::perform(txn, engine_, tree_, OpKind::fetch, [&](txn::Transaction& t) {
        sm::ValueOut out{.text = &value};
        return tree_->fetch(t, key, access, out);
    });
}

Result<std::optional<size_t>> Index::get(Txn& txn, Slice key, std::span<std::byte> buffer,
                                         Access access) const {
    return sm::perform(txn, engine_, tree_, OpKind::fetch,
                       [&](txn::Transaction& t) -> Result<std::optional<size_t>> {
                           sm::ValueOut out{.fixed = buffer.data(), .capacity = buffer.size()};
                           const Result<bool> found = tree_->fetch(t, key, access, out);
                           if (!found.has_value()) [[unlikely]]
                               return std::unexpected(found.error());
                           if (!*found) return std::nullopt;
                           return out.bytes;
                       });
}

// What `read` finds, or `none` if its key is locked and passed over.
template <class T, class Read>
static Result<T> read_if_unlocked(txn::Transaction& t, IfLocked if_locked, T none, Read read) {
    DCHECK(if_locked <= IfLocked::skip && !t.locks.never_waits);
    const sm::NeverWaits never(t.locks, if_locked != IfLocked::wait);
    Result<T> got = read();
    if (if_locked == IfLocked::skip && !got.has_value() &&
        got.error().code == ErrorCode::lock_refused)
        return none;
    return got;
}

Result<bool> Index::get(Txn& txn, Slice key, std::string& value, Access access,
                        IfLocked if_locked) const {
    return sm::perform(txn, engine_, tree_, OpKind::fetch, [&](txn::Transaction& t) {
        sm::ValueOut out{.text = &value};
        return read_if_unlocked(t, if_locked, false,
                                [&] { return tree_->fetch(t, key, access, out); });
    });
}

Result<std::optional<size_t>> Index::get(Txn& txn, Slice key, std::span<std::byte> buffer,
                                         Access access, IfLocked if_locked) const {
    return sm::perform(txn, engine_, tree_, OpKind::fetch,
                       [&](txn::Transaction& t) -> Result<std::optional<size_t>> {
                           sm::ValueOut out{.fixed = buffer.data(), .capacity = buffer.size()};
                           const bool found = TRY(read_if_unlocked(t, if_locked, false, [&] {
                               return tree_->fetch(t, key, access, out);
                           }));
                           return found ? std::optional(out.bytes) : std::nullopt;
                       });
}

Result<size_t> Index::get_many(Txn& txn, std::span<Lookup> rows, Access access,
                               IfLocked if_locked) const {
    return sm::perform(txn, engine_, tree_, OpKind::fetch,
                       [&](txn::Transaction& t) -> Result<size_t> {
                           size_t found = 0;
                           for (Lookup& row : rows) {
                               row.found = false;
                               found += TRY(read_if_unlocked(t, if_locked, size_t{0}, [&] {
                                   return tree_->fetch_many(t, {&row, 1}, access);
                               }));
                           }
                           return found;
                       });
}

Result<size_t> Index::get_many(Txn& txn, std::span<Lookup> rows, Access access) const {
    return sm::perform(txn, engine_, tree_, OpKind::fetch,
                       [&](txn::Transaction& t) { return tree_->fetch_many(t, rows, access); });
}

Result<void> Index::insert(Txn& txn, Slice key, Slice value) const {
    return sm::perform_change(txn, engine_, tree_, OpKind::insert,
                              [&](txn::Transaction& t) { return tree_->insert(t, key, value); });
}

Result<void> Index::insert_many(Txn& txn, std::span<const NewRecord> records) const {
    return sm::perform_change(txn, engine_, tree_, OpKind::insert,
                              [&](txn::Transaction& t) { return tree_->insert_many(t, records); });
}

Result<bool> Index::update(Txn& txn, Slice key, Slice value) const {
    return sm::perform_change(txn, engine_, tree_, OpKind::update,
                              [&](txn::Transaction& t) { return tree_->update(t, key, value); });
}

Result<void> Index::put(Txn& txn, Slice key, Slice value) const {
    return sm::perform_change(
        txn, engine_, tree_, OpKind::insert, [&](txn::Transaction& t) -> Result<void> {
            if (TRY(tree_->update(t, key, value))) return {};
            // Below serializable the miss locks nothing: the key may have
            // been inserted in between. A secondary index may refuse, too.
            Result<void> inserted = tree_->insert(t, key, value);
            if (inserted || inserted.error().code != ErrorCode::duplicate_key ||
                inserted.error().a != tree_->id().value)
                return inserted;
            TRY(tree_->update(t, key, value));
            return {};
        });
}

Result<bool> Index::patch(Txn& txn, Slice key, size_t offset, Slice part) const {
    return sm::perform_change(txn, engine_, tree_, OpKind::update, [&](txn::Transaction& t) {
        return tree_->patch(t, key, offset, part);
    });
}

Result<bool> Index::patch(Txn& txn, Slice key, size_t offset, Slice part,
                          const RecordHint& hint) const {
    return sm::perform_change(txn, engine_, tree_, OpKind::update, [&](txn::Transaction& t) {
        tree_->note_hint(t, hint);
        return tree_->patch(t, key, offset, part);
    });
}

Result<bool> Index::modify(Txn& txn, Slice key, std::span<std::byte> buffer,
                           FunctionRef<ByteRange(std::span<std::byte>)> change) const {
    return sm::perform_change(txn, engine_, tree_, OpKind::update, [&](txn::Transaction& t) {
        sm::ValueOut out{.fixed = buffer.data(), .capacity = buffer.size()};
        return tree_->modify(t, key, out, change);
    });
}

Result<std::optional<int64_t>> Index::add(Txn& txn, Slice key, size_t offset, int64_t n) const {
    constexpr size_t kFew = 256;  // bytes that need no memory of their own
    const size_t end = offset + sizeof(int64_t);
    if (offset > kValueBytesMax) [[unlikely]]
        return fail(ErrorCode::bad_argument, "offset of a sum", offset);
    DCHECK(end > offset && end <= kValueBytesMax + sizeof(int64_t));
    std::byte few[kFew];
    static_assert(kFew >= sizeof(int64_t));
    std::string many(end > kFew ? end : 0, '\0');
    const std::span<std::byte> buffer =
        end > kFew ? std::as_writable_bytes(std::span(many)) : std::span(few, end);
    uint64_t sum = 0;
    const bool found = TRY(modify(txn, key, buffer, [&](std::span<std::byte> value) {
        DCHECK(value.size() <= end && sum == 0);  // `change` runs at most once
        if (value.size() >= end) {
            std::memcpy(&sum, value.data() + offset, sizeof sum);
            sum += static_cast<uint64_t>(n);
            std::memcpy(value.data() + offset, &sum, sizeof sum);
        }
        return ByteRange{offset, sizeof sum};  // modify() refuses it if it lies outside
    }));
    return found ? std::optional(static_cast<int64_t>(sum)) : std::nullopt;
}

Result<size_t> Index::modify_many(
    Txn& txn, std::span<Lookup> rows,
    FunctionRef<ByteRange(size_t, std::span<std::byte>)> change) const {
    return sm::perform_change(txn, engine_, tree_, OpKind::update, [&](txn::Transaction& t) {
        return tree_->modify_many(t, rows, change);
    });
}

Result<bool> Index::erase(Txn& txn, Slice key) const {
    return sm::perform_change(txn, engine_, tree_, OpKind::erase,
                              [&](txn::Transaction& t) { return tree_->erase(t, key); });
}

Result<size_t> Index::erase_range(Txn& txn, Slice low, Slice high) const {
    return sm::perform_change(txn, engine_, tree_, OpKind::erase, [&](txn::Transaction& t) {
        return tree_->erase_range(t, low, high);
    });
}

Cursor Index::scan(Txn& txn, Slice low, Slice high, Access access) const {
    return scan(txn, low, high, access, IfLocked::wait);
}

Cursor Index::scan(Txn& txn, Slice low, Slice high, Access access, IfLocked if_locked) const {
    txn::Transaction* t = sm::admit(txn, engine_, tree_, false);
    if (!t) return Cursor(txn, {}, sm::refused(txn, engine_, tree_).error());
    if (const size_t longer = std::max(low.size(), high.size()); longer > kKeyBytesMax) [[unlikely]]
        return Cursor(txn, {}, sm::key_too_long(longer).error());
    if (txn::rules_of(t->isolation).by_snapshot && access != Access::read) [[unlikely]]
        return Cursor(txn, {}, fail(ErrorCode::read_only, "transaction", t->id.value).error());
    // Copies the bounds. At the boundary other threads may run, to whom the caller's buffer may
    // belong as well.
    detail::Owned cursor(new sm::BTreeCursor(*tree_, *t, low, high, access, if_locked));
    sm::operation_boundary(OpKind::scan, tree_->id());
    return Cursor(txn, std::move(cursor));
}

Cursor Index::scan_prefix(Txn& txn, Slice prefix, Access access) const {
    return scan(txn, prefix, sm::KeyBehind(prefix), access);
}

Cursor Index::scan_prefix(Txn& txn, Slice prefix, Access access, IfLocked if_locked) const {
    return scan(txn, prefix, sm::KeyBehind(prefix), access, if_locked);
}

Result<size_t> Index::count(Txn& txn, Slice low, Slice high) const {
    Cursor cursor = scan(txn, low, high);
    size_t records = 0;
    while (TRY(cursor.next())) ++records;
    return records;
}

ObjectId Index::id() const { return tree_ ? tree_->id() : ObjectId{}; }

Cursor::Cursor(Txn& txn, detail::Owned<sm::BTreeCursor> cursor, Error error)
    : txn_(&txn), cursor_(std::move(cursor)), error_(error) {}
Cursor::Cursor(Cursor&&) noexcept = default;
Cursor& Cursor::operator=(Cursor&&) noexcept = default;
Cursor::~Cursor() = default;

namespace {

// One scan is one operation: its first step crosses the boundary (Index::scan), later ones only
// meet CTX points at new leaves.
template <class Step>
inline Result<bool> scan_step(Txn& txn, const sm::BTreeCursor* cursor, const Error& error,
                              Step step) {
    if (!cursor) [[unlikely]]
        return std::unexpected(error);
    txn::Transaction* t = TxnAccess::usable(txn);
    if (!t) [[unlikely]] {
        t = TxnAccess::after_wait(txn, true);
        if (!t) return std::unexpected(TxnAccess::why_not(txn));
    }
    return sm::finish(*t, step);
}

}  // namespace

Result<bool> Cursor::next() {
    return scan_step(*txn_, cursor_.get(), error_, [&] { return cursor_->next(); });
}
Result<bool> Cursor::prev() {
    return scan_step(*txn_, cursor_.get(), error_, [&] { return cursor_->prev(); });
}
Result<bool> Cursor::patch(size_t offset, Slice part) {
    return scan_step(*txn_, cursor_.get(), error_, [&] { return cursor_->patch(offset, part); });
}
Slice Cursor::key() const { return cursor_ ? cursor_->key() : Slice{}; }
Slice Cursor::value() const { return cursor_ ? cursor_->value() : Slice{}; }

}  // namespace lockstep
