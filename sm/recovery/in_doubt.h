// in_doubt.h - restart gives transactions in doubt their slots and locks back.
//
// Invariants ID-1 A transaction is in doubt if its last record is a prepare record. Restart neither
//                 commits nor undoes it. [checked: adopt_in_doubt()]
//            ID-2 It has all its locks before anything is undone, freed or begun. So no rollback
//                 takes a place that it needs: a ghost, a slot, an overflow chain. The locks of all
//                 that are in doubt were held at the same time. Any order of adoption can grant
//                 them again, with one exception: U may join an S, and S may not join a U. So a U
//                 comes back as S. It protects what was read just as well, and a transaction in
//                 doubt never asks for X.
// Source     C. Mohan et al., "ARIES", 1992: locks of in-doubt transactions.
#pragma once

#include <string>
#include <vector>

#include "sm/recovery/restart_env.h"

namespace lockstep::sm {

struct InDoubt {
    txn::Transaction* txn = nullptr;
    std::string gid;
    Nanos prepared = 0;  // nanoseconds since 1970, UTC
    uint64_t locks = 0;
};

// A transaction without an end in the log.
struct Unended {
    TxnId id;
    Lsn first, last;
};

// Takes those in doubt out of `unended`. Errors: corrupt_log, log_full (option log_bytes is too
// small for their rollbacks), too_many (transactions_max), out_of_memory, those of reading the log.
Result<std::vector<InDoubt>> adopt_in_doubt(RestartEnv& env, std::vector<Unended>& unended);

}  // namespace lockstep::sm
