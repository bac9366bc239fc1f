// store_shrink.cc - gives the free end of the data file back while the store is open.
#include <mutex>

#include <lockstep/store.h>
#include "sm/engine/engine.h"
#include "sm/recovery/recovery.h"

namespace lockstep {
namespace {

// The order is argued in sm/space/space_map_shrink.cc.
Result<uint64_t> shrink(sm::Engine& engine) {
    DCHECK(engine.checkpointer != nullptr && engine.space != nullptr);
    sm::SpaceMap& space = *engine.space;
    const std::lock_guard alone(space.giving_back());
    const uint64_t end = TRY(space.lower_end());
    // Read afterwards: if the file grows from here on, the steps below do nothing.
    const uint64_t before = TRY(engine.disk->size(engine.data_file)) / kPageBytes;
    DCHECK(end <= before);
    if (end == before) return uint64_t{0};
    TRY(engine.checkpointer->run(true));
    if (!TRY(space.forget_end(end, before))) return uint64_t{0};
    TRY(engine.checkpointer->run(true));
    if (!TRY(space.cut_file(end))) return uint64_t{0};
    DCHECK(space.pages_total() >= end);
    return (before - end) * kPageBytes;
}

}  // namespace

Result<uint64_t> Store::give_back_space() {
    const sm::Call call(engine_.get());
    if (!call) return sm::Call::closed();
    if (engine_->options.read_only) return fail(ErrorCode::read_only, "store opened read-only");
    uint64_t bytes = 0;
    TRY(engine_->run_and_wait([&]() -> Result<void> {
        bytes = TRY(shrink(*engine_));
        return {};
    }));
    return bytes;
}

}  // namespace lockstep
