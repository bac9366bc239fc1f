// restart_env.h - what checkpoint and restart see beyond a structure's Env: files, options,
// superblock.
#pragma once

#include <atomic>
#include <functional>
#include <vector>

#include <lockstep/options.h>
#include "sm/buffer/superblock.h"
#include "sm/core/env.h"
#include "txn/log/log_files.h"

namespace lockstep::sm {

class Checkpointer;
struct Unended;

struct RestartEnv : Env {
    Options options;  // as given and checked
    Lsn run_begin{};  // the log's end when this run of the store began
    // The oldest record that a restart would need: of the superblock. Any thread; a checkpoint
    // changes it before it recycles the log below.
    std::atomic<uint64_t> first_record{txn::kLogFirst};
    // As given to the log; readers of the log's files need them.
    txn::LogOptions log_options;
    Superblock superblock{};  // as last read or written; the checkpointer's
    Checkpointer* checkpointer = nullptr;
    // Live transactions that are not adopted yet, during a restart: a checkpoint lists them too.
    const std::vector<Unended>* losers = nullptr;
    // Called by the checkpointer's thread some fifty times a second, between checkpoints.
    std::function<void()> tick;
    // Called when a restart has read the log, and before it appends anything. An error ends it.
    std::function<Result<void>()> log_read;
    // For tests: called when a restart has redone everything and undone nothing.
    std::function<void()> redone;
};

}  // namespace lockstep::sm
