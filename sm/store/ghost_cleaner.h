// ghost_cleaner.h - removes what deletes leave behind: ghost records and unreferenced overflow
// chains.
//
// Concepts   A note names a place (object and key), never a pointer. So a dropped index or a
//            changed tree makes a note useless, not wrong. One user thread processes the notes a
//            little later, when the transactions that left them have probably ended. What is still
//            locked is noted again. Leaf notes are bounded: a lost one costs space until the leaf's
//            next ghost. Chain notes are not bounded.
// Blocking   note_* never park. The thread parks for pages, log space and time; it holds no locks.
#pragma once

#include <atomic>
#include <deque>
#include <memory>
#include <string>

#include "sm/core/cleanup.h"
#include "threads/sync/event.h"

namespace lockstep::sm {

class Engine;

class GhostCleaner final : public GhostNotes {
public:
    explicit GhostCleaner(Engine& engine);
    ~GhostCleaner() override;
    Result<void> start();  // user thread on worker 0
    // From a user thread or a foreign kernel thread; idempotent.
    void stop();

    void note_leaf(ObjectId object, Slice key) override;
    void note_chain(ObjectId object, Slice key, PageId first, uint64_t chain) override;
    // Processes every note that can be processed now; for close and for tests. On a user thread.
    Result<void> run_once();
    // Processes what it can, then touches no tree until resume(). For callers that walk trees
    // without locks. On a user thread.
    Result<void> pause();
    void resume();
    // Waits until no thread processes notes, and lets none begin until resume().
    void hold();
    size_t waiting() const { return waiting_.load(std::memory_order_relaxed); }

private:
    struct Note {
        ObjectId object;
        PageId first = kPageNone;  // of a chain; kPageNone: a leaf with ghosts
        uint64_t chain = 0;
        std::string key;
        uint32_t tries = 0;
    };
    struct State;                   // shared with the thread
    Result<void> round();           // run_once, with the turn held
    Result<bool> work(Note& note);  // false: not yet
    void add(Note note);

    Engine& engine_;
    std::unique_ptr<State> state_;
    std::atomic<size_t> waiting_{0};
};

}  // namespace lockstep::sm
