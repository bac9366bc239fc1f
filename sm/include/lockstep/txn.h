// txn.h - a running transaction, as applications hold it.
//
// Blocking   commit() of a durable transaction suspends the calling user thread until the log is on
//            disk; others run meanwhile.
// Errors     Use after commit or abort: txn_ended. From another user thread than the one that began
//            it: wrong_thread. After deadlock, lock_timeout or any error marked "must be rolled
//            back" every call but abort() returns txn_aborting.
#pragma once

#include <lockstep/result.h>
#include <lockstep/txn_options.h>

namespace lockstep {

namespace sm {
class Engine;
struct TxnAccess;
}  // namespace sm
namespace txn {
struct Transaction;
}

using txn::Durability;
using txn::Isolation;
using txn::Savepoint;
using txn::TxnOptions;

// Movable, not copyable. The destructor rolls a live transaction back.
class Txn {
public:
    Txn(Txn&& other) noexcept;
    Txn& operator=(Txn&&) = delete;
    ~Txn();

    // Ends the transaction. The value is the point in the log up to which it must be durable to
    // survive a crash (Store::wait_durable); kLsnNone if it changed nothing. Error store_failed:
    // only the next open decides the outcome.
    Result<Lsn> commit();
    // Undoes everything. Errors are those of input and output; the transaction has then ended for
    // the caller all the same.
    Result<void> abort();

    Result<Savepoint> savepoint();
    // Undoes what came after the savepoint; locks stay. The savepoint remains usable.
    Result<void> rollback_to(const Savepoint& savepoint);

    TxnId id() const;
    bool live() const;  // neither committed nor aborted

private:
    friend class Store;
    friend struct sm::TxnAccess;
    Txn(sm::Engine* engine, txn::Transaction* txn, uint64_t generation);
    sm::Engine* engine_ = nullptr;
    txn::Transaction* txn_ = nullptr;
    uint64_t generation_ = 0;
};

}  // namespace lockstep
