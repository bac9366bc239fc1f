// engine_stats.h - the statistics of an engine, for those parts of it that report them.
#pragma once

#include <lockstep/stats.h>

namespace lockstep::sm {

class Engine;

// As Store::stats() and Store::steps_stats(). Any kernel thread; never block.
StoreStats store_stats_of(Engine& engine);
StepsStats steps_stats_of(Engine& engine);

}  // namespace lockstep::sm
