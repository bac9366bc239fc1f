// compact.cc - `lockstep compact`: rewrites a closed store into full pages.
//
// Concepts   The new store is built beside the old one, in DIR.compact, from the old one's pages.
//            Then the two directories change places with one system call (renameat2 with
//            RENAME_EXCHANGE), and the old one is removed. The old store's lock is held from before
//            the first page is read.
// Invariants CO-1 After a crash at any moment DIR is a whole store: the old one before the
//                 exchange, the new one after it. DIR.compact is removed by the next run. [tested:
//                 compact_test.py]
//            CO-2 Nothing is left out: a damaged page or a file that is no part of a store ends the
//                 command before the exchange. Secondary indexes keep their entries. [tested:
//                 compact_test.py, secondaries_test.py]
#include <fcntl.h>
#include <fmt/core.h>
#include <sys/stat.h>
#include <tbb/global_control.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <filesystem>

#include "tools/cli/commands.h"
#include "tools/cli/counted.h"
#include "tools/cli/opening.h"
#include "tools/cli/pages/rebuild.h"
#include "tools/cli/rows/row_reader.h"

namespace lockstep::cli {
namespace {

namespace fs = std::filesystem;

struct CompactOptions {
    std::string path, into;
    std::optional<std::string> archive;
    uint32_t jobs = cores(), fill = 100;
    bool new_ids = false, end_only = false, json = false;
};

bool is_store_file(const std::string& name) {
    // creating: while a store is made; control: its process was killed
    return name == "data" || name == "data.lsn" || name == "lock" || name == "creating" ||
           name == "control" || name.starts_with("log.");
}

// Throws Failed if the directory has anything but a store's files.
void check_files(const std::string& path) {
    for (const auto& entry : fs::directory_iterator(path))
        if (!is_store_file(entry.path().filename()))
            throw Failed(entry.path().string() +
                         ": is not a file of the store, so the directory cannot be replaced (move "
                         "it away, or use --into)");
}

uint64_t bytes_of(const std::string& path) {
    std::error_code error;
    const uint64_t bytes = fs::file_size(path + "/data", error);
    return error ? 0 : bytes;
}

void sync_folder(const fs::path& path) {
    const int fd = ::open(path.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    const int result = fd < 0 ? -1 : ::fsync(fd);
    const int err = errno;
    if (fd >= 0) ::close(fd);
    if (result != 0) throw Failed(path.string() + ": " + std::strerror(err));
}

// Recovers the store and leaves it closed; its pages are then all there is, unless transactions are
// in doubt: only the log tells what they changed, and the new store has a new log.
void recover(const std::string& path, const std::optional<std::string>& archive) {
    auto store = open_store(path, {.archive = archive});
    if (!store) throw Failed(path + ": " + text_of_failed_open(path, store.error()));
    const size_t in_doubt = store->prepared().size();
    const auto closed = store->close();
    if (!closed) throw Failed(path + ": " + closed.error().text());
    if (in_doubt > 0)
        throw Failed(fmt::format(
            "{}: {} in doubt, and the new store would have their changes as if they had committed "
            "('lockstep prepared' lists them; 'lockstep commit' and 'lockstep rollback' end them)",
            path, counted(in_doubt, "transaction is", "transactions are")));
}

// The new store is private while it is built: the old one may be.
void make_private(const std::string& fresh) {
    if (::mkdir(fresh.c_str(), 0700) != 0) throw Failed(fresh + ": " + std::strerror(errno));
}

void copy_rights(const std::string& from, const std::string& to) {
    struct stat about {};
    if (::stat(from.c_str(), &about) != 0) throw Failed(from + ": " + std::strerror(errno));
    // The owner first: a change of owner may take mode bits away.
    if (::chown(to.c_str(), about.st_uid, about.st_gid) != 0 ||
        ::chmod(to.c_str(), about.st_mode & 07777) != 0)
        throw Failed(
            fmt::format("{} cannot get owner and mode of {}: {} (run the command as the "
                        "owner, or as root)",
                        to, from, std::strerror(errno)));
}

// Owner and mode of the directory, and of the data file for all files.
void take_over_rights(const std::string& path, const std::string& fresh) {
    for (const auto& entry : fs::directory_iterator(fresh))
        copy_rights(path + "/data", entry.path().string());
    copy_rights(path, fresh);
}

// The directory with its name, which `.` lacks. An error of the path shows at the open.
std::string with_name(const std::string& path) {
    std::error_code error;
    const fs::path whole = fs::canonical(path, error);
    return error ? path : whole.string();
}

void refuse_losses(const Survey& survey, const std::string& path) {
    for (const Loss& loss : survey.losses)
        throw Failed(path + ": is damaged, and is left as it is: " + loss.text() +
                     " ('lockstep salvage' saves what is left)");
}

void check_objects(const Survey& survey, const CompactOptions& o) {
    refuse_losses(survey, o.path);
    for (const auto& [id, object] : survey.objects) {
        if (object.extended)
            throw Failed(object.text() + ": has attributes that compact cannot carry over");
        if (!object.is_index && !o.new_ids)
            throw Failed(object.text() +
                         ": its records would get new ids, which other records may refer to "
                         "(--new-record-ids allows it)");
    }
}

Rebuilt build(const CompactOptions& o, const std::string& to, Survey& survey) {
    const auto block = survey.file().superblock();
    if (!block) throw Failed(o.path + ": " + block.error().text());
    // A page is filled once and not read again, so a small pool does. Each first use of its memory
    // costs the kernel more than the page's content.
    auto store = open_store(to, {.create = true,
                                 .pool_bytes = (32ull << 20) + o.jobs * (16ull << 20),
                                 .workers = o.jobs,
                                 .log_segment_bytes = block->log_segment_bytes});
    if (!store) throw Failed(to + ": " + store.error().text());
    Rebuilt done = rebuild(*store, survey, o.jobs, o.fill, true);
    refuse_losses(survey, o.path);
    if (!done.error.empty()) throw Failed(to + ": " + done.error);
    const auto closed = store->close();
    if (!closed) throw Failed(to + ": " + closed.error().text());
    return done;
}

fs::path parent_of(const std::string& path) {
    return fs::absolute(path).lexically_normal().parent_path();
}

void swap_places(const std::string& fresh, const std::string& path) {
    sync_folder(parent_of(path));
    if (::renameat2(AT_FDCWD, fresh.c_str(), AT_FDCWD, path.c_str(), RENAME_EXCHANGE) != 0)
        throw Failed(
            fmt::format("{} and {} cannot change places: {} (--into writes a new store and "
                        "leaves this one)",
                        fresh, path, std::strerror(errno)));
}

void report(const CompactOptions& o, const Rebuilt& done, uint64_t before, uint64_t after) {
    if (o.json)
        fmt::print("{}\n", nlohmann::ordered_json{{"records", done.records},
                                                  {"secondary_entries", done.entries},
                                                  {"bytes_before", before},
                                                  {"bytes_after", after}}
                               .dump());
    else
        fmt::print("{}: {}{} rewritten, data file {} -> {} bytes\n", o.path,
                   counted(done.records, "record", "records"),
                   done.entries == 0 ? ""
                                     : " and " + counted(done.entries, "entry", "entries") +
                                           " of secondary indexes",
                   before, after);
}

void cut_end(const CompactOptions& o) {
    const uint64_t before = bytes_of(o.path);
    auto store = open_store(o.path, {.archive = o.archive});
    if (!store) throw Failed(o.path + ": " + store.error().text());
    const auto bytes = store->give_back_space();
    if (!bytes) throw Failed(o.path + ": " + bytes.error().text());
    const auto closed = store->close();
    if (!closed) throw Failed(o.path + ": " + closed.error().text());
    report(o, {}, before, bytes_of(o.path));
}

int run_compact(const CompactOptions& given) try {
    CompactOptions o = given;
    while (o.path.size() > 1 && o.path.ends_with('/')) o.path.pop_back();
    if (o.end_only) return cut_end(o), 0;
    const bool replace = o.into.empty();
    tbb::global_control cores_used(tbb::global_control::max_allowed_parallelism, o.jobs);
    if (!replace && fs::exists(o.into)) throw Failed(o.into + ": exists already");
    if (!replace && lies_in(o.into, o.path))
        throw Failed(o.into + ": lies in the store's directory; name one outside of it");
    if (fs::is_symlink(o.path)) throw Failed(o.path + ": is a symbolic link; name its target");
    if (replace) o.path = with_name(o.path);
    const std::string fresh = replace ? o.path + ".compact" : o.into;
    recover(o.path, o.archive);  // first, because files of a store that is open must not be judged
    if (replace) check_files(o.path);
    const uint64_t before = bytes_of(o.path);
    Rebuilt done;
    {
        const auto file = PageFile::open(o.path);
        if (!file) throw Failed(o.path + ": " + file.error().text());
        Survey survey(**file);
        survey.run();
        if (!survey.clean) throw Failed(o.path + ": another process has changed it; try again");
        check_objects(survey, o);
        if (replace && fs::exists(fresh)) {  // of a run that was killed
            check_files(fresh);
            fs::remove_all(fresh);
        }
        try {
            if (replace) make_private(fresh);
            done = build(o, fresh, survey);
            if (replace) take_over_rights(o.path, fresh);
            if (replace) swap_places(fresh, o.path);
        } catch (...) {
            std::error_code ignored;
            fs::remove_all(fresh, ignored);
            throw;
        }
    }
    if (replace) sync_folder(parent_of(o.path));
    if (replace) fs::remove_all(fresh);
    report(given, done, before, bytes_of(replace ? o.path : o.into));
    return 0;
} catch (const std::exception& error) {
    return complain("compact", error.what(), given.json);
}

}  // namespace

void add_compact(CLI::App& app, int& status) {
    auto* command = app.add_subcommand(
        "compact",
        "Rewrite a closed store into full pages, on all cores, one index or heap on each. The new "
        "store replaces the old one in one step, so a crash leaves a whole store. Needs space for "
        "both. Secondary indexes keep their entries. The archive gets the rest of the old log; the "
        "new store needs a new archive and a new backup.\nExit status: 0 done; 1 failed, and the "
        "store is as it was.");
    auto o = std::make_shared<CompactOptions>();
    command->add_option("path", o->path, "Store directory")->required();
    auto* into =
        command->add_option("--into", o->into, "Write the new store there and leave the old one");
    command
        ->add_flag("--end-only", o->end_only,
                   "Rewrite nothing; only give back the free pages at the end of the data file")
        ->excludes(into);
    command->add_option("--fill", o->fill, "Fill index pages to this percentage")
        ->check(CLI::Range(50, 100))
        ->capture_default_str();
    command->add_option("--jobs", o->jobs, "Cores to use (default: all)")->check(CLI::Range(1, 64));
    command->add_flag("--new-record-ids", o->new_ids,
                      "Rewrite heaps, too; their records get new ids");
    add_archive_option(*command, o->archive);
    command->add_flag("--json", o->json, "Print the result as JSON");
    command->callback([o, &status] { status = run_compact(*o); });
}

}  // namespace lockstep::cli
