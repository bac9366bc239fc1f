// ctx_points.cc - sets of CTX points from text.
#include "threads/thread/ctx_points.h"

#include <lockstep/steps_options.h>

namespace lockstep {
namespace {

using threads::kCtxPointInfo;

// Removes and returns the next word of `text`, without comments. Empty at the end.
std::string_view next_word(std::string_view& text) {
    constexpr std::string_view kBetween = ", \t\r\n";
    for (;;) {
        text.remove_prefix(std::min(text.find_first_not_of(kBetween), text.size()));
        if (!text.starts_with('#')) break;
        text.remove_prefix(std::min(text.find('\n'), text.size()));
    }
    const std::string_view word = text.substr(0, text.find_first_of(", \t\r\n#"));
    text.remove_prefix(word.size());
    return word;
}

uint32_t bit_named(std::string_view name) {
    for (unsigned i = 0; i < threads::kCtxPoints; ++i)
        if (name == kCtxPointInfo[i].name) return 1u << i;
    return 0;
}

}  // namespace

Result<uint32_t> ctx_points_from(std::string_view text) {
    uint32_t bits = 0;
    uint64_t number = 1;
    for (std::string_view word = next_word(text); !word.empty(); word = next_word(text), ++number) {
        if (word == "none") continue;
        const uint32_t more = word == "manual"   ? threads::kCtxManual
                              : word == "icache" ? threads::kCtxIcache
                                                 : bit_named(word);
        if (more == 0) return fail(ErrorCode::bad_option, "name of a CTX point", number);
        bits |= more;
    }
    return bits;
}

}  // namespace lockstep
