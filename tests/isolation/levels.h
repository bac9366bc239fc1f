// levels.h - which anomalies each isolation level may show, as tools/docs/pages/explanation/
// isolation.md promises it.
//
// Concepts   The table has the rows of the document, in its order and with its names. The checker
//            counts an anti-dependency if its reader's level forbids what it may lead to.
// Source     A. Adya, "Weak consistency: a generalized theory and optimistic implementations for
//            distributed transactions", 1999; mixed levels: section 5.5 there.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

#include <lockstep/txn_options.h>

namespace lockstep::isolation {

enum class Anomaly : uint8_t {
    dirty_write,  // G0: a cycle of overwrites
    dirty_read,   // G1a, G1b: a value that was undone, or not the last one of its transaction
    circular,     // G1c: a cycle of overwrites and reads
    lost_update,  // P4: two changes of one object by transactions that had read the same version
    fuzzy_read,   // G-single: a cycle with one anti-dependency
    phantom,      // a cycle with an anti-dependency through what was absent
    write_skew,   // G2-item: a cycle with several anti-dependencies, all of records
    read_only,    // the same with a transaction that only reads
    impossible,   // no level explains it: an element that nobody wrote, or twice; two orders
};
inline constexpr size_t kAnomalies = 9;

enum class Verdict : uint8_t { forbidden, possible, reads_only };

struct AnomalyRow {
    const char* name;                // in the document
    const char* short_name;          // in reports
    std::array<Verdict, 4> verdict;  // by Isolation
};

inline constexpr std::array<AnomalyRow, kAnomalies> kAnomalyTable = [] {
    constexpr Verdict no = Verdict::forbidden, may = Verdict::possible, ro = Verdict::reads_only;
    return std::array<AnomalyRow, kAnomalies>{{
        {"dirty write (G0)", "G0", {no, no, no, ro}},
        {"aborted read, intermediate read (G1a, G1b)", "G1a/G1b", {no, no, no, no}},
        {"circular information flow (G1c)", "G1c", {no, no, no, no}},
        {"lost update (P4)", "lost update", {no, no, may, ro}},
        {"fuzzy read (G-single)", "G-single", {no, no, may, no}},
        {"phantom (P3)", "phantom", {no, may, may, no}},
        {"write skew (G2-item)", "G2-item", {no, no, may, ro}},
        {"read-only anomaly", "read-only anomaly", {no, may, may, no}},
        {"garbage, duplicate or contradictory values", "impossible", {no, no, no, no}},
    }};
}();

constexpr bool may_show(txn::Isolation level, Anomaly anomaly) {
    return kAnomalyTable[static_cast<size_t>(anomaly)].verdict[static_cast<size_t>(level)] ==
           Verdict::possible;
}
constexpr const char* name_of(Anomaly anomaly) {
    return kAnomalyTable[static_cast<size_t>(anomaly)].short_name;
}

}  // namespace lockstep::isolation
