// lock_mode.h - lock modes as sets of elementary rights: joining two modes is `or`, testing a
// conflict is one `and`.
//
// Concepts   Database > index or heap > heap page take IS IX S SIX U X. A key lock has two parts:
//            the key itself (S U X) and the gap below it, down to the next smaller key. The gap has
//            two rights. gap_read: a scan or a miss depends on the gap being empty. gap_insert: an
//            insert of a key is in progress there. Both parts share one lock name and one mode
//            byte.
// Source     J. Gray, A. Reuter, "Transaction Processing", 1993, ch. 7 (granular modes, U); C.
//            Mohan, ARIES/KVL, 1990, and G. Graefe, "A Survey of B-Tree Locking Techniques", 2010
//            (key-range modes).
#pragma once

#include <cstdint>

namespace lockstep::txn {

enum class LockMode : uint8_t {
    none = 0,
    IS = 1,
    IX = 2,
    S = 4,
    U = 8,
    X = 16,
    gap_read = 32,
    gap_insert = 64,
    SIX = S | IX,
    key_scan = S | gap_read,  // serializable range read: this key and the gap below it
    key_insert = X | gap_insert,
};

constexpr LockMode operator|(LockMode a, LockMode b) {
    return static_cast<LockMode>(static_cast<uint8_t>(a) | static_cast<uint8_t>(b));
}
constexpr LockMode operator&(LockMode a, LockMode b) {
    return static_cast<LockMode>(static_cast<uint8_t>(a) & static_cast<uint8_t>(b));
}
constexpr LockMode without(LockMode a, LockMode b) {
    return static_cast<LockMode>(static_cast<uint8_t>(a) & ~static_cast<uint8_t>(b));
}

namespace detail {
// Rights of others that conflict with a request for one elementary right. U is asymmetric: granted
// S admits U, but granted U admits no new S, so that an upgrade to X is not starved.
constexpr uint8_t conflicts_of_right(uint8_t right) {
    constexpr auto bits = [](auto... m) {
        return static_cast<uint8_t>((static_cast<uint8_t>(m) | ... | 0));
    };
    switch (static_cast<LockMode>(right)) {
        case LockMode::IS: return bits(LockMode::X);
        case LockMode::IX: return bits(LockMode::S, LockMode::U, LockMode::X);
        case LockMode::S: return bits(LockMode::IX, LockMode::U, LockMode::X);
        case LockMode::U: return bits(LockMode::IX, LockMode::U, LockMode::X);
        case LockMode::X:
            return bits(LockMode::IS, LockMode::IX, LockMode::S, LockMode::U, LockMode::X);
        case LockMode::gap_read: return bits(LockMode::gap_insert);
        case LockMode::gap_insert: return bits(LockMode::gap_read);
        default: return 0;
    }
}
struct ConflictTable {
    uint8_t of[128] = {};
    constexpr ConflictTable() {
        for (unsigned m = 0; m < 128; ++m)
            for (unsigned bit = 1; bit < 128; bit <<= 1)
                if (m & bit) of[m] |= conflicts_of_right(static_cast<uint8_t>(bit));
    }
};
inline constexpr ConflictTable kConflicts;
// Key rights and gap rights never conflict; U is asymmetric: it may join S, and S may not join U.
static_assert((kConflicts.of[31] & 96) == 0 && (kConflicts.of[96] & 31) == 0);
static_assert((kConflicts.of[8] & 4) == 0 && (kConflicts.of[4] & 8) != 0);
static_assert(kConflicts.of[4 | 2] == (kConflicts.of[4] | kConflicts.of[2]));  // SIX
static_assert(kConflicts.of[16] == 31 && kConflicts.of[1] == 16);
}  // namespace detail

// May `requested` be granted while all others together hold `granted_to_others`?
constexpr bool compatible(LockMode requested, LockMode granted_to_others) {
    return (detail::kConflicts.of[static_cast<uint8_t>(requested)] &
            static_cast<uint8_t>(granted_to_others)) == 0;
}
// Does holding `held` make a request for `wanted` superfluous? X covers IS, IX, S and U; U covers
// IS and S; S and IX cover IS.
constexpr bool covers(LockMode held, LockMode wanted) {
    unsigned h = static_cast<uint8_t>(held);
    if (h & 16) h |= 1 | 2 | 4 | 8;  // X
    if (h & 8) h |= 1 | 4;           // U
    if (h & 4) h |= 1;               // S
    if (h & 2) h |= 1;               // IX
    return (static_cast<uint8_t>(wanted) & ~h) == 0;
}

const char* lock_mode_name(LockMode mode);  // "X", "S+gap_read" ...; static string

}  // namespace lockstep::txn
