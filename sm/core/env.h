// env.h - what a storage structure may see of the open store: the volume, the log, the locks and
// the services below it.
//
// Concepts   Engine (sm/engine) owns these parts and fills the pointers while it opens a store.
//            B-tree, heap and space map reach nothing else. A pointer is set once, before the first
//            structure uses it, and stays until the store closes. A structure reports what others
//            must finish through the hooks of cleanup.h.
// Invariants EN-1 Structures never own what they see here, and never change a pointer.
//            [checked: Engine::assert_state()]
#pragma once

#include <atomic>
#include <functional>
#include <string>
#include <string_view>

#include <lockstep/function.h>
#include "sm/core/image_trials.h"
#include "threads/io/io.h"
#include "threads/runtime/runtime.h"
#include "threads/thread/between_calls.h"
#include "txn/transaction.h"

namespace lockstep::sm {

class BufferPool;
class DropRegistry;
class GhostNotes;
class ObjectDirectory;
class SpaceMap;
class VersionTable;

struct Env {
    threads::Disk* disk = nullptr;
    threads::FileId data_file{-1};  // the volume
    threads::FileId lsns_file{-1};  // see written_lsns.h
    threads::Runtime* runtime = nullptr;
    txn::Log* log = nullptr;
    txn::LockManager* locks = nullptr;
    txn::TransactionTable* txns = nullptr;
    BufferPool* pool = nullptr;
    SpaceMap* space = nullptr;
    // Null while the store is made or restarted, and in tests of a single structure. Then
    // structures report nothing.
    ObjectDirectory* objects = nullptr;
    DropRegistry* drops = nullptr;
    GhostNotes* ghost_notes = nullptr;

    // Full-page-image LSN: the end of the newest checkpoint's begin record. A page whose lsn is not
    // above it logs its image (PC-3). kLsnMax while a checkpoint begins.
    std::atomic<uint64_t> image_lsn{0};
    // Changes of records leave versions; read with image_lsn. Changed by the snapshots' service.
    std::atomic<bool> keeps_versions{false};
    ImageTrials image_trials;
    VersionTable* versions = nullptr;  // of snapshot transactions; null as above

    // Says what keeps the log from being recycled, with the remedy, if no transaction that waits
    // can help: a text for the error log_full. Empty: nothing does, or it is not known.
    std::function<std::string()> log_keeper;

    Function<void(int level, std::string_view text)> logger;
    // One line to the caller's logger, if any. Level 0 error, 1 warning, 2 information. Text is
    // formatted by the caller.
    void report(int level, std::string_view text) const {
        if (!logger) return;
        const threads::InCallback inside;
        logger(level, text);
    }
    bool failed() const { return log && log->failed(); }
};

}  // namespace lockstep::sm
