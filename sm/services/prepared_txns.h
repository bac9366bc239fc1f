// prepared_txns.h - the transactions in doubt of an open store, by gid: the participant's side of
// two-phase commit.
//
// Concepts   An entry lasts from the begin of a prepare to the end of the second phase. Its
//            transaction has no thread. The second phase runs on a user thread of the worker that
//            began the transaction, because everything that looks at a transaction from outside
//            relies on that (txn_watch.h, snapshots.h). After a restart that is worker 0.
// States     preparing -> in_doubt (prepare) -> ending (end) -> gone; preparing -> gone, if the
//            prepare fails.
// Invariants PT-1 A gid has at most one entry. [checked: add()]
//            PT-2 An entry in the state `ending` goes only when its outcome is durable, or the
//                 store has failed. A second call for the gid waits for that. So its answer, that
//                 nothing is in doubt, is never ahead of the first one.
//            PT-3 Nothing is allocated or freed under the spin lock. [checked:
//                 sm_prepared_allocation_test, by locked()]
// Blocking   prepare() and end() park. The others take a spin lock.
// Source     C. Mohan, B. Lindsay, R. Obermarck, "Transaction management in the R* distributed
//            database management system", ACM TODS 1986: presumed abort, read-only votes.
#pragma once

#include <map>
#include <string>
#include <vector>

#include <lockstep/prepared.h>
#include "sm/recovery/in_doubt.h"
#include "threads/base/spin_lock.h"

namespace lockstep::sm {

class Host;

class PreparedTxns {
public:
    explicit PreparedTxns(Host& engine) : engine_(engine) {}
    ~PreparedTxns();
    PreparedTxns(const PreparedTxns&) = delete;
    PreparedTxns& operator=(const PreparedTxns&) = delete;

    // Those that restart has found.
    void adopt(const std::vector<InDoubt>& found);
    // The first phase for a transaction that wrote. Errors: already_exists (the gid), too_many,
    // log_full, no_space, archive_failed: nothing happened. store_failed: it has left its thread.
    Result<void> prepare(txn::Transaction& txn, Slice gid);
    // The second phase. False: no transaction of that gid is in doubt. On any thread.
    enum class Decision : uint8_t { commit, roll_back };
    Result<bool> end(Slice gid, Decision decision);
    // By age, the oldest first. Any kernel thread.
    std::vector<PreparedInfo> list() const;
    // The gid of a transaction, or empty.
    std::string gid_of(TxnId id) const;
    bool any() const;
    // How many are in doubt, and the age of the oldest; 0 if there is none. Any kernel thread.
    struct Counts {
        uint64_t open = 0;
        Nanos oldest = 0;
    };
    Counts counts() const;
    // For assertions: whether some thread holds the spin lock.
    bool locked() const { return lock_.is_held(); }

private:
    enum class State : uint8_t { preparing, in_doubt, ending };
    struct Entry {
        State state = State::preparing;
        TxnId id{};
        uint32_t slot = 0, worker = 0;
        Nanos prepared = 0;  // nanoseconds since 1970, UTC
        uint64_t locks = 0;
    };
    using Entries = std::map<std::string, Entry, std::less<>>;
    Nanos age_of(const Entry& entry, Nanos now) const;
    Result<void> add(const txn::Transaction& txn, Slice gid, Nanos now);
    bool take(Slice gid, Entry& entry, bool& busy);
    void put_back(Slice gid);
    void remove(Slice gid);
    Result<bool> end_here(Slice gid, Decision decision);
    Result<void> finish(const Entry& entry, Decision decision);

    Host& engine_;
    mutable SpinLock lock_;
    Entries entries_;  // by gid; under lock_
};

}  // namespace lockstep::sm
