// prepared.h - two-phase commit: what a participant answers, and what it says of transactions whose
// outcome it does not know.
//
// Concepts   A *coordinator* commits one global transaction in several stores or other systems. It
//            gives the global transaction a name, the gid, and calls Txn::prepare() in each of
//            them. If all vote, it makes its decision durable, and only then calls
//            Store::commit_prepared() in each that answered `prepared`. Otherwise it calls
//            Store::rollback_prepared(). From its vote to that call a transaction is *in doubt*:
//            it survives restarts, keeps its locks, and belongs to no thread.
//            The protocol is presumed abort: a coordinator that knows nothing of a gid answers
//            "roll back". So it must remember a commit until each participant has returned from
//            commit_prepared(). It need not remember a rollback at all.
// Source     C. Mohan, B. Lindsay, R. Obermarck, "Transaction management in the R* distributed
//            database management system", ACM TODS 1986.
#pragma once

#include <string>

#include <lockstep/types.h>

namespace lockstep {

// A gid is a string of 1 to kGidBytesMax bytes of any value. An XID of X/Open XA fits into it: two
// parts of 64 bytes, their lengths, and a format id.
inline constexpr size_t kGidBytesMax = 140;

// What a participant answers to the first phase.
enum class Vote : uint8_t {
    // It will commit or roll back, as the coordinator decides.
    prepared,
    // It changed nothing and has ended: the second phase passes it by.
    read_only
};

// A transaction in doubt, as of a moment during the call.
struct PreparedInfo {
    std::string gid;
    TxnId id{};          // its number in Store::transactions()
    Nanos age = 0;       // since its prepare, by the time of day; goes on while the store is closed
    uint64_t locks = 0;  // on indexes, heaps and records, which it holds until its end
};

}  // namespace lockstep
