// ways.h - every call that reads records of a table, and every call that changes one, as tables.
//
// Concepts   A way to read gives the records of a range of keys. A way to change asks `plan` what
//            is to become of one record, with its present value if the way reads it, and does that.
//            A new call of the store is a function and a row here, and all workloads use it.
//            A table is an index, an index with a secondary one, or a heap. Its keys are small
//            numbers; those of an earlier epoch are left behind as neighbours.
#pragma once

#include <array>
#include <cstring>
#include <optional>
#include <string>
#include <vector>

#include <lockstep/store.h>
#include "tests/isolation/levels.h"
#include "tests/isolation/observed.h"
#include "threads/base/try.h"

namespace lockstep::isolation {

struct Record {
    uint32_t key;
    std::string value;
};
using Records = std::vector<Record>;

struct Edit {
    enum Kind : uint8_t { none, whole, part, erase };
    Kind kind = none;
    std::string bytes = {};
    size_t offset = 0;  // part: within the value
};
// The present value, or null: there is no such record.
using Plan = FunctionRef<Edit(const Slice* now)>;

struct Table {
    enum Where : uint8_t { index = 1, secondary = 2, heap = 4 };
    const char* name = "";
    uint8_t where = index;  // Where: `index`, `index | secondary` or `heap`
    Index rows = {};
    Index by = {};                   // secondary
    Heap records = {};               // heap: a record begins with its key
    std::vector<RecordId> ids = {};  // of a heap, by key
    uint32_t epoch = 0;
    size_t bytes_max = 0;  // of a value

    std::string key_of(uint32_t key) const {
        return std::string(Slice(Key().u32(static_cast<uint32_t>(epoch)).u32(key)));
    }
    static uint32_t number(Slice key) {
        uint32_t n = 0;
        std::memcpy(&n, key.data() + key.size() - sizeof(n), sizeof(n));
        return __builtin_bswap32(n);
    }
    // Two secondary keys of a record: one that never changes, and one that most changes change.
    // Both have the keys in falling order.
    static std::string fixed_key(Slice key) {
        return std::string(Slice(Key().u8(1).u32(~number(key.substr(0, 4))).u32(~number(key))));
    }
    static void keys_of(Slice key, Slice value, SecondaryKeys& keys) {
        keys.add(fixed_key(key));
        uint8_t sum = 0;
        for (const char c : value) sum = static_cast<uint8_t>(sum * 5 + static_cast<uint8_t>(c));
        keys.add(Key().u8(2).u32(~number(key.substr(0, 4))).u32(~number(key)).u8(sum));
    }
};

// --- Ways to read the records of [low, high).

struct ReadWay {
    const char* name;
    uint8_t where;  // tables that have it
    Access access;
    bool changes;  // not for transactions that only read
    Result<void> (*read)(Table&, Txn&, uint32_t low, uint32_t high, Access, Records&);
};

namespace read_ways {

inline Result<void> get(Table& t, Txn& txn, uint32_t low, uint32_t high, Access access,
                        Records& out) {
    for (uint32_t key = low; key < high; ++key) {
        std::string value;
        if (TRY(t.rows.get(txn, t.key_of(key), value, access))) out.push_back({key, value});
    }
    return {};
}
inline Result<void> get_fixed(Table& t, Txn& txn, uint32_t low, uint32_t high, Access access,
                              Records& out) {
    std::vector<std::byte> buffer(t.bytes_max);
    for (uint32_t key = low; key < high; ++key)
        if (const auto bytes = TRY(t.rows.get(txn, t.key_of(key), buffer, access)))
            out.push_back({key, std::string(reinterpret_cast<const char*>(buffer.data()), *bytes)});
    return {};
}
// Buffers and keys of many lookups.
struct Many {
    Many(const Table& t, uint32_t low, uint32_t high)
        : bytes((high - low) * t.bytes_max), keys(high - low), lookups(high - low) {
        for (uint32_t n = 0; n < high - low; ++n) {
            keys[n] = t.key_of(low + n);
            lookups[n] = {.key = keys[n],
                          .buffer = std::span(bytes).subspan(n * t.bytes_max, t.bytes_max)};
        }
    }
    std::string value(size_t n) const {
        return {reinterpret_cast<const char*>(lookups[n].buffer.data()), lookups[n].bytes};
    }
    void found(uint32_t low, Records& out) const {
        for (uint32_t n = 0; n < lookups.size(); ++n)
            if (lookups[n].found) out.push_back({low + n, value(n)});
    }
    std::vector<std::byte> bytes;
    std::vector<std::string> keys;
    std::vector<Lookup> lookups;
};
inline Result<void> get_many(Table& t, Txn& txn, uint32_t low, uint32_t high, Access access,
                             Records& out) {
    Many many(t, low, high);
    TRY(t.rows.get_many(txn, many.lookups, access));
    many.found(low, out);
    return {};
}
inline Result<void> forward(Table& t, Txn& txn, uint32_t low, uint32_t high, Access access,
                            Records& out) {
    Cursor cursor = t.rows.scan(txn, t.key_of(low), t.key_of(high), access);
    while (TRY(cursor.next()))
        out.push_back({Table::number(cursor.key()), std::string(cursor.value())});
    return {};
}
inline Result<void> backward(Table& t, Txn& txn, uint32_t low, uint32_t high, Access access,
                             Records& out) {
    Cursor cursor = t.rows.scan(txn, t.key_of(low), t.key_of(high), access);
    while (TRY(cursor.prev()))
        out.push_back({Table::number(cursor.key()), std::string(cursor.value())});
    return {};
}
// Forward to the end, then back to the begin. Only what the way back shows is the answer.
inline Result<void> there_and_back(Table& t, Txn& txn, uint32_t low, uint32_t high, Access access,
                                   Records& out) {
    Cursor cursor = t.rows.scan(txn, t.key_of(low), t.key_of(high), access);
    bool any = false;
    while (TRY(cursor.next())) any = true;
    if (!any) return {};
    do out.push_back({Table::number(cursor.key()), std::string(cursor.value())});
    while (TRY(cursor.prev()));
    return {};
}
inline Result<void> get_by_key(Table& t, Txn& txn, uint32_t low, uint32_t high, Access access,
                               Records& out) {
    for (uint32_t key = low; key < high; ++key) {
        SecondaryRecord found;
        if (TRY(get_by(txn, t.by, Table::fixed_key(t.key_of(key)), found, access)))
            out.push_back({Table::number(found.key), found.value});
    }
    return {};
}
inline Result<void> find_by_key(Table& t, Txn& txn, uint32_t low, uint32_t high, Access access,
                                Records& out) {
    for (uint32_t key = low; key < high; ++key) {
        SecondaryCursor cursor = find_by(txn, t.by, Table::fixed_key(t.key_of(key)), access);
        while (TRY(cursor.next()))
            out.push_back({Table::number(cursor.key()), std::string(cursor.value())});
    }
    return {};
}
// Keys fall in the secondary index: [~(high - 1), ~low + 1).
inline SecondaryCursor scan_secondary(Table& t, Txn& txn, uint8_t kind, uint32_t low, uint32_t high,
                                      Access access) {
    return scan_by(txn, t.by, Key().u8(kind).u32(~t.epoch).u32(~(high - 1)),
                   Key().u8(kind).u32(~t.epoch).u32(~low + 1), access);
}
template <uint8_t kKind>
Result<void> by_forward(Table& t, Txn& txn, uint32_t low, uint32_t high, Access access,
                        Records& out) {
    SecondaryCursor cursor = scan_secondary(t, txn, kKind, low, high, access);
    while (TRY(cursor.next()))
        out.push_back({Table::number(cursor.key()), std::string(cursor.value())});
    return {};
}
template <uint8_t kKind>
Result<void> by_backward(Table& t, Txn& txn, uint32_t low, uint32_t high, Access access,
                         Records& out) {
    SecondaryCursor cursor = scan_secondary(t, txn, kKind, low, high, access);
    while (TRY(cursor.prev()))
        out.push_back({Table::number(cursor.key()), std::string(cursor.value())});
    return {};
}
inline Result<void> modify(Table& t, Txn& txn, uint32_t low, uint32_t high, Access, Records& out) {
    std::vector<std::byte> buffer(t.bytes_max);
    for (uint32_t key = low; key < high; ++key)
        TRY(t.rows.modify(txn, t.key_of(key), buffer, [&](std::span<std::byte> value) {
            out.push_back(
                {key, std::string(reinterpret_cast<const char*>(value.data()), value.size())});
            return ByteRange{};
        }));
    return {};
}
inline Result<void> modify_many(Table& t, Txn& txn, uint32_t low, uint32_t high, Access,
                                Records& out) {
    Many many(t, low, high);
    TRY(t.rows.modify_many(txn, many.lookups, [&](size_t n, std::span<std::byte> value) {
        out.push_back({low + static_cast<uint32_t>(n),
                       std::string(reinterpret_cast<const char*>(value.data()), value.size())});
        return ByteRange{};
    }));
    return {};
}
inline Result<void> heap_get(Table& t, Txn& txn, uint32_t low, uint32_t high, Access access,
                             Records& out) {
    for (uint32_t key = low; key < high; ++key) {
        std::string value;
        if (TRY(t.records.get(txn, t.ids[key], value, access)))
            out.push_back({key, value.substr(8)});
    }
    return {};
}
inline Result<void> heap_scan(Table& t, Txn& txn, uint32_t low, uint32_t high, Access,
                              Records& out) {
    return t.records.scan(txn, [&](RecordId id, Slice value) {
        for (uint32_t key = low; key < high; ++key)
            if (t.ids[key] == id) out.push_back({key, std::string(value.substr(8))});
        return true;
    });
}

}  // namespace read_ways

inline constexpr ReadWay kReadWays[] = {
    {"get", Table::index, Access::read, false, read_ways::get},
    {"get for update", Table::index, Access::update, false, read_ways::get},
    {"get for writing", Table::index, Access::write, false, read_ways::get},
    {"get into a buffer", Table::index, Access::read, false, read_ways::get_fixed},
    {"get_many", Table::index, Access::read, false, read_ways::get_many},
    {"get_many for update", Table::index, Access::update, false, read_ways::get_many},
    {"scan", Table::index, Access::read, false, read_ways::forward},
    {"scan for update", Table::index, Access::update, false, read_ways::forward},
    {"scan back", Table::index, Access::read, false, read_ways::backward},
    {"scan back for writing", Table::index, Access::write, false, read_ways::backward},
    {"scan there and back", Table::index, Access::read, false, read_ways::there_and_back},
    {"modify nothing", Table::index, Access::write, true, read_ways::modify},
    {"modify_many nothing", Table::index, Access::write, true, read_ways::modify_many},
    {"get_by", Table::secondary, Access::read, false, read_ways::get_by_key},
    {"find_by", Table::secondary, Access::read, false, read_ways::find_by_key},
    {"find_by for update", Table::secondary, Access::update, false, read_ways::find_by_key},
    {"scan_by", Table::secondary, Access::read, false, read_ways::by_forward<1>},
    {"scan_by back", Table::secondary, Access::read, false, read_ways::by_backward<1>},
    {"scan_by of moving keys", Table::secondary, Access::read, false, read_ways::by_forward<2>},
    {"scan_by of moving keys back", Table::secondary, Access::read, false,
     read_ways::by_backward<2>},
    {"heap get", Table::heap, Access::read, false, read_ways::heap_get},
    {"heap get for update", Table::heap, Access::update, false, read_ways::heap_get},
    {"heap scan", Table::heap, Access::read, false, read_ways::heap_scan},
};

// What protects absent keys in gaps alone.
constexpr bool is_scan(const ReadWay& way) {
    return way.read == read_ways::forward || way.read == read_ways::backward ||
           way.read == read_ways::there_and_back || way.read == read_ways::by_forward<1> ||
           way.read == read_ways::by_backward<1>;
}

// What the level promises about a read through such a way (levels.h).
constexpr Held held_of(Isolation level, Access access, bool changes) {
    if (!may_show(level, Anomaly::phantom)) return Held::range;
    if (!may_show(level, Anomaly::write_skew)) return Held::record;
    return access != Access::read || changes ? Held::record : Held::nothing;
}

// --- Ways to change one record.

struct WriteWay {
    const char* name;
    uint8_t where;
    Access access;  // of the read before the change; `read` may lose updates at read_committed
    bool blind;     // reads nothing: `plan` gets null, and must want a whole value
    Result<bool> (*change)(Table&, Txn&, uint32_t key, Plan);  // false: nothing was changed
};

namespace write_ways {

// Does what the plan wants to the record, which is locked or at least was read.
inline Result<bool> apply(Table& t, Txn& txn, const std::string& key, bool found, const Edit& edit,
                          bool by_put) {
    switch (edit.kind) {
        case Edit::none: return false;
        case Edit::erase: return t.rows.erase(txn, key);
        case Edit::part: return t.rows.patch(txn, key, edit.offset, edit.bytes);
        case Edit::whole: break;
    }
    if (found && !by_put) return t.rows.update(txn, key, edit.bytes);
    if (found) {
        TRY(t.rows.put(txn, key, edit.bytes));
        return true;
    }
    const auto done = t.rows.insert(txn, key, edit.bytes);
    if (!done && done.error().code == ErrorCode::duplicate_key) return false;
    if (!done) return std::unexpected(done.error());
    return true;
}
// The value with the edit in it.
inline Edit whole(const Edit& edit, Slice now) {
    if (edit.kind != Edit::part) return edit;
    Edit all{Edit::whole, std::string(now)};
    all.bytes.replace(edit.offset, edit.bytes.size(), edit.bytes);
    return all;
}

template <Access kAccess, bool kWhole, bool kPut>
Result<bool> get_and_write(Table& t, Txn& txn, uint32_t number, Plan plan) {
    std::string value;
    const std::string key = t.key_of(number);
    const bool found = TRY(t.rows.get(txn, key, value, kAccess));
    const Slice now = value;
    const Edit edit = plan(found ? &now : nullptr);
    return apply(t, txn, key, found, kWhole ? whole(edit, now) : edit, kPut);
}
inline Result<bool> modify(Table& t, Txn& txn, uint32_t number, Plan plan) {
    std::vector<std::byte> buffer(t.bytes_max);
    const std::string key = t.key_of(number);
    std::optional<Edit> edit;
    const bool found = TRY(t.rows.modify(txn, key, buffer, [&](std::span<std::byte> value) {
        const Slice now(reinterpret_cast<const char*>(value.data()), value.size());
        edit = plan(&now);
        if (edit->kind != Edit::part) return ByteRange{};
        std::memcpy(value.data() + edit->offset, edit->bytes.data(), edit->bytes.size());
        return ByteRange{edit->offset, edit->bytes.size()};
    }));
    if (!edit) edit = plan(nullptr);
    if (found && edit->kind == Edit::part) return true;
    return apply(t, txn, key, found, *edit, false);
}
// With neighbours that stay as they are.
inline Result<bool> modify_many(Table& t, Txn& txn, uint32_t number, Plan plan) {
    read_ways::Many many(t, number, number + 2);
    std::optional<Edit> edit;
    TRY(t.rows.modify_many(txn, many.lookups, [&](size_t n, std::span<std::byte> value) {
        if (n != 0) return ByteRange{};
        const Slice now(reinterpret_cast<const char*>(value.data()), value.size());
        edit = plan(&now);
        if (edit->kind != Edit::part) return ByteRange{};
        std::memcpy(value.data() + edit->offset, edit->bytes.data(), edit->bytes.size());
        return ByteRange{edit->offset, edit->bytes.size()};
    }));
    const bool found = many.lookups[0].found;
    if (!edit) edit = plan(nullptr);
    if (found && edit->kind == Edit::part) return true;
    return apply(t, txn, many.keys[0], found, *edit, false);
}
inline Result<bool> hinted_patch(Table& t, Txn& txn, uint32_t number, Plan plan) {
    read_ways::Many many(t, number, number + 2);
    TRY(t.rows.get_many(txn, many.lookups, Access::write));
    const bool found = many.lookups[0].found;
    const std::string value = found ? many.value(0) : "";
    const Slice now = value;
    const Edit edit = plan(found ? &now : nullptr);
    if (edit.kind == Edit::part)
        return t.rows.patch(txn, many.keys[0], edit.offset, edit.bytes, many.lookups[0].hint);
    return apply(t, txn, many.keys[0], found, edit, true);
}
inline Result<bool> cursor_patch(Table& t, Txn& txn, uint32_t number, Plan plan) {
    const std::string key = t.key_of(number);
    Cursor cursor = t.rows.scan(txn, key, t.key_of(number + 1), Access::write);
    const bool found = TRY(cursor.next());
    const Slice now = cursor.value();
    const Edit edit = plan(found ? &now : nullptr);
    if (edit.kind == Edit::part) return cursor.patch(edit.offset, edit.bytes);
    return apply(t, txn, key, found, edit, false);
}
inline Result<bool> insert_many(Table& t, Txn& txn, uint32_t number, Plan plan) {
    std::string value;
    const std::string key = t.key_of(number);
    const bool found = TRY(t.rows.get(txn, key, value, Access::write));
    const Slice now = value;
    const Edit edit = plan(found ? &now : nullptr);
    if (found || edit.kind != Edit::whole) return apply(t, txn, key, found, edit, true);
    const NewRecord record{key, edit.bytes};
    const auto done = t.rows.insert_many(txn, std::span(&record, 1));
    if (!done && done.error().code == ErrorCode::duplicate_key) return false;
    if (!done) return std::unexpected(done.error());
    return true;
}
inline Result<bool> blind_put(Table& t, Txn& txn, uint32_t number, Plan plan) {
    const Edit edit = plan(nullptr);
    TRY(t.rows.put(txn, t.key_of(number), edit.bytes));
    return true;
}
inline Result<bool> blind_update(Table& t, Txn& txn, uint32_t number, Plan plan) {
    return t.rows.update(txn, t.key_of(number), plan(nullptr).bytes);
}
template <Access kAccess>
Result<bool> heap_update(Table& t, Txn& txn, uint32_t number, Plan plan) {
    std::string value;
    if (!TRY(t.records.get(txn, t.ids[number], value, kAccess))) return false;
    const Slice now = Slice(value).substr(8);
    const Edit edit = whole(plan(&now), now);
    if (edit.kind != Edit::whole) return false;
    return t.records.update(txn, t.ids[number], value.substr(0, 8) + edit.bytes);
}

}  // namespace write_ways

inline constexpr WriteWay kWriteWays[] = {
    {"get, patch", Table::index, Access::read, false,
     write_ways::get_and_write<Access::read, false, false>},
    {"get, put", Table::index, Access::read, false,
     write_ways::get_and_write<Access::read, true, true>},
    {"get for update, update", Table::index, Access::update, false,
     write_ways::get_and_write<Access::update, true, false>},
    {"get for writing, patch", Table::index, Access::write, false,
     write_ways::get_and_write<Access::write, false, false>},
    {"modify", Table::index, Access::write, false, write_ways::modify},
    {"modify_many", Table::index, Access::write, false, write_ways::modify_many},
    {"get_many, patch with hint", Table::index, Access::write, false, write_ways::hinted_patch},
    {"cursor patch", Table::index, Access::write, false, write_ways::cursor_patch},
    {"insert_many", Table::index, Access::write, false, write_ways::insert_many},
    {"blind put", Table::index, Access::write, true, write_ways::blind_put},
    {"blind update", Table::index, Access::write, true, write_ways::blind_update},
    {"heap get, update", Table::heap, Access::read, false, write_ways::heap_update<Access::read>},
    {"heap get for writing, update", Table::heap, Access::write, false,
     write_ways::heap_update<Access::write>},
};

}  // namespace lockstep::isolation
