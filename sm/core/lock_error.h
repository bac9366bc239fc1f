// lock_error.h - says in an error of the lock manager which key or record its hashed name stands
// for.
//
// Concepts   The lock manager knows names, which are hashes (Error::a), and objects. Its text (see
//            error_detail.h) contains the name as a number. The operation that asked for the lock
//            knows the key; on its error path (lock_wait.h) it replaces the number.
// Blocking   never. Cold: for errors only.
#pragma once

#include <expected>
#include <string>

#include <lockstep/result.h>
#include <lockstep/types.h>

namespace lockstep::sm {

// `error` with `meaning`, as `key "a"`, wherever its text has the name of the lock that was asked
// for.
[[gnu::cold, gnu::noinline]] std::unexpected<Error> named_lock_error(const Error& error,
                                                                     const std::string& meaning);

// `bytes` in quotes, everything but printable ASCII as \x00, cut to `max` bytes.
std::string printable(Slice bytes, size_t max = 48);

}  // namespace lockstep::sm
