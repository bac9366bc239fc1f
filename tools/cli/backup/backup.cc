// backup.cc - `lockstep backup`, `verify-backup`, `restore` and `update-backup`.
#include <fmt/core.h>

#include <CLI/CLI.hpp>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <memory>
#include <optional>

#include <lockstep/backup.h>
#include "sm/backup/backup_manifest.h"
#include "tools/base/option_checks.h"
#include "tools/cli/backup/point_in_time.h"
#include "tools/cli/backup_directory.h"
#include "tools/cli/commands.h"
#include "tools/cli/counted.h"
#include "tools/cli/json_text.h"
#include "tools/cli/live/live_client.h"
#include "tools/cli/live/live_commands.h"
#include "tools/cli/number_options.h"
#include "tools/cli/opening.h"

namespace lockstep::cli {
namespace {

struct BackupSettings {
    std::string path, to;
    std::optional<std::string> since, archive;
    std::optional<uint64_t> rate;
    uint64_t pool = 256ull << 20;
    bool update = false, json = false;
};

struct RestoreSettings {
    std::vector<std::string> paths;  // backups and `to` without their options
    std::vector<std::string> backups;
    std::string to;
    std::optional<std::string> archive, until_time, history;
    std::optional<uint64_t> until;
    uint64_t memory_bytes = RestoreOptions{}.memory_bytes;
    bool json = false;
};

void print(const std::string& where, const Json& b, bool json) {
    if (json) {
        fmt::print("{}\n", json_text(b, 2));
        return;
    }
    const auto number = [&](const char* field) { return b[field].get<uint64_t>(); };
    fmt::print("{}: the state at LSN {}, {} of {} pages, {} bytes ({} of log), {:.2f} s\n", where,
               number("lsn"), number("pages_copied"), number("pages"), number("bytes"),
               number("log_bytes"), static_cast<double>(number("took_nanos")) / kSecond);
    if (b.contains("ended_at_nanos"))  // an older program that has the store open does not tell
        fmt::print("nothing that committed later than {} is in it\n",
                   utc_text(number("ended_at_nanos")));
    if (number("since") != 0)
        fmt::print("incremental since LSN {}: restore it with the earlier ones\n", number("since"));
    if (number("pages_zeroed") != 0)
        fmt::print("left out: {}\n",
                   counted(number("pages_zeroed"), "damaged free page", "damaged free pages"));
}

std::string absolute(const std::string& path) {
    return path.empty() ? path : std::filesystem::absolute(path).string();
}

// Through the process that has the store open. Empty: none has. 0: `made` says what was made.
std::optional<int> backup_live(const BackupSettings& o, Json& made) {
    auto client = LiveClient::connect(o.path);
    if (!client && client.error().code == "not_open") return std::nullopt;
    if (!client) return live_failed(client.error(), o.json);
    Json request = command("backup");
    request["to"] = absolute(o.to);
    if (o.since) request["since"] = absolute(*o.since);
    if (o.rate) request["bytes_per_second"] = *o.rate;
    const auto answer = client->ask(request, -1);
    if (!answer) return live_failed(answer.error(), o.json);
    made = *answer;
    return 0;
}

// The exit status. 0: `told` says what was made.
int copy_store(const BackupSettings& o, Json& told) {
    if (const auto status = backup_live(o, told)) return *status;
    BackupInfo since;
    BackupOptions options{.bytes_per_second = o.rate};
    if (o.since) {
        const auto read = read_backup(*o.since);
        if (!read) return complain(*o.since, read.error(), o.json);
        since = *read;
        options.since = &since;
    }
    auto store = open_store(o.path, {.pool_bytes = o.pool, .archive = o.archive});
    if (!store)
        return complain(o.path, store.error(), o.json, text_of_failed_open(o.path, store.error()));
    const auto made = store->backup(o.to, options);
    const auto closed = store->close();
    if (!made) return complain(o.to, made.error(), o.json);
    if (!closed) return complain(o.path, closed.error(), o.json);
    told = json_of(*made);
    return 0;
}

// Brings the full backup up to date with what has changed, which lies beside it meanwhile.
int bring_up_to_date(const BackupSettings& o, Json& told) {
    BackupSettings changes = o;
    changes.since = o.to;
    const std::filesystem::path full(o.to);
    changes.to = (full.has_filename() ? full : full.parent_path()).string() + ".next";
    // What a command that was cut off has left: whole, it is used; else it is made anew.
    std::error_code error;
    if (is_backup(changes.to)) {
        if (read_backup(changes.to)) {
            if (const auto updated = update_backup(o.to, changes.to); !updated)
                return complain(o.to, updated.error(), o.json);
        }
        if (const auto deleted = delete_backup(changes.to); !deleted)
            return complain(changes.to, deleted.error(), o.json);
    } else if (std::filesystem::exists(changes.to, error) &&
               !std::filesystem::is_empty(changes.to, error)) {
        return complain(changes.to,
                        "has files, and no backup: the changes are copied there for a while. Move "
                        "it away, or delete it if it is of no use",
                        o.json);
    }
    if (const int status = copy_store(changes, told); status != 0) return status;
    if (const auto updated = update_backup(o.to, changes.to); !updated)
        return complain(o.to, updated.error(), o.json);
    if (const auto deleted = delete_backup(changes.to); !deleted)
        return complain(changes.to, deleted.error(), o.json);
    told["since"] = 0;  // of the full backup that it is now
    return 0;
}

int run_backup(const BackupSettings& o) {
    Json told;
    std::error_code error;
    const bool there =
        std::filesystem::exists(o.to, error) && !std::filesystem::is_empty(o.to, error);
    if (error) return complain(o.to, error.message(), o.json);
    const int status = o.update && there ? bring_up_to_date(o, told) : copy_store(o, told);
    if (status == 0) print(o.to, told, o.json);
    return status;
}

// An incremental backup behind another one must follow it, else a restore refuses the two.
void check_chain(const std::string& before, const std::string& path,
                 std::vector<std::string>& faults) {
    const auto disk = threads::make_disk(threads::IoBackend::pool);
    const auto earlier = sm::read_manifest(*disk, before), next = sm::read_manifest(*disk, path);
    if (!earlier || !next || !next->incremental()) return;
    if (const auto follows = sm::check_follows(*earlier, *next, path); !follows)
        faults.push_back(follows.error().text());
}

// One backup: the exit status. `before`: the one named before it, or empty. `all` gets it, also one
// that could not be checked.
int verify_one(const std::string& before, const std::string& path, bool json, Json& all) {
    const auto info = read_backup(path);
    auto faults = info ? verify_backup(path) : std::unexpected(info.error());
    if (faults && !before.empty()) check_chain(before, path, *faults);
    if (!faults) {
        all.push_back({{"path", path}, {"error", faults.error().text()}});
        return complain(path, faults.error().text());
    }
    all.push_back(json_of(*info));
    all.back()["path"] = path;
    all.back()["faults"] = *faults;
    if (!json) {
        for (const auto& fault : *faults) fmt::print("{}: {}\n", path, fault);
        fmt::print("{}: the state at LSN {}, {}, {}\n", path, info->lsn.value,
                   counted(info->pages_copied, "page", "pages"),
                   counted(faults->size(), "fault", "faults"));
    }
    return faults->empty() ? 0 : kUnsound;
}

// The backups as a chain, and the archive's log behind them.
int verify_archive(const RestoreSettings& o) {
    const auto faults = verify_restore(o.backups, {.archive = o.archive});
    if (!faults) return complain(*o.archive, faults.error(), o.json);
    if (o.json) {
        fmt::print(
            "{}\n",
            json_text({{"path", o.backups}, {"archive", *o.archive}, {"faults", *faults}}, 2));
    } else {
        for (const auto& fault : *faults) fmt::print("{}\n", fault);
        fmt::print("{} with {}: {}\n", o.backups.back(), *o.archive,
                   counted(faults->size(), "fault", "faults"));
    }
    return faults->empty() ? 0 : kUnsound;
}

// Each backup is checked, whatever the others are like. One that could not be checked decides the
// status.
int run_verify(const RestoreSettings& o) {
    int status = 0;
    Json all = Json::array();
    if (o.archive) return verify_archive(o);
    for (size_t i = 0; i < o.backups.size(); ++i) {
        const int one =
            verify_one(i == 0 ? std::string() : o.backups[i - 1], o.backups[i], o.json, all);
        status = status == 1 || one == 1 ? 1 : std::max(status, one);
    }
    if (o.json) fmt::print("{}\n", json_text(all, 2));
    return status;
}

int run_restore(const RestoreSettings& o) {
    RestoreOptions options{.archive = o.archive, .memory_bytes = o.memory_bytes};
    if (o.until) options.until = Lsn{*o.until};
    if (o.until_time) {
        const auto time = time_of(*o.until_time);
        if (!time) return complain("--until-time", time.error(), o.json);
        options.until_time = *time;
    }
    if (o.history) options.history = std::strtoull(o.history->c_str(), nullptr, 16);
    const auto info = restore_backup(o.backups, o.to, options);
    if (!info) return complain(o.to, info.error(), o.json);
    print(o.to, json_of(*info), o.json);
    return 0;
}

// Backups and target, if they have no options.
void take_paths(RestoreSettings& o) {
    if (!o.backups.empty()) return;
    if (o.paths.size() < 2)
        throw CLI::ValidationError("name a backup and behind it the directory of the store");
    o.to = o.paths.back();
    o.paths.pop_back();
    o.backups = o.paths;
}

struct UpdateSettings {
    std::string full, next;
    bool json = false;
};

int run_update(const UpdateSettings& o) {
    const auto info = update_backup(o.full, o.next);
    if (!info) return complain(o.full, info.error(), o.json);
    print(o.full, json_of(*info), o.json);
    return 0;
}

void add_update_command(CLI::App& app, int& status) {
    auto* command = app.add_subcommand(
        "update-backup",
        "Bring a full backup up to date with an incremental one that was made since it, in the "
        "time that the changes need. The incremental one is not needed any more then. An update "
        "that was cut off must be repeated before the backup can be used.\n"
        "Exit status: 0 done; 1 failed.");
    auto o = std::make_shared<UpdateSettings>();
    command->add_option("full", o->full, "Directory of the full backup")->required();
    command->add_option("next", o->next, "Directory of the incremental backup")->required();
    command->add_flag("--json", o->json, "Print JSON");
    command->callback([o, &status] { status = run_update(*o); });
}

void add_backup_command(CLI::App& app, int& status) {
    auto* command = app.add_subcommand(
        "backup",
        "Copy a store to an empty directory, also while a process has it open (Options::control): "
        "then that process makes the backup, and its transactions go on. Each page is checked.\n"
        "Exit status: 0 done; 1 failed, and nothing is left (with --update: repeat it); 2 a "
        "process has the store open and does not answer.");
    auto o = std::make_shared<BackupSettings>();
    command->add_option("path", o->path, "Store directory")->required();
    command->add_option("to", o->to, "Directory of the backup: empty, or made")->required();
    auto* since = command->add_option(
        "--since", o->since, "Copy only the pages that have changed since this earlier backup");
    command
        ->add_flag("--update", o->update,
                   "Bring the full backup in `to` up to date, with a copy of what has changed; "
                   "the first time, make it")
        ->excludes(since);
    command
        ->add_option("--rate", o->rate,
                     "Copy at most that fast: bytes a second (suffixes K, M, G, T; default: no "
                     "limit)")
        ->transform(size_in(1, 1ull << 40, "1 - 1T"));
    add_archive_option(*command, o->archive);
    command->add_option("--pool", o->pool, "Buffer pool in bytes, if no process has the store open")
        ->transform(pool_size())
        ->default_str("256M");
    command->add_flag("--json", o->json, "Print JSON");
    command->callback([o, &status] { status = run_backup(*o); });
}

void add_verify_command(CLI::App& app, int& status) {
    auto* verify = app.add_subcommand(
        "verify-backup",
        "Check every page and log record of backups, without opening or changing them. An "
        "incremental one behind another must follow it.\n"
        "Exit status: 0 sound; 1 one could not be checked; 2 faults were found, one a line.");
    auto o = std::make_shared<RestoreSettings>();
    verify->add_option("backups", o->backups, "Directories of backups")->required();
    verify
        ->add_option("--archive", o->archive,
                     "Directory of the log archive: check its log too, as a restore of these "
                     "backups to its end reads it")
        ->check(kNotEmpty);
    verify->add_flag("--json", o->json, "Print JSON");
    verify->callback([o, &status] { status = run_verify(*o); });
}

}  // namespace

void add_backup(CLI::App& app, int& status) {
    add_backup_command(app, status);
    add_verify_command(app, status);

    auto* restore = app.add_subcommand(
        "restore",
        "Put a full backup and the incremental ones that follow it together in a new directory, "
        "which is a store from its first open on. A restore that was cut off may be started "
        "again.\nExit status: 0 done; 1 failed.");
    auto o = std::make_shared<RestoreSettings>();
    auto* paths = restore->add_option("paths", o->paths,
                                      "Directories of backups, the full one first, then the others "
                                      "in their order; and last the directory of the store");
    auto* backups = restore->add_option(
        "--backup", o->backups,
        "Directory of a backup, repeated in that order, instead of `paths`; with --to");
    auto* to = restore->add_option("--to", o->to, "Directory of the store: empty, or made")
                   ->needs(backups)
                   ->excludes(paths);
    backups->needs(to)->excludes(paths);
    auto* archive = restore->add_option(
        "--archive", o->archive,
        "Directory of the log archive (Options::archive): go on from the last backup's point, to "
        "the archive's end or to the given point");
    archive->check(kNotEmpty);
    auto* until = restore
                      ->add_option("--until", o->until,
                                   "Restore the state at this LSN, as commit() returns one")
                      ->check(number_from_one("LSN"))
                      ->needs(archive);
    restore
        ->add_option("--until-time", o->until_time,
                     "Restore the state at this time: nothing that committed later is in it. "
                     "2026-11-24T03:00:00Z, or an offset such as +01:00 in place of the Z, or "
                     "local time without either, or @SECONDS since 1970")
        ->check(kNotEmpty)
        ->needs(archive)
        ->excludes(until);
    restore
        ->add_option("--history", o->history,
                     "Follow this history (16 hexadecimal digits, as in the archive's file names) "
                     "instead of the backup's own")
        ->check(CLI::Validator(
            [](const std::string& text) {
                return text.size() == 16 &&
                               text.find_first_not_of("0123456789abcdef") == std::string::npos
                           ? std::string()
                           : std::string("16 hexadecimal digits are needed");
            },
            "HISTORY"))
        ->needs(archive);
    restore
        ->add_option(
            "--memory", o->memory_bytes,
            "Memory for the pages that the archive's log changes, such as 4G (default: 1G)")
        ->transform(size_in(64ull << 10, 1ull << 40, "64K - 1T"))
        ->needs(archive);
    restore->add_flag("--json", o->json, "Print JSON");
    restore->callback([o, &status] {
        take_paths(*o);
        status = run_restore(*o);
    });

    add_update_command(app, status);
}

}  // namespace lockstep::cli
