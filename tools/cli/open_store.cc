// open_store.cc - `lockstep stat`: counters, sizes, indexes and heaps of a store.
#include <fmt/core.h>

#include <nlohmann/json.hpp>

#include <lockstep/store.h>
#include "tools/cli/commands.h"
#include "tools/cli/opening.h"

namespace lockstep::cli {
namespace {

nlohmann::ordered_json json_of(Store& store, const StoreStats& s) {
    nlohmann::ordered_json j = {
        {"pages_total", s.pages_total},
        {"log_used_bytes", s.log_used_bytes},
        {"log_capacity_bytes", s.log_capacity_bytes},
        {"log_records", s.log_records},
        {"log_flushes", s.log_flushes},
        {"log_syncs", s.log_syncs},
        {"checkpoints", s.checkpoints},
        {"pool_frames", s.pool_frames},
        {"pool_resident", s.pool_resident},
        {"pool_dirty", s.pool_dirty},
        {"page_reads", s.page_reads},
        {"page_writes", s.page_writes},
        {"page_repairs", s.page_repairs},
        {"lost_writes", s.lost_writes},
        {"lock_waits", s.lock_waits},
        {"lock_wait_mean_us", s.lock_stage.wait.mean() / 1000},
        {"lock_wait_p99_us", static_cast<double>(s.lock_stage.wait.percentile(0.99)) / 1000},
        {"lock_queue_mean", s.lock_stage.length.mean()},
        {"lock_batch_mean", s.lock_stage.batch.mean()},
        {"lock_bypasses", s.lock_stage.bypasses},
        {"deadlocks", s.deadlocks},
        {"reads_ahead", s.reads_ahead},
        {"read_waiters", s.read_waiters},
        {"io_requests", s.io.packets()},
        {"io_merged", s.io.merged()},
        {"io_joined", s.io.joined()},
        {"io_transfers", s.io.transfers()},
        {"io_batch_mean", s.io.stage.batch.mean()},
        {"io_submissions", s.io.submissions},
        {"io_depth_mean", s.io.depth.mean()},
        {"io_wait_mean_us", s.io.stage.wait.mean() / 1000},
        {"io_wait_p99_us", static_cast<double>(s.io.stage.wait.percentile(0.99)) / 1000},
        {"memory_pool", s.memory_pool},
        {"memory_locks", s.memory_locks},
        {"memory_log", s.memory_log},
        {"io_backend", s.io_backend},
        {"log_durability", s.log_durability}};
    for (const auto& entry : store.list())
        j["objects"].push_back({{"name", entry.name},
                                {"kind", entry.is_index ? "index" : "heap"},
                                {"id", entry.id.value}});
    return j;
}

}  // namespace

int stat(const std::string& path, bool json) {
    auto store = open_store(path);
    if (!store) return complain(path, store.error().text());
    const auto j = json_of(*store, store->stats());
    if (json) {
        fmt::print("{}\n", j.dump(2));
    } else {
        for (const auto& [key, value] : j.items())
            if (key != "objects")
                fmt::print("{:<20} {}\n", key,
                           value.is_string() ? value.get<std::string>() : value.dump());
        if (j.contains("objects"))
            for (const auto& object : j["objects"])
                fmt::print("{:<20} {} (number {})\n", object["kind"].get<std::string>(),
                           object["name"].get<std::string>(), object["id"].get<uint32_t>());
    }
    const auto closed = store->close();
    return closed ? 0 : complain(path, closed.error().text());
}

}  // namespace lockstep::cli
