// lock_error.h - says in an error of the lock manager which key or record its hashed name stands
// for.
//
// Concepts   The lock manager knows names, which are hashes (Error::a), and objects. Its text (see
//            error_detail.h) contains the name as a number. The operation that asked for the lock
//            knows the key; on its error path it replaces the number. Names that only other
//            transactions asked for stay numbers.
// Blocking   never. Cold: for errors only.
#pragma once

#include <string>

#include <lockstep/result.h>
#include <lockstep/types.h>

namespace lockstep::sm {

// The error of a lock on the key `key`.
[[gnu::cold, gnu::noinline]] std::unexpected<Error> key_lock_error(const Error& error, Slice key);
// The error of a lock on the gap between `key` and the next larger one, which has that key's name.
[[gnu::cold, gnu::noinline]] std::unexpected<Error> gap_lock_error(const Error& error, Slice key);
// The error of a lock on the gap above the largest key.
[[gnu::cold, gnu::noinline]] std::unexpected<Error> end_lock_error(const Error& error);
// The error of a lock on a heap's record.
[[gnu::cold, gnu::noinline]] std::unexpected<Error> record_lock_error(const Error& error,
                                                                      RecordId id);

// `bytes` in quotes, everything but printable ASCII as \x00, cut to `max` bytes.
std::string printable(Slice bytes, size_t max = 48);

}  // namespace lockstep::sm
