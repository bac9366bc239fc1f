// engine.h - the parts of one open store, wired together. Internal: the public face is store.h.
//
// Concepts   Engine owns everything that lives as long as the store is open. Members are built top to bottom at open and torn down
//            bottom to top at close. Nothing here is global: several engines in one process are independent.
#pragma once

#include <atomic>
#include <memory>

#include "sm/buffer_pool.h"
#include "sm/options.h"
#include "sm/space_map.h"
#include "threads/runtime.h"
#include "txn/transaction.h"

namespace lockstep::sm {

class Catalog;
class Checkpointer;
class GhostCleaner;

class Engine {
public:
    Engine();
    ~Engine();

    Options options;                                 // as given and checked
    std::unique_ptr<Clock> own_clock;                // unless a test hands one in
    std::unique_ptr<threads::Disk> own_disk;
    threads::Disk* disk = nullptr;
    threads::FileId data_file{-1};
    threads::FileId lock_file{-1};
    std::unique_ptr<threads::Runtime> runtime;
    std::unique_ptr<txn::Log> log;
    std::unique_ptr<txn::LockManager> locks;
    std::unique_ptr<txn::TransactionTable> txns;
    std::unique_ptr<BufferPool> pool;
    std::unique_ptr<SpaceMap> space;
    std::unique_ptr<Catalog> catalog;
    std::unique_ptr<Checkpointer> checkpointer;
    std::unique_ptr<GhostCleaner> ghosts;
    txn::StoreLock database_lock;                    // StoreId 0

    // Begin LSN of the newest checkpoint: pages with a lower lsn log their image (PC-3). kLsnMax while a checkpoint begins.
    std::atomic<uint64_t> image_horizon{0};
    // Redo self-check mode and other test switches live in Options, not here.

    // One line to the caller's logger, if any. Level 0 error, 1 warning, 2 information. Text is formatted by the caller.
    void report(int level, std::string_view text) const;
    bool failed() const { return log && log->failed(); }
};

}  // namespace lockstep::sm
