// tables.h - the three tables that CH-benCHmark adds to TPC-C: REGION, NATION and SUPPLIER.
//
// Source     R. Cole et al., "The mixed workload CH-benCHmark", DBTest 2011. A nation's key is the
//            code of a character (0-9, A-Z, a-z), the first of C_STATE. The supplier of item i in
//            warehouse w has the key w * i mod kSuppliers.
#pragma once

#include "tpcc/database.h"

namespace lockstep::tpcc::ch {

inline constexpr uint32_t kRegions = 5, kNations = 62, kSuppliers = 10'000;

// Creates, describes and fills them, if the store does not have them. Any thread. Errors: those of
// Store::run().
Result<void> load_tables(Store& store, uint64_t seed);

}  // namespace lockstep::tpcc::ch
