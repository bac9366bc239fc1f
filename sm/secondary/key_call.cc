// key_call.cc - which threads run key functions.
#include "sm/secondary/key_call.h"

#include "threads/base/error_detail.h"

namespace lockstep::sm {

// Of a kernel thread that runs no user threads: a builder's.
static constinit thread_local uint32_t key_calls = 0;

KeyCall::KeyCall() {
    if (threads::current() == nullptr) ++key_calls;
}

KeyCall::~KeyCall() {
    DCHECK(threads::current() != nullptr || key_calls > 0);
    if (threads::current() == nullptr) --key_calls;
}

bool in_key_function() {
    const threads::Thread* const self = threads::current();
    return self != nullptr ? self->callbacks >= threads::kMustNotCallStore : key_calls != 0;
}

std::unexpected<Error> refuse_in_key_function() {
    DCHECK(in_key_function());
    return fail_with(ErrorCode::wrong_thread, "call of the store",
                     "it is made in the key function of a secondary index, for which a change of a "
                     "record waits. A key function computes its keys from the record alone");
}

}  // namespace lockstep::sm
