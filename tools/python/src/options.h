// options.h - of the Python binding: options of a store and of STEPS from dictionaries.
#pragma once

#include "tools/python/src/core.h"

#include <nanobind/stl/string.h>

namespace lockstep::python {

// Defaults where the dictionary has no value. An unknown name is a TypeError.
lockstep_options options_from(const nb::dict& given);
lockstep_steps_options steps_from(const nb::dict& given);

}  // namespace lockstep::python
