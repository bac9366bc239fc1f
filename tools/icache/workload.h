// workload.h - the traced and timed work: single operations on 100,000 rows, or TPC-C transactions.
//
// Concepts   A workload runs units on user threads that the caller starts. A unit is one operation
//            or one transaction. The same code runs under the tracer (simulated disk and clock) and
//            natively, where it is timed. Marks (trace_format.h) cost a few instructions.
//            All operations of a thread run in one transaction, so that only the operation repeats.
//            `begin` and `commit` are measured around an update of one row, which is left out.
//            Each thread has its own rows, so operations never wait for a lock. TPC-C transactions
//            do wait.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include <lockstep/store.h>
#include "threads/base/rng.h"
#include "tpcc/database.h"

namespace lockstep::icache {

// One part of a plan: "fetch:on:10".
struct Part {
    std::string what;  // an operation or a transaction
    StepsMode mode = StepsMode::off;
    uint32_t threads = 10;  // of operations; transactions take all terminals

    std::string text() const;
};
inline constexpr std::string_view kOperations[] = {"fetch", "update", "insert", "delete",
                                                   "scan",  "begin",  "commit"};
inline constexpr std::string_view kTransactions[] = {"payment", "neworder", "mix4", "mix"};
bool is_operation(std::string_view what);
bool is_transaction(std::string_view what);

// Errors: bad_argument names the bad word.
Result<std::vector<Part>> parse_plan(std::string_view text);
Result<StepsMode> parse_mode(std::string_view text);

struct WorkloadSettings {
    uint64_t seed = 1;
    uint32_t rounds = 20;  // counted operations of each thread
    // Operations before those, traced but not counted.
    uint32_t warm_rounds = 4;
    uint32_t transactions = 600;        // traced; the first tenth is not counted
    uint32_t warm_transactions = 3000;  // before those, not traced
    uint32_t warehouses = 10;
    bool native = false;  // real sizes, no marks
};

class Workload {
public:
    virtual ~Workload() = default;
    // Fills the store; on a user thread.
    virtual Result<void> load() = 0;
    // User threads of a part, numbered from 0.
    virtual uint32_t threads(const Part& part) const = 0;
    virtual Result<void> begin_part(const Part& part) = 0;
    // One unit of thread `number`, marked if it is an operation.
    virtual Result<void> unit(uint32_t number) = 0;
    // Ends the thread's work in this part.
    virtual Result<void> end(uint32_t number) = 0;
};

// The TPC-C database that a run uses: traced ones are smaller.
tpcc::Scale scale_of(const WorkloadSettings& settings);

// For operations or for transactions: a plan holds one kind only.
std::unique_ptr<Workload> make_operations(Store& store, const WorkloadSettings& settings);
std::unique_ptr<Workload> make_transactions(Store& store, const WorkloadSettings& settings);

}  // namespace lockstep::icache
