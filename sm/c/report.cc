// report.cc - codes, texts and keys of the C interface.
#include "sm/c/report.h"

#include <algorithm>
#include <new>
#include <string>
#include <utility>

#include <lockstep/key.h>
#include <lockstep/key_reader.h>

namespace lockstep::c {

namespace {

constexpr int kCodes = 49;  // of enum lockstep_code

// The numbers of both interfaces are the same.
#define LOCKSTEP_LAST LOCKSTEP_CHANGES_LOST
static_assert(int{LOCKSTEP_LAST} == int{static_cast<uint16_t>(ErrorCode::changes_lost)});
static_assert(int{LOCKSTEP_LAST} + 1 == kCodes);
static_assert(int{LOCKSTEP_DEADLOCK} == int{static_cast<uint16_t>(ErrorCode::deadlock)});
static_assert(int{LOCKSTEP_FORKED} == int{static_cast<uint16_t>(ErrorCode::forked)});
static_assert(int{LOCKSTEP_STORE_CLOSED} == int{static_cast<uint16_t>(ErrorCode::store_closed)});
static_assert(int{LOCKSTEP_TXN_ENDED} == int{static_cast<uint16_t>(ErrorCode::txn_ended)});
static_assert(int{LOCKSTEP_WRONG_THREAD} == int{static_cast<uint16_t>(ErrorCode::wrong_thread)});
static_assert(int{LOCKSTEP_BAD_ARGUMENT} == int{static_cast<uint16_t>(ErrorCode::bad_argument)});
static_assert(size_t{LOCKSTEP_KEY_BYTES_MAX} == kKeyBytesMax);
static_assert(size_t{LOCKSTEP_VALUE_BYTES_MAX} == kValueBytesMax);
static_assert(sizeof(lockstep_key) == sizeof(Key) && alignof(lockstep_key) >= alignof(Key));

bool known(int code) { return code >= 0 && code < kCodes; }

// The C++ key in the memory of a C key. One that was never initialised has any size; it overflows.
Key* key_in(lockstep_key* key) {
    if (key == nullptr) return nullptr;
    if (key->opaque[0] > kKeyBytesMax + 1) key->opaque[0] = kKeyBytesMax + 1;
    return std::launder(reinterpret_cast<Key*>(key));
}

}  // namespace

int report(const Error& error, lockstep_error* out) {
    DCHECK(error.code != ErrorCode::none);
    const int code = static_cast<int>(error.code);
    if (out == nullptr) return code;
    const std::string text = error.text();
    out->code = code;
    out->os = error.os;
    out->a = error.a;
    out->b = error.b;
    out->c = error.c;
    const size_t bytes = std::min(text.size(), sizeof out->text - 1);
    std::memcpy(out->text, text.data(), bytes);
    out->text[bytes] = 0;
    return code;
}

Result<void> copy_text(Slice text, char* buffer, size_t room, size_t* bytes) {
    if (buffer == nullptr && room != 0) return is_null("buffer is NULL");
    if (room != 0) std::memcpy(buffer, text.data(), std::min(room, text.size()));
    set(bytes, text.size());
    return {};
}

// The next part, by `read`; 0 of a lost reader.
template <class Read>
static auto read_part(lockstep_key_reader* reader, Read read) {
    using Part = decltype(read(std::declval<KeyReader&>()));
    if (reader == nullptr || reader->lost) return Part{};
    KeyReader parts(slice_of(reader->rest));
    const Part part = read(parts);
    reader->rest = {parts.rest().data(), parts.rest().size()};
    reader->lost = !parts.ok();
    return part;
}

}  // namespace lockstep::c

using lockstep::ErrorCode;
using lockstep::Key;
using lockstep::KeyReader;
using lockstep::c::key_in;
using lockstep::c::read_part;

const char* lockstep_strerror(int code) {
    if (code == LOCKSTEP_OK) return "no error";
    if (!lockstep::c::known(code)) return "number of the application, or of a newer library";
    return lockstep::error_meaning(static_cast<ErrorCode>(code));
}
const char* lockstep_error_name(int code) {
    return lockstep::c::known(code) ? lockstep::error_name(static_cast<ErrorCode>(code))
                                    : "unknown";
}

void lockstep_key_init(lockstep_key* key) {
    if (key != nullptr) new (static_cast<void*>(key)) Key;
}
void lockstep_key_u8(lockstep_key* key, uint8_t value) {
    if (Key* const k = key_in(key)) k->u8(value);
}
void lockstep_key_u16(lockstep_key* key, uint16_t value) {
    if (Key* const k = key_in(key)) k->u16(value);
}
void lockstep_key_u32(lockstep_key* key, uint32_t value) {
    if (Key* const k = key_in(key)) k->u32(value);
}
void lockstep_key_u64(lockstep_key* key, uint64_t value) {
    if (Key* const k = key_in(key)) k->u64(value);
}
void lockstep_key_i32(lockstep_key* key, int32_t value) {
    if (Key* const k = key_in(key)) k->i32(value);
}
void lockstep_key_i64(lockstep_key* key, int64_t value) {
    if (Key* const k = key_in(key)) k->i64(value);
}
void lockstep_key_text(lockstep_key* key, lockstep_slice text) {
    if (Key* const k = key_in(key); k != nullptr && lockstep::c::sound(text))
        k->text(lockstep::c::slice_of(text));
}
lockstep_slice lockstep_key_slice(const lockstep_key* key) {
    if (key == nullptr) return {nullptr, 0};
    const size_t size = std::min<size_t>(key->opaque[0], lockstep::kKeyBytesMax + 1);
    return {key->opaque + 1, size};
}
bool lockstep_key_overflowed(const lockstep_key* key) {
    return key != nullptr && key->opaque[0] > lockstep::kKeyBytesMax;
}

void lockstep_key_reader_init(lockstep_key_reader* reader, lockstep_slice key) {
    if (reader != nullptr) *reader = {.rest = key, .lost = !lockstep::c::sound(key)};
}
uint8_t lockstep_key_reader_u8(lockstep_key_reader* reader) {
    return read_part(reader, [](KeyReader& r) { return r.u8(); });
}
uint16_t lockstep_key_reader_u16(lockstep_key_reader* reader) {
    return read_part(reader, [](KeyReader& r) { return r.u16(); });
}
uint32_t lockstep_key_reader_u32(lockstep_key_reader* reader) {
    return read_part(reader, [](KeyReader& r) { return r.u32(); });
}
uint64_t lockstep_key_reader_u64(lockstep_key_reader* reader) {
    return read_part(reader, [](KeyReader& r) { return r.u64(); });
}
int32_t lockstep_key_reader_i32(lockstep_key_reader* reader) {
    return read_part(reader, [](KeyReader& r) { return r.i32(); });
}
int64_t lockstep_key_reader_i64(lockstep_key_reader* reader) {
    return read_part(reader, [](KeyReader& r) { return r.i64(); });
}
size_t lockstep_key_reader_text(lockstep_key_reader* reader, char* buffer, size_t room) {
    return read_part(reader,
                     [&](KeyReader& r) { return r.text(buffer, buffer != nullptr ? room : 0); });
}
bool lockstep_key_reader_at_end(const lockstep_key_reader* reader) {
    return reader != nullptr && !reader->lost && reader->rest.size == 0;
}
