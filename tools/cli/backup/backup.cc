// backup.cc - `lockstep backup`, `verify-backup` and `restore`.
#include <fmt/core.h>

#include <CLI/CLI.hpp>

#include <filesystem>
#include <memory>

#include <lockstep/backup.h>
#include "tools/cli/commands.h"
#include "tools/cli/live/live_client.h"
#include "tools/cli/live/live_commands.h"
#include "tools/cli/opening.h"

namespace lockstep::cli {
namespace {

constexpr int kUnsound = 2;

struct BackupSettings {
    std::string path, to, since;
    uint64_t rate = 0, pool = 256ull << 20;
    bool json = false;
};

struct RestoreSettings {
    std::vector<std::string> backups;
    std::string to;
    bool json = false;
};

Json json_of(const BackupInfo& b) {
    return {
        {"lsn", b.lsn.value}, {"redo_from", b.redo_from.value}, {"since", b.since.value},
        {"pages", b.pages},   {"pages_copied", b.pages_copied}, {"pages_zeroed", b.pages_zeroed},
        {"bytes", b.bytes},   {"log_bytes", b.log_bytes},       {"took_nanos", b.time}};
}

void print(const std::string& where, const Json& b, bool json) {
    if (json) {
        fmt::print("{}\n", b.dump(2));
        return;
    }
    const auto number = [&](const char* field) { return b[field].get<uint64_t>(); };
    fmt::print("{}: the state at LSN {}, {} of {} pages, {} bytes ({} of log), {:.2f} s\n", where,
               number("lsn"), number("pages_copied"), number("pages"), number("bytes"),
               number("log_bytes"), static_cast<double>(number("took_nanos")) / kSecond);
    if (number("since") != 0)
        fmt::print("incremental since LSN {}: restore it with the earlier ones\n", number("since"));
    if (number("pages_zeroed") != 0)
        fmt::print("{} damaged free pages were left out\n", number("pages_zeroed"));
}

std::string absolute(const std::string& path) {
    return path.empty() ? path : std::filesystem::absolute(path).string();
}

// Through the process that has the store open. Empty: none has.
std::optional<int> backup_live(const BackupSettings& o) {
    auto client = LiveClient::connect(o.path);
    if (!client && client.error().code == "not_open") return std::nullopt;
    if (!client) return live_failed(client.error(), o.json);
    Json request = command("backup");
    request["to"] = absolute(o.to);
    if (!o.since.empty()) request["since"] = absolute(o.since);
    if (o.rate != 0) request["bytes_per_second"] = o.rate;
    const auto answer = client->ask(request, -1);
    if (!answer) return live_failed(answer.error(), o.json);
    print(o.to, *answer, o.json);
    return 0;
}

int run_backup(const BackupSettings& o) {
    if (const auto status = backup_live(o)) return *status;
    BackupInfo since;
    BackupOptions options{.bytes_per_second = o.rate};
    if (!o.since.empty()) {
        const auto read = read_backup(o.since);
        if (!read) return complain(o.since, read.error().text());
        since = *read;
        options.since = &since;
    }
    auto store = open_store(o.path, {.pool_bytes = o.pool});
    if (!store) return complain(o.path, store.error().text());
    const auto made = store->backup(o.to, options);
    const auto closed = store->close();
    if (!made) return complain(o.to, made.error().text());
    if (!closed) return complain(o.path, closed.error().text());
    print(o.to, json_of(*made), o.json);
    return 0;
}

int run_verify(const RestoreSettings& o) {
    bool sound = true;
    Json all = Json::array();
    for (const std::string& path : o.backups) {
        const auto info = read_backup(path);
        if (!info) return complain(path, info.error().text());
        const auto faults = verify_backup(path);
        if (!faults) return complain(path, faults.error().text());
        sound = sound && faults->empty();
        if (o.json) {
            Json one = json_of(*info);
            one["path"] = path;
            one["faults"] = *faults;
            all.push_back(one);
            continue;
        }
        for (const auto& fault : *faults) fmt::print("{}: {}\n", path, fault);
        fmt::print("{}: the state at LSN {}, {} pages, {} faults\n", path, info->lsn.value,
                   info->pages_copied, faults->size());
    }
    if (o.json) fmt::print("{}\n", all.dump(2));
    return sound ? 0 : kUnsound;
}

int run_restore(const RestoreSettings& o) {
    const auto info = restore_backup(o.backups, o.to);
    if (!info) return complain(o.to, info.error().text());
    print(o.to, json_of(*info), o.json);
    return 0;
}

void add_backup_command(CLI::App& app, int& status) {
    auto* command = app.add_subcommand(
        "backup",
        "Copy a store to an empty directory, also while a process has it open (Options::control): "
        "then that process makes the backup, and its transactions go on. Each page is checked.\n"
        "Exit status: 0 done; 1 failed, and nothing is left; 2 a process has the store open and "
        "does not answer.");
    auto o = std::make_shared<BackupSettings>();
    command->add_option("path", o->path, "Store directory")->required();
    command->add_option("to", o->to, "Directory of the backup: empty, or made")->required();
    command->add_option("--since", o->since,
                        "Copy only the pages that have changed since this earlier backup");
    command
        ->add_option("--rate", o->rate,
                     "Copy pages at most that fast: bytes a second (suffixes K, M, G)")
        ->transform(CLI::AsSizeValue(false));
    command->add_option("--pool", o->pool, "Buffer pool in bytes, if no process has the store open")
        ->transform(CLI::AsSizeValue(false))
        ->capture_default_str();
    command->add_flag("--json", o->json, "Print JSON");
    command->callback([o, &status] { status = run_backup(*o); });
}

}  // namespace

void add_backup(CLI::App& app, int& status) {
    add_backup_command(app, status);

    auto* verify = app.add_subcommand(
        "verify-backup",
        "Check every page and log record of backups, without opening or changing them.\n"
        "Exit status: 0 sound; 1 could not be checked; 2 faults were found, one a line.");
    auto o = std::make_shared<RestoreSettings>();
    verify->add_option("backups", o->backups, "Directories of backups")->required();
    verify->add_flag("--json", o->json, "Print JSON");
    verify->callback([o, &status] { status = run_verify(*o); });

    auto* restore = app.add_subcommand(
        "restore",
        "Put a full backup and the incremental ones that follow it together in a new directory, "
        "which is a store from its first open on. A restore that was cut off may be started "
        "again.\nExit status: 0 done; 1 failed.");
    o = std::make_shared<RestoreSettings>();
    restore
        ->add_option("--backup", o->backups,
                     "Directory of a backup; repeat it: the full one first, then the others in "
                     "their order")
        ->required();
    restore->add_option("--to", o->to, "Directory of the store: empty, or made")->required();
    restore->add_flag("--json", o->json, "Print JSON");
    restore->callback([o, &status] { status = run_restore(*o); });
}

}  // namespace lockstep::cli
