// warm_up.h - reads the data file into the buffer pool after an open, in the background.
//
// Concepts   Options::warm_up. A user thread on worker 0 reads ahead the pages in use, in the order
//            of the file, until the pool has no more frames to give or the file ends. Neighbours
//            become one request of the device. A page that a transaction wants meanwhile is read at
//            once, and counts as warm; the others are the first that are evicted.
// Blocking   The thread parks between reads, and holds nothing.
#pragma once

#include <memory>
#include <span>

#include <lockstep/result.h>
#include <lockstep/types.h>
#include "threads/sync/completion.h"
#include "threads/sync/event.h"

namespace lockstep::sm {

class Engine;

class WarmUp {
public:
    explicit WarmUp(Engine& engine) : engine_(engine) {}
    // Starts the thread, if the option is on. On a user thread.
    Result<void> start();
    // Returns when the thread has ended; idempotent. On a user thread.
    void stop();

private:
    struct State {
        threads::Event stop;
        threads::Completion ended;
    };
    void run(State& state);
    size_t pages_in_use(uint64_t& looked, uint64_t end, std::span<PageId> batch);

    Engine& engine_;
    std::shared_ptr<State> state_;  // shared with the thread
};

}  // namespace lockstep::sm
