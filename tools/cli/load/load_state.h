// load_state.h - the side file of an unfinished load: how far the input was read, and which run
// files hold it.
//
// Concepts   The folder load.tmp in the store's directory holds run files and state.json. A cut
//            writes all collected pairs to run files, then replaces state.json by a rename. So
//            state.json names complete files only, whatever happens.
#pragma once

#include <string>
#include <vector>

#include "tools/cli/load/load_target.h"
#include "tools/cli/load/rejects.h"
#include "tools/cli/rows/left_out.h"
#include "tools/cli/rows/row_reader.h"

namespace lockstep::cli {

struct LoadState {
    InputPlace place;                       // everything before it is in run files or in the store
    uint64_t records = 0;                   // of the input, before the place
    bool ended = false;                     // the end row lies before the place
    std::vector<Target> targets;            // in the order of the input; without pairs
    std::vector<LeftOut> secondaries = {};  // that the input describes
    Rejects::Place rejects = {};            // refused lines before the place
};

class LoadFolder {
public:
    explicit LoadFolder(const std::string& store) : path_(store + "/load.tmp") {}
    const std::string& path() const { return path_; }
    // Name of a new run file. The folder exists then.
    std::string new_run();
    // Nothing if there is no state. Throws Failed if it is damaged.
    std::optional<LoadState> read(uint64_t fingerprint);
    // Throws Failed.
    void write(const LoadState& state, uint64_t fingerprint);
    void remove();

private:
    const std::string path_;
    uint64_t next_run_ = 0;
};

}  // namespace lockstep::cli
