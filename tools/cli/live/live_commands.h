// live_commands.h - the sub-commands for a store that another process has open. Each returns the
// exit status of the process: 0, 1 if the command failed, 2 if no process answers for the store.
#pragma once

#include <optional>
#include <string>

#include "tools/cli/live/live_client.h"

namespace lockstep::cli {

struct TopSettings {
    double interval = 1;  // seconds
    bool once = false, json = false;
};

struct TwoPhaseSettings {
    std::string path;
    std::optional<std::string> archive;  // if no process has the store open
    bool json = false;
};

// The transactions in doubt; and the end of one by its gid, as sm/observe/gid_text.h writes it. If
// no process has the store open, it is opened for that. two_phase.cc
int list_prepared(const TwoPhaseSettings& settings);
int end_prepared(const TwoPhaseSettings& settings, const std::string& text, bool commits);
// Refreshes a screen until the key q, a signal, or the end of the store. Returns 128 and the
// signal's number after a signal. live_terminal.cc
int top(const std::string& path, const TopSettings& settings);
int live_locks(const std::string& path, bool json);
int live_transactions(const std::string& path, bool json);
int live_end(const std::string& path, uint64_t id, bool json);
int live_checkpoint(const std::string& path, bool json);
// The metrics of the store as Prometheus text.
int live_metrics(const std::string& path);

// For `lockstep stat`: the answer of a process that has the store open. Empty: no process has, so
// the store may be opened. Error: one has it open and does not answer.
Live<std::optional<Json>> live_stat(const std::string& path);
// Prints such an answer.
void print_live_stat(const Json& answer, bool json);

// Prints the error, as JSON to standard output or as text to standard error. Returns the status.
int live_failed(const LiveError& error, bool json);

}  // namespace lockstep::cli
