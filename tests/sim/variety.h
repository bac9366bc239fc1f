// variety.h - what makes the work of a seed irregular: forms of keys, and how often each kind of
// unusual work occurs.
//
// Concepts   Each seed has a mixture of its own, which may leave out any kind. The draws have
//            streams of their own, one for each version. Without the mixture (`--plain`) a seed is
//            what it was before.
#pragma once

#include <cstdint>
#include <string>

namespace lockstep::sim {

// How a key follows from its number. Keys ascend with their numbers in each form.
enum class KeyForm : uint8_t {
    numbered,  // a shared beginning, a number, and Config::key_pad
    nested,    // each key begins with the one before
    runs,      // runs of short keys before long ones
    shared,    // a long shared beginning; some keys have the greatest length
    mixed,     // the lengths differ at random; the bytes behind the number are 0 or 255
    kCount
};

struct Variety {
    KeyForm keys = KeyForm::numbered;
    uint32_t key_step = 1;    // of nested keys: bytes from each to the next; of shared: the prefix
    double share = 0;         // of transactions of the kinds of plan_variety.h
    uint32_t range = 20;      // longest range that is erased or filled
    double short_odds = 0;    // of values of 0 to 2 bytes
    double border_odds = 0;   // of values near the length from which they take overflow pages
    double prepare_odds = 0;  // of two-phase commits
    double idle_odds = 0;     // of times in which nothing runs
    double backup_odds = 0;   // of backups
    double end_odds = 0;      // of transactions that are ended from outside
    double shrink_odds = 0;   // of giving back space
    bool archive = false;     // the log goes to an archive
    bool secondary = false;   // see Config::secondary
    // Of the second version:
    bool second = false;        // it has what follows
    double hoard_odds = 0;      // of transactions that take much of a small log
    double shared_odds = 0;     // of work on names that all threads make and drop
    double cycle_odds = 0;      // of backup, space given back, backup
    double audit_odds = 0;      // of verify() between transactions, beside all else
    double steps_odds = 0;      // of another StepsOptions, before a step of the run
    bool small_pool = false;    // a pool of 1 MB
    bool crowd = false;         // more threads than Options::transactions_max
    bool torn_reads = false;    // a read beside a write gives sectors of both
    bool late_backups = false;  // backups also after a recovery
    // Of the third version:
    bool ranges = false;  // some erases are of ranges
    std::string text() const;
};
// `version`: 1 is without what later versions have added. A seed of version 1 does what it always
// did.
inline constexpr uint32_t kVarietyNewest = 3;
Variety draw_variety(uint64_t seed, uint32_t version);

// `longest`: at most so many bytes.
std::string key_of(const Variety& variety, uint32_t key_pad, uint32_t number, size_t longest);

}  // namespace lockstep::sim
