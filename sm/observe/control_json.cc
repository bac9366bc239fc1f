// control_json.cc - field by field.
#include "sm/observe/control_json.h"

#include <algorithm>

#include <lockstep/c/report.h>
#include <lockstep/c/stats.h>
#include "sm/observe/gid_text.h"
#include "threads/base/check.h"

namespace lockstep::sm {
namespace {

Json json_of(const StageStats& stats) {
    return {{"entered", stats.entered},
            {"cancelled", stats.cancelled},
            {"queued", stats.queued},
            {"in_service", stats.in_service},
            {"bypasses", stats.bypasses},
            {"wait_mean_nanos", static_cast<uint64_t>(stats.wait.mean())},
            {"wait_p99_nanos", stats.wait.percentile(0.99)},
            {"length_mean", stats.length.mean()},
            {"batch_mean", stats.batch.mean()}};
}

// What an operator can do about it.
const char* remedy_of(ErrorCode code) {
    switch (code) {
        case ErrorCode::txn_ended:
            return "the command \"transactions\" lists those that can be ended";
        case ErrorCode::bad_argument:
            return R"(the store ends its own transactions; "commit" or "rollback" one in doubt)";
        case ErrorCode::store_closed: return "the store is being closed: wait for its next open";
        case ErrorCode::store_failed: return "close the store and open it again: it recovers";
        case ErrorCode::io_error: return "check the device; the store's logger says more";
        case ErrorCode::archive_failed:
            return "make the archive work; the store's logger says more";
        case ErrorCode::no_space: return "free space on the device";
        case ErrorCode::changes_lost:
            return R"(begin again at "oldest" or at "", or raise option changes_log_bytes)";
        case ErrorCode::out_of_memory:
        case ErrorCode::too_many: return "repeat the command, or raise the limit that is named";
        default: return "the store's logger may say more";
    }
}

}  // namespace

Json json_of(const StoreStats& s) {
    Json waits = Json::object(), io = Json::object();
    for (size_t i = 0; i < kWaitCauses; ++i)
        waits[kWaitCauseNames[i]] = {
            {"count", s.waits[i].count}, {"wait_nanos", s.waits[i].nanos}, {"now", s.waits[i].now}};
    for (size_t i = 0; i < threads::kIoClasses; ++i) {
        const threads::IoClassStats& of = s.io.classes[i];
        io[threads::kIoClassNames[i]] = {{"requests", of.packets},
                                         {"bytes", of.bytes},
                                         {"merged", of.merged},
                                         {"joined", of.joined},
                                         {"transfers", of.transfers}};
    }
    Json json = {{"io_backend", s.io_backend},
                 {"log_durability", s.log_durability},
                 {"waits", waits},
                 {"admission_stage", json_of(s.admission_stage)},
                 {"lock_stage", json_of(s.lock_stage)},
                 {"io_stage", json_of(s.io.stage)},
                 {"io", io}};
#define LOCKSTEP_ADD(name) json[#name] = s.name;
    LOCKSTEP_COUNTERS(LOCKSTEP_ADD)
    return json;
}

Json json_of(const ReportStats& s) {
    Json open = Json::array();
    for (const ReportProgress& of : s.open)
        open.push_back({{"number", of.number},
                        {"sees", of.sees.value},
                        {"age_nanos", of.age},
                        {"scans", of.scans},
                        {"ran", of.ran},
                        {"progress", of.progress},
                        {"behind", of.behind}});
    Json json = {{"open", open}};
    LOCKSTEP_REPORT_COUNTERS(LOCKSTEP_ADD)
#undef LOCKSTEP_ADD
    return json;
}

Json json_of(const StepsStats& stats) {
    Json teams = Json::array(), tuner = Json::array();
    for (const TeamStats& of : stats.teams)
        teams.push_back({{"operation", of.operation},
                         {"teams", of.teams},
                         {"entered", of.entered},
                         {"left", of.left},
                         {"ready", of.ready}});
    for (const TunerStats& of : stats.tuner)
        tuner.push_back({{"in_teams", teams_on(of.mode)},
                         {"team_max", of.team_max},
                         {"trials", of.trials},
                         {"changes", of.changes}});
    return {{"teams", teams}, {"tuner", tuner}};
}

Json json_of(const TransactionInfo& t) {
    DCHECK(t.id != kTxnNone);
    DCHECK((t.state == TransactionState::lock_wait) == !t.waits_for.empty());
    Json holders = Json::array();
    for (const TxnId id : t.waits_for_transactions) holders.push_back(id.value);
    return {{"id", t.id.value},
            {"age_nanos", t.age},
            {"thread", t.thread},
            {"worker", t.worker},
            {"state", transaction_state_name(t.state)},
            {"read_only", t.read_only},
            {"internal", t.internal},
            {"marked", t.marked},
            {"locks", t.locks},
            {"log_bytes", t.log_bytes},
            {"undo_bytes", t.undo_bytes},
            {"log_pinned_bytes", t.log_pinned_bytes},
            {"waits_for", t.waits_for},
            {"waited_nanos", t.waited},
            {"waits_for_transactions", holders},
            {"gid", gid_text(t.gid)}};
}

Json json_of(const PreparedInfo& t) {
    DCHECK(t.id != kTxnNone && !t.gid.empty());
    return {{"gid", gid_text(t.gid)},
            {"transaction", t.id.value},
            {"age_nanos", t.age},
            {"locks", t.locks}};
}

Json json_of(const BackupInfo& b) {
    DCHECK(b.lsn != kLsnNone && b.pages_copied <= b.pages);
    return {{"lsn", b.lsn.value},
            {"redo_from", b.redo_from.value},
            {"since", b.since.value},
            {"pages", b.pages},
            {"pages_copied", b.pages_copied},
            {"pages_zeroed", b.pages_zeroed},
            {"bytes", b.bytes},
            {"log_bytes", b.log_bytes},
            {"took_nanos", b.time},
            {"ended_at_nanos", b.ended_at}};
}

Json json_of(const std::vector<txn::LockManager::HotLock>& locks, Nanos looks_back) {
    DCHECK(locks.empty() || looks_back > 0);
    Json all = Json::array();
    for (const auto& of : locks)
        all.push_back({{"lock", of.text}, {"waits", of.waits}, {"wait_nanos", of.waited}});
    return {{"looks_back_nanos", looks_back}, {"locks", all}};
}

Json refusal_json(const char* code, const std::string& thing, const std::string& reason,
                  const std::string& remedy) {
    DCHECK(!thing.empty() && !reason.empty() && !remedy.empty());
    return {{"error", {{"code", code}, {"thing", thing}, {"reason", reason}, {"remedy", remedy}}}};
}

static Json bytes_json(Slice bytes) {
    if (std::ranges::all_of(bytes, [](char c) { return c >= ' ' && c <= '~'; })) return bytes;
    constexpr char kDigits[] = "0123456789abcdef";
    std::string hex;
    hex.reserve(2 * bytes.size());
    for (const char c : bytes)
        (hex += kDigits[static_cast<uint8_t>(c) >> 4]) += kDigits[static_cast<uint8_t>(c) & 15];
    return {{"hex", std::move(hex)}};
}

Json json_of(const Change& of) {
    const bool of_record = of.kind <= ChangeKind::erase;
    Json json = {{"kind", change_kind_name(of.kind)}};
    if (of.kind != ChangeKind::commit) json[of.is_index ? "index" : "heap"] = bytes_json(of.object);
    if (of.kind == ChangeKind::create && of.of != ObjectId{}) json["of"] = of.of.value;
    if (of.kind != ChangeKind::commit) json["object"] = of.id.value;
    if (of_record && of.is_index) json["key"] = bytes_json(of.key);
    if (of_record && !of.is_index)
        json["id"] =
            std::to_string(of.record.page.value) + "." + std::to_string(of.record.slot.value);
    if (of.kind == ChangeKind::patch) json["offset"] = of.offset;
    if (of_record && of.kind != ChangeKind::erase) json["value"] = bytes_json(of.value);
    if (of_record && of.old) json["old"] = bytes_json(*of.old);
    json.update({{"transaction", of.txn.value}, {"commit", of.commit.value}});
    if (of.time != 0) json["time_nanos"] = of.time;
    DCHECK(json.is_object() && json.contains("kind"));
    return json;
}

Json json_of(const Error& error) {
    DCHECK(error.code != ErrorCode::none);
    return refusal_json(error_name(error.code), error.what != nullptr ? error.what : "store",
                        error.text(), remedy_of(error.code));
}

std::string line_of(const Json& json) {
    return json.dump(-1, ' ', false, Json::error_handler_t::replace);
}

}  // namespace lockstep::sm
