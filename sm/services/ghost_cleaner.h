// ghost_cleaner.h - removes what deletes and replaced values leave behind: ghost records and
// overflow chains.
//
// Concepts   A transaction hands over the chains that it has released when it has committed. Its
//            own thread frees their pages at once: so cleaning runs on every worker and keeps pace.
//            What a snapshot may still read waits in a queue, in order of the commits. So do chains
//            that come while a walk holds the cleaner. The background thread and the threads of
//            later commits free them. The pages of the queue are bounded: beyond
//            pages_waiting_max() the oldest snapshot becomes too old.
//            A note names a leaf with ghosts by object and key, never by a pointer. So a dropped
//            index or a changed tree makes a note useless, not wrong. The background thread
//            processes the notes a little later, when the transactions that left them have probably
//            ended. A leaf that is still locked is tried again after its own delay, which doubles
//            up to two seconds. A leaf whose unlocked ghosts fit into no neighbour is given up
//            after eight tries; a later merge beside it may take it.
//            Leaf notes of an index are bounded: a mass delete leaves more. Of the notes beyond the
//            bound only the smallest and the largest key are kept. Once there is room, the leaves
//            between the two are looked at, and those with ghosts get a note. Threads of commits
//            process notes too while there are many.
// Invariants GC-1 A chain is freed without a look at its pages only by the thread that has taken it
//                 from its transaction or from the queue, while no thread holds the cleaner. A tree
//                 is destroyed, or swept, only under hold(). After that its chains are looked at.
// Blocking   note_leaf() never parks. release() and the thread park for pages, log space, drop-list
//            locks and time; they hold no locks.
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
struct Env;

class GhostCleaner final : public GhostNotes {
public:
    explicit GhostCleaner(Env& env);
    ~GhostCleaner() override;
    Result<void> start();  // user thread on worker 0
    // From a user thread or a foreign kernel thread; idempotent.
    void stop();

    void note_leaf(ObjectId object, Slice key) override;
    void release(std::vector<ReleasedChain> chains, Lsn committed) override;
    // A transaction has committed while there are many notes: processes some of them.
    void help();
    bool needs_help() const { return fresh_.load(std::memory_order_relaxed) >= help_from_; }
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
    // For tests: help() is called from so many notes on.
    void limit_help(size_t from) { help_from_ = from; }
    // Notes of leaves, and chains that are not freed yet. Notes beyond the bound do not count.
    size_t waiting() const { return leaf_notes() + chains_.load(std::memory_order_relaxed); }
    size_t leaf_notes() const { return leaf_notes_.load(std::memory_order_relaxed); }
    // Pages of chains that wait, and the bound.
    uint64_t pages_waiting() const { return pages_.load(std::memory_order_relaxed); }
    uint64_t pages_waiting_max() const;

private:
    struct Note {
        ObjectId object;
        std::string key;
        Nanos delay = 0, due = 0;  // of the next try
        unsigned tries = 0;        // that found no lock, but no room in a neighbour either
    };
    struct Chain {
        ReleasedChain released;
        Lsn committed;
        unsigned tries = 0;  // that failed. Then its pages are looked at first
        Nanos due = 0;
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
    struct Node;
    struct State;  // shared with the threads
    // With the turn held. `all`: also what is not due. Ends early at `until`.
    Result<void> round(bool all, Nanos until);
    Result<void> process_notes(bool all, Nanos until);
    Result<void> process(Node* node, Nanos now, bool owned_chains);
    Result<void> sweep_leaves();
    // `owned_chains`: also ghosts that own chains. False: not yet.
    Result<bool> work(Note& note, bool owned_chains);
    Result<bool> sweep_leaf();  // false: there are no refused notes
    bool begin_release();
    void end_release();
    void keep(std::vector<Chain> chains);
    Result<void> free_waiting(size_t most, Nanos until);
    Result<void> free_chains(std::vector<Chain> chains);
    Result<void> free_batch(std::vector<Chain>& chains, std::vector<DropEntry>& gone);
    BTree* tree_of(ObjectId object) const;
    void add(Note note);
    void refuse(Range range);
    void wake_thread();

    Env& engine_;
    std::unique_ptr<State> state_;
    std::atomic<size_t> leaf_notes_{0}, fresh_{0}, chains_{0};
    std::atomic<uint64_t> pages_{0};
    std::atomic<uint64_t> progress_{0};  // notes and chains done, and leaves looked at
    size_t leaf_notes_max_ = 8192, help_from_ = 1024;
};

}  // namespace lockstep::sm
