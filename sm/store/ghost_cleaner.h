// ghost_cleaner.h - removes what deletes leave behind: ghost records and unreferenced overflow
// chains.
//
// Concepts   A note names a place (object and key), never a pointer. So a dropped index or a
//            changed tree makes a note useless, not wrong. One user thread processes the notes a
//            little later, when the transactions that left them have probably ended. What is still
//            locked is tried again: a chain with the others, a leaf after its own delay, which
//            doubles up to two seconds. A leaf whose unlocked ghosts fit into no neighbour is given
//            up after eight tries; a later merge beside it may take it.
//            Leaf notes of an index are bounded: a mass delete leaves more. Of the notes beyond the
//            bound only the smallest and the largest key are kept. Once there is room, the leaves
//            between the two are looked at, and those with ghosts get a note. Chain notes are not
//            bounded.
// Blocking   note_* never park. The thread parks for pages, log space and time; it holds no locks.
#pragma once

#include <atomic>
#include <deque>
#include <memory>
#include <optional>
#include <string>

#include "sm/core/cleanup.h"
#include "threads/sync/event.h"

namespace lockstep::sm {

class BTree;
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
    // The bound on leaf notes of an index; for tests.
    void limit_leaf_notes(size_t most) { leaf_notes_max_ = most; }
    // Notes; notes beyond the bound do not count.
    size_t waiting() const { return waiting_.load(std::memory_order_relaxed); }

private:
    struct Note {
        ObjectId object;
        PageId first = kPageNone;  // of a chain; kPageNone: a leaf with ghosts
        uint64_t chain = 0;
        std::string key;
        Nanos delay = 0, due = 0;  // of the next try
        unsigned tries = 0;        // that found no lock, but no room in a neighbour either
    };
    // Keys of refused notes: the smallest and the largest one.
    struct Range {
        ObjectId object;
        std::string low, high;
        bool failed = false;  // its first leaf could not be read
    };
    struct Leaves {
        size_t notes = 0;
        std::optional<Range> refused;
    };
    struct State;  // shared with the thread
    // With the turn held. `all`: also what is not due.
    Result<void> round(bool all);
    Result<void> run(bool all);
    Result<bool> work(Note& note);  // false: not yet
    Result<bool> sweep_leaf();      // false: there are no refused notes
    BTree* tree_of(ObjectId object) const;
    void add(Note note);
    void refuse(Range range);
    void wake_thread();

    Engine& engine_;
    std::unique_ptr<State> state_;
    std::atomic<size_t> waiting_{0};
    std::atomic<uint64_t> progress_{0};  // notes done and leaves looked at
    size_t leaf_notes_max_ = 8192;
};

}  // namespace lockstep::sm
