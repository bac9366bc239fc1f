// session.cc - the user thread behind a session, and the kernel threads before it.
#include "sm/c/session.h"

#include <sched.h>

#include <algorithm>
#include <mutex>
#include <new>
#include <utility>

#include "threads/base/hints.h"
#include "threads/thread/between_calls.h"

namespace lockstep::c {

namespace {
// Before a kernel thread sleeps in a futex: up to 0.2 ms, longer than a batch takes.
constexpr uint32_t kSpins = 4000;
// Threads that spin take the processors that workers need, so half of them at most.
std::atomic<uint32_t> spinning{0};
uint32_t spinning_max() {
    static const uint32_t max = [] {
        cpu_set_t set;
        CPU_ZERO(&set);
        const bool known = sched_getaffinity(0, sizeof set, &set) == 0;
        return known ? std::max(1, CPU_COUNT(&set) / 2) : 1;
    }();
    DCHECK(max >= 1);
    return max;
}

// Whether the calling thread may spin, until release().
class SpinRight {
public:
    explicit SpinRight(bool wanted) : held_(wanted) {
        if (!wanted || spinning.fetch_add(1, std::memory_order_relaxed) < spinning_max()) return;
        release();
    }
    ~SpinRight() { release(); }
    SpinRight(const SpinRight&) = delete;
    bool held() const { return held_; }
    void release() {
        if (std::exchange(held_, false)) spinning.fetch_sub(1, std::memory_order_relaxed);
    }

private:
    bool held_;
};
// Before a user thread parks: a turn of an idle worker takes some hundred nanoseconds.
constexpr uint32_t kYields = 256;
constexpr Nanos kPause = 50 * kMicrosecond;

// The first command of a session whose beginner may give up. Then it is the last command too.
class Begin final : public Command {
public:
    explicit Begin(StoreObject& store) : store_(&store) { store.add_pin(); }
    void run(TxnObject& txn) override {
        DCHECK(txn.handle != 0);
        if (left_) (void)abort_here(txn);
        else handle_ = txn.handle;
    }
    void refuse(const Error& error) override { handle_ = Unexpected(error); }
    void finish() override {
        StorePin pin(store_);
        if (left_) return delete this;
        if (hand_over_.finish()) return;  // it is the beginner's now
        left_ = true;
        Result<Claimed> claimed = handle_ ? claim_session(handle_of<void>(*handle_))
                                          : Result<Claimed>(Unexpected(handle_.error()));
        if (!claimed) return delete this;  // close() rolls it back
        store_->add_pin();
        claimed->session->post(*this);
    }
    Result<uint64_t> wait() {
        std::unique_ptr<Begin> self(this);
        const auto leave = [this] { hand_over_.leave(); };
        const threads::GiveUp give_up(leave);
        if (hand_over_.wait()) return handle_;
        (void)self.release();
        return fail(ErrorCode::cancelled, "transaction, before it began");
    }

private:
    StoreObject* const store_;  // pinned
    HandOver hand_over_;
    Result<uint64_t> handle_ = 0;
    bool left_ = false;  // by the beginner
};

}  // namespace

bool HandOver::wait() {
    if (word_.load(std::memory_order_acquire) == kDone) return true;
    const bool user_thread = threads::current() != nullptr;
    SpinRight right(!user_thread);
    for (uint32_t spins = 0;;) {
        uint32_t word = word_.load(std::memory_order_acquire);
        if (word == kDone || word == kLeft) return word == kDone;
        if (word == kCallsBack) {
            (*called_)();
            threads::Thread* const thread = thread_;
            word_.store(kRuns, std::memory_order_release);
            threads::wake(thread);
            spins = 0;
        } else if (user_thread) {
            sleep_for(kPause);
        } else if (right.held() && ++spins < kSpins) {
            cpu_relax();
        } else {
            right.release();
            if (word == kSleeps || word_.compare_exchange_strong(word, kSleeps))
                threads::sleep_while(word_, kSleeps);  // FW-1
        }
    }
}

void HandOver::leave() {
    for (uint32_t word : {kRuns, kSleeps})
        if (word_.compare_exchange_strong(word, kLeft, std::memory_order_acq_rel)) return;
}

void HandOver::call_back(FunctionRef<void()> fn) {
    DCHECK(threads::current() != nullptr);
    called_ = &fn;
    thread_ = threads::current();
    if (word_.exchange(kCallsBack, std::memory_order_acq_rel) == kSleeps)
        threads::wake_sleepers(&word_);
    while (word_.load(std::memory_order_acquire) == kCallsBack)
        threads::park(threads::ParkReason::event);
}

// The wake-up uses the address only.
bool HandOver::finish() {
    std::atomic<uint32_t>* const word = &word_;
    const uint32_t before = word->exchange(kDone, std::memory_order_acq_rel);
    DCHECK(before == kRuns || before == kSleeps || before == kLeft);
    if (before == kSleeps) threads::wake_sleepers(word);
    return before != kLeft;
}

Result<void> Session::start(StoreObject& store, const TxnOptions& options, Command& first) {
    auto* const session = new (std::nothrow) Session(store, options, first);
    if (session == nullptr) return fail(ErrorCode::out_of_memory, "session");
    const Result<void> submitted = store.store.submit(*session);
    if (!submitted) delete session;
    return submitted;
}

void Session::post(Command& command) {
    DCHECK(slot_.load(std::memory_order_relaxed) == nullptr);  // CL-1
    posters_.fetch_add(1, std::memory_order_relaxed);
    slot_.store(&command, std::memory_order_seq_cst);
    if (asleep_.load(std::memory_order_seq_cst)) threads::wake(txn_.thread);
    posters_.fetch_sub(1, std::memory_order_release);
}

void Session::run() {
    if (begin()) serve();
    while (posters_.load(std::memory_order_acquire) != 0) yield();  // CL-4
    delete this;
}

bool Session::begin() {
    txn_.thread = threads::current();
    DCHECK(txn_.thread != nullptr && first_ != nullptr);
    txn_.thread_id = txn_.thread->id;
    Result<Txn> begun = txn_.store->store.begin(options_);
    Error error;
    if (begun) {
        txn_.own.emplace(std::move(*begun));
        txn_.txn = &*txn_.own;
        handle_ = txn_.handle = make_handle(Kind::txn, &txn_, nullptr, txn_.txn->id().value);
        if (handle_ != 0) return true;
        (void)txn_.own->abort();
        error = fail(ErrorCode::too_many, "handles").error();
    } else {
        error = begun.error();
    }
    first_->refuse(error);
    first_->finish();
    return false;
}

void Session::serve() {
    HandleEntry& entry = *entry_of(handle_of<void>(txn_.handle), Kind::txn);
    CHECK(entry.claim(txn_.handle));
    enter();
    for (Command* command = first_; command != nullptr;) {
        command->run(txn_);
        const bool over = txn_.handle == 0;
        if (over) leave();
        else entry.release(txn_.handle);
        command->finish();  // CL-2
        command = over ? nullptr : &next_command();
    }
    DCHECK(!txn_.own->live() && txn_.cursors == nullptr);
}

Command& Session::next_command() {
    for (uint32_t n = 0; n < kYields; ++n) {
        if (Command* const command = slot_.exchange(nullptr, std::memory_order_acquire))
            return *command;
        yield();
    }
    const threads::BetweenCalls waits;
    asleep_.store(true, std::memory_order_seq_cst);
    Command* command = nullptr;
    while ((command = slot_.load(std::memory_order_seq_cst)) == nullptr)  // CL-3
        threads::park(threads::ParkReason::event);
    slot_.store(nullptr, std::memory_order_relaxed);
    asleep_.store(false, std::memory_order_relaxed);
    return *command;
}

void Session::enter() {
    const std::lock_guard guard(txn_.store->lock);
    next = txn_.store->sessions;
    if (next != nullptr) next->prev = this;
    txn_.store->sessions = this;
}

void Session::leave() {
    const std::lock_guard guard(txn_.store->lock);
    DCHECK(prev != nullptr || txn_.store->sessions == this);
    (prev != nullptr ? prev->next : txn_.store->sessions) = next;
    if (next != nullptr) next->prev = prev;
}

// The claim keeps the session, and thereby its store, until the store is pinned (OB-1).
Result<Claimed> claim_session(const void* handle) {
    HandleEntry* const entry = entry_of(handle, Kind::txn);
    if (entry == nullptr) return fail(ErrorCode::bad_argument, "handle of a transaction");
    const uint64_t number = number_of(handle);
    if (entry->is(number) && entry->owner.load(std::memory_order_relaxed) != nullptr)
        return fail(ErrorCode::wrong_thread, "transaction of a user thread");
    if (!entry->claim(number)) {
        if (!entry->is(number)) return fail(ErrorCode::txn_ended, "transaction");
        return fail(ErrorCode::wrong_thread, "transaction in use by another call");
    }
    auto& txn = *static_cast<TxnObject*>(entry->object.load(std::memory_order_relaxed));
    DCHECK(txn.handle == number && txn.session != nullptr);
    if (txn.store->mark.forked() || txn.store->closing.load(std::memory_order_acquire)) {
        const bool forked = txn.store->mark.forked();
        entry->release(number);
        return fail(forked ? ErrorCode::forked : ErrorCode::store_closed, "store");
    }
    txn.store->add_pin();
    return Claimed{txn.session, StorePin(txn.store),
                   TxnId{entry->link.load(std::memory_order_relaxed)}};
}

// A session that is busy ends its command first.
void end_sessions(StoreObject& store) {
    DCHECK(store.closing.load(std::memory_order_relaxed));
    for (;; sleep_for(kPause)) {
        Session* claimed = nullptr;
        {
            const std::lock_guard guard(store.lock);
            if (store.sessions == nullptr) return;
            for (Session* s = store.sessions; s != nullptr && claimed == nullptr; s = s->next) {
                HandleEntry* const entry = entry_of(handle_of<void>(s->handle()), Kind::txn);
                if (entry != nullptr && entry->claim(s->handle())) claimed = s;
            }
        }
        if (claimed == nullptr) continue;
        const auto roll_back = [](TxnObject& txn) { return abort_here(txn); };
        BodyCommand command(roll_back);
        claimed->post(command);
        (void)command.wait(store, kTxnNone);
    }
}

// Without a watch the first command lies on the stack.
Result<uint64_t> begin_session(StoreObject& store, const TxnOptions& options) {
    if (threads::waits_are_watched()) {
        auto* const begin = new (std::nothrow) Begin(store);
        if (begin == nullptr) return fail(ErrorCode::out_of_memory, "session");
        if (Result<void> started = Session::start(store, options, *begin); !started) {
            store.unpin();
            delete begin;
            return Unexpected(started.error());
        }
        return begin->wait();
    }
    uint64_t handle = 0;
    const auto note = [&](TxnObject& txn) -> Result<void> {
        handle = txn.handle;
        return {};
    };
    BodyCommand command(note);
    TRY(Session::start(store, options, command));
    TRY(command.wait(store, kTxnNone));
    DCHECK(handle != 0);
    return handle;
}

Result<void> run_and_watch(StoreObject& store, FunctionRef<Result<void>()> fn) {
    if (threads::current() != nullptr || !threads::waits_are_watched()) return fn();
    auto handle = store.store.start([fn]() -> Result<void> { return fn(); });
    const auto cancel = [&] { (void)handle.cancel(); };
    const threads::GiveUp give_up(cancel);
    return handle.join();
}

}  // namespace lockstep::c
