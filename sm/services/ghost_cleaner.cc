// ghost_cleaner.cc - notes of leaves and the thread that works them off.
#include "sm/core/env.h"
#include "sm/services/ghost_cleaner_impl.h"

#include <algorithm>

#include "sm/btree/btree.h"
#include "threads/base/limits.h"

namespace lockstep::sm {

namespace {

constexpr Nanos kDelayMin = 5 * kMillisecond, kDelayMax = 500 * kMillisecond;
constexpr Nanos kNoteDelayMax = 2 * kSecond;
constexpr unsigned kStuckTriesMax = 8;
constexpr Nanos kStopMax = 2 * kSecond;  // for what is left when the store closes
constexpr Nanos kHoldPause = 100 * kMicrosecond;

}  // namespace

GhostCleaner::GhostCleaner(Env& env) : engine_(env), state_(std::make_unique<State>()) {}

GhostCleaner::~GhostCleaner() {
    while (Node* node = state_->take_fresh()) delete node;
    for (Node* node = state_->take_tried(); node;) delete std::exchange(node, node->next);
}

void GhostCleaner::add(Note note) {
    DCHECK(note.object.value != 0 && note.due == 0);
    auto* node = new Node{std::move(note)};
    leaf_notes_.fetch_add(1, std::memory_order_relaxed);
    fresh_.fetch_add(1, std::memory_order_relaxed);
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
    if (state_->count_leaf(object, leaf_notes_max_))
        add({.object = object, .key = std::string(key)});
    else refuse({object, std::string(key), std::string(key)});
}

BTree* GhostCleaner::tree_of(ObjectId object) const {
    return engine_.objects == nullptr ? nullptr : engine_.objects->index_by_id(object);
}

Result<bool> GhostCleaner::work(Note& note, bool owned_chains) {
    BTree* tree = tree_of(note.object);
    if (!tree || tree->destroyed()) return true;
    const BTree::Cleaned cleaned = TRY(tree->clean_leaf(note.key, owned_chains));
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

Result<void> GhostCleaner::run_once() {
    state_->turn.acquire();
    const auto result = round(true, kNever);
    state_->turn.release();
    return result;
}

Result<void> GhostCleaner::pause() {
    hold();
    size_t before = SIZE_MAX;
    // What is worked off may leave further notes.
    while (waiting() > 0 && waiting() < before) {
        before = waiting();
        const Result<void> result = round(true, kNever);
        if (result) continue;
        if (!is_bad_page(result.error().code)) {
            resume();
            return result;
        }
        engine_.report(1, "ghost cleaner: " + result.error().text());  // its note is gone
    }
    return {};
}

void GhostCleaner::hold() {
    state_->turn.acquire();
    DCHECK(state_->held.load() == 0);
    state_->held.store(1);
    while (state_->releasing.load() != 0) threads::sleep_until(threads::now() + kHoldPause);
}

void GhostCleaner::resume() {
    DCHECK(state_->held.load() == 1);
    state_->held.store(0);
    state_->turn.release();
}

void GhostCleaner::help() {
    DCHECK(threads::current()->latch_depth == 0);
    if (!begin_release()) return;
    Result<void> result;
    for (size_t n = 0; n < limits::notes_of_help(); ++n) {
        Node* const node = state_->take_fresh();
        if (node == nullptr) break;
        if (const auto done = process(node, threads::now(), false); !done) result = done;
    }
    end_release();
    if (!result && !engine_.failed()) engine_.report(1, "ghost cleaner: " + result.error().text());
}

Result<void> GhostCleaner::round(bool all, Nanos until) {
    Result<void> result = process_notes(all, until);
    if (const auto swept = sweep_leaves(); !swept) result = swept;
    if (const auto freed = free_waiting(SIZE_MAX, until); !freed) result = freed;
    return result;
}

Result<void> GhostCleaner::process_notes(bool all, Nanos until) {
    Result<void> result;
    const Nanos now = threads::now();
    // On a full device a checkpoint must make room first: what cleans up logs, too.
    const auto ends = [&] {
        const txn::Log& log = *engine_.log;
        return threads::now() >= until || log.wants_start(log.start(), log.tail());
    };
    Node* tried = state_->take_tried();
    // New ones may come all the time.
    for (size_t left = fresh_.load(std::memory_order_relaxed); left > 0 && !ends(); --left) {
        Node* const node = state_->take_fresh();
        if (node == nullptr) break;
        if (const auto done = process(node, now, true); !done) result = done;
    }
    while (tried != nullptr) {
        Node* const node = std::exchange(tried, tried->next);
        if ((!all && node->note.due > now) || ends()) {
            state_->push(node);
            continue;
        }
        if (const auto done = process(node, now, true); !done) result = done;
    }
    return result;
}

// Of a note that is in no list.
Result<void> GhostCleaner::process(Node* node, Nanos now, bool owned_chains) {
    Note& note = node->note;
    DCHECK(note.object.value != 0 && threads::current()->latch_depth == 0);
    if (std::exchange(node->fresh, false)) fresh_.fetch_sub(1, std::memory_order_relaxed);
    Result<bool> done = work(note, owned_chains);
    if (done.has_value() && !*done) {
        note.delay = std::clamp(2 * note.delay, kDelayMin, kNoteDelayMax);
        note.due = now + note.delay;
        state_->push(node);
        return {};
    }
    progress_.fetch_add(1, std::memory_order_relaxed);
    DCHECK(leaf_notes() > 0);
    leaf_notes_.fetch_sub(1, std::memory_order_relaxed);
    state_->uncount_leaf(note.object);
    delete node;
    if (done.has_value() || done.error().code == ErrorCode::no_such_object) return {};
    return std::unexpected(done.error());
}

Result<void> GhostCleaner::sweep_leaves() {
    for (unsigned leaves = 0; leaves < limits::leaves_of_round(); ++leaves) {
        const Result<bool> looked = sweep_leaf();
        if (!looked.has_value() && looked.error().code != ErrorCode::no_such_object)
            return std::unexpected(looked.error());
        if (!looked.has_value() || !*looked) break;
        progress_.fetch_add(1, std::memory_order_relaxed);
    }
    return {};
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
            s.turn.acquire();
            const auto result = round(false, kNever);
            s.turn.release();
            if (!result) engine_.report(1, "ghost cleaner: " + result.error().text());
            const bool progress = progress_.load(std::memory_order_relaxed) != before;
            delay = progress ? kDelayMin : std::min(delay * 2, kDelayMax);
        }
        // Chains that are left stay on the drop list.
        if (!engine_.failed()) {
            s.turn.acquire();
            (void)round(true, threads::now() + kStopMax);
            s.turn.release();
        }
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
