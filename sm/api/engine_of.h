// engine_of.h - the inside of an open store, for the project's own tools, benchmarks and tests. Not
// installed.
#pragma once

#include <lockstep/store.h>
#include "sm/engine/engine.h"

namespace lockstep::sm {

struct StoreAccess {
    static Engine& engine(Store& store) { return *store.engine_; }
};

// The engine of an open store, which keeps owning it.
inline Engine& engine_of(Store& store) { return StoreAccess::engine(store); }

}  // namespace lockstep::sm
