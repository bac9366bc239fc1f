// tpcc_work.cc - placeholder
#include "tests/sim/work.h"
namespace lockstep::sim {
std::unique_ptr<Work> make_tpcc(Shared& shared) { return make_records(shared, draw_plan(shared.config, stream(shared.config.seed, Stream::work))); }
}
