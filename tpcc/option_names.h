// tpcc/option_names.h - names of the workload's own choices on command lines.
#pragma once

#include "tools/base/option_names.h"
#include "tpcc/database.h"

namespace lockstep::tpcc {

inline const Names<Calls> kCalls = {{"many", Calls::many}, {"single", Calls::single}};

}  // namespace lockstep::tpcc
