// database.cc - opens the store, and the text of INFO.
#include "database.h"

#include <unistd.h>

#include <array>
#include <cstdarg>
#include <cstdio>
#include <utility>

namespace kv {

using namespace lockstep;

const char* durability_name(Durability durability) {
    switch (durability) {
        case Durability::always: return "always";
        case Durability::everysec: return "everysec";
        case Durability::none: return "none";
    }
    return "?";
}

const char* gate_name(StageGate gate) {
    switch (gate) {
        case StageGate::fcfs: return "fcfs";
        case StageGate::t_gated: return "t-gated";
        case StageGate::d_gated: return "d-gated";
        case StageGate::c_gated: return "c-gated";
        case StageGate::non_gated: return "non-gated";
        case StageGate::sharing: return "sharing";
    }
    return "?";
}

namespace {

StagesOptions stages_options(const ServerOptions& options) {
    return {.gate = options.gate,
            .entrances = 2,  // connect and parse
            .batch_max = options.batch_max,
            .cutoff = options.cutoff,
            .workers = options.workers};
}

std::array<uint64_t, kStages> capacities(const ServerOptions& options) {
    std::array<uint64_t, kStages> each;
    each.fill(options.stage_capacity);
    return each;
}

Options store_options(const ServerOptions& options) {
    Options result;
    result.workers = options.workers;
    result.pool_bytes = options.pool_bytes;
    result.io = options.io;
    result.sync = options.durability != Durability::none;
    if (options.durability == Durability::everysec) result.lazy_flush_interval = kSecond;
    result.user_threads_max = options.connections_max + 64;
    result.logger = [](int level, std::string_view text) {
        std::fprintf(stderr, "%s: %.*s\n", level == 0 ? "error" : "store",
                     static_cast<int>(text.size()), text.data());
    };
    return result;
}

[[gnu::format(printf, 2, 3)]] void append_line(std::string& out, const char* format, ...) {
    char line[256];
    va_list values;
    va_start(values, format);
    std::vsnprintf(line, sizeof line, format, values);
    va_end(values);
    out += line;
    out += "\r\n";
}

using Number = unsigned long long;

// Resident memory of the process in bytes, from the second number of /proc/self/statm.
uint64_t resident_bytes() {
    Number total = 0, pages = 0;
    if (std::FILE* file = std::fopen("/proc/self/statm", "re")) {
        if (std::fscanf(file, "%llu %llu", &total, &pages) != 2) pages = 0;
        std::fclose(file);
    }
    return pages * static_cast<uint64_t>(sysconf(_SC_PAGESIZE));
}

}  // namespace

Result<std::unique_ptr<Database>> Database::open(const ServerOptions& options) {
    std::unique_ptr<Database> database(new Database(
        options, LOCKSTEP_TRY(Store::open(options.directory, store_options(options)))));
    LOCKSTEP_TRY(database->prepare());
    return database;
}

Database::Database(const ServerOptions& given, Store opened)
    : options(given),
      store(std::move(opened)),
      stages(capacities(given), stages_options(given)),
      started(now()) {}

Result<void> Database::prepare() {
    index = LOCKSTEP_TRY(store.run(
        [&](Txn& txn) -> Result<Index> { return store.open_or_create_index(txn, "keys"); }));
    records = LOCKSTEP_TRY(store.run(
        [&](Txn& txn) -> Result<int64_t> {
            int64_t count = 0;
            for (Cursor cursor = index.scan(txn); LOCKSTEP_TRY(cursor.next());)
                if (++count % 1000 == 0) yield();
            return count;
        },
        {.isolation = Isolation::read_committed, .read_only = true}));
    return {};
}

TxnOptions Database::txn_options(bool read_only) const {
    TxnOptions result;
    result.read_only = read_only;
    result.durability = options.durability == Durability::always ? lockstep::Durability::durable
                                                                 : lockstep::Durability::lazy;
    return result;
}

std::string Database::info() {
    const StoreStats stats = store.stats();
    std::string out;
    append_line(out, "# Server");
    append_line(out, "server_name:lockstep-kv");
    append_line(out, "process_id:%d", getpid());
    append_line(out, "tcp_port:%u", options.port);
    append_line(out, "workers:%u", options.workers);
    append_line(out, "io_backend:%s", stats.io_backend.c_str());
    append_line(out, "uptime_in_seconds:%llu", Number{(now() - started) / kSecond});
    append_line(out, "\r\n# Clients");
    append_line(out, "connected_clients:%llu", Number{counters.connections});
    append_line(out, "maxclients:%u", options.connections_max);
    append_line(out, "total_connections_received:%llu", Number{counters.connections_received});
    append_line(out, "rejected_connections:%llu", Number{counters.connections_rejected});
    append_line(out, "protocol_errors:%llu", Number{counters.protocol_errors});
    append_line(out, "\r\n# Memory");
    append_line(out, "used_memory_rss:%llu", Number{resident_bytes()});
    append_line(out, "pool_bytes:%llu", Number{stats.memory_pool});
    append_line(out, "stack_bytes:%llu", Number{stats.memory_stacks});
    append_line(out, "\r\n# Persistence");
    append_line(out, "appendfsync:%s", durability_name(options.durability));
    append_line(out, "log_durability:%s", stats.log_durability.c_str());
    append_line(out, "log_syncs:%llu", Number{stats.log_syncs});
    append_line(out, "log_used_bytes:%llu", Number{stats.log_used_bytes});
    append_line(out, "checkpoints:%llu", Number{stats.checkpoints});
    append_line(out, "\r\n# Stats");
    append_line(out, "total_commands_processed:%llu", Number{counters.commands});
    append_line(out, "batches:%llu", Number{counters.batches});
    append_line(out, "commits:%llu", Number{stats.commits});
    append_line(out, "aborts:%llu", Number{stats.aborts});
    append_line(out, "deadlock_retries:%llu", Number{stats.deadlock_retries});
    append_line(out, "lock_waits:%llu", Number{stats.lock_waits});
    append_line(out, "page_reads:%llu", Number{stats.page_reads});
    append_line(out, "page_writes:%llu", Number{stats.page_writes});
    append_line(out, "user_threads:%llu", Number{stats.threads_live});
    append_stages(out);
    append_line(out, "\r\n# Keyspace");
    if (const int64_t keys = records; keys > 0)
        append_line(out, "db0:keys=%lld,expires=0,avg_ttl=0", static_cast<long long>(keys));
    return out;
}

// Waits in microseconds; batch: the mean number of requests that a stage has served together.
void Database::append_stages(std::string& out) const {
    append_line(out, "\r\n# Stages");
    append_line(out, "gate:%s", gate_name(options.gate));
    for (size_t i = 0; i < kStages; ++i) {
        const StageStats s = stages.stats(i);
        append_line(out,
                    "stage_%s:entered=%llu,inside=%llu,batch=%.2f,wait_mean=%.1f,wait_p95=%.1f,"
                    "stayed_behind=%llu,suspended=%llu",
                    kStageNames[i], Number{s.entered}, Number{s.queued + s.in_service},
                    s.batch.mean(), s.wait.mean() / 1e3,
                    static_cast<double>(s.wait.percentile(0.95)) / 1e3, Number{s.requeued},
                    Number{s.suspended});
    }
    for (const Route* route : kRoutes)
        append_line(out, "route_%s:%llu", route->name, Number{routes.taken[route->number]});
    append_line(out, "requests_strayed:%llu", Number{routes.strayed});
}

}  // namespace kv
