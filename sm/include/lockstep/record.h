// record.h - how records are requested: limits, access modes, hints, and many records in one call.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include <lockstep/types.h>

namespace lockstep {

// The longest key and the longest value that an index takes, in bytes.
inline constexpr size_t kKeyBytesMax = 1024;
inline constexpr size_t kValueBytesMax = 16u << 20;

// What the transaction means to do with what it reads: takes S, U or X at the fetch.
enum class Access : uint8_t { read, update, write };

// What a read does about a record that another transaction has locked against it. At snapshot
// nothing is locked. At read_committed a read of kind Access::read meets the locks of writers only.
enum class IfLocked : uint8_t {
    // Waits until the lock is free.
    wait,
    // Ends the call with lock_refused. The transaction goes on, and keeps the locks that it has.
    no_wait,
    // Passes the record over, as if it did not exist: it is neither read nor locked. So what the
    // transaction knows is incomplete, and nothing protects that until its end: a record that was
    // passed over may be there, with any value, a moment later. Records that are not passed over,
    // and the gaps between all of them, are protected as the isolation says.
    skip
};

// Where a transaction saw a record. Its next operation on that key needs no search. A hint for one
// index; an old hint is harmless.
struct RecordHint {
    PageId page = kPageNone;
    uint16_t slot = 0;
    uint32_t leaves_freed = 0;
};

// One of many records asked for at once.
struct Lookup {
    Slice key;
    std::span<std::byte> buffer;  // takes the value, or as much of it as fits
    size_t bytes = 0;             // set: the value's full length,
    bool found = false;           // whether the key exists,
    RecordHint hint = {};         // and where, if it exists
};

// Bytes [offset, offset + bytes) of a value.
struct ByteRange {
    size_t offset = 0, bytes = 0;
};

// What Index::approximate_size() tells.
struct RangeSize {
    uint64_t bytes = 0;    // of pages
    uint64_t records = 0;  // in them
};

// One of many records to be inserted.
struct NewRecord {
    Slice key, value;
};

}  // namespace lockstep
