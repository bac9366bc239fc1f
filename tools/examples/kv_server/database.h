// database.h - what all connections share: the store with its one index, counters and options.
#pragma once

#include <lockstep/stages.h>
#include <lockstep/store.h>

#include <atomic>
#include <cstdint>
#include <memory>
#include <string>

#include "resp.h"
#include "routes.h"
#include "scan.h"

namespace kv {

// When an acknowledged write is safe, in the words of Redis's option appendfsync. always: it is on
// the disk. everysec: it is on the disk within a second. none: the system writes it when it likes;
// it survives the end of the process 10 ms later.
enum class Durability : uint8_t { always, everysec, none };
const char* durability_name(Durability durability);
// As the option --gate has it.
const char* gate_name(lockstep::StageGate gate);

struct ServerOptions {
    std::string directory = "kv_server.db";
    std::string address = "127.0.0.1";
    uint16_t port = 6379;
    uint32_t workers = 1;
    Durability durability = Durability::always;
    uint32_t connections_max = 10'000;
    size_t pool_bytes = 256u << 20;
    lockstep::IoMethod io = lockstep::IoMethod::automatic;
    RequestLimits limits;  // of a request; a reply has at most reply_factor times its bytes
    size_t reply_factor = 4;
    lockstep::StageGate gate = lockstep::StageGate::sharing;
    uint32_t batch_max = 0;                           // of a gate
    lockstep::Nanos cutoff = lockstep::kMillisecond;  // of c_gated
    uint64_t stage_capacity = 1024;  // requests in a stage of a worker; 0: no limit

    size_t reply_bytes_max() const { return limits.bytes * reply_factor; }
};

// Counters since the start. Any thread.
struct ServerCounters {
    std::atomic<uint64_t> connections{0};  // open now
    std::atomic<uint64_t> connections_received{0}, connections_rejected{0};
    std::atomic<uint64_t> commands{0}, batches{0}, protocol_errors{0};
};

// The open store. Sessions use it from their user threads.
class Database {
public:
    // Opens the store, makes the index, and counts its records.
    static lockstep::Result<std::unique_ptr<Database>> open(const ServerOptions& options);

    // Of a transaction that runs commands.
    lockstep::TxnOptions txn_options(bool read_only) const;
    // Text of the command INFO.
    std::string info();

    const ServerOptions options;
    lockstep::Store store;
    lockstep::Index index;
    ScanCursors cursors;
    ServerCounters counters;
    lockstep::Stages stages;
    RouteCounters routes;
    // Committed records. A transaction adds its difference when it has committed.
    std::atomic<int64_t> records{0};
    const lockstep::Nanos started;

private:
    Database(const ServerOptions& given, lockstep::Store opened);
    lockstep::Result<void> prepare();
    void append_stages(std::string& out) const;
};

}  // namespace kv
