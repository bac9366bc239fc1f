// secondary_key.cc - taking entries apart.
#include "sm/secondary/secondary_key.h"

#include "threads/base/check.h"

namespace lockstep::sm {

std::optional<EntryParts> split_entry(bool unique, Slice key, Slice value) {
    if (unique) return EntryParts{std::string(key), std::string(value)};
    EntryParts parts;
    for (size_t at = 0;;) {
        const size_t zero = key.find('\0', at);
        if (zero == Slice::npos || zero + 1 == key.size()) return std::nullopt;
        parts.secondary_key.append(key.substr(at, zero - at));
        if (key[zero + 1] == '\0') {
            parts.primary_key = key.substr(zero + 2);
            break;
        }
        if (key[zero + 1] != '\xff') return std::nullopt;
        parts.secondary_key.push_back('\0');
        at = zero + 2;
    }
    if (!value.empty()) return std::nullopt;
    DCHECK(entry_of(false, parts.secondary_key, parts.primary_key) == key);  // SE-2
    return parts;
}

}  // namespace lockstep::sm
