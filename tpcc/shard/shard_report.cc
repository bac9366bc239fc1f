// shard_report.cc - the statistics of a shard, and the conditions of its part.
#include <nlohmann/json.hpp>

#include "threads/base/try.h"
#include "tpcc/consistency.h"
#include "tpcc/shard/shard.h"

namespace lockstep::tpcc {

namespace {

using nlohmann::ordered_json;

ordered_json json_of(const TypeStats& stats) {
    ordered_json j;
    j["completed"] = stats.latency.count();
    j["rolled_back"] = stats.rolled_back;
    for (size_t cause = 0; cause < kAbortCauses; ++cause)
        j["aborts"][kAbortNames[cause]] = stats.aborts[cause];
    j["latency_ns"] = {{"mean", stats.latency.mean()},
                       {"p50", stats.latency.percentile(0.5)},
                       {"p90", stats.latency.percentile(0.9)},
                       {"p99", stats.latency.percentile(0.99)},
                       {"max", stats.latency.max()}};
    return j;
}

}  // namespace

void Shard::begin() {
    for (const auto& stats : stats_)
        for (TypeStats& type : stats->types) type = {};
}

std::string Shard::statistics() const {
    WorkerStats all;
    for (const auto& stats : stats_) all.merge(*stats);
    ordered_json j;
    for (size_t type = 0; type < kTxnTypes; ++type)
        j["types"][kTxnNames[type]] = json_of(all.types[type]);
    const StoreStats store = db_.store->stats();
    j["commits"] = store.commits;
    j["log_flushes"] = store.log_flushes;
    return j.dump();
}

Result<std::string> Shard::foreign() { return bytes_of_rows(TRY(collect_foreign_rows(db_))); }

Result<std::string> Shard::check(Slice foreign) {
    ForeignRows rows;
    if (!read_rows(foreign, rows))
        return fail(ErrorCode::bad_argument, "rows of other shards", foreign.size());
    const ConsistencyReport report = TRY(check_consistency(db_, Isolation::serializable, rows));
    ordered_json j;
    j["ok"] = report.ok();
    j["rows"] = report.rows;
    j["first_warehouse"] = db_.scale.first;
    j["last_warehouse"] = db_.scale.last_here();
    j["conditions"] = ordered_json::array();
    for (const Condition& each : report.conditions)
        j["conditions"].push_back({{"id", each.id},
                                   {"text", condition_text(each.id)},
                                   {"violations", each.violations},
                                   {"faults", each.faults}});
    j["stock"] = ordered_json::array();
    for (const StockCheck& each : report.stock)
        j["stock"].push_back({{"text", stock_column_text(each.column)},
                              {"violations", each.violations},
                              {"faults", each.faults}});
    j["index_faults"] = report.index_faults;
    return j.dump();
}

}  // namespace lockstep::tpcc
