// transaction_info.h - what Store::transactions() says of a transaction.
#pragma once

#include <string>
#include <vector>

#include <lockstep/types.h>

namespace lockstep {

// What a transaction does at the moment.
enum class TransactionState : uint8_t {
    // Its user thread waits in the application: sleep_for(), yield(), join(), and the waits of
    // sync.h, timer.h, fd.h and offload.h.
    idle,
    // Application code runs, or an operation runs or waits for something other than a lock.
    running,
    // An operation waits for a lock.
    lock_wait,
    // Its changes are being undone.
    rolling_back,
    // Its commit record is on the way to the disk, and its locks are released.
    committing,
    // It was ended from outside and rolled back; its Txn has not been ended yet.
    ended,
    // In doubt: it waits for Store::commit_prepared() or rollback_prepared() (prepared.h).
    prepared
};

// Name as written in code ("lock_wait"). A static string.
const char* transaction_state_name(TransactionState state);

// One transaction, as of a moment during the call.
struct TransactionInfo {
    TxnId id{};           // Store::end_transaction() takes it
    Nanos age = 0;        // since it began
    uint64_t thread = 0;  // number of its user thread within the store
    uint32_t worker = 0;  // number of the kernel thread
    TransactionState state = TransactionState::running;
    bool read_only = false;
    // Begun by the store itself, for example to free space. end_transaction() refuses it.
    bool internal = false;
    // Ended by end_transaction(), by its age or because it pinned the log, and its thread has not
    // noticed yet.
    bool marked = false;
    uint64_t locks = 0;       // names it has locked
    uint64_t log_bytes = 0;   // written by it
    uint64_t undo_bytes = 0;  // reserved in the log for its rollback
    // From its first log record to the end of the log. The log keeps all of it for this
    // transaction. 0 if it has written nothing.
    uint64_t log_pinned_bytes = 0;
    // While state is lock_wait: mode, object and name of the lock, and who holds it, as text; how
    // long it has waited; the first three transactions that hold it or wait before it.
    std::string waits_for{};
    Nanos waited = 0;
    std::vector<TxnId> waits_for_transactions{};
    std::string gid{};  // while state is prepared: its global name
};

}  // namespace lockstep
