// gid_text.cc - see gid_text.h.
#include "sm/observe/gid_text.h"

#include <lockstep/prepared.h>
#include "sm/core/lock_error.h"
#include "threads/base/check.h"

namespace lockstep::sm {

namespace {

int digit_of(char c) {
    if (c >= '0' && c <= '9') return c - '0';
    if (c >= 'a' && c <= 'f') return c - 'a' + 10;
    return c >= 'A' && c <= 'F' ? c - 'A' + 10 : -1;
}

}  // namespace

std::string gid_text(Slice gid) {
    const std::string quoted = printable(gid, kGidBytesMax);
    DCHECK(gid.size() <= kGidBytesMax && quoted.size() >= 2);
    return quoted.substr(1, quoted.size() - 2);
}

std::optional<std::string> gid_of_text(std::string_view text) {
    std::string gid;
    while (!text.empty()) {
        if (text.front() != '\\') {
            gid += text.front();
            text.remove_prefix(1);
            continue;
        }
        if (text.size() < 4 || text[1] != 'x') return std::nullopt;
        const int high = digit_of(text[2]), low = digit_of(text[3]);
        if (high < 0 || low < 0) return std::nullopt;
        gid += static_cast<char>(16 * high + low);
        text.remove_prefix(4);
    }
    if (gid.empty() || gid.size() > kGidBytesMax) return std::nullopt;
    return gid;
}

}  // namespace lockstep::sm
