// key_call.h - says of a thread that it runs a key function of a secondary index.
//
// Concepts   A change of a record waits for the key function, and holds the record's lock. A
//            builder calls it on several kernel threads, and waits for those. A call of the store
//            in a key function could wait for the change that waits for the function. So it is
//            refused.
// Invariants KC-1 No public call that may wait goes on in a key function.
//                 [test: KeyCall.IsRefusedInEveryKindOfThread, tests/python/test_waits.py]
#pragma once

#include <expected>

#include <lockstep/result.h>
#include "threads/thread/between_calls.h"

namespace lockstep::sm {

// While it lives, the present thread runs a key function.
class KeyCall {
public:
    KeyCall();
    ~KeyCall();
    KeyCall(const KeyCall&) = delete;
    KeyCall& operator=(const KeyCall&) = delete;

private:
    const threads::InCallback inside_{threads::kMustNotCallStore};
};

// Whether the present thread, of whatever kind, runs one.
bool in_key_function();
// wrong_thread, for a call in a key function.
[[gnu::cold]] std::unexpected<Error> refuse_in_key_function();
// The same as a result: an error in a key function only.
inline Result<void> require_outside_key_function() {
    if (in_key_function()) [[unlikely]]
        return refuse_in_key_function();
    return {};
}

}  // namespace lockstep::sm
