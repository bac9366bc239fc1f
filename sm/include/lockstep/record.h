// record.h - how records are asked for: the lock that a read takes, hints where a record lies, and
// many records in one call.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include <lockstep/types.h>

namespace lockstep {

// What the transaction means to do with what it reads: takes S, U or X at the fetch.
enum class Access : uint8_t { read, update, write };

// Where a transaction saw a record: spares its next operation on that key the search. A hint, good
// for one index and any age.
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
    bool found = false;           // whether there is such a key,
    RecordHint hint = {};         // and where, if there is
};

// One of many records to be inserted.
struct NewRecord {
    Slice key, value;
};

}  // namespace lockstep
