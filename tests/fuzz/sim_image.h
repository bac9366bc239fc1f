// sim_image.h - a small store on a simulated disk to damage, and everything one can do with what is
// left of it.
#pragma once

#include <memory>

#include "tests/sim_store.h"

namespace lockstep::fuzz {

// A disk with a store in /store: an index "i" of several levels, a heap "h", large values. Closed,
// or as a kill in mid-flight left it.
std::unique_ptr<threads::SimDisk> base_image(bool killed);

// A small store that gives up locks soon.
class FuzzStore : public SimStore {
public:
    explicit FuzzStore(threads::SimDisk& disk);
};

// Opens, reads and scans everything, changes something, verifies, closes. Errors are fine, anything
// else is not.
void open_and_use(threads::SimDisk& disk);

}  // namespace lockstep::fuzz
