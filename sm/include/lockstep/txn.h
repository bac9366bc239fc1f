// txn.h - a running transaction, as applications hold it.
//
// Blocking   commit() of a durable transaction suspends the calling user thread until the log is on
//            disk; others run meanwhile.
// Errors     Use after commit or abort: txn_ended. From another user thread than the one that began
//            it: wrong_thread.
//            These errors leave the transaction as it was, and it may go on: duplicate_key,
//            key_function_missing, index_mismatch, key_too_long, value_too_long, bad_argument,
//            no_such_record, no_such_object, already_exists, wrong_kind, read_only, unsupported,
//            lock_refused.
//            After every other error, as deadlock or lock_timeout, all calls but abort() return
//            txn_aborting.
//            A transaction may be ended from outside: by Store::end_transaction(), by
//            Handle::cancel(), by Options::transaction_age_max, or because it pins the log while
//            others wait for space. Then every call but abort() returns ended_by_operator,
//            cancelled, transaction_too_old or log_full. If its user thread was waiting between two
//            calls, as in sleep_for() or join(), its changes are undone and its locks are free
//            already. A commit() that has begun wins.
//            A function that bulk_load(), Heap::scan() or create_index() calls cannot end its
//            transaction: commit(), abort(), prepare() and rollback_to() are bad_argument there.
#pragma once

#include <span>

#include <lockstep/prepared.h>
#include <lockstep/result.h>
#include <lockstep/txn_options.h>

namespace lockstep {

struct Need;

namespace sm {
class Engine;
struct TxnAccess;
}  // namespace sm
namespace txn {
struct Transaction;
}

using txn::Durability;
using txn::Isolation;
using txn::Retry;
using txn::Savepoint;
using txn::TxnOptions;

// A transaction of the user thread that began it. Movable, not copyable. The destructor rolls a
// live transaction back.
class Txn {
public:
    Txn(Txn&& other) noexcept;
    Txn& operator=(Txn&&) = delete;
    ~Txn();

    // Makes all changes visible and, as TxnOptions::durability says, durable; ends the transaction.
    // The value is the point in the log that must be durable for the commit to survive a crash
    // (Store::wait_durable). It is kLsnNone if the transaction changed nothing. Suspends a durable
    // transaction until the log is synced. Error store_failed: the next open decides the outcome.
    Result<Lsn> commit();
    // Undoes every change and releases all locks. Errors: io_error, corrupt_*, store_failed; the
    // transaction has ended for the caller all the same, and the next open finishes the rollback.
    Result<void> abort();

    // The first phase of two-phase commit (prepared.h): promises to commit or roll back as
    // Store::commit_prepared() and rollback_prepared() will say, also after a restart. Ends this
    // handle. The transaction keeps all its locks, and belongs to no thread any more. One that has
    // changed nothing ends at once instead, as by a durable commit(), with the vote read_only.
    // `gid` is the name of the global transaction. Suspends until the log is synced, whatever
    // TxnOptions::durability says. Errors that leave the transaction as it was: bad_argument
    // (length of the gid), already_exists (another one is prepared under the gid), too_many (half
    // of Options::transactions_max are prepared), unsupported (it has created, dropped or
    // bulk-loaded an index or heap, even if it has undone that by rollback_to(): commit() it alone,
    // or make such changes in a transaction of their own before), log_full, no_space,
    // archive_failed. After store_failed the next open finds out whether it is in doubt.
    Result<Vote> prepare(Slice gid);

    // Marks the present state of the transaction. Takes 16 bytes until the transaction ends, and
    // none if nothing has changed since the last one. Never blocks. Error: too_many after 2^31
    // savepoints.
    Result<Savepoint> savepoint();
    // Undoes what came after the savepoint; locks stay. The savepoint remains usable. Errors:
    // bad_argument if the savepoint is another transaction's or was rolled back already.
    Result<void> rollback_to(const Savepoint& savepoint);

    // Says which records the transaction will use: up to 64, in about the order of their use. With
    // StepsOptions::mode `on` or `prefetch` the store walks to them at once, so that their cache
    // misses and page reads overlap, and later operations find their places without a search. Else
    // it does nothing. May be called several times; the last records count. A hint: nothing is
    // locked, and wrong needs cost time only (need.h). Never waits; starts page reads.
    void will_need(std::span<const Need> needs);
    // Whether will_need() does anything at present. Never blocks.
    bool walks_needs() const;

    // For the repetition of a transaction that was a deadlock victim: TxnOptions::retry of the next
    // begin(). Call it before abort(); default value after the end. Never blocks.
    Retry retry() const;

    // Never reused within a store; kTxnNone after the end.
    TxnId id() const;
    // True while the transaction is neither committed nor aborted.
    bool live() const;

private:
    friend class Store;
    friend struct sm::TxnAccess;
    Txn(sm::Engine* engine, txn::Transaction* txn, uint64_t generation);
    Result<void> abort_undone();
    sm::Engine* engine_ = nullptr;
    txn::Transaction* txn_ = nullptr;
    uint64_t generation_ = 0;
};

}  // namespace lockstep
