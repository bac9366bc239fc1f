// steps_of_run.h - STEPS options from the environment, so that each test can run with STEPS on.
//
// LOCKSTEP_STEPS=on turns STEPS on; ctest's label `steps` sets it. All CTX points are then active,
// also those on the instruction side.
#pragma once

#include <cstdlib>
#include <string_view>

#include <lockstep/steps_options.h>
#include "threads/thread/ctx_points.h"

namespace lockstep {

inline StepsOptions steps_of_run() {
    const char* text = std::getenv("LOCKSTEP_STEPS");
    return {
        .mode = text != nullptr && std::string_view(text) == "on" ? StepsMode::on : StepsMode::off,
        .points = threads::kCtxIcache};
}

}  // namespace lockstep
