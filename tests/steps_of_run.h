// steps_of_run.h - lets every test that opens a store run a second time with STEPS on:
// LOCKSTEP_STEPS=on, which ctest's `steps` label sets. All CTX points are switched on then, those
// on the instruction side too.
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
