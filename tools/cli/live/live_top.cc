// live_top.cc - differences of two snapshots, and their layout.
#include "tools/cli/live/live_top.h"

#include <fmt/format.h>

#include <algorithm>

#include "tools/cli/live/live_text.h"

namespace lockstep::cli {
namespace {

// How much a counter grew in a second. A counter that fell was set back: nothing is known.
double rate(const Json& before, const Json& now, double seconds) {
    const double d = now.get<double>() - before.get<double>();
    return d > 0 && seconds > 0 ? d / seconds : 0;
}
double share(double part, double whole) { return whole > 0 ? part / whole : 0; }

Json team_rates(const Json& before, const Json& now, double seconds) {
    double teams = 0, entered = 0, left = 0;
    for (const Json& of : now["teams"]) {
        const Json* old = nullptr;
        for (const Json& other : before["teams"])
            if (other["operation"] == of["operation"]) old = &other;
        const Json none = {{"teams", 0}, {"entered", 0}, {"left", 0}};
        if (old == nullptr) old = &none;
        teams += rate((*old)["teams"], of["teams"], seconds);
        entered += rate((*old)["entered"], of["entered"], seconds);
        left += rate((*old)["left"], of["left"], seconds);
    }
    return {{"teams", teams},
            {"size_mean", share(entered, teams)},
            {"stray_share", share(std::max(0.0, entered - left), entered)}};
}

std::string percent(double part, double whole) {
    return fmt::format("{:.0f}%", 100 * share(part, whole));
}
std::string first_columns(const std::string& label, const std::string& text) {
    return fmt::format("{:<14}{}", label, text);
}

class Screen {
public:
    Screen(size_t columns, size_t rows) : columns_(columns), left_(rows) {}
    void line(const std::string& text = "") {
        if (left_ == 0) return;
        --left_;
        text_ += cut(text, columns_) + "\n";
    }
    // All lines of `text`, at most `rows`.
    void lines(const std::string& text, size_t rows) {
        for (size_t at = 0, end; at < text.size() && rows > 0; at = end + 1, --rows) {
            end = text.find('\n', at);
            line(text.substr(at, end - at));
        }
    }
    size_t left() const { return left_; }
    std::string take() { return std::move(text_); }

private:
    size_t columns_, left_;
    std::string text_;
};

void write_waits(Screen& screen, const Json& waits) {
    std::string names, now, rates, means;
    for (const auto& [cause, of] : waits.items()) {
        names += fmt::format("{:>11}", cause);
        now += fmt::format("{:>11}", of["now"].get<uint64_t>());
        rates += fmt::format("{:>11}", rate_text(of["per_second"].get<double>()));
        means += fmt::format("{:>11}", of["per_second"].get<double>() > 0
                                           ? time_text(of["mean_nanos"].get<uint64_t>())
                                           : "-");
    }
    screen.line(first_columns("waits", names));
    screen.line(first_columns("  threads now", now));
    screen.line(first_columns("  a second", rates));
    screen.line(first_columns("  mean", means));
}

// What reports do: nothing if the store has had none.
Json report_rates(const TopView& view, double seconds) {
    const auto now = view.now.find("reports");
    if (now == view.now.end() || (*now)["reports"] == 0) return nullptr;
    Json out = *now;
    const Json& before = view.before["reports"];
    for (const char* name : {"made", "made_again", "shared", "rows", "bytes"})
        out[name] = rate(before[name], (*now)[name], seconds);
    out["worker_share"] = rate(before["busy_nanos"], (*now)["busy_nanos"], seconds) / 1e9;
    return out;
}

void write_reports(Screen& screen, const Json& reports) {
    if (reports.is_null()) return;
    const auto of = [&](const char* name) { return rate_text(reports[name].get<double>()); };
    const auto now = [&](const char* name) { return reports[name].get<uint64_t>(); };
    screen.line(first_columns(
        "reports",
        fmt::format("{} rows, {} parts read, {} again, {} shared a second; {} of a worker",
                    of("rows"), of("made"), of("made_again"), of("shared"),
                    percent(reports["worker_share"].get<double>(), 1))));
    screen.line(first_columns(
        "",
        fmt::format("{} open, {} scans in {} passes; oldest state {}, {} kept", now("reports_open"),
                    now("scans_open"), now("passes_open"), time_text(now("state_oldest_nanos")),
                    bytes_text(reports["kept_bytes"].get<double>()))));
    size_t left = 5;
    for (const Json& one : reports["open"]) {
        if (left-- == 0) break;
        screen.line(first_columns(
            fmt::format("  report {}", one["number"].get<uint64_t>()),
            fmt::format("{} read, {} of {} scans have ended, state {} old, behind {} parts",
                        percent(one["progress"].get<double>(), 1), one["ran"].get<uint64_t>(),
                        one["scans"].get<uint64_t>(), time_text(one["age_nanos"].get<uint64_t>()),
                        one["behind"].get<uint64_t>())));
    }
}

std::string teams_line(const Json& teams, bool steps) {
    if (!steps) return "off";
    return fmt::format("{} a second, {:.1f} threads each, {:.0f}% strays",
                       rate_text(teams["teams"].get<double>()), teams["size_mean"].get<double>(),
                       100 * teams["stray_share"].get<double>());
}

}  // namespace

Json top_json(const TopView& view) {
    const Json &a = view.before["stats"], &b = view.now["stats"];
    const double seconds =
        (view.now["time_nanos"].get<double>() - view.before["time_nanos"].get<double>()) / 1e9;
    const auto per_second = [&](const char* name) { return rate(a[name], b[name], seconds); };
    Json rates = {{"seconds", seconds}};
    for (const char* name :
         {"commits", "aborts", "deadlock_retries", "lock_waits", "deadlocks", "lock_timeouts",
          "log_bytes", "log_flushes", "log_syncs", "page_reads", "page_writes", "evictions"})
        rates[name] = per_second(name);
    Json waits = Json::object();
    for (const auto& [cause, of] : b["waits"].items()) {
        const Json& old = a["waits"][cause];
        const double count = rate(old["count"], of["count"], seconds);
        waits[cause] = {
            {"now", of["now"]},
            {"per_second", count},
            {"mean_nanos", static_cast<uint64_t>(
                               share(rate(old["wait_nanos"], of["wait_nanos"], seconds), count))}};
    }
    return {{"pid", view.now["pid"]},
            {"program", view.now["program"]},
            {"directory", view.now["directory"]},
            {"open_for_nanos", view.now["open_for_nanos"]},
            {"failure", view.now["failure"]},
            {"rates", rates},
            {"waits", waits},
            {"teams", team_rates(view.before["steps"], view.now["steps"], seconds)},
            {"reports", report_rates(view, seconds)},
            {"stats", b},
            {"transactions", view.transactions},
            {"hot_locks", view.now["hot_locks"]}};
}

std::string top_text(const TopView& view, size_t columns, size_t rows) {
    const Json top = top_json(view);
    const Json &rates = top["rates"], &stats = top["stats"], &options = view.now["options"];
    const auto of = [&](const char* name) { return rate_text(rates[name].get<double>()); };
    const auto number = [&](const char* name) { return stats[name].get<double>(); };
    Screen screen(columns, rows);
    screen.line(fmt::format("lockstep top  {} ({})  up {}  {}", top["program"].get<std::string>(),
                            top["pid"].get<int64_t>(),
                            time_text(top["open_for_nanos"].get<uint64_t>()),
                            top["directory"].get<std::string>()));
    screen.line(top["failure"].is_null()
                    ? ""
                    : "THE STORE HAS FAILED: " + top["failure"].get<std::string>());
    screen.line(first_columns("transactions",
                              fmt::format("{} committed, {} rolled back, {} repeated a second",
                                          of("commits"), of("aborts"), of("deadlock_retries"))));
    screen.line(first_columns("", fmt::format("{} active of {}, {} wait to begin",
                                              stats["transactions_live"].get<uint64_t>(),
                                              options["transactions_max"].get<uint64_t>(),
                                              stats["transactions_waiting"].get<uint64_t>())));
    write_waits(screen, top["waits"]);
    screen.line(first_columns(
        "log", fmt::format("{} and {} flushes a second, {} of {} used, {} checkpoints",
                           bytes_text(rates["log_bytes"].get<double>()), of("log_flushes"),
                           percent(number("log_used_bytes"), number("log_capacity_bytes")),
                           bytes_text(number("log_capacity_bytes")),
                           stats["checkpoints"].get<uint64_t>())));
    screen.line(first_columns("buffer pool",
                              fmt::format("{} of {} used, {} dirty; {} reads, {} writes a second",
                                          percent(number("pool_resident"), number("pool_frames")),
                                          bytes_text(options["pool_bytes"].get<double>()),
                                          percent(number("pool_dirty"), number("pool_frames")),
                                          of("page_reads"), of("page_writes"))));
    write_reports(screen, top["reports"]);
    screen.line(first_columns("teams", teams_line(top["teams"], options["steps"].get<bool>())));
    screen.line();
    // The two lists share the rest.
    const size_t oldest = (screen.left() > 0 ? screen.left() - 1 : 0) / 2;
    if (view.transactions.is_null()) screen.line("OLDEST TRANSACTIONS: " + view.no_transactions);
    else screen.lines(transactions_text(view.transactions, columns), oldest);
    screen.line();
    screen.lines(hot_locks_text(top["hot_locks"], columns, screen.left()), screen.left());
    return screen.take();
}

}  // namespace lockstep::cli
