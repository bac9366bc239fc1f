// image_trials.h - which objects' page images are worth compressing.
//
// Concepts   The pages of one index are alike. Random text does not shrink, and a trial takes as
//            long as a short transaction. So trials that do not pay make the next ones rare.
#pragma once

#include <atomic>

#include <lockstep/types.h>

namespace lockstep::sm {

// Relaxed atomics: a lost update costs a trial. Any worker.
class ImageTrials {
public:
    // Whether to compress the next image of the object.
    bool due(ObjectId object);
    // What came of it. After n trials in a row that did not pay, 2^n - 1 images are left alone, at
    // most 127.
    void note(ObjectId object, bool paid);

private:
    struct Object {
        std::atomic<uint8_t> pause{0};  // after the last trial
        std::atomic<uint8_t> left{0};   // of the pause
    };
    static constexpr uint32_t kObjects = 64;
    Object objects_[kObjects];  // by ObjectId modulo kObjects
};

}  // namespace lockstep::sm
