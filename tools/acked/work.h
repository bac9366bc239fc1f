// work.h - runs transactions on a store and reports each one that is acknowledged as durable.
#pragma once

#include <functional>

#include <lockstep/store.h>
#include "tools/acked/plan.h"

namespace lockstep::acked {

struct Work {
    uint64_t seed = 1;
    uint32_t clients = 8;
    uint64_t transactions = 40;  // of each client
    uint32_t workers = 2;
    // Called for each durable commit after it has returned, by several kernel threads at once.
    std::function<void(uint32_t client, uint64_t number)> acknowledged;
    Logger logger;
};

// Small pool, log and segments, so that pages are evicted and log is recycled all the time.
Options small_store(uint32_t workers);

// Opens the store, runs the transactions, and closes it. Each client continues behind the newest
// transaction that the store has of it. The first error ends the work; the store is closed all the
// same. Blocks the calling kernel thread.
Result<void> run_work(const std::string& path, const Work& work);

}  // namespace lockstep::acked
