// base.h - of the C interface: error codes, errors, byte strings, handles, keys. Include
// <lockstep/lockstep.h>, whose leading comment says what holds for all calls.
#ifndef LOCKSTEP_C_BASE_H
#define LOCKSTEP_C_BASE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

// NOLINTBEGIN
#ifdef __cplusplus
extern "C" {
#endif
// The codes of errors. The numbers are those of lockstep::ErrorCode and never change.
enum lockstep_code {
    LOCKSTEP_OK = 0,
    LOCKSTEP_IO_ERROR = 1,
    LOCKSTEP_NO_SPACE = 2,
    LOCKSTEP_LOG_FULL = 3,
    LOCKSTEP_POOL_FULL = 4,
    LOCKSTEP_OUT_OF_MEMORY = 5,
    LOCKSTEP_CORRUPT_PAGE = 6,
    LOCKSTEP_LOST_WRITE = 7,
    LOCKSTEP_CORRUPT_LOG = 8,
    LOCKSTEP_CORRUPT_SUPERBLOCK = 9,
    LOCKSTEP_BAD_VERSION = 10,
    LOCKSTEP_STORE_FAILED = 11,
    LOCKSTEP_STORE_CLOSED = 12,
    LOCKSTEP_STORE_LOCKED = 13,
    LOCKSTEP_BAD_PATH = 14,
    LOCKSTEP_BAD_OPTION = 15,
    LOCKSTEP_BAD_ARGUMENT = 16,
    LOCKSTEP_NO_SUCH_OBJECT = 17,
    LOCKSTEP_ALREADY_EXISTS = 18,
    LOCKSTEP_WRONG_KIND = 19,
    LOCKSTEP_DUPLICATE_KEY = 20,
    LOCKSTEP_NO_SUCH_RECORD = 21,
    LOCKSTEP_KEY_TOO_LONG = 22,
    LOCKSTEP_VALUE_TOO_LONG = 23,
    LOCKSTEP_DEADLOCK = 24,
    LOCKSTEP_LOCK_TIMEOUT = 25,
    LOCKSTEP_SELF_DEADLOCK = 26,
    LOCKSTEP_TIMEOUT = 27,
    LOCKSTEP_CANCELLED = 28,
    LOCKSTEP_TXN_ENDED = 29,
    LOCKSTEP_TXN_ABORTING = 30,
    LOCKSTEP_READ_ONLY = 31,
    LOCKSTEP_WRONG_THREAD = 32,
    LOCKSTEP_TOO_MANY = 33,
    LOCKSTEP_ROLLED_BACK = 34,
    LOCKSTEP_UNSUPPORTED = 35,
    LOCKSTEP_FORKED = 36,
    LOCKSTEP_ENDED_BY_OPERATOR = 37,
    LOCKSTEP_TRANSACTION_TOO_OLD = 38,
    LOCKSTEP_NOT_CLOSED = 39,
    LOCKSTEP_KEY_FUNCTION_MISSING = 40,
    LOCKSTEP_INDEX_MISMATCH = 41,
    LOCKSTEP_SNAPSHOT_TOO_OLD = 42,
    LOCKSTEP_BAD_BACKUP = 43,
    LOCKSTEP_BAD_ARCHIVE = 44,
    LOCKSTEP_ARCHIVE_FAILED = 45,
    LOCKSTEP_LOCK_REFUSED = 46,
    LOCKSTEP_USER_ERROR = 47,
    LOCKSTEP_CHANGES_LOST = 48,
};

// A limit of time that is never reached, in nanoseconds.
#define LOCKSTEP_NEVER UINT64_MAX
// For a number of bytes that another option decides.
#define LOCKSTEP_DERIVED UINT64_MAX
// For a rate without a bound.
#define LOCKSTEP_UNLIMITED UINT64_MAX
// For lockstep_options::escalate_at.
#define LOCKSTEP_NO_ESCALATION UINT32_MAX
// The longest key and the longest value of an index, in bytes.
#define LOCKSTEP_KEY_BYTES_MAX 1024
#define LOCKSTEP_VALUE_BYTES_MAX (16u << 20)

// What failed. The caller owns it.
typedef struct lockstep_error {
    int code;          // of enum lockstep_code, or the negative number that a function returned
    int os;            // errno if an operating-system call failed, else 0
    uint64_t a, b, c;  // numbers that the text explains: page, LSN, id ...
    char text[1000];  // one line, NUL-terminated, cut if it is longer: name, meaning, what, numbers
} lockstep_error;

// One-line meaning of a code, and its name ("lock_timeout"). Static strings; never NULL. Any
// thread; never waits.
const char* lockstep_strerror(int code);
const char* lockstep_error_name(int code);

// Bytes with an owner elsewhere. `data` may be NULL if `size` is 0.
typedef struct lockstep_slice {
    const void* data;
    size_t size;
} lockstep_slice;

// A slice of `size` bytes at `data`.
static inline lockstep_slice lockstep_bytes(const void* data, size_t size) {
    lockstep_slice slice;
    slice.data = data;
    slice.size = size;
    return slice;
}
// A slice of a NUL-terminated text, without the NUL.
static inline lockstep_slice lockstep_text(const char* text) {
    return lockstep_bytes(text, text == NULL ? 0 : strlen(text));
}

// Handles. A store lives from lockstep_open() to lockstep_close(). A transaction lives until it is
// committed or rolled back. A cursor lives until lockstep_cursor_close() or the end of its
// transaction. Indexes and heaps live as long as the store, and nothing ends them.
typedef struct lockstep_store lockstep_store;
typedef struct lockstep_txn lockstep_txn;
typedef struct lockstep_index lockstep_index;
typedef struct lockstep_heap lockstep_heap;
typedef struct lockstep_cursor lockstep_cursor;

// Stable address of a record of a heap. A plain value.
typedef struct lockstep_record_id {
    uint32_t page;
    uint32_t slot;
} lockstep_record_id;

// The lock that a read takes: shared, update or exclusive. Where that would have to wait, a read of
// an index may do one of two other things instead; add the number to one of the first three. It
// returns LOCKSTEP_LOCK_REFUSED, and the transaction goes on. Or it passes the record over, as if
// it did not exist (IfLocked in <lockstep/record.h>).
enum lockstep_access {
    LOCKSTEP_ACCESS_READ = 0,
    LOCKSTEP_ACCESS_UPDATE = 1,
    LOCKSTEP_ACCESS_WRITE = 2,
    LOCKSTEP_ACCESS_NO_WAIT = 16,
    LOCKSTEP_ACCESS_SKIP_LOCKED = 32
};

// A key under construction: memcmp orders keys as their parts, if parts at equal places have equal
// types. The same bytes as lockstep::Key. No memory is allocated; the struct may be copied. If a
// part does not fit, the key has overflowed for good, and operations return LOCKSTEP_KEY_TOO_LONG.
typedef struct lockstep_key {
    uint64_t opaque[130];
} lockstep_key;

// Makes the key empty; the first call for each key. All calls on keys: NULL does nothing; any
// thread; they never wait.
void lockstep_key_init(lockstep_key* key);
// Appends an unsigned integer, big-endian.
void lockstep_key_u8(lockstep_key* key, uint8_t value);
void lockstep_key_u16(lockstep_key* key, uint16_t value);
void lockstep_key_u32(lockstep_key* key, uint32_t value);
void lockstep_key_u64(lockstep_key* key, uint64_t value);
// Appends a signed integer; negative numbers sort before positive ones.
void lockstep_key_i32(lockstep_key* key, int32_t value);
void lockstep_key_i64(lockstep_key* key, int64_t value);
// Appends a string, its zero bytes escaped and its end marked: "a" sorts before "ab".
void lockstep_key_text(lockstep_key* key, lockstep_slice text);
// The bytes so far. They belong to `key` and are valid until it changes.
lockstep_slice lockstep_key_slice(const lockstep_key* key);
// Whether a part did not fit.
bool lockstep_key_overflowed(const lockstep_key* key);

// Takes apart what the calls above have put together, part by part, in the same order. A part that
// is not there reads as 0 or an empty text; from then on `lost` is set, and every part reads so.
typedef struct lockstep_key_reader {
    lockstep_slice rest;  // of the key, behind the parts that were read
    bool lost;            // a part was not there
} lockstep_key_reader;

// Begins with the first part of `key`, whose bytes must outlive the reader. All calls on readers:
// NULL reads as a lost one; any thread; they never wait.
void lockstep_key_reader_init(lockstep_key_reader* reader, lockstep_slice key);
// The next part, an unsigned integer.
uint8_t lockstep_key_reader_u8(lockstep_key_reader* reader);
uint16_t lockstep_key_reader_u16(lockstep_key_reader* reader);
uint32_t lockstep_key_reader_u32(lockstep_key_reader* reader);
uint64_t lockstep_key_reader_u64(lockstep_key_reader* reader);
// The next part, a signed integer.
int32_t lockstep_key_reader_i32(lockstep_key_reader* reader);
int64_t lockstep_key_reader_i64(lockstep_key_reader* reader);
// The next part, a string, without its escapes and its end mark: the bytes that `room` has place
// for go to `buffer`, which may be NULL if `room` is 0. Returns the bytes of the part.
size_t lockstep_key_reader_text(lockstep_key_reader* reader, char* buffer, size_t room);
// Whether each part was there, and nothing is behind them.
bool lockstep_key_reader_at_end(const lockstep_key_reader* reader);

#ifdef __cplusplus
}
#endif
// NOLINTEND
#endif
