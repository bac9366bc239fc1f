// txn_watch.h - looks at live transactions from outside: lists them, and ends those that an
// operator, their age or the log condemns.
//
// Concepts   To *end* a transaction is to mark it (Transaction::heed): its next operation returns
//            the reason, and a wait for a lock is cancelled. A *reaper* does that, a user thread on
//            the worker of the transaction. User threads of one worker never run at the same time,
//            so the mark needs no atomic operation, and operations pay nothing for it. If the
//            transaction's thread waits between two operations (threads/thread/between_calls.h), or
//            has ended, the reaper also rolls the transaction back and releases its locks. The
//            object then waits in state `undone` until the thread calls abort().
// Invariants TW-1 A reaper works on a transaction only while its thread is outside every
//                 operation, and that thread starts none before the state is `undone`: each
//                 operation first tests `heed`. [checked: runs_here() in change_pages(),
//                 undo_chain()]
//            TW-2 At most one reaper has a transaction.
// Blocking   Each function says so.
#pragma once

#include <atomic>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include <lockstep/transaction_info.h>
#include "threads/base/spin_lock.h"
#include "threads/sync/event.h"
#include "txn/transaction.h"

namespace lockstep::sm {

class Host;
class PreparedTxns;

class TxnWatch {
public:
    TxnWatch(Host& host, const PreparedTxns& prepared);

    // With Options::transaction_age_max: the user thread on worker 0 that ends old transactions.
    Result<void> start();
    void stop();  // on a user thread; idempotent

    // All transactions, by id. Each worker reports its own, so it takes a turn of every worker.
    std::vector<TransactionInfo> list();
    // The same for close(), which must not end before this returns.
    std::vector<TransactionInfo> list_while_closing();
    // Ends one: by_operator or cancelled. Returns when it is marked, and rolled back if it was
    // idle. Errors: txn_ended, bad_argument for one of the store's own.
    Result<void> end(TxnId id, txn::Heed why = txn::Heed::by_operator);
    // Ends with `cancelled` what transactions a user thread of the calling one's worker has now.
    // Handle::cancel() calls it until the function has ended. May park.
    void cancel_thread(uint64_t thread);
    // For close(), while it waits for functions of the application: rolls back what ended threads
    // have left open. A function may wait for a lock or a slot of it. Like list_while_closing().
    void end_orphans_while_closing();

    // The writer with the oldest first record, as of a millisecond ago; id kTxnNone: there is none.
    // On a user thread; never parks.
    txn::TransactionTable::Seen oldest();
    // As of that moment: the oldest writer waits for a lock of this transaction, or for another
    // transaction that does.
    bool blocks_oldest(TxnId id);
    // Reports once to the logger that a transaction pins half of the log. Never parks.
    void warn();
    // Reports to the logger that begin has waited for a second in which no transaction has ended:
    // those that wait may be what the others wait for. By one thread; never parks.
    void warn_of_limit();
    // Others have waited `in_vain` for log that only the oldest writer can free, and it has written
    // nothing for `unchanged` of that time. Ends it with log_full if its thread waits outside the
    // store: after kPatience if it pins half of the log, else after kIdleMax. Ends it in any case
    // after slow_max(). Never parks.
    void relieve_log(const txn::TransactionTable::Seen& oldest, Nanos in_vain, Nanos unchanged);
    // The time in which the oldest writer may end while others wait for it: 5 s, and what
    // Log::safe_bytes() take at 16 MB/s.
    Nanos slow_max() const;
    // Text for log_full: a transaction in doubt keeps the log from being recycled. Empty: it
    // has ended since. Never parks.
    [[gnu::cold]] std::string describe_in_doubt(const txn::TransactionTable::Seen& seen) const;
    // Could a checkpoint recycle a sixteenth of the log or more?
    bool checkpoint_helps(const txn::TransactionTable::Seen& oldest) const;

    static constexpr Nanos kPatience = 200 * kMillisecond, kIdleMax = 1 * kSecond;
    static constexpr uint64_t kSlowBytesPerMicro = 16;

private:
    template <class Start>
    std::vector<TransactionInfo> collect(Start start);
    template <class Which>
    void cancel_here(Which which);
    using Seen = txn::TransactionTable::Seen;
    struct Order {
        txn::Heed why = txn::Heed::by_operator;
        uint64_t number = 0;     // of the error
        bool idle_only = false;  // give up if its thread is in an operation, or was meanwhile
    };
    // A reaper at work, and an order that came meanwhile and must not be given up.
    struct Reaper {
        TxnId id{};
        std::optional<Order> next = {};
    };
    // Starts the reaper of a transaction, or leaves the order to the one that it has.
    Result<void> send_reaper(const Seen& whom, Order order, threads::Completion* marked);
    void reap(const Seen& whom, Order order, threads::Completion* marked);
    bool next_order(TxnId id, Order& order);
    std::vector<Reaper>::iterator reaper_of(TxnId id);  // under lock_
    void forget_reaper(TxnId id);
    bool mark(txn::Transaction& txn, const Order& order);
    void roll_back(txn::Transaction& txn);
    TransactionInfo describe(const Seen& seen) const;
    uint64_t pinned(const Seen& seen) const;
    // The oldest writer, those that it waits for, and those that they wait for in turn.
    std::vector<TxnId> blockers_of(const Seen& oldest, const std::vector<Seen>& all) const;
    void end_old();

    Host& engine_;
    const PreparedTxns& prepared_;
    SpinLock lock_;
    std::vector<Reaper> reapers_;      // TW-2; under lock_
    Seen oldest_{};                    // under lock_
    std::vector<TxnId> blockers_;      // of oldest_; under lock_
    Nanos looked_ = 0;                 // when oldest_ was read; under lock_
    Nanos asked_ = 0;                  // when relieve_log() last sent a reaper; under lock_
    std::atomic<uint64_t> warned_{0};  // the transaction that warn() reported last
    // Since when begin waits and nothing ends; of the thread that calls warn_of_limit().
    struct LimitWait {
        Nanos since = 0;     // 0: it does not wait
        uint64_t ended = 0;  // commits and rollbacks until then
        bool told = false;
    };
    LimitWait limit_wait_;
    std::unique_ptr<threads::Event> stop_;
    std::unique_ptr<threads::Completion> stopped_;
};

// The error of an operation of a transaction that was ended from outside.
[[gnu::cold]] std::unexpected<Error> ended_outside(const txn::Transaction& txn);

}  // namespace lockstep::sm
