// attempt_ops.cc - each planned operation: the call, and what its answer must be.
#include <fmt/format.h>

#include <lockstep/need.h>
#include "tests/sim/attempt.h"

namespace lockstep::sim {

Result<void> Attempt::operation(Txn& txn, const Op& op) {
    switch (op.kind) {
        case OpKind::scan_up:
        case OpKind::scan_down:
        case OpKind::scan_turn: return scan(txn, op);
        case OpKind::heap_insert:
        case OpKind::heap_get:
        case OpKind::heap_update:
        case OpKind::heap_erase: return on_heap(txn, op);
        case OpKind::heap_scan: return scan_heap(txn, op);
        case OpKind::savepoint: return save(txn);
        case OpKind::rollback: return rollback(txn, op);
        case OpKind::yield: return yield(), Result<void>{};
        case OpKind::sleep: return sleep_for(100 * kMicrosecond), Result<void>{};
        case OpKind::misuse: return misuse(txn, op);
        case OpKind::create:
        case OpKind::drop:
        case OpKind::bulk_load:
        case OpKind::fill: return on_schema(txn, op);
        case OpKind::by_get:
        case OpKind::by_scan: return by_secondary(txn, op);
        case OpKind::shared_create:
        case OpKind::shared_drop:
        case OpKind::shared_load:
        case OpKind::shared_fill:
        case OpKind::shared_erase:
        case OpKind::shared_read: return on_shared(txn, op);
        default: return on_index(txn, op);
    }
}

void Attempt::announce(Txn& txn, std::span<const Op> ops) {
    std::vector<std::string> keys;
    std::vector<Need> needs;
    keys.reserve(2 * ops.size());
    for (const Op& op : ops) {
        const auto index = host_->index(index_name(op.object));
        if (!index) continue;
        keys.push_back(work_.key_text(op.key));
        needs.push_back({*index, keys.back(), op.size % 2 == 0 ? Access::read : Access::write});
        if (op.size % 3 != 0) continue;
        keys.push_back(op.size % 2 == 0 ? std::string(op.size, 'k') : work_.key_text(op.key + 1));
        needs.push_back({op.size % 7 == 0 ? Index() : *index, keys.back(), Access::read, op.size});
    }
    txn.will_need(needs);
}

Result<void> Attempt::on_index(Txn& txn, const Op& op) {
    const std::string object = index_name(op.object), key = work_.key_text(op.key);
    const Index index = TRY(host_->index(object));
    const uint64_t began = work_.ledger().now();
    std::string value;
    switch (op.kind) {
        case OpKind::get:
        case OpKind::get_update: {
            if (op.size % 3 == 0) return look_up_many(txn, op, index, object);
            const bool found = TRY(
                index.get(txn, key, value, op.kind == OpKind::get ? Access::read : Access::update));
            read(object, key, found ? value_of(value) : nullptr, began);
            return {};
        }
        case OpKind::insert: {
            if (op.size % 4 == 0) return insert_many(txn, op, index, object);
            value = new_value(op.size);
            const Result<void> done = index.insert(txn, key, value);
            if (!done && done.error().code != ErrorCode::duplicate_key) return done;
            existed(object, key, !done);
            if (done) wrote(object, key, value_of(value));
            return {};
        }
        case OpKind::update: {
            value = new_value(op.size);
            const bool there = TRY(index.update(txn, key, value));
            existed(object, key, there);
            if (there) wrote(object, key, value_of(value));
            return {};
        }
        case OpKind::put:
            value = new_value(op.size);
            TRY(index.put(txn, key, value));
            wrote(object, key, value_of(value));
            return {};
        // Read for writing, so that the expected value is known.
        case OpKind::patch: {
            if (op.size % 2 == 0) return modify(txn, op, index, object);
            const bool found = TRY(index.get(txn, key, value, Access::write));
            read(object, key, found ? value_of(value) : nullptr, began);
            if (!found || value.empty()) return {};
            const size_t at = op.size % value.size(),
                         length = std::min<size_t>(5, value.size() - at);
            const std::string part = fmt::format("{:05}", number_ % 100000).substr(0, length);
            if (!TRY(index.patch(txn, key, at, part)))
                unexpected("patch", "the record that it holds is gone");
            value.replace(at, length, part);
            wrote(object, key, value_of(value));
            return {};
        }
        default: {
            if (shared_.config.variety.ranges && op.size % 8 == 0 && serializable())
                return erase_range(txn, op, index, object);
            const bool there = TRY(index.erase(txn, key));
            existed(object, key, there);
            if (there) wrote(object, key, nullptr);
            return {};
        }
    }
}

// What it erases is read before, so that it is known.
Result<void> Attempt::erase_range(Txn& txn, const Op& op, const Index& index,
                                  const std::string& object) {
    const std::string low = work_.key_text(op.key), high = work_.key_text(op.key + 1 + op.span);
    const uint64_t began = work_.ledger().now();
    Rows rows;
    Cursor cursor = index.scan(txn, low, high);
    while (TRY(cursor.next()))
        rows.emplace(std::string(cursor.key()), value_of(std::string(cursor.value())));
    read_range(object, low, high, rows, began);
    const size_t erased = TRY(index.erase_range(txn, low, high));
    if (erased != rows.size())
        unexpected("erase_range", fmt::format("{} of {} records", erased, rows.size()));
    for (const auto& [key, value] : rows) wrote(object, key, nullptr);
    return {};
}

// As patch, of one record or of a run of records, where they are read.
Result<void> Attempt::modify(Txn& txn, const Op& op, const Index& index,
                             const std::string& object) {
    std::vector<std::string> keys, values;
    for (uint32_t i = 0; i <= op.size / 2 % 14; ++i) {
        keys.push_back(work_.key_text(op.key + i * (1 + op.size % 3)));
        values.emplace_back(8192, '\0');
    }
    std::vector<Lookup> rows;
    for (size_t i = 0; i < keys.size(); ++i)
        rows.push_back(
            {.key = keys[i],
             .buffer = std::as_writable_bytes(std::span(values[i].data(), values[i].size())),
             .hint = {}});
    const uint64_t began = work_.ledger().now();
    const auto change = [&](size_t i, std::span<std::byte> value) -> ByteRange {
        if (value.size() == rows[i].buffer.size()) return {};  // perhaps not the whole value
        std::string text(reinterpret_cast<const char*>(value.data()), value.size());
        read(object, keys[i], value_of(text), began);
        if (value.empty()) return {};
        const size_t at = op.size % value.size(), length = std::min<size_t>(5, value.size() - at);
        const std::string part = fmt::format("{:05}", number_ % 100000).substr(0, length);
        std::memcpy(value.data() + at, part.data(), length);
        // A key that comes again has this value then.
        wrote(object, keys[i], value_of(text.replace(at, length, part)));
        return {at, length};
    };
    if (keys.size() == 1) {
        rows[0].found =
            TRY(index.modify(txn, keys[0], rows[0].buffer,
                             [&](std::span<std::byte> value) { return change(0, value); }));
    } else {
        TRY(index.modify_many(txn, rows, change));
    }
    for (size_t i = 0; i < keys.size(); ++i)
        if (!rows[i].found) read(object, keys[i], nullptr, began);
    return {};
}

// A run of keys that are all new: those that are there are looked for first, and locked.
Result<void> Attempt::insert_many(Txn& txn, const Op& op, const Index& index,
                                  const std::string& object) {
    std::vector<std::string> keys, values;
    for (uint32_t i = 0; i <= op.size / 4 % 12; ++i) {
        std::string key = work_.key_text(op.key + i), value;
        const bool there = TRY(index.get(txn, key, value, Access::write));
        existed(object, key, there);
        if (there) continue;
        keys.push_back(std::move(key));
        values.push_back(new_value(op.size / (1 + i)));
    }
    std::vector<NewRecord> records;
    for (size_t i = 0; i < keys.size(); ++i) records.push_back({keys[i], values[i]});
    TRY(index.insert_many(txn, records));
    for (size_t i = 0; i < keys.size(); ++i) wrote(object, keys[i], value_of(values[i]));
    return {};
}

// A run of keys, asked for together.
Result<void> Attempt::look_up_many(Txn& txn, const Op& op, const Index& index,
                                   const std::string& object) {
    std::vector<std::string> keys, values;
    for (uint32_t i = 0; i <= op.size / 3 % 20; ++i) {
        keys.push_back(work_.key_text(op.key + i * (1 + op.size % 5)));
        values.emplace_back(8192, '\0');
    }
    std::vector<Lookup> rows;
    for (size_t i = 0; i < keys.size(); ++i)
        rows.push_back(
            {.key = keys[i],
             .buffer = std::as_writable_bytes(std::span(values[i].data(), values[i].size())),
             .hint = {}});
    const uint64_t began = work_.ledger().now();
    const size_t found =
        TRY(index.get_many(txn, rows, op.kind == OpKind::get ? Access::read : Access::update));
    size_t counted = 0;
    for (size_t i = 0; i < keys.size(); ++i) {
        counted += rows[i].found;
        const size_t room = values[i].size();
        if (rows[i].found && rows[i].bytes > room) {
            std::string whole;
            const bool still = TRY(index.get(txn, keys[i], whole));
            if (serializable() &&
                (!still || whole.size() != rows[i].bytes || whole.substr(0, room) != values[i]))
                unexpected("get_many", "another value than get");
            continue;
        }
        read(object, keys[i],
             rows[i].found ? value_of(values[i].substr(0, rows[i].bytes)) : nullptr, began);
    }
    if (counted != found) unexpected("get_many", "the number found is not that of the rows");
    return {};
}

// Up, down, or up for a while and back: all must give the same rows.
Result<void> Attempt::scan(Txn& txn, const Op& op) {
    const std::string object = index_name(op.object);
    const std::string low = op.span == 0 ? "" : work_.key_text(op.key),
                      high = op.span == 0 ? "" : work_.key_text(op.key + op.span);
    const Index index = TRY(host_->index(object));
    const uint64_t began = work_.ledger().now();
    Cursor cursor = index.scan(txn, low, high);
    Rows rows;
    std::string last;
    const bool up = op.kind != OpKind::scan_down;
    while (TRY(up ? cursor.next() : cursor.prev())) {
        const std::string key(cursor.key());
        if (!rows.empty() && (up ? key <= last : key >= last))
            unexpected("scan", "keys out of order at " + show(key));
        rows.emplace(key, value_of(std::string(cursor.value())));
        last = key;
    }
    if (op.kind == OpKind::scan_turn && serializable()) {
        // At the end it still stands on the last record.
        for (auto row = rows.empty() ? rows.rend() : std::next(rows.rbegin()); row != rows.rend();
             ++row) {
            if (!TRY(cursor.prev())) {
                unexpected("scan", "going back it ended before " + show(row->first));
                break;
            }
            if (cursor.key() != row->first || cursor.value() != *row->second)
                unexpected("scan", "going back it met " + show(cursor.key()) + " instead of " +
                                       show(row->first));
        }
        if (TRY(cursor.prev()))
            unexpected("scan", "going back it went on to " + show(cursor.key()));
    }
    read_range(object, low, high, std::move(rows), began);
    return {};
}

Result<void> Attempt::on_heap(Txn& txn, const Op& op) {
    const std::string object = heap_name(op.object);
    const Heap heap = TRY(host_->heap(object));
    auto& known = work_.known_records(op.object);
    if (op.kind == OpKind::heap_insert || known.empty()) {
        if (plan_.read_only) return {};
        const std::string value = new_value(op.size);
        const std::string key = key_of_record(TRY(heap.insert(txn, value)));
        existed(object, key, false);
        wrote(object, key, value_of(value));
        known.push_back(key);
        return {};
    }
    const std::string key = known[op.key % known.size()];
    const RecordId id = record_of_key(key);
    const uint64_t began = work_.ledger().now();
    if (op.kind == OpKind::heap_get) {
        std::string value;
        const bool found = TRY(heap.get(txn, id, value));
        read(object, key, found ? value_of(value) : nullptr, began);
        return {};
    }
    const std::string value = new_value(op.size);
    const bool erase = op.kind == OpKind::heap_erase;
    const bool there = TRY(erase ? heap.erase(txn, id) : heap.update(txn, id, value));
    existed(object, key, there);
    if (there) wrote(object, key, erase ? nullptr : value_of(value));
    return {};
}

Result<void> Attempt::scan_heap(Txn& txn, const Op& op) {
    const std::string object = heap_name(op.object);
    const Heap heap = TRY(host_->heap(object));
    const uint64_t began = work_.ledger().now();
    Rows rows;
    bool twice = false;
    TRY(heap.scan(txn, [&](RecordId id, Slice value) {
        twice |= !rows.emplace(key_of_record(id), value_of(std::string(value))).second;
        return true;
    }));
    if (twice && serializable()) unexpected("heap scan", "met a record twice");
    read_range(object, "", "", std::move(rows), began);
    return {};
}

// Refused calls change nothing and leave the transaction usable.
Result<void> Attempt::misuse(Txn& txn, const Op& op) {
    shared_.report.add(Count::misuse);
    const Index index = TRY(host_->index(kMarkers));
    Result<void> refused;
    ErrorCode expected{};
    switch (op.key) {
        case 0:
            refused = index.put(txn, std::string(1025, 'k'), "v");
            expected = ErrorCode::key_too_long;
            break;
        case 1:
            static const std::string kTooLong((16u << 20) + 1, 'v');
            refused = index.put(txn, "k", kTooLong);
            expected = ErrorCode::value_too_long;
            break;
        case 2:
            if (auto made = host_->create_index(txn, ""); !made)
                refused = std::unexpected(made.error());
            expected = ErrorCode::bad_argument;
            break;
        default: refused = Index().put(txn, "k", "v"); expected = ErrorCode::no_such_object;
    }
    if (!refused && may_fail(refused.error().code)) return refused;
    if (refused || refused.error().code != expected)
        unexpected("misuse",
                   fmt::format("{} {}", op.key, refused ? "was accepted" : refused.error().text()));
    return {};
}

}  // namespace lockstep::sim
