// lock_error.cc - replaces a lock's hashed name in an error's text.
#include "sm/core/lock_error.h"

#include <algorithm>

#include "threads/base/check.h"
#include "threads/base/error_detail.h"
#include "txn/lock/lock_text.h"

namespace lockstep::sm {

std::unexpected<Error> named_lock_error(const Error& error, const std::string& meaning) {
    DCHECK(error.code != ErrorCode::none && !meaning.empty());
    DCHECK(threads::current() == nullptr || threads::current()->latch_depth == 0);
    std::string text = error_detail(error);
    const std::string name = txn::lock_name_text(txn::LockName{error.a});
    Error better = error;
    bool found = false;
    for (size_t at = 0; (at = text.find(name, at)) != std::string::npos; at += meaning.size()) {
        text.replace(at, name.size(), meaning);
        found = true;
    }
    if (found) set_error_detail(better, text);
    return std::unexpected(better);
}

std::string printable(Slice bytes, size_t max) {
    DCHECK(max > 0 && (bytes.empty() || bytes.data() != nullptr));
    constexpr char kDigits[] = "0123456789abcdef";
    std::string text = "\"";
    for (const char c : bytes.substr(0, max)) {
        const auto byte = static_cast<uint8_t>(c);
        if (byte >= 0x20 && byte < 0x7f && c != '"' && c != '\\') {
            text += c;
        } else {
            text += "\\x";
            text += kDigits[byte >> 4];
            text += kDigits[byte & 15];
        }
    }
    text += '"';
    if (bytes.size() > max) text += "... (" + std::to_string(bytes.size()) + " bytes)";
    return text;
}

}  // namespace lockstep::sm
