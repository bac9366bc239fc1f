// image_trials.cc - see image_trials.h.
#include "sm/core/image_trials.h"

#include <algorithm>

namespace lockstep::sm {

bool ImageTrials::due(ObjectId object) {
    Object& o = objects_[object.value % kObjects];
    const uint8_t left = o.left.load(std::memory_order_relaxed);
    if (left == 0) return true;
    o.left.store(static_cast<uint8_t>(left - 1), std::memory_order_relaxed);
    return false;
}

void ImageTrials::note(ObjectId object, bool paid) {
    Object& o = objects_[object.value % kObjects];
    const int before = o.pause.load(std::memory_order_relaxed);
    const auto pause = static_cast<uint8_t>(paid ? 0 : std::min(2 * before + 1, 127));
    o.pause.store(pause, std::memory_order_relaxed);
    o.left.store(pause, std::memory_order_relaxed);
}

}  // namespace lockstep::sm
