// ghost_cleaner.cc - the queue of notes and the thread that works it off.
#include "sm/store/ghost_cleaner.h"

#include <algorithm>
#include <map>
#include <optional>

#include "sm/store/engine.h"

#include "sm/btree/btree.h"
#include "sm/btree/overflow.h"
#include "sm/store/catalog.h"
#include "threads/base/mutants.h"

namespace lockstep::sm {

namespace {

constexpr Nanos kDelayMin = 5 * kMillisecond, kDelayMax = 500 * kMillisecond;
constexpr Nanos kNoteDelayMax = 2 * kSecond;
constexpr unsigned kStuckTriesMax = 8;
constexpr unsigned kLeavesOfRound = 256;  // that are looked at for refused notes

}  // namespace

struct GhostCleaner::State {
    struct Node {
        Note note;
        Node* next = nullptr;
    };
    // Held while notes are processed, or while processing is paused.
    threads::Semaphore turn{1};
    SpinLock lock;
    Node* head = nullptr;               // under lock; newest first
    std::map<ObjectId, Leaves> leaves;  // under lock
    // Set by the thread before it parks without a deadline.
    std::atomic<bool> asleep{false};
    std::atomic<bool> stopping{false};
    std::atomic<threads::Thread*> thread{nullptr};
    threads::Completion ended;
    bool started = false;

    Node* take() {
        SpinGuard guard(lock);
        return std::exchange(head, nullptr);
    }
    void push(Node* node) {
        SpinGuard guard(lock);
        node->next = head;
        head = node;
    }
    bool empty() {
        SpinGuard guard(lock);
        return head == nullptr && leaves.empty();
    }
    // False: the index has `most` already.
    bool count_leaf(ObjectId object, size_t most) {
        SpinGuard guard(lock);
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

GhostCleaner::GhostCleaner(Engine& engine) : engine_(engine), state_(std::make_unique<State>()) {}

GhostCleaner::~GhostCleaner() {
    for (State::Node* node = state_->take(); node;) delete std::exchange(node, node->next);
}

void GhostCleaner::add(Note note) {
    DCHECK(note.object.value != 0 && note.due == 0);
    auto* node = new State::Node{std::move(note), nullptr};
    waiting_.fetch_add(1, std::memory_order_relaxed);
    state_->push(node);
    wake_thread();
}

void GhostCleaner::refuse(Range range) {
    DCHECK(range.object.value != 0 && range.low <= range.high);
    {
        SpinGuard guard(state_->lock);
        std::optional<Range>& all = state_->leaves[range.object].refused;
        if (!all) {
            all = std::move(range);
        } else {
            all->failed |= range.failed;
            if (range.low < all->low) all->low = std::move(range.low);
            if (all->high < range.high) all->high = std::move(range.high);
        }
    }
    wake_thread();
}

void GhostCleaner::wake_thread() {
    // Pairs with the thread's: one of us sees the other.
    std::atomic_thread_fence(std::memory_order_seq_cst);
    if (state_->asleep.load(std::memory_order_relaxed) && state_->asleep.exchange(false))
        threads::wake(state_->thread.load(std::memory_order_acquire));
}

void GhostCleaner::note_leaf(ObjectId object, Slice key) {
    size_t most = leaf_notes_max_;
    if (MUTANT(notes_of_all_indexes) && waiting() >= most) most = 0;
    if (state_->count_leaf(object, most)) add({.object = object, .key = std::string(key)});
    else if (!MUTANT(refused_note_lost)) refuse({object, std::string(key), std::string(key)});
}

void GhostCleaner::note_chain(ObjectId object, Slice key, PageId first, uint64_t chain) {
    DCHECK(first != kPageNone && chain != 0);
    add({.object = object, .first = first, .chain = chain, .key = std::string(key)});
}

BTree* GhostCleaner::tree_of(ObjectId object) const {
    if (!engine_.catalog) return nullptr;
    return object == kCatalogObject ? &engine_.catalog->own_tree()
                                    : engine_.catalog->index_by_id(object);
}

Result<bool> GhostCleaner::work(Note& note) {
    BTree* tree = tree_of(note.object);
    if (!tree) return true;
    // Its leaves are gone, but a chain that was replaced before did not belong to its pages.
    if (tree->destroyed()) {
        if (note.first == kPageNone) return true;
        TRY(free_overflow(engine_, note.object, note.first, note.chain));
        TRY(engine_.catalog->drop_list().remove_now(
            {DropKind::chain, note.object, note.first, note.chain}));
        return true;
    }
    if (note.first != kPageNone) return tree->clean_chain(note.key, note.first, note.chain);
    const BTree::Cleaned cleaned = TRY(tree->clean_leaf(note.key));
    return cleaned.left == 0 || (cleaned.stuck && ++note.tries > kStuckTriesMax);
}

// Looks at the first leaf of a range of refused notes. The others stay in the range.
Result<bool> GhostCleaner::sweep_leaf() {
    Range range;
    if (!state_->take_refused(range, leaf_notes_max_)) return false;
    DCHECK(range.object.value != 0 && range.low <= range.high);
    BTree* tree = tree_of(range.object);
    if (!tree || tree->destroyed()) return true;
    Result<BTree::LeafGhosts> leaf = tree->leaf_ghosts(range.low);
    if (!leaf) {
        // Once more: a page may be readable again.
        if (!std::exchange(range.failed, true)) refuse(std::move(range));
        return std::unexpected(leaf.error());
    }
    if (leaf->ghosts != 0) note_leaf(range.object, range.low);
    if (!leaf->next.empty() && leaf->next <= range.high)
        refuse({range.object, std::move(leaf->next), std::move(range.high)});
    return true;
}

Result<void> GhostCleaner::run_once() { return run(true); }

Result<void> GhostCleaner::run(bool all) {
    state_->turn.acquire();
    const auto result = round(all);
    state_->turn.release();
    return result;
}

Result<void> GhostCleaner::pause() {
    state_->turn.acquire();
    size_t before = SIZE_MAX;
    // What is worked off may leave further notes.
    while (waiting() > 0 && waiting() < before) {
        before = waiting();
        const Result<void> result = round(true);
        if (result) continue;
        if (!is_bad_page(result.error().code)) {
            resume();
            return result;
        }
        engine_.report(1, "ghost cleaner: " + result.error().text());  // its note is gone
    }
    return {};
}

void GhostCleaner::hold() { state_->turn.acquire(); }

void GhostCleaner::resume() { state_->turn.release(); }

Result<void> GhostCleaner::round(bool all) {
    Result<void> result;
    const Nanos now = threads::now();
    for (State::Node* node = state_->take(); node;) {
        State::Node* next = node->next;
        Note& note = node->note;
        DCHECK(note.due == 0 || note.first == kPageNone);
        if (!all && note.due > now) {
            state_->push(std::exchange(node, next));
            continue;
        }
        Result<bool> done = work(note);
        if (!done.has_value() && done.error().code != ErrorCode::no_such_object)
            result = std::unexpected(done.error());
        if (done.has_value() && !*done) {
            // A chain is due each time: of a large value that is written all the time, many wait.
            if (note.first == kPageNone) {
                note.delay = std::clamp(2 * note.delay, kDelayMin, kNoteDelayMax);
                note.due = now + note.delay;
            }
            state_->push(node);
        } else {
            progress_.fetch_add(1, std::memory_order_relaxed);
            DCHECK(waiting() > 0);
            waiting_.fetch_sub(1, std::memory_order_relaxed);
            if (note.first == kPageNone) state_->uncount_leaf(note.object);
            delete node;
        }
        node = next;
    }
    for (unsigned leaves = 0; leaves < kLeavesOfRound; ++leaves) {
        const Result<bool> looked = sweep_leaf();
        if (!looked.has_value() && looked.error().code != ErrorCode::no_such_object)
            result = std::unexpected(looked.error());
        if (!looked.has_value() || !*looked) break;
        progress_.fetch_add(1, std::memory_order_relaxed);
    }
    return result;
}

Result<void> GhostCleaner::start() {
    DCHECK(!state_->started && !state_->stopping.load());
    Result<threads::Thread*> thread = engine_.runtime->spawn(0, "ghost cleaner", [this] {
        State& s = *state_;
        s.thread.store(threads::current(), std::memory_order_release);
        Nanos delay = kDelayMin;
        while (!s.stopping.load(std::memory_order_acquire)) {
            if (s.empty()) {
                s.asleep.store(true, std::memory_order_relaxed);
                std::atomic_thread_fence(std::memory_order_seq_cst);
                if (s.empty() && !s.stopping.load(std::memory_order_acquire))
                    threads::park(threads::ParkReason::sleep);
                s.asleep.store(false, std::memory_order_relaxed);
                delay = kDelayMin;
                continue;
            }
            threads::park_until(threads::now() + delay, threads::ParkReason::sleep);
            const uint64_t before = progress_.load(std::memory_order_relaxed);
            if (engine_.failed()) break;
            if (auto result = run(false); !result)
                engine_.report(1, "ghost cleaner: " + result.error().text());
            const bool progress = progress_.load(std::memory_order_relaxed) != before;
            delay = progress ? kDelayMin : std::min(delay * 2, kDelayMax);
        }
        // Chains must not leak at a clean close.
        if (!engine_.failed()) (void)run_once();
        s.ended.set();
    });
    if (!thread) return std::unexpected(thread.error());
    state_->started = true;
    return {};
}

void GhostCleaner::stop() {
    State& s = *state_;
    if (!s.started) return;
    s.started = false;
    s.stopping.store(true, std::memory_order_release);
    std::atomic_thread_fence(std::memory_order_seq_cst);
    if (threads::Thread* thread = s.thread.load(std::memory_order_acquire)) threads::wake(thread);
    s.ended.wait();
}

}  // namespace lockstep::sm
