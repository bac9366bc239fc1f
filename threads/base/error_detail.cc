// error_detail.cc - the ring of texts.
#include "threads/base/error_detail.h"

#include <algorithm>
#include <cstring>

#include "threads/base/check.h"
#include "threads/base/spin_lock.h"

namespace lockstep {

namespace {

struct Kept {
    uint32_t number;  // 0: free
    uint32_t bytes;
    char text[kErrorDetailBytesMax];
};
static_assert(kErrorDetailBytesMax % alignof(Kept) == 0);

// Protected by lock.
SpinLock lock;
uint32_t last = 0;
Kept ring[kErrorDetailsKept];

}  // namespace

void set_error_detail(Error& error, std::string_view text) {
    const SpinGuard guard(lock);
    if (++last == 0) ++last;  // 0 is no text
    Kept& kept = ring[last % kErrorDetailsKept];
    DCHECK(kept.number != last);
    kept.number = last;
    kept.bytes = static_cast<uint32_t>(std::min(text.size(), sizeof kept.text));
    std::memcpy(kept.text, text.data(), kept.bytes);
    error.detail = last;
}

Unexpected fail_with(ErrorCode code, const char* what, std::string_view text) {
    DCHECK(what != nullptr);
    Unexpected failure = fail(code, what);
    set_error_detail(failure.error(), text);
    return failure;
}

Unexpected Error::user(uint64_t code, std::string_view text) {
    Unexpected failure = fail(ErrorCode::user_error, nullptr, code);
    set_error_detail(failure.error(), text);
    return failure;
}

std::string error_detail(const Error& error) {
    if (error.detail == 0) return {};
    std::string text(kErrorDetailBytesMax, '\0');  // before the lock: it allocates
    const SpinGuard guard(lock);
    const Kept& kept = ring[error.detail % kErrorDetailsKept];
    DCHECK(kept.bytes <= sizeof kept.text);
    if (kept.number != error.detail) return {};
    std::memcpy(text.data(), kept.text, kept.bytes);
    text.resize(kept.bytes);
    return text;
}

}  // namespace lockstep
