// shard.h - a part of the warehouses of a TPC-C database, in the store of a shard.
//
// Concepts   Transactions of this shard alone come in batches, and each is a packet of the store
//            with an executor, as a terminal is. Of a transaction over several shards a step runs
//            here, within a transaction of the host.
// Blocking   open() and the const calls block their kernel thread. run() blocks it until the batch
//            has ended. Steps run on user threads and may suspend.
#pragma once

#include <atomic>
#include <memory>
#include <string>
#include <vector>

#include <lockstep/c/procedures.h>
#include "tpcc/shard/shard_options.h"
#include "tpcc/shard/wire.h"

namespace lockstep::tpcc {

// The code of a New-Order that is rolled back because its input demands it.
inline constexpr int kRolledBack = -1;

class Shard {
public:
    // Loads the tables if there are none. Errors: bad_option if the store has another part or
    // scale; those of load() and of open_database().
    static Result<std::unique_ptr<Shard>> open(Store& store, const ShardOptions& options);

    // "tpcc.run": each request is a packet. The reply is a byte: an Outcome.
    void run(std::span<lockstep_call> calls);

    // Steps; the reply goes to `reply`.
    // "tpcc.stock": a New-Order's packet. Replies with the supplies of this shard.
    Result<void> supply(Txn& txn, Slice request, std::string& reply);
    // "tpcc.new_order": packet and supplies of the other shards. False: it must be rolled back.
    Result<bool> enter_order(Txn& txn, Slice request);
    // "tpcc.pay_customer": a Payment's packet. Replies with the number of the customer, a u32.
    Result<void> pay_customer(Txn& txn, Slice request, std::string& reply);
    // "tpcc.payment": packet and the number of the customer.
    Result<void> pay_warehouse(Txn& txn, Slice request);

    // No batch is under way during the others.
    // "tpcc.begin": the statistics begin anew.
    void begin();
    // "tpcc.statistics": a JSON object.
    std::string statistics() const;
    // "tpcc.foreign": bytes_of_rows().
    Result<std::string> foreign();
    // "tpcc.check": the rows of the other shards. A JSON object with all conditions.
    Result<std::string> check(Slice foreign);

private:
    class LocalPacket;  // NOLINT(cppcoreguidelines-virtual-class-destructor): it is final
    explicit Shard(const ShardOptions& options) : options_(options) {}
    Time time() const;

    const ShardOptions options_;
    Database db_;
    std::vector<std::unique_ptr<WorkerStats>> stats_;
    std::vector<std::unique_ptr<Executor>> executors_;
};

}  // namespace lockstep::tpcc
