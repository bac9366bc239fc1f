// workload.h - what is run on the engines: how its tables are filled, its transactions, its check.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "threads/base/rng.h"
#include "threads/base/try.h"
#include "tools/peers/engine.h"
#include "tpcc/histogram.h"

namespace lockstep::peers {

// How large the workloads are.
struct Sizes {
    uint32_t warehouses = 2;
    // TPC-C's other cardinalities; smaller ones are for tests.
    uint32_t customers = 3000, items = 100'000;
    uint32_t ycsb_records = 200'000;
    uint32_t subscribers = 100'000;  // of TATP
    uint64_t seed = 1;
};

// The date of all loaded rows of TPC-C: any but 0, which is null.
inline constexpr int64_t kLoadTime = 1;

// What one client did. The numbers of the types are those of Workload::types().
struct Tally {
    explicit Tally(size_t types) : latency(types) {}

    std::vector<tpcc::Histogram<6>> latency;  // ns, repetitions included, in the measured interval
    uint64_t repeats = 0;                     // of transactions that the engine refused; measured
    int64_t rows_added = 0;                   // all, warm-up included
    bool measures = false;
    void count(size_t type, Nanos nanos) {
        if (measures) latency[type].record(static_cast<uint64_t>(nanos));
    }
};

// A terminal of the workload; used by one session only.
class Client {
public:
    virtual ~Client() = default;
    // Runs one transaction, again and again until the engine accepts it. The number of its type.
    virtual Result<size_t> step(Session& session, Tally& tally) = 0;
};

class Workload {
public:
    virtual ~Workload() = default;
    virtual std::vector<std::string> tables() const = 0;
    virtual std::vector<std::string> types() const = 0;
    virtual Result<void> load(Session& session) = 0;
    virtual std::unique_ptr<Client> client(unsigned number, unsigned clients, uint64_t seed) = 0;
    // Reads everything. What is wrong, as lines of text; empty if the tables are sound.
    // `rows_added`: by all clients.
    virtual Result<std::vector<std::string>> check(Session& session, int64_t rows_added) = 0;
};

struct WorkloadKind {
    const char* name;   // as in --workloads
    const char* title;  // as in tables
    std::unique_ptr<Workload> (*make)(const Sizes& sizes);
};
std::span<const WorkloadKind> workload_kinds();

std::unique_ptr<Workload> make_tpcc(const Sizes& sizes);
std::unique_ptr<Workload> make_tatp(const Sizes& sizes);
// `letter`: A, B, C, E or F.
std::unique_ptr<Workload> make_ycsb(const Sizes& sizes, char letter);

// Runs body() -> Result<bool> as a transaction and repeats it while the engine refuses it. True: it
// was committed. False: body returned false, and the transaction was rolled back.
template <class F>
Result<bool> transact(Session& session, bool writes, Tally& tally, F body) {
    for (;;) {
        TRY(session.begin(writes));
        Result<bool> done = body();
        if (done.has_value() && *done) {
            const Result<void> committed = session.commit();
            if (committed) return true;
            done = std::unexpected(committed.error());
        }
        session.rollback();
        if (done.has_value() || done.error().code != ErrorCode::deadlock) return done;
        tally.repeats += tally.measures;
    }
}

// Calls next(key, value) -> bool for each row to be loaded, and commits after each thousand.
template <class F>
Result<void> load_table(Session& session, Table table, F next) {
    constexpr unsigned kBatch = 1000;
    for (bool more = true; more;) {
        TRY(session.begin(true));
        for (unsigned n = 0; n < kBatch && more; ++n) {
            Slice key, value;
            more = next(key, value);
            if (more) TRY(session.insert(table, key, value));
        }
        TRY(session.commit());
    }
    return {};
}

// All rows of a table in key order, fetched by scans of a few hundred: next(), key() and value() as
// a Cursor has. Several may be read side by side.
class Rows {
public:
    Rows(Session& session, Table table) : session_(&session), table_(table) {}
    Result<bool> next();
    Slice key() const { return batch_[at_].key; }
    Slice value() const { return batch_[at_].value; }

private:
    struct Row {
        std::string key, value;
    };
    Session* session_;
    Table table_;
    std::vector<Row> batch_;
    size_t at_ = 0;
    bool begun_ = false;
};

// The number of rows of a table, within a transaction.
Result<uint64_t> count_rows(Session& session, Table table);

}  // namespace lockstep::peers
