// stat.cc - the sub-command stat: sizes, records, depth and fill of a store that no process has
// open. It changes no file, so it works on read-only media. A process that has the store open
// answers for it (live_commands.h).
//
// Concepts   A backup stays as it is: its file `backup` tells what is shown. "restored" is a backup
//            that a restore has made and no process has opened.
//            A closed store is opened with Options::read_only, and every page of every index and
//            heap is read. A store that was not closed would have to be recovered first. Of such a
//            store stat shows files, superblock and log only, because its pages may be old or torn.
#include <fmt/core.h>
#include <sys/stat.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "sm/api/engine_of.h"
#include "sm/catalog/catalog.h"
#include "sm/recovery/recovery.h"
#include "threads/base/try.h"
#include "tools/base/say.h"
#include "tools/cli/backup_directory.h"
#include "tools/cli/commands.h"
#include "tools/cli/counted.h"
#include "tools/cli/json_text.h"
#include "tools/cli/live/live_commands.h"
#include "tools/cli/opening.h"
#include "tools/cli/rows/losses.h"

namespace lockstep::cli {
namespace {

using Json = nlohmann::ordered_json;

constexpr int kSound = 0, kFaulty = 1, kNotClosed = 3;  // exit statuses, as `stat --help` says
constexpr uint64_t kRoomOfPage = kPageBytes - 64;       // without the headers of page and structure

struct Sizes {
    uint64_t disk_bytes = 0, data_bytes = 0, log_bytes = 0, log_files = 0;
};

// The lengths of the files, and what directory and files take on the disk.
Result<Sizes> sizes_of(threads::Disk& disk, const std::string& path) {
    Sizes sizes;
    const auto measure = [&](const std::string& file) -> uint64_t {
        struct stat status {};
        if (::stat(file.c_str(), &status) != 0) return 0;
        sizes.disk_bytes += static_cast<uint64_t>(status.st_blocks) * 512;
        return static_cast<uint64_t>(status.st_size);
    };
    (void)measure(path);
    for (const std::string& name : TRY(disk.list(path))) {
        const uint64_t bytes = measure(std::string(path).append("/").append(name));
        if (name == "data") sizes.data_bytes = bytes;
        if (!name.starts_with("log.") || name == "log.mark") continue;
        sizes.log_bytes += bytes;
        ++sizes.log_files;
    }
    return sizes;
}

// What files, superblock and log say without recovery.
Result<Json> json_of_files(const std::string& path) {
    const std::unique_ptr<threads::Disk> disk = threads::make_disk(threads::IoBackend::pool);
    const threads::FileId data = TRY(disk->open(path + "/data", threads::Disk::kReadOnly));
    const Result<sm::Superblock> block = sm::read_superblock(*disk, data);
    disk->close(data);
    const sm::Superblock b = TRY(block);
    const Sizes sizes = TRY(sizes_of(*disk, path));
    const sm::LogSinceCheckpoint since = TRY(sm::log_since_checkpoint(
        *disk, {.directory = path, .segment_bytes = b.log_segment_bytes}, b));
    const Lsn recorded = TRY(txn::recorded_durable_end(*disk, path));
    return Json{{"path", path},
                {"state", since.closed ? "closed" : "not closed"},
                {"uuid", fmt::format("{:016x}{:016x}", b.uuid[0], b.uuid[1])},
                {"format_version", b.version},
                {"page_bytes", b.page_bytes},
                {"disk_bytes", sizes.disk_bytes},
                {"data_bytes", sizes.data_bytes},
                {"log_bytes", sizes.log_bytes},
                {"log_files", sizes.log_files},
                {"log_segment_bytes", b.log_segment_bytes},
                {"log_start", b.log_start},
                {"log_checkpoint", b.checkpoint_lsn},
                {"log_end", since.end.value},
                {"log_recorded_end", recorded.value},
                {"log_used_bytes", since.end.value - std::min(b.log_start, since.end.value)},
                {"log_changes_since_checkpoint", since.changes},
                {"transactions_without_end", since.unended},
                {"next_transaction", b.next_txn}};
}

// `report` may be an error, such as a damaged page.
Json json_of_object(const std::string& name, const char* kind, ObjectId id,
                    const Result<sm::StructureReport>& report) {
    Json j = {{"name", bytes_json(name)}, {"kind", kind}, {"id", id.value}};
    if (!report) {
        j["error"] = report.error().text();
        return j;
    }
    const sm::StructureReport& r = *report;
    const uint64_t room = (r.pages_leaf + (kind[0] == 'h' ? 0 : r.pages_inner)) * kRoomOfPage;
    j["records"] = r.records;
    j["ghosts"] = r.ghosts;
    j["depth"] = r.levels;
    j["pages_inner"] = r.pages_inner;
    j["pages_leaf"] = r.pages_leaf;
    j["pages_overflow"] = r.pages_overflow;
    j["bytes_used"] = r.bytes_used;
    j["fill_percent"] = room == 0 ? 0 : r.bytes_used * 100 / room;
    if (!r.faults.empty()) j["faults"] = r.faults.size();
    return j;
}

Result<void> add_content(Store& store, Json& j) {
    sm::Engine& engine = sm::engine_of(store);
    return engine.run_and_wait([&]() -> Result<void> {
        const uint64_t total = engine.space->pages_total(), used = engine.space->pages_used();
        j["pages_total"] = total;
        j["pages_used"] = used;
        j["pages_free"] = total - std::min(used, total);
        j["log_durability"] = engine.log_durability();
        Json& objects = j["objects"] = Json::array();
        objects.push_back(json_of_object("the catalog", "index", sm::kCatalogObject,
                                         engine.catalog->own_tree().verify()));
        for (const sm::CatalogEntry& entry : engine.catalog->list()) {
            const bool index = entry.kind == sm::ObjectKind::index;
            const auto report = [&]() -> Result<sm::StructureReport> {
                if (index) return TRY(engine.catalog->index(entry.name))->verify();
                return TRY(engine.catalog->heap(entry.name))->verify();
            };
            objects.push_back(
                json_of_object(entry.name, index ? "index" : "heap", entry.id, report()));
            if (entry.of == ObjectId{}) continue;
            objects.back()["of"] = entry.of.value;
            objects.back()["unique"] = entry.unique;
        }
        return {};
    });
}

// The name of an object, which may be no text.
std::string shown_name(const Json& object) {
    const Json& name = object["name"];
    return name.is_string() ? name.get<std::string>() : "0x" + name["hex"].get<std::string>();
}

// Of a secondary index: of which index it is.
std::string text_of_primary(const Json& objects, const Json& secondary) {
    if (!secondary.contains("of")) return {};
    const auto primary =
        std::ranges::find_if(objects, [&](const Json& o) { return o["id"] == secondary["of"]; });
    return fmt::format(
        "  {}of {}", secondary["unique"].get<bool>() ? "unique, " : "",
        primary == objects.end() ? "object-" + secondary["of"].dump() : shown_name(*primary));
}

void print_objects(const Json& objects) {
    fmt::print("\n{:<24} {:<6} {:>6} {:>12} {:>8} {:>5} {:>10} {:>10} {:>5}\n", "name", "kind",
               "id", "records", "ghosts", "depth", "pages", "overflow", "fill");
    for (const Json& o : objects) {
        const auto name = shown_name(o), kind = o["kind"].get<std::string>();
        if (o.contains("error")) {
            fmt::print("{:<24} {:<6} {:>6} {}{}\n", name, kind, o["id"].get<uint32_t>(),
                       o["error"].get<std::string>(), text_of_primary(objects, o));
            continue;
        }
        const auto number = [&](const char* key) { return o[key].get<uint64_t>(); };
        fmt::print("{:<24} {:<6} {:>6} {:>12} {:>8} {:>5} {:>10} {:>10} {:>4}%{}{}\n", name, kind,
                   number("id"), number("records"), number("ghosts"), number("depth"),
                   number("pages_inner") + number("pages_leaf"), number("pages_overflow"),
                   number("fill_percent"), text_of_primary(objects, o),
                   o.contains("faults") ? "  FAULTY" : "");
    }
}

void print_text(const Json& j) {
    for (const auto& [key, value] : j.items())
        if (key != "objects")
            fmt::print("{:<28} {}\n", key,
                       value.is_string() ? value.get<std::string>() : value.dump());
    if (j.contains("objects")) print_objects(j["objects"]);
}

int stat_backup(const std::string& path, bool json) {
    const auto backup = read_backup(path);
    if (!backup) return complain(path, backup.error(), json);
    Json j = {{"path", path},
              {"state", is_restored(path) ? "restored" : "backup"},
              {"kind", backup->since == kLsnNone ? "full" : "incremental"}};
    j.update(json_of(*backup));
    if (json) fmt::print("{}\n", json_text(j, 2));
    else print_text(j);
    return kSound;
}

// Why only files are shown, and what shows the rest.
std::string text_of_not_closed(const std::string& path, const Json& j) {
    const auto changes = j["log_changes_since_checkpoint"].get<uint64_t>(),
               open = j["transactions_without_end"].get<uint64_t>();
    const auto end = j["log_end"].get<uint64_t>(), recorded = j["log_recorded_end"].get<uint64_t>();
    if (end < recorded)
        return fmt::format(
            "the log is damaged: it ends at LSN {}, and was durable up to LSN {}. `lockstep "
            "restore` makes a store of a backup, and `lockstep salvage {}` saves what the data "
            "file has",
            end, recorded, path);
    const char* const shown = "Indexes, heaps and free pages are shown after that";
    if (changes == 0 && open != 0)
        return fmt::format(
            "{} in doubt or without an end: `lockstep prepared {}` opens the store and lists those "
            "in doubt, `lockstep commit` and `lockstep rollback` end them. {}",
            counted(open, "transaction is", "transactions are"), path, shown);
    return fmt::format(
        "the store was not closed: {} its last checkpoint. `lockstep verify {}` opens it for "
        "writing and closes it. {}",
        counted(changes, "change follows", "changes follow"), path, shown);
}

// Of the process: the worst that the objects show.
int status_of(const Json& j) {
    const auto faulty = [](const Json& o) { return o.contains("error") || o.contains("faults"); };
    const Json& objects = j["objects"];
    return std::any_of(objects.begin(), objects.end(), faulty) ? kFaulty : kSound;
}

}  // namespace

int stat(const std::string& path, bool json) {
    if (is_backup(path)) return stat_backup(path, json);
    const auto live = live_stat(path);
    if (!live) return live_failed(live.error(), json);
    if (const auto& told = *live) {
        print_live_stat(*told, json);
        return kSound;
    }
    if (const auto there = require_store(path); !there) return complain(path, there.error(), json);
    auto store = Store::open(path, {.read_only = true});
    const bool partly = !store && store.error().code == ErrorCode::not_closed;
    if (!store && !partly)
        return complain(path, store.error(), json, text_of_failed_open(path, store.error()));
    auto j = json_of_files(path);
    if (!j) return complain(path, j.error(), json);
    if (!partly)
        if (const auto done = add_content(*store, *j); !done)
            return complain(path, done.error(), json);
    if (json) fmt::print("{}\n", json_text(*j, 2));
    else print_text(*j);
    if (!partly) return status_of(*j);
    say_error("lockstep: {}: {}\n", path, text_of_not_closed(path, *j));
    return kNotClosed;
}

}  // namespace lockstep::cli
