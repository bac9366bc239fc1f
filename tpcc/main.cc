// main.cc - the driver program: opens the store, and what surrounds that.
#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <cstdlib>
#include <filesystem>

#include "tools/base/say.h"
#include "tools/base/standard_files.h"
#include "tpcc/compare.h"
#include "tpcc/metrics_server.h"
#include "tpcc/session.h"
#include "tpcc/time_of_day.h"

namespace lockstep::tpcc {
namespace {

// The directory of the database; a temporary one is removed at the end.
class Directory {
public:
    static Result<Directory> open(const std::string& path) {
        if (!path.empty()) return Directory(path, false);
        const char* base = std::getenv("TMPDIR");
        std::string name = std::string(base && *base ? base : "/tmp") + "/lockstep-tpcc-XXXXXX";
        if (!mkdtemp(name.data()))
            return fail_os(ErrorCode::bad_path, errno, "temporary directory");
        return Directory(name, true);
    }
    Directory(Directory&& o) noexcept
        : path_(std::exchange(o.path_, {})), temporary_(o.temporary_) {}
    Directory& operator=(Directory&&) = delete;
    ~Directory() {
        std::error_code ignored;
        if (temporary_ && !path_.empty()) std::filesystem::remove_all(path_, ignored);
    }
    const std::string& path() const { return path_; }
    bool temporary() const { return temporary_; }
    std::string path_if_temporary() const { return temporary_ ? path_ : ""; }

private:
    Directory(std::string path, bool temporary) : path_(std::move(path)), temporary_(temporary) {}
    std::string path_;
    bool temporary_;
};

// Size of the largest file of an existing database, which is the volume.
uint64_t existing_bytes(const std::string& path) {
    uint64_t bytes = 0;
    std::error_code error;
    for (const auto& entry : std::filesystem::directory_iterator(path, error)) {
        const uint64_t size = entry.file_size(error);
        if (!error) bytes = std::max(bytes, size);
    }
    return bytes;
}

// The directory holds files, but none of a store.
bool is_foreign(const std::string& path) {
    std::error_code error;
    bool files = false;
    for (const auto& entry : std::filesystem::directory_iterator(path, error)) {
        const std::string name = entry.path().filename().string();
        if (name == "data" || name.starts_with("log.")) return false;
        files = files || name != "lock";
    }
    return files;
}

// Opens the store, serves metrics if wanted, works, closes.
int run_on(const Directory& directory, const Settings& settings, Interrupt& interrupt) {
    const std::string& path = directory.path();
    Options options = settings.store_options(settings.warehouse_count(), existing_bytes(path));
    options.logger = [](int level, std::string_view text) {
        if (level <= 1) say_error("lockstep-tpcc: {}\n", text);
    };
    auto store = [&] {
        Watch watch(nullptr, interrupt, directory.path_if_temporary());
        return Store::open(path, options);
    }();
    if (!store) {
        print_error(path, store.error());
        return kExitError;
    }
    std::optional<MetricsServer> metrics;
    if (settings.metrics) {
        auto started = MetricsServer::start(*store, *settings.metrics);
        if (!started) {
            print_error(path, started.error());
            return kExitError;
        }
        metrics = std::move(*started);
        say("metrics: http://{}:{}/metrics\n", settings.metrics->host, metrics->port());
        flush_output();
    }
    int status = 0;
    for (uint32_t number = 1; number <= settings.repeat && status == 0; ++number) {
        const Settings one = settings.of_repetition(number);
        status = Session{*store, one, path, directory.temporary(), interrupt}.work();
    }
    metrics.reset();
    const auto closed = store->close();
    if (!closed) print_error(path, closed.error());
    return closed ? status : kExitError;
}

int run_program(Settings settings) {
    Interrupt interrupt;
    settings.run.executor.clock_offset = clock_offset();
    for (uint32_t number = 1; number <= settings.repeat; ++number)
        if (!can_write_outputs(settings.of_repetition(number))) return kExitError;
    auto directory = Directory::open(settings.path);
    if (!directory) {
        print_error("temporary directory", directory.error());
        return kExitError;
    }
    if (settings.action == Action::run && is_foreign(directory->path())) {
        say_error(
            "lockstep-tpcc: {}: the directory holds files, but no store; choose an empty or "
            "new directory with --path\n",
            directory->path());
        return kExitError;
    }
    return run_on(*directory, settings, interrupt);
}

}  // namespace
}  // namespace lockstep::tpcc

int main(int argc, char** argv) {
    using namespace lockstep;
    using namespace lockstep::tpcc;
    hold_standard_files();
    auto parsed = parse_command_line(argc, argv);
    if (parsed.exit_status) return flushed("lockstep-tpcc", *parsed.exit_status, kExitError);
    // A reader such as `head` that ends early must not take the other results along.
    (void)std::signal(SIGPIPE, SIG_IGN);
    const Settings& settings = parsed.settings;
    const int status =
        settings.action == Action::compare
            ? compare_files(settings.compare_base, settings.compare_against, settings.compare_force)
            : run_program(settings);
    return flushed("lockstep-tpcc", status, kExitError);
}
