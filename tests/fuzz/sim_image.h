// sim_image.h - a small store on a simulated disk to damage, and operations on the damaged store.
#pragma once

#include <memory>

#include "tests/sim_store.h"

namespace lockstep::fuzz {

// A disk with a store in /store: an index "i" of several levels, a heap "h", large values. The
// store is closed, or as a kill during work left it.
std::unique_ptr<threads::SimDisk> base_image(bool killed);

// A small store with a short lock timeout.
class FuzzStore : public SimStore {
public:
    explicit FuzzStore(threads::SimDisk& disk);
};

// Opens the store, reads and scans everything, changes something, verifies, closes. Errors are
// allowed; a crash or a hang is not.
void open_and_use(threads::SimDisk& disk);

}  // namespace lockstep::fuzz
