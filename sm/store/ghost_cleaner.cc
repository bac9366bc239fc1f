// ghost_cleaner.cc - the queue of notes and the thread that works it off.
#include "sm/store/ghost_cleaner.h"

#include "sm/store/engine.h"

#include "sm/btree/btree.h"
#include "sm/btree/overflow.h"
#include "sm/store/catalog.h"

namespace lockstep::sm {

namespace {

constexpr size_t kLeafNotesMax = 8192;
constexpr Nanos kDelayMin = 5 * kMillisecond, kDelayMax = 500 * kMillisecond;
// A leaf that stays locked that long is given up until its next ghost.
constexpr uint32_t kLeafTriesMax = 64;

}  // namespace

struct GhostCleaner::State {
    struct Node {
        Note note;
        Node* next = nullptr;
    };
    // Held while notes are processed, or while processing is paused.
    threads::Semaphore turn{1};
    SpinLock lock;
    Node* head = nullptr;  // under lock; newest first
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
        return head == nullptr;
    }
};

GhostCleaner::GhostCleaner(Engine& engine) : engine_(engine), state_(std::make_unique<State>()) {}

GhostCleaner::~GhostCleaner() {
    for (State::Node* node = state_->take(); node;) delete std::exchange(node, node->next);
}

void GhostCleaner::add(Note note) {
    DCHECK(note.object.value != 0 && note.tries == 0);
    auto* node = new State::Node{std::move(note), nullptr};
    waiting_.fetch_add(1, std::memory_order_relaxed);
    state_->push(node);
    // Pairs with the thread's: one of us sees the other.
    std::atomic_thread_fence(std::memory_order_seq_cst);
    if (state_->asleep.load(std::memory_order_relaxed) && state_->asleep.exchange(false))
        threads::wake(state_->thread.load(std::memory_order_acquire));
}

void GhostCleaner::note_leaf(ObjectId object, Slice key) {
    if (waiting() < kLeafNotesMax) add({object, kPageNone, 0, std::string(key), 0});
}

void GhostCleaner::note_chain(ObjectId object, Slice key, PageId first, uint64_t chain) {
    DCHECK(first != kPageNone && chain != 0);
    add({object, first, chain, std::string(key), 0});
}

Result<bool> GhostCleaner::work(Note& note) {
    BTree* tree = !engine_.catalog                ? nullptr
                  : note.object == kCatalogObject ? &engine_.catalog->own_tree()
                                                  : engine_.catalog->index_by_id(note.object);
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
    return cleaned.left == 0 || ++note.tries > kLeafTriesMax;
}

Result<void> GhostCleaner::run_once() {
    state_->turn.acquire();
    const auto result = round();
    state_->turn.release();
    return result;
}

Result<void> GhostCleaner::pause() {
    state_->turn.acquire();
    size_t before = SIZE_MAX;
    // What is worked off may leave further notes.
    while (waiting() > 0 && waiting() < before) {
        before = waiting();
        if (auto result = round(); !result) {
            resume();
            return result;
        }
    }
    return {};
}

void GhostCleaner::hold() { state_->turn.acquire(); }

void GhostCleaner::resume() { state_->turn.release(); }

Result<void> GhostCleaner::round() {
    Result<void> result;
    for (State::Node* node = state_->take(); node;) {
        State::Node* next = node->next;
        Result<bool> done = work(node->note);
        if (!done && done.error().code != ErrorCode::no_such_object)
            result = std::unexpected(done.error());
        if (done && !*done) {
            state_->push(node);
        } else {
            DCHECK(waiting() > 0);
            waiting_.fetch_sub(1, std::memory_order_relaxed);
            delete node;
        }
        node = next;
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
            const size_t before = waiting();
            if (engine_.failed()) break;
            if (auto result = run_once(); !result)
                engine_.report(1, "ghost cleaner: " + result.error().text());
            delay = waiting() < before ? kDelayMin : std::min(delay * 2, kDelayMax);
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
