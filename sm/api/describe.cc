// describe.cc - Store::describe() and Store::columns(). drop() takes the text of an object away.
#include <lockstep/columns.h>
#include <lockstep/store.h>

#include "sm/api/columns_index.h"
#include "threads/base/try.h"

namespace lockstep {

using sm::kColumnsIndex;

namespace {

// The object as `txn` sees it: an index (true) or a heap.
Result<bool> is_index(Store& store, Txn& txn, std::string_view name) {
    const Result<Index> index = store.index(txn, name);
    if (index) return true;
    if (index.error().code != ErrorCode::wrong_kind) return std::unexpected(index.error());
    if (!store.heap(txn, name)) return std::unexpected(index.error());
    return false;
}

Result<void> check_places(const Columns& columns, bool is_index) {
    for (const Column& column : columns.all())
        if (column.place == (is_index ? ColumnPlace::id : ColumnPlace::key))
            return fail_with(ErrorCode::bad_argument, "text of columns",
                             "column \"" + column.name + "\": " +
                                 (is_index ? "records of an index have no id, but a key"
                                           : "records of a heap have no key, but an id"));
    return {};
}

// The texts; empty: nothing was described yet.
Result<std::optional<Index>> texts(Store& store, Txn& txn) {
    const Result<Index> index = store.index(txn, kColumnsIndex);
    if (index) return *index;
    if (index.error().code == ErrorCode::no_such_object) return std::nullopt;
    return std::unexpected(index.error());
}

}  // namespace

Result<void> Store::describe(Txn& txn, std::string_view name, std::string_view columns) {
    const bool index = TRY(is_index(*this, txn, name));
    if (columns.empty()) return forget_columns(txn, name);
    const Columns parsed = TRY(Columns::parse(columns));
    TRY(check_places(parsed, index));
    const Index to = TRY(open_or_create_index(txn, kColumnsIndex));
    return to.put(txn, name, parsed.text());
}

Result<void> Store::describe(std::string_view name, std::string_view columns) {
    return run([&](Txn& txn) -> Result<void> { return describe(txn, name, columns); });
}

Result<Columns> Store::columns(Txn& txn, std::string_view name) {
    TRY(is_index(*this, txn, name));
    const std::optional<Index> from = TRY(texts(*this, txn));
    std::string text;
    if (!from || !TRY(from->get(txn, name, text))) return sm::not_described(name);
    return Columns::parse(text);
}

Result<Columns> Store::columns(std::string_view name) {
    const auto read = [&](Txn& txn) -> Result<Columns> { return columns(txn, name); };
    return run(read, {.read_only = true});
}

Result<void> Store::forget_columns(Txn& txn, std::string_view name) {
    if (name == kColumnsIndex) return {};
    const std::optional<Index> from = TRY(texts(*this, txn));
    if (from) TRY(from->erase(txn, name));
    return {};
}

}  // namespace lockstep
