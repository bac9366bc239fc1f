// isolation_rules.h - what each isolation level asks of a read. Code tests a rule and compares no
// levels, so a new level is written here only.
#pragma once

#include <lockstep/txn_options.h>

namespace lockstep::txn {

struct IsolationRules {
    bool by_snapshot;  // reads versions: takes no lock, and changes nothing
    bool keeps_reads;  // the lock on what was read stays until the end
    bool gives_back;   // it goes after the read, and mostly none is needed
    bool locks_gaps;   // no record may appear in a range that was read
};

// A level that is missing in the switch does not compile.
constexpr bool is_level(Isolation level) {
    switch (level) {
        case Isolation::serializable:
        case Isolation::repeatable_read:
        case Isolation::read_committed:
        case Isolation::snapshot: return true;
    }
    return false;
}

// Written without a table: where the caller uses one rule, one comparison is left.
constexpr IsolationRules rules_of(Isolation level) {
    using enum Isolation;
    return {.by_snapshot = level == snapshot,
            .keeps_reads = level == serializable || level == repeatable_read,
            .gives_back = level == read_committed,
            .locks_gaps = level == serializable};
}

// A read goes one of three ways.
consteval bool one_way(Isolation level) {
    const IsolationRules rules = rules_of(level);
    return rules.by_snapshot + rules.keeps_reads + rules.gives_back == 1 &&
           (rules.keeps_reads || !rules.locks_gaps);
}
static_assert(one_way(Isolation::serializable) && one_way(Isolation::repeatable_read) &&
              one_way(Isolation::read_committed) && one_way(Isolation::snapshot));

}  // namespace lockstep::txn
