// index_api.cc - public index and cursor: check the transaction, cross the operation boundary, call the B-tree.
#include <utility>

#include "sm/btree.h"
#include "sm/index.h"
#include "sm/operation.h"

namespace lockstep {

using sm::OpKind;
using sm::TxnAccess;

namespace {

sm::Access access_of(For access) { return static_cast<sm::Access>(access); }
static_assert(static_cast<int>(For::write) == static_cast<int>(sm::Access::write));

OpKind fetch_kind(For access) { return access == For::read ? OpKind::fetch : OpKind::fetch_for_update; }

// Why the operation may not begin; null-coded if it may. A handle that was never opened is misuse as well.
[[gnu::cold, gnu::noinline]] std::unexpected<Error> refused(const Txn& txn, const sm::BTree* tree) {
    if (!tree) return fail(ErrorCode::no_such_store, "empty index handle");
    return std::unexpected(TxnAccess::why_not(txn));
}
[[gnu::cold, gnu::noinline]] std::unexpected<Error> read_only_error(const txn::Transaction& t) {
    return fail(ErrorCode::read_only, "transaction", t.id.value);
}

}  // namespace

// Every operation begins alike: usable transaction, live handle, same store, boundary crossed.
#define BEGIN_OPERATION(kind)                                                          \
    txn::Transaction* t = TxnAccess::usable(txn);                                      \
    if (!t || !tree_ || &TxnAccess::engine(txn) != engine_) [[unlikely]]               \
        return refused(txn, tree_);                                                    \
    sm::operation_boundary(*t, kind, tree_->id())
#define BEGIN_CHANGE(kind)                                                             \
    BEGIN_OPERATION(kind);                                                             \
    if (t->read_only) [[unlikely]]                                                     \
        return read_only_error(*t)

Result<bool> Index::get(Txn& txn, Slice key, std::string& value, For access) const {
    BEGIN_OPERATION(fetch_kind(access));
    sm::ValueOut out{.text = &value};
    return sm::finish(*t, tree_->fetch(*t, key, access_of(access), out));
}

Result<std::optional<size_t>> Index::get(Txn& txn, Slice key, std::span<std::byte> buffer, For access) const {
    BEGIN_OPERATION(fetch_kind(access));
    sm::ValueOut out{.fixed = buffer.data(), .capacity = buffer.size()};
    const auto found = sm::finish(*t, tree_->fetch(*t, key, access_of(access), out));
    if (!found) [[unlikely]]
        return std::unexpected(found.error());
    if (!*found) return std::optional<size_t>{};
    return std::optional<size_t>{out.bytes};
}

Result<void> Index::insert(Txn& txn, Slice key, Slice value) const {
    BEGIN_CHANGE(OpKind::insert);
    return sm::finish(*t, tree_->insert(*t, key, value));
}

Result<bool> Index::update(Txn& txn, Slice key, Slice value) const {
    BEGIN_CHANGE(OpKind::update);
    return sm::finish(*t, tree_->update(*t, key, value));
}

Result<void> Index::put(Txn& txn, Slice key, Slice value) const {
    BEGIN_CHANGE(OpKind::insert);
    const bool updated = TRY(sm::finish(*t, tree_->update(*t, key, value)));
    if (updated) return {};
    // The miss has locked the gap (or, below serializable, nothing): another transaction may still have put the key in between.
    auto inserted = tree_->insert(*t, key, value);
    if (!inserted && inserted.error().code == ErrorCode::duplicate_key) {
        TRY(sm::finish(*t, tree_->update(*t, key, value)));
        return {};
    }
    return sm::finish(*t, inserted);
}

Result<bool> Index::patch(Txn& txn, Slice key, size_t offset, Slice part) const {
    BEGIN_CHANGE(OpKind::update);
    return sm::finish(*t, tree_->patch(*t, key, offset, part));
}

Result<bool> Index::erase(Txn& txn, Slice key) const {
    BEGIN_CHANGE(OpKind::erase);
    return sm::finish(*t, tree_->erase(*t, key));
}

Cursor Index::scan(Txn& txn, Slice low, Slice high, For access) const {
    txn::Transaction* t = TxnAccess::usable(txn);
    if (!t || !tree_ || &TxnAccess::engine(txn) != engine_) return Cursor(txn, nullptr, refused(txn, tree_).error());
    return Cursor(txn, std::make_unique<sm::BTreeCursor>(*tree_, *t, low, high, access_of(access)));
}

StoreId Index::id() const { return tree_ ? tree_->id() : StoreId{}; }

Cursor::Cursor(Txn& txn, std::unique_ptr<sm::BTreeCursor> cursor, Error error)
    : txn_(&txn), cursor_(std::move(cursor)), error_(error) {}
Cursor::Cursor(Cursor&&) noexcept = default;
Cursor& Cursor::operator=(Cursor&&) noexcept = default;
Cursor::~Cursor() = default;

// One step is one scan operation.
#define STEP(direction)                                                                \
    if (!cursor_) [[unlikely]]                                                         \
        return std::unexpected(error_);                                                \
    txn::Transaction* t = TxnAccess::usable(*txn_);                                    \
    if (!t) [[unlikely]]                                                               \
        return std::unexpected(TxnAccess::why_not(*txn_));                             \
    sm::operation_boundary(*t, OpKind::scan, StoreId{});                               \
    return sm::finish(*t, cursor_->direction())

Result<bool> Cursor::next() { STEP(next); }
Result<bool> Cursor::prev() { STEP(prev); }
Slice Cursor::key() const { return cursor_ ? cursor_->key() : Slice{}; }
Slice Cursor::value() const { return cursor_ ? cursor_->value() : Slice{}; }

}  // namespace lockstep
