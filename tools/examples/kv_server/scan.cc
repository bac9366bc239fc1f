// scan.cc - the ring of cursors, and the match of a pattern.
#include "scan.h"

#include <lockstep/store.h>

#include <mutex>

namespace kv {
namespace {

// Matches one character against the element of the pattern at `p`, and moves `p` behind it.
bool matches_one(std::string_view pattern, size_t& p, char c) {
    const char first = pattern[p++];
    if (first == '?') return true;
    if (first == '\\' && p < pattern.size()) return pattern[p++] == c;
    if (first != '[') return first == c;
    const bool negated = p < pattern.size() && pattern[p] == '^';
    if (negated) ++p;
    bool found = false;
    for (; p < pattern.size() && pattern[p] != ']'; ++p) {
        if (pattern[p] == '\\' && p + 1 < pattern.size()) ++p;
        auto low = static_cast<unsigned char>(pattern[p]), high = low;
        if (p + 2 < pattern.size() && pattern[p + 1] == '-' && pattern[p + 2] != ']') {
            high = static_cast<unsigned char>(pattern[p + 2]);
            if (low > high) std::swap(low, high);
            p += 2;
        }
        const auto byte = static_cast<unsigned char>(c);
        found |= low <= byte && byte <= high;
    }
    if (p < pattern.size()) ++p;  // the bracket
    return found != negated;
}

}  // namespace

// Begins with the time, so that numbers of an earlier life are not met again.
ScanCursors::ScanCursors() : last_(lockstep::now()), places_(kCursors) {}

uint64_t ScanCursors::keep(std::string_view key) {
    const std::lock_guard guard(mutex_);
    Place& place = places_[++last_ % kCursors];
    place.number = last_;
    place.key = key;
    return last_;
}

std::optional<std::string> ScanCursors::find(uint64_t number) {
    const std::lock_guard guard(mutex_);
    const Place& place = places_[number % kCursors];
    if (number == 0 || place.number != number) return std::nullopt;
    return place.key;
}

// When an element fails, the last star takes one character more.
bool matches(std::string_view pattern, std::string_view text) {
    size_t p = 0, t = 0, star = std::string_view::npos, resume = 0;
    while (t < text.size()) {
        if (p < pattern.size() && pattern[p] == '*') {
            star = ++p;
            resume = t;
            continue;
        }
        if (p < pattern.size() && matches_one(pattern, p, text[t])) {
            ++t;
            continue;
        }
        if (star == std::string_view::npos) return false;
        p = star;
        t = ++resume;
    }
    while (p < pattern.size() && pattern[p] == '*') ++p;
    return p == pattern.size();
}

}  // namespace kv
