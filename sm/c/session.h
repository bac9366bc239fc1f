// session.h - a transaction of kernel threads: a user thread that serves its calls.
//
// Concepts   A session is a packet. Its user thread begins the transaction and carries out one
//            command after the other, until one ends the transaction. The kernel thread that has
//            claimed the transaction's handle puts the command into the slot. Between commands the
//            user thread first yields some times, so that a command that follows soon needs no
//            wake-up, and then parks. As a packet it then makes room for others
//            (Options::executors).
// States     submitted -> serving (run) -> over (a command ends the transaction)
// Invariants CL-1 The slot is filled by the claimer only, and is empty while the handle is not
//            busy. [checked: post()]
//            CL-2 The handle is released, or has ended, before Command::finish(). What comes behind
//            touches neither the command nor its caller. [kept by: serve()]
//            CL-3 A filled slot is seen: the thread says that it sleeps before it looks once more,
//            and the poster fills the slot before it asks. Both are sequentially consistent.
//            [test: CSession.SessionsOfManyThreads]
//            CL-4 The session lives until each post() has left it. [checked: run()]
// Blocking   HandOver::wait() and call_back().
#pragma once

#include <atomic>

#include <lockstep/packet.h>
#include "sm/c/objects.h"
#include "threads/sync/foreign_wait.h"

namespace lockstep::c {

// A call of a kernel thread that waits for a user thread, and is called back by it. It lies on the
// stack of the caller.
class HandOver {
public:
    // The kernel thread: blocks until finish(), and runs what call_back() brings. False: leave()
    // has ended the wait.
    bool wait();
    // The kernel thread, within wait(): does not wait for finish(), which then returns false.
    void leave();
    // The user thread: runs fn on the waiting thread, and suspends until it has returned.
    void call_back(FunctionRef<void()> fn);
    // The user thread: the object may be gone behind it. False: nobody waits, and it is not.
    bool finish();

private:
    // kSleeps: as kRuns, and the kernel thread sleeps. kLeft: see leave().
    enum : uint32_t { kRuns, kSleeps, kCallsBack, kDone, kLeft };
    std::atomic<uint32_t> word_{kRuns};
    FunctionRef<void()>* called_ = nullptr;  // while kCallsBack
    threads::Thread* thread_ = nullptr;      // that has called back
};

class Command {
public:
    virtual void run(TxnObject& txn) = 0;
    // The session could not begin.
    virtual void refuse(const Error& error) = 0;
    // The last call.
    virtual void finish() = 0;

protected:
    ~Command() = default;
};

class Session final : Packet {
public:
    virtual ~Session() = default;  // deletes itself; a claimer does not
    // Submits a session whose first command is `first`; the caller keeps the store pinned until it
    // is finished.
    static Result<void> start(StoreObject& store, const TxnOptions& options, Command& first);
    // By the claimer.
    void post(Command& command);

    Session* next = nullptr;  // under StoreObject::lock
    Session* prev = nullptr;
    uint64_t handle() const { return handle_; }

private:
    Session(StoreObject& store, const TxnOptions& options, Command& first)
        : options_(options), first_(&first) {
        txn_.store = &store;
        txn_.session = this;
    }
    void run() override;
    bool begin();
    void serve();
    Command& next_command();
    void enter();
    void leave();

    const TxnOptions options_;
    Command* first_;
    TxnObject txn_;
    uint64_t handle_ = 0;  // also when it has ended
    std::atomic<Command*> slot_{nullptr};
    std::atomic<bool> asleep_{false};
    std::atomic<uint32_t> posters_{0};  // calls of post() that have not returned
};

// A body as a command of a kernel thread that waits for it.
class BodyCommand final : public Command {
public:
    explicit BodyCommand(TxnBody body) : body_(body) {}
    void run(TxnObject& txn) override {
        txn.caller = &hand_over_;
        result_ = body_(txn);
        txn.caller = nullptr;
    }
    void refuse(const Error& error) override { result_ = Unexpected(error); }
    void finish() override { (void)hand_over_.finish(); }
    // A watch of the kernel thread that asks to give up cancels the transaction (`whose`, in
    // `store`), and the wait goes on until the body has returned.
    Result<void> wait(StoreObject& store, TxnId whose) {
        const auto cancel = [&] { (void)cancel_txn(store, whose); };
        const threads::GiveUp give_up(cancel);
        (void)hand_over_.wait();
        return result_;
    }

private:
    const TxnBody body_;
    HandOver hand_over_;
    Result<void> result_;
};

// Claims the session of a transaction for one command and pins its store. Errors: those of
// in_txn().
struct Claimed {
    Session* session;
    StorePin store;
    TxnId txn;
};
Result<Claimed> claim_session(const void* handle);
// Begins a session, and waits until it has begun: its handle. A watch that asks to give up ends the
// wait with `cancelled`; what begins later is rolled back.
Result<uint64_t> begin_session(StoreObject& store, const TxnOptions& options);
// Runs fn on a user thread, and waits. A watch that asks to give up cancels the transactions that
// fn runs, or fn before it begins.
Result<void> run_and_watch(StoreObject& store, FunctionRef<Result<void>()> fn);
// Rolls all sessions of the store back, when their present commands have ended.
void end_sessions(StoreObject& store);

}  // namespace lockstep::c
