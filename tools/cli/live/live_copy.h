// live_copy.h - a copy of a store that another process has open, for commands that only look.
//
// Concepts   The process that has the store open makes the copy, as a backup, through its control
//            socket. The copy is the state at one moment, and needs as much space as the store. It
//            lies in a new directory of this user below $TMPDIR, or else below /var/tmp.
// Blocking   Blocks the kernel thread.
#pragma once

#include <string>
#include <utility>

#include "tools/cli/live/live_client.h"

namespace CLI {  // NOLINT(readability-identifier-naming): of CLI11
class App;
class Option;
}  // namespace CLI

namespace lockstep::cli {

// Where a command reads that looks at a store. Movable; its end deletes a copy. A store that was
// opened there must be closed before.
class LiveCopy {
public:
    // The store's own directory, or a copy if `live`. A copy is a store that was closed. Errors:
    // those of LiveClient, what Store::backup() says, no_directory, and what the first open says.
    static Live<LiveCopy> of(const std::string& store, bool live);
    LiveCopy(LiveCopy&& other) noexcept
        : directory_(std::move(other.directory_)), made_(std::exchange(other.made_, {})) {}
    LiveCopy& operator=(LiveCopy&&) = delete;
    ~LiveCopy();

    const std::string& directory() const { return directory_; }

private:
    LiveCopy(std::string directory, std::string made)
        : directory_(std::move(directory)), made_(std::move(made)) {}
    std::string directory_;
    std::string made_;  // what is deleted; empty: nothing
};

// Adds --live, for LiveCopy::of().
CLI::Option* add_live_option(CLI::App& command, bool& live);

}  // namespace lockstep::cli
