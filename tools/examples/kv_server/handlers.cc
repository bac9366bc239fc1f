// handlers.cc - the commands on keys.
#include "handlers.h"

#include <charconv>

namespace kv {

using namespace lockstep;

namespace {

constexpr uint64_t kScanCountMax = 10'000;

// A whole decimal number without sign for unsigned types, space or plus.
template <class T>
bool parse_number(std::string_view text, T& value) {
    const auto end = std::from_chars(text.data(), text.data() + text.size(), value);
    return !text.empty() && end.ec == std::errc() && end.ptr == text.data() + text.size();
}

// An existing record is the common case, and then this is one search.
Result<void> put(Call& call, std::string_view key, std::string_view value) {
    const Index& index = call.database.index;
    if (LOCKSTEP_TRY(index.update(*call.txn, key, value))) return {};
    LOCKSTEP_TRY(index.insert(*call.txn, key, value));
    ++call.records;
    return {};
}

// Appends the value, or null. False once the reply is too long to go on.
Result<bool> append_value(Call& call, std::string_view key, size_t begin) {
    if (LOCKSTEP_TRY(call.database.index.get(*call.txn, key, call.scratch)))
        append_bulk(call.out, call.scratch);
    else append_null(call.out, call.protocol);
    return call.out.size() - begin <= call.database.options.reply_bytes_max();
}

Result<void> add(Call& call, int64_t amount) {
    const std::string_view key = call.arguments[1];
    int64_t value = 0;
    const bool found =
        LOCKSTEP_TRY(call.database.index.get(*call.txn, key, call.scratch, Access::write));
    if (found && !parse_number(call.scratch, value)) {
        append_error(call.out, "ERR value is not an integer or out of range");
        return {};
    }
    if (__builtin_add_overflow(value, amount, &value)) {
        append_error(call.out, "ERR increment or decrement would overflow");
        return {};
    }
    LOCKSTEP_TRY(put(call, key, std::to_string(value)));
    append_integer(call.out, value);
    return {};
}

Result<void> add_argument(Call& call, bool negated) {
    int64_t amount = 0;
    if (!parse_number(call.arguments[2], amount) || (negated && amount == INT64_MIN)) {
        append_error(call.out, "ERR value is not an integer or out of range");
        return {};
    }
    return add(call, negated ? -amount : amount);
}

enum class SetCondition : uint8_t { always, if_new, if_old };

struct SetRequest {
    SetCondition condition = SetCondition::always;
    bool get = false;
};

// Null, or the text of the error. Nothing that a client asks for is left out silently: a key that
// should expire must not stay.
const char* parse_set(Call& call, SetRequest& request) {
    for (const std::string_view word : call.arguments.subspan(3)) {
        for (const std::string_view expiry : {"EX", "PX", "EXAT", "PXAT"})
            if (same_word(word, expiry))
                return "ERR EX, PX, EXAT and PXAT are not supported: keys of this server do not "
                       "expire";
        const bool if_new = same_word(word, "NX"), if_old = same_word(word, "XX");
        if (same_word(word, "KEEPTTL")) continue;  // no key has one
        if (same_word(word, "GET")) request.get = true;
        else if ((!if_new && !if_old) || request.condition != SetCondition::always)
            return "ERR syntax error";
        else request.condition = if_new ? SetCondition::if_new : SetCondition::if_old;
    }
    return nullptr;
}

// False: the condition does not hold.
Result<bool> set_if(Call& call, SetCondition condition) {
    const std::string_view key = call.arguments[1], value = call.arguments[2];
    const Index& index = call.database.index;
    if (condition == SetCondition::if_old) return index.update(*call.txn, key, value);
    if (condition == SetCondition::always) {
        LOCKSTEP_TRY(put(call, key, value));
        return true;
    }
    const Result<void> inserted = index.insert(*call.txn, key, value);
    if (!inserted && inserted.error().code != ErrorCode::duplicate_key)
        return Unexpected(inserted.error());
    call.records += inserted.has_value();
    return inserted.has_value();
}

struct ScanRequest {
    std::string first_key;  // empty: from the beginning
    std::string_view pattern = "*";
    uint64_t count = 10;
};

// Null, or the text of the error.
const char* parse_scan(Call& call, ScanRequest& request) {
    uint64_t number = 0;
    if (!parse_number(call.arguments[1], number)) return "ERR invalid cursor";
    if (number != 0) {
        auto key = call.database.cursors.find(number);
        if (!key) return "ERR invalid cursor: unknown or too old, begin again with 0";
        request.first_key = std::move(*key);
    }
    const size_t words = call.arguments.size();
    for (size_t i = 2; i < words; i += 2) {
        if (i + 1 == words) return "ERR syntax error";
        const std::string_view name = call.arguments[i], value = call.arguments[i + 1];
        if (same_word(name, "MATCH")) {
            request.pattern = value;
        } else if (same_word(name, "COUNT")) {
            if (!parse_number(value, request.count) || request.count == 0)
                return "ERR value is not an integer or out of range";
        } else if (!same_word(name, "TYPE") || !same_word(value, "STRING")) {
            return "ERR syntax error";
        }
    }
    request.count = std::min(request.count, kScanCountMax);
    return nullptr;
}

}  // namespace

Result<void> run_get(Call& call) {
    LOCKSTEP_TRY(append_value(call, call.arguments[1], call.out.size()));
    return {};
}

Result<void> run_set(Call& call) {
    const std::string_view key = call.arguments[1];
    SetRequest request;
    if (const char* error = parse_set(call, request)) {
        append_error(call.out, error);
        return {};
    }
    const size_t begin = call.out.size();
    if (request.get) {
        const auto found =
            LOCKSTEP_TRY(call.database.index.get(*call.txn, key, call.scratch, Access::write));
        if (found) append_bulk(call.out, call.scratch);
        else append_null(call.out, call.protocol);
    }
    const bool done = LOCKSTEP_TRY(set_if(call, request.condition));
    if (call.out.size() > begin) return {};
    if (done) append_status(call.out, "OK");
    else append_null(call.out, call.protocol);
    return {};
}

Result<void> run_del(Call& call) {
    int64_t erased = 0;
    for (const std::string_view key : call.arguments.subspan(1)) {
        call.pacer.count();
        erased += LOCKSTEP_TRY(call.database.index.erase(*call.txn, key));
    }
    call.records -= erased;
    append_integer(call.out, erased);
    return {};
}

Result<void> run_exists(Call& call) {
    int64_t found = 0;
    for (const std::string_view key : call.arguments.subspan(1)) {
        call.pacer.count();
        found += LOCKSTEP_TRY(call.database.index.get(*call.txn, key, std::span<std::byte>()))
                     .has_value();
    }
    append_integer(call.out, found);
    return {};
}

Result<void> run_mget(Call& call) {
    const size_t begin = call.out.size();
    append_array(call.out, call.arguments.size() - 1);
    for (const std::string_view key : call.arguments.subspan(1)) {
        call.pacer.count();
        if (!LOCKSTEP_TRY(append_value(call, key, begin))) return {};
    }
    return {};
}

Result<void> run_mset(Call& call) {
    for (size_t i = 1; i < call.arguments.size(); i += 2) {
        call.pacer.count();
        LOCKSTEP_TRY(put(call, call.arguments[i], call.arguments[i + 1]));
    }
    append_status(call.out, "OK");
    return {};
}

Result<void> run_incr(Call& call) { return add(call, 1); }
Result<void> run_decr(Call& call) { return add(call, -1); }
Result<void> run_incrby(Call& call) { return add_argument(call, false); }
Result<void> run_decrby(Call& call) { return add_argument(call, true); }

// Looks at `count` records from the cursor's key on. The key behind them is the next cursor's.
Result<void> run_scan(Call& call) {
    ScanRequest request;
    if (const char* error = parse_scan(call, request)) {
        append_error(call.out, error);
        return {};
    }
    std::string found;
    size_t matching = 0;
    uint64_t next = 0;
    Cursor cursor = call.database.index.scan(*call.txn, request.first_key);
    for (uint64_t seen = 0; LOCKSTEP_TRY(cursor.next()); ++seen) {
        call.pacer.count();
        if (seen == request.count) {
            next = call.database.cursors.keep(cursor.key());
            break;
        }
        if (!matches(request.pattern, cursor.key())) continue;
        append_bulk(found, cursor.key());
        ++matching;
    }
    append_array(call.out, 2);
    append_bulk(call.out, std::to_string(next));
    append_array(call.out, matching);
    call.out += found;
    return {};
}

// One transaction, as for any command.
Result<void> run_flushall(Call& call) {
    const Index& index = call.database.index;
    int64_t erased = 0;
    for (Cursor cursor = index.scan(*call.txn, {}, {}, Access::write);
         LOCKSTEP_TRY(cursor.next());) {
        const std::string key(cursor.key());
        erased += LOCKSTEP_TRY(index.erase(*call.txn, key));
        call.pacer.count();
    }
    call.records -= erased;
    append_status(call.out, "OK");
    return {};
}

}  // namespace kv
