// mutants.h - the table of mutants: faults compiled in on purpose, to prove that the tests notice
// them.
//
// Concepts   MUTANT(name) stands at the place of the fault. In a normal build it is the constant
//            `false`, so its branch does not exist. A build with LOCKSTEP_MUTANTS contains all
//            mutants. The environment variable LOCKSTEP_MUTANT picks one at program start.
//            tools/planted.py runs the tests with each in turn. The table is made of one per area.
//            An entry: name, the test program that should notice it first, and what is wrong.
#pragma once

#include "threads/base/mutants_backup.h"
#include "threads/base/mutants_records.h"
#include "threads/base/mutants_recovery.h"
#include "threads/base/mutants_snapshot.h"
#include "threads/base/mutants_store.h"
#include "threads/base/mutants_threads.h"
#include "threads/base/mutants_two_phase.h"
#include "threads/base/mutants_txn.h"

#define LOCKSTEP_MUTANT_TABLE(X)  \
    LOCKSTEP_BACKUP_MUTANTS(X)    \
    LOCKSTEP_RECORDS_MUTANTS(X)   \
    LOCKSTEP_RECOVERY_MUTANTS(X)  \
    LOCKSTEP_SNAPSHOT_MUTANTS(X)  \
    LOCKSTEP_STORE_MUTANTS(X)     \
    LOCKSTEP_THREADS_MUTANTS(X)   \
    LOCKSTEP_TWO_PHASE_MUTANTS(X) \
    LOCKSTEP_TXN_MUTANTS(X)

#ifdef LOCKSTEP_MUTANTS

#include <cstdio>
#include <cstdlib>
#include <cstring>

namespace lockstep::mutants {

enum class Mutant : int {
    none,
#define X(name, where, what) name,
    LOCKSTEP_MUTANT_TABLE(X)
#undef X
};

// `chosen` is that much before its initialiser has run.
static_assert(static_cast<int>(Mutant::none) == 0);

inline Mutant choose() {
    const char* wanted = std::getenv("LOCKSTEP_MUTANT");
    if (!wanted || !*wanted) return Mutant::none;
#define X(name, where, what) \
    if (std::strcmp(wanted, #name) == 0) return Mutant::name;
    LOCKSTEP_MUTANT_TABLE(X)
#undef X
    std::fprintf(stderr,
                 "LOCKSTEP_MUTANT: no mutant is called %s; threads/base/mutants_*.h name them\n",
                 wanted);
    std::exit(3);
}
inline const Mutant chosen = choose();
constexpr bool on(Mutant mutant) {
    return __builtin_is_constant_evaluated() ? false : chosen == mutant;
}
static_assert(!on(Mutant::none));  // constants have none: also const bool x = MUTANT(a) && f();

}  // namespace lockstep::mutants

#define MUTANT(name) ::lockstep::mutants::on(::lockstep::mutants::Mutant::name)
#else
#define MUTANT(name) false
#endif
