// ghost_cleaner_impl.h - what the ghost cleaner's threads share. Private to ghost_cleaner*.cc.
#pragma once

#include <deque>
#include <map>
#include <optional>
#include <utility>

#include "sm/services/ghost_cleaner.h"
#include "threads/base/spin_lock.h"
#include "threads/sync/completion.h"

namespace lockstep::sm {

struct GhostCleaner::Node {
    Note note;
    Node* next = nullptr;
    bool fresh = true;  // not tried yet
};

struct GhostCleaner::State {
    // Held while notes are processed, or while processing is paused.
    threads::Semaphore turn{1};
    SpinLock lock;
    Node* fresh = nullptr;              // under lock; newest first
    Node* tried = nullptr;              // the same
    std::map<ObjectId, Leaves> leaves;  // under lock
    std::deque<Chain> chains;           // under lock; by commit, except those that failed
    // Threads in release() that free chains, and whether they may not: GC-1.
    std::atomic<uint32_t> releasing{0}, held{0};
    // Set by the thread before it parks without a deadline.
    std::atomic<bool> asleep{false};
    std::atomic<bool> stopping{false};
    std::atomic<threads::Thread*> thread{nullptr};
    threads::Completion ended;
    bool started = false;

    Node* take_fresh() {
        SpinGuard guard(lock);
        Node* const first = fresh;
        if (first != nullptr) fresh = first->next;
        return first;
    }
    Node* take_tried() {
        SpinGuard guard(lock);
        return std::exchange(tried, nullptr);
    }
    void push(Node* node) {
        DCHECK(node != nullptr);
        SpinGuard guard(lock);
        Node*& head = node->fresh ? fresh : tried;
        node->next = head;
        head = node;
    }
    bool empty() {
        SpinGuard guard(lock);
        return fresh == nullptr && tried == nullptr && leaves.empty() && chains.empty();
    }
    // False: the index has `most` already.
    bool count_leaf(ObjectId object, size_t most) {
        SpinGuard guard(lock);
        DCHECK(most > 0);
        size_t& notes = leaves[object].notes;
        if (notes >= most) return false;
        ++notes;
        return true;
    }
    void uncount_leaf(ObjectId object) {
        SpinGuard guard(lock);
        const auto at = leaves.find(object);
        DCHECK(at != leaves.end() && at->second.notes > 0);
        if (--at->second.notes == 0 && !at->second.refused) leaves.erase(at);
    }
    // Of an index with fewer than `most` notes. False: there are none.
    bool take_refused(Range& out, size_t most) {
        SpinGuard guard(lock);
        for (auto at = leaves.begin(); at != leaves.end(); ++at) {
            Leaves& of = at->second;
            if (!of.refused || of.notes >= most) continue;
            out = std::move(*of.refused);
            of.refused.reset();
            if (of.notes == 0) leaves.erase(at);
            return true;
        }
        return false;
    }
};

}  // namespace lockstep::sm
