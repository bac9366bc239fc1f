// campaign.cc - pieces, their files, and their sums.
#include "tests/sim/campaign.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <map>
#include <nlohmann/json.hpp>
#include <stdexcept>

#include "tests/sim/jobs.h"
#include "tools/base/build_info.h"

namespace lockstep::sim {

namespace {

namespace fs = std::filesystem;
using nlohmann::ordered_json;

// What decides about the seeds; jobs and time do not.
ordered_json settings_of(const Arguments& a) {
    return {{"seed", a.first_seed},
            {"seeds", a.seeds},
            {"piece", a.piece},
            {"crash_points", a.crash_points},
            {"outcomes", a.outcomes},
            {"depth", a.depth},
            {"workload", static_cast<int>(a.workload)},
            {"faults", a.profile},
            {"transactions", a.transactions},
            {"steps", a.steps},
            {"workers", a.workers},
            {"keys", a.keys},
            {"sync_after_write", a.syncs_after_write},
            {"secondary", a.secondary},
            {"variety", a.variety}};
}

void take_settings(Arguments& a, const ordered_json& from) {
    from.at("seed").get_to(a.first_seed);
    from.at("seeds").get_to(a.seeds);
    from.at("piece").get_to(a.piece);
    from.at("crash_points").get_to(a.crash_points);
    from.at("outcomes").get_to(a.outcomes);
    from.at("depth").get_to(a.depth);
    a.workload = static_cast<Workload>(from.at("workload").get<int>());
    from.at("faults").get_to(a.profile);
    from.at("transactions").get_to(a.transactions);
    from.at("steps").get_to(a.steps);
    from.at("workers").get_to(a.workers);
    from.at("keys").get_to(a.keys);
    from.at("sync_after_write").get_to(a.syncs_after_write);
    from.at("secondary").get_to(a.secondary);
    a.variety = from.value("variety", from.value("plain", false) ? 0u : 1u);
}

[[noreturn]] void give_up(const std::string& text) { throw std::runtime_error(text); }

ordered_json read_json(const fs::path& path) {
    std::ifstream in(path);
    if (!in) give_up(fmt::format("{} cannot be read", path.string()));
    try {
        return ordered_json::parse(in);
    } catch (const std::exception& e) {
        give_up(fmt::format("{} is damaged; remove it, and it is made again: {}", path.string(),
                            e.what()));
    }
}

// Appears under its name when it is whole and on the disk.
void write_file(const fs::path& path, const std::string& text) {
    const fs::path fresh = path.string() + ".new";
    const int file = open(fresh.c_str(), O_CREAT | O_TRUNC | O_WRONLY, 0644);
    const bool written =
        file >= 0 && write(file, text.data(), text.size()) == static_cast<ssize_t>(text.size()) &&
        fsync(file) == 0;
    if (file >= 0) close(file);
    if (!written) give_up(fmt::format("{} cannot be written", fresh.string()));
    fs::rename(fresh, path);
}

struct Totals {
    struct Part {
        uint64_t seeds = 0, crash_points = 0;
        double seconds = 0;
    };
    Outcome sum;
    std::map<std::string, Part> commits;  // what ran on each
};

class Campaign {
public:
    explicit Campaign(const Arguments& given) : arguments_(given), directory_(given.campaign) {}
    ~Campaign() {
        if (lock_ >= 0) close(lock_);
    }
    Campaign(const Campaign&) = delete;
    Campaign& operator=(const Campaign&) = delete;

    // Takes the settings of the directory, or makes them.
    void begin() {
        const fs::path path = directory_ / "campaign.json";
        fs::create_directories(directory_ / "pieces");
        fs::create_directories(directory_ / "failures");
        lock_ = open((directory_ / "lock").c_str(), O_CREAT | O_RDWR | O_CLOEXEC, 0644);
        // A lock of this process alone: children that outlive it for a moment do not hold it.
        if (lock_ < 0 || lockf(lock_, F_TLOCK, 0) != 0)
            give_up(fmt::format("another process runs the campaign {}", directory_.string()));
        if (!fs::exists(path)) write_file(path, settings_of(arguments_).dump(2) + "\n");
        load();
    }
    void load() {
        const ordered_json stored = read_json(directory_ / "campaign.json");
        const ordered_json given = settings_of(arguments_), usual = settings_of(Arguments{});
        for (const auto& [name, value] : given.items())
            if (value != usual.at(name) && value != stored.at(name))
                give_up(
                    fmt::format("{} was begun with {} {}, not {}: leave the option out, or use "
                                "another directory",
                                directory_.string(), name, stored.at(name).dump(), value.dump()));
        take_settings(arguments_, stored);
        arguments_.keep_going = true;
        read_pieces();
    }

    int run() {
        const uint64_t pieces = (arguments_.seeds + arguments_.piece - 1) / arguments_.piece;
        const MonotonicClock clock;
        const Nanos began = clock.now();
        for (uint64_t n = 0; n < pieces; ++n) {
            const double spent = static_cast<double>(clock.now() - began) / 1e9;
            if (arguments_.seconds > 0 && spent > arguments_.seconds) break;
            if (!fs::exists(piece_path(n))) run_piece(n, pieces);
        }
        read_pieces();
        print_sum();
        return status();
    }

    int status() const { return totals_.sum.failures.empty() ? 0 : 1; }

    void print_markdown() const {
        const Outcome& sum = totals_.sum;
        fmt::print("| commit | seeds | crash points | hours |\n|---|---|---|---|\n");
        for (const auto& [commit, part] : totals_.commits)
            fmt::print("| {} | {} | {} | {:.2f} |\n", commit, part.seeds, part.crash_points,
                       part.seconds / 3600);
        fmt::print("\n{} of {} seeds; {} failed.\n\n| count | number |\n|---|---|\n", seeds_done(),
                   arguments_.seeds, sum.failures.size());
        for (size_t i = 0; i < kCounts; ++i)
            if (sum.counts[i] > 0)
                fmt::print("| {} | {} |\n", count_name(static_cast<Count>(i)), sum.counts[i]);
    }

private:
    fs::path piece_path(uint64_t n) const {
        return directory_ / "pieces" / fmt::format("{:06}.json", n);
    }
    uint64_t seeds_of(uint64_t n) const {
        return std::min(arguments_.piece, arguments_.seeds - n * arguments_.piece);
    }
    uint64_t seeds_done() const { return totals_.sum.seeds + totals_.sum.failures.size(); }

    void run_piece(uint64_t n, uint64_t pieces) {
        Arguments piece = arguments_;
        piece.first_seed = arguments_.first_seed + n * arguments_.piece;
        piece.seeds = seeds_of(n);
        piece.seconds = 0;
        const Outcome outcome = run_share(piece);
        if (outcome.seeds + outcome.failures.size() != piece.seeds)
            give_up(fmt::format("piece {} ran {} of {} seeds: processes could not be started", n,
                                outcome.seeds + outcome.failures.size(), piece.seeds));
        for (const Failure& f : outcome.failures)
            write_file(
                directory_ / "failures" / fmt::format("seed-{}.txt", f.seed),
                fmt::format("seed {}: {}\nreplay: {}\n{}", f.seed, f.text, f.replay, f.shrunk));
        write_file(piece_path(n), json_of(n, piece, outcome).dump(2) + "\n");
        fmt::print("piece {} of {}: {} seeds from {}, {} failures, {:.1f} crash points a second\n",
                   n + 1, pieces, piece.seeds, piece.first_seed, outcome.failures.size(),
                   outcome.crash_points_a_second());
        std::fflush(stdout);
    }

    static ordered_json json_of(uint64_t n, const Arguments& piece, const Outcome& outcome) {
        const BuildInfo build = build_info();
        ordered_json counts = ordered_json::object(), failures = ordered_json::array();
        for (size_t i = 0; i < kCounts; ++i)
            counts[count_name(static_cast<Count>(i))] = outcome.counts[i];
        for (const Failure& f : outcome.failures)
            failures.push_back(
                {{"seed", f.seed}, {"text", f.text}, {"replay", f.replay}, {"shrunk", f.shrunk}});
        return {{"piece", n},
                {"seed", piece.first_seed},
                {"seeds", piece.seeds},
                {"commit", build.commit},
                {"build", build.compiler + ", " + build.kind},
                {"seconds", outcome.seconds},
                {"digest", fmt::format("{:016x}", outcome.digest)},
                {"counts", counts},
                {"failures", failures}};
    }

    // CAM-1: the piece that a file's name says, and no other seeds.
    void read_pieces() {
        totals_ = {};
        for (const fs::directory_entry& entry : fs::directory_iterator(directory_ / "pieces")) {
            if (entry.path().extension() != ".json") continue;
            const ordered_json piece = read_json(entry.path());
            const auto n = piece.at("piece").get<uint64_t>(),
                       seeds = piece.at("seeds").get<uint64_t>();
            if (entry.path() != piece_path(n) || n * arguments_.piece >= arguments_.seeds ||
                seeds != seeds_of(n))
                give_up(fmt::format("{} is no piece of this campaign: remove it",
                                    entry.path().string()));
            add(piece, seeds);
        }
    }

    void add(const ordered_json& piece, uint64_t seeds) {
        Outcome& sum = totals_.sum;
        const ordered_json& counts = piece.at("counts");
        for (size_t i = 0; i < kCounts; ++i)  // an older program has fewer
            sum.counts[i] += counts.value(count_name(static_cast<Count>(i)), uint64_t{0});
        for (const ordered_json& f : piece.at("failures"))
            sum.failures.push_back({f.at("seed"), f.at("text"), f.at("replay"), f.at("shrunk")});
        sum.seeds += seeds - piece.at("failures").size();
        sum.seconds += piece.at("seconds").get<double>();
        Totals::Part& part = totals_.commits[piece.at("commit").get<std::string>()];
        part.seeds += seeds;
        part.crash_points += counts.value("crash_points", uint64_t{0});
        part.seconds += piece.at("seconds").get<double>();
    }

    void print_sum() const {
        const Outcome& sum = totals_.sum;
        fmt::print("campaign: {} of {} seeds in {:.1f} s, {} failures\n", seeds_done(),
                   arguments_.seeds, sum.seconds, sum.failures.size());
        for (const Failure& f : sum.failures)
            fmt::print("FAILED seed {}: {}\n  replay: {}\n", f.seed, f.text, f.replay);
        print_counts(sum.counts, arguments_.verbose);
        fmt::print("{:.1f} crash points a second\n", sum.crash_points_a_second());
    }

    Arguments arguments_;
    const fs::path directory_;
    int lock_ = -1;
    Totals totals_;
};

// An exception is a word to the user.
template <class F>
int told(F f) {
    try {
        return f();
    } catch (const std::exception& e) {
        fmt::print(stderr, "lockstep-sim: {}\n", e.what());
        return 2;
    }
}

}  // namespace

int run_campaign(const Arguments& arguments) {
    return told([&] {
        Campaign campaign(arguments);
        campaign.begin();
        return campaign.run();
    });
}

int print_totals(const Arguments& arguments) {
    return told([&] {
        Campaign campaign(arguments);
        campaign.load();
        campaign.print_markdown();
        return campaign.status();
    });
}

}  // namespace lockstep::sim
