// engine_of.h - the inside of an open store, for the library's own calls, and for the project's
// tools, benchmarks and tests. Not installed.
#pragma once

#include <lockstep/store.h>
#include "sm/engine/engine.h"

namespace lockstep::sm {

struct StoreAccess {
    static Engine& engine(Store& store) { return *store.engine_; }
    // Store::run() for those that have no Store.
    static Result<void> run(Engine& engine, FunctionRef<Result<void>(Txn&)> body,
                            const TxnOptions& options) {
        return Store::run_body(engine, body, options);
    }
};

// The engine of an open store, which keeps owning it.
inline Engine& engine_of(Store& store) { return StoreAccess::engine(store); }

}  // namespace lockstep::sm
