// control.cc - the commands of the control socket.
#include "sm/observe/control.h"

#include <errno.h>
#include <unistd.h>

#include <algorithm>
#include <optional>

#include "sm/host/host.h"
#include "sm/host/test_hooks.h"
#include "sm/observe/control_json.h"
#include "sm/observe/gid_text.h"
#include "sm/observe/metrics.h"
#include "sm/observe/txn_watch.h"
#include "sm/recovery/recovery.h"
#include "sm/services/prepared_txns.h"
#include "threads/thread/between_calls.h"

namespace lockstep::sm {
namespace {

constexpr const char* kSocketName = "control";
constexpr size_t kHotLocksShown = 20, kQuotedBytesMax = 100, kChangesBytes = 256 << 10;
constexpr const char* kCommands =
    "stat, metrics, transactions, locks, end, prepared, commit, rollback, checkpoint, backup, "
    "changes";

Json result_json(Json result) { return {{"result", std::move(result)}}; }

// `opened`: no wait of this store is older.
Json hot_locks_json(const Host& engine, Nanos now, Nanos opened) {
    DCHECK(opened <= now);
    return json_of(engine.locks->hot_locks(kHotLocksShown, now),
                   std::min(txn::LockManager::hot_locks_look_back(now), now - opened));
}

Json stat_json(Host& engine, Nanos opened) {
    DCHECK(engine.log != nullptr && !engine.forked());
    const Options& o = engine.options;
    const StoreFailure* failure = engine.log->failure();
    const Nanos now = engine.runtime->clock().now();
    return {{"pid", getpid()},
            {"program", program_invocation_short_name},
            {"directory", engine.directory.path()},
            {"time_nanos", now},
            {"open_for_nanos", now - opened},
            {"failure", failure != nullptr ? Json(failure->text()) : Json(nullptr)},
            {"options",
             {{"workers", o.workers},
              {"transactions_max", o.transactions_max},
              {"pool_bytes", o.pool_bytes},
              {"log_bytes", o.log_bytes},
              {"steps", engine.steps_mode.load(std::memory_order_relaxed) != StepsMode::off}}},
            {"stats", json_of(engine.stats())},
            {"steps", json_of(engine.steps_stats())},
            {"reports", json_of(engine.report_stats())},
            {"hot_locks", hot_locks_json(engine, now, opened)}};
}

Json transactions_json(TxnWatch& watch, uint64_t limit) {
    std::vector<TransactionInfo> all = watch.list();
    // Workers give ids in blocks, so ids do not tell which one is older.
    std::ranges::stable_sort(all, std::ranges::greater(), &TransactionInfo::age);
    DCHECK(all.empty() || all.front().age >= all.back().age);
    Json shown = Json::array();
    for (const TransactionInfo& of : all)
        if (shown.size() < limit) shown.push_back(json_of(of));
    return result_json({{"count", all.size()}, {"transactions", shown}});
}

Json locks_json(const Host& engine, TxnWatch& watch, Nanos opened) {
    Json waits = Json::array();
    for (const TransactionInfo& of : watch.list())
        if (of.state == TransactionState::lock_wait) waits.push_back(json_of(of));
    const Nanos now = engine.runtime->clock().now();
    return result_json({{"waits", waits}, {"hot_locks", hot_locks_json(engine, now, opened)}});
}

Json end_json(TxnWatch& watch, TxnId id) {
    DCHECK(id != kTxnNone);
    const auto ended = watch.end(id);
    if (!ended) return json_of(ended.error());
    return result_json({{"transaction", id.value}});
}

Json prepared_json(const PreparedTxns& prepared) {
    Json all = Json::array();
    for (const PreparedInfo& of : prepared.list()) all.push_back(json_of(of));
    return result_json({{"prepared", all}});
}

Json end_prepared_json(PreparedTxns& prepared, const std::string& gid,
                       PreparedTxns::Decision decision) {
    DCHECK(!gid.empty());
    const auto ended = prepared.end(gid, decision);
    if (!ended.has_value()) return json_of(ended.error());
    return result_json({{"gid", gid_text(gid)}, {"ended", *ended}});
}

Json checkpoint_json(Host& engine) {
    const Nanos before = threads::now();
    const auto done = engine.checkpointer->run(true);
    if (!done) return json_of(done.error());
    return result_json({{"took_nanos", threads::now() - before},
                        {"checkpoints", engine.checkpointer->completed()},
                        {"log_used_bytes", engine.log->used_bytes()},
                        {"log_capacity_bytes", engine.log->capacity_bytes()}});
}

// As many as fit, so that other threads of the worker get their turns.
Json changes_json(Host& engine, const std::string& from) {
    Json list = Json::array();
    size_t bytes = 0;
    const auto end = engine.read_changes(from, [&](const Change& of, const std::string& position) {
        list.push_back({{"position", position}});
        list.back().update(json_of(of));
        bytes += of.key.size() + of.value.size() + of.old.value_or(Slice{}).size() + 200;
        return bytes < kChangesBytes;
    });
    if (!end.has_value()) return json_of(end.error());
    return result_json({{"position", *end}, {"changes", std::move(list)}});
}

// What a request for a backup asks for.
struct BackupRequest {
    std::string to;
    std::optional<std::string> since;
    std::optional<uint64_t> bytes_per_second;
};

// A client that goes, as after Ctrl-C, ends its backup: nobody else could, and it may take hours.
Json backup_json(Host& engine, const BackupRequest& request, const threads::LineReply& reply) {
    DCHECK(engine.on_own_thread() && request.to.starts_with('/'));
    BackupOptions options{.bytes_per_second = request.bytes_per_second};
    BackupInfo since;
    if (request.since) {
        const auto read = read_backup(*request.since);
        if (!read) return json_of(read.error());
        since = *read;
        options.since = &since;
    }
    const auto made = engine.backup(request.to, options, [&] { return reply.abandoned(); });
    if (!made && reply.abandoned())
        engine.report(1, "the backup to " + request.to + " was ended: " + made.error().text());
    return made ? result_json(json_of(*made)) : json_of(made.error());
}

// Of a request, as it came: its Json may be nested so deep that no stack holds its walk.
std::string shown_text(std::string_view line) {
    return std::string(line.substr(0, kQuotedBytesMax));
}

// A number that may be missing; empty if it is something else.
std::optional<uint64_t> number_of(const Json& request, const char* field, uint64_t missing) {
    const auto found = request.find(field);
    if (found == request.end()) return missing;
    if (!found->is_number_unsigned()) return std::nullopt;
    return found->get<uint64_t>();
}

Json bad_number(std::string_view line, const char* field) {
    return refusal_json("bad_argument", shown_text(line),
                        std::string("field \"") + field + "\" is missing or no number from 0 on",
                        std::string(R"(send {"command": ..., ")") + field + R"(": NUMBER})");
}

// Empty: it is missing, or no text of a gid.
std::optional<std::string> gid_in(const Json& request) {
    const auto found = request.find("gid");
    if (found == request.end() || !found->is_string()) return std::nullopt;
    return gid_of_text(found->get<std::string>());
}

Json bad_gid(std::string_view line, const std::string& command) {
    return refusal_json("bad_argument", shown_text(line),
                        "field \"gid\" is missing or no gid: 1 to " + std::to_string(kGidBytesMax) +
                            " bytes, those that do not print as \\xNN",
                        R"(send {"command": ")" + command +
                            R"(", "gid": TEXT}; the command "prepared" lists them)");
}

// Empty: it is missing, or no path. Relative paths mean another directory to the client.
std::optional<std::string> path_in(const Json& request, const char* field) {
    const auto found = request.find(field);
    if (found == request.end() || !found->is_string()) return std::nullopt;
    const auto path = found->get<std::string>();
    return path.starts_with('/') ? std::optional(path) : std::nullopt;
}

std::optional<BackupRequest> backup_of(const Json& request) {
    const auto to = path_in(request, "to"), since = path_in(request, "since");
    if (!to || (!since && request.contains("since"))) return std::nullopt;
    BackupRequest wanted{.to = *to, .since = since, .bytes_per_second = {}};
    if (request.contains("bytes_per_second")) {
        wanted.bytes_per_second = number_of(request, "bytes_per_second", 0);
        if (!wanted.bytes_per_second) return std::nullopt;
    }
    return wanted;
}

}  // namespace

Result<void> Control::start() {
    DCHECK(server_ == nullptr);
    DCHECK(engine_.runtime != nullptr && !engine_.on_own_thread());
    if (engine_.options.test_hooks != nullptr && engine_.options.test_hooks->caller_driven)
        return fail(ErrorCode::bad_option, "control (a simulation has no sockets)", 1);
    opened_ = engine_.runtime->clock().now();
    threads::LineServer::Settings settings;
    settings.directory = engine_.directory;
    settings.name = kSocketName;
    settings.handle = [this](std::string_view line, threads::LineReply reply) {
        handle(line, std::move(reply));
    };
    settings.too_long =
        line_of(refusal_json("bad_request", "line",
                             "a request has at most " + std::to_string(settings.line_bytes_max) +
                                 " bytes and ends with a line feed",
                             "send one JSON object a line"));
    settings.too_many = line_of(refusal_json(
        "too_many", "clients", "as many clients wait for answers as the socket serves at once",
        "try again later"));
    server_ = TRY(threads::LineServer::start(std::move(settings)));
    return {};
}

// The answer comes from the user thread, or at once if none can be started.
template <class Work>
void Control::on_user_thread(threads::LineReply reply, Work work) {
    const auto shared = std::make_shared<threads::LineReply>(std::move(reply));
    const auto started =
        engine_.start_thread(-1, "control", [shared, work = std::move(work)]() mutable {
            const threads::BetweenCalls waits;
            shared->send(line_of(work(*shared)));
        });
    if (!started) shared->send(line_of(json_of(started.error())));
}

void Control::handle(std::string_view line, threads::LineReply reply) {
    DCHECK(!engine_.on_own_thread() && !engine_.forked());
    const Json request = Json::parse(line, nullptr, false);
    const auto answer = [&](const Json& json) { reply.send(line_of(json)); };
    const auto field = request.is_object() ? request.find("command") : request.end();
    if (!request.is_object() || field == request.end() || !field->is_string())
        return answer(refusal_json(
            "bad_request", request.is_discarded() ? "line" : shown_text(line), "this is no request",
            std::string("send {\"command\": NAME} with one of ") + kCommands));
    const std::string command = field->get<std::string>();
    const auto limit = number_of(request, "limit", UINT64_MAX);
    if (command == "stat") return answer(result_json(stat_json(engine_, opened_)));
    if (command == "metrics")
        return answer(result_json({{"text", metrics_text(engine_.stats(), engine_.steps_stats(),
                                                         engine_.report_stats())}}));
    if (command == "transactions" && !limit) return answer(bad_number(line, "limit"));
    if (command == "transactions")
        return on_user_thread(std::move(reply), [this, limit = limit.value_or(0)](const auto&) {
            return transactions_json(watch_, limit);
        });
    if (command == "locks")
        return on_user_thread(std::move(reply),
                              [this](const auto&) { return locks_json(engine_, watch_, opened_); });
    if (command == "checkpoint")
        return on_user_thread(std::move(reply),
                              [this](const auto&) { return checkpoint_json(engine_); });
    if (command == "backup") {
        const auto wanted = backup_of(request);
        if (!wanted)
            return answer(refusal_json(
                "bad_argument", shown_text(line),
                R"("to" and "since" are absolute paths, "bytes_per_second" is a number)",
                R"(send {"command": "backup", "to": "/absolute/path"})"));
        return on_user_thread(std::move(reply),
                              [this, wanted = *wanted](const threads::LineReply& asked) {
                                  return backup_json(engine_, wanted, asked);
                              });
    }
    if (command == "changes") {
        const auto from = request.find("from");
        if (from == request.end() || !from->is_string())
            return answer(refusal_json("bad_argument", shown_text(line),
                                       "field \"from\" is missing or no position",
                                       R"(send {"command": "changes", "from": "oldest"})"));
        return on_user_thread(std::move(reply), [this, at = from->get<std::string>()](const auto&) {
            return changes_json(engine_, at);
        });
    }
    if (command == "prepared")
        return on_user_thread(std::move(reply),
                              [this](const auto&) { return prepared_json(prepared_); });
    if (command == "commit" || command == "rollback") {
        const auto gid = gid_in(request);
        if (!gid) return answer(bad_gid(line, command));
        const auto decision = command == "commit" ? PreparedTxns::Decision::commit
                                                  : PreparedTxns::Decision::roll_back;
        return on_user_thread(std::move(reply), [this, gid = *gid, decision](const auto&) {
            return end_prepared_json(prepared_, gid, decision);
        });
    }
    if (command != "end")
        return answer(refusal_json("bad_request", shown_text(command), "there is no such command",
                                   std::string("the commands are ") + kCommands));
    const auto id = number_of(request, "transaction", 0);
    if (!id || *id == 0) return answer(bad_number(line, "transaction"));
    on_user_thread(std::move(reply),
                   [this, id = TxnId{*id}](const auto&) { return end_json(watch_, id); });
}

}  // namespace lockstep::sm
