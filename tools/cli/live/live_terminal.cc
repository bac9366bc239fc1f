// live_terminal.cc - `lockstep top`: the loop, the terminal, the keys.
#include <fmt/format.h>
#include <poll.h>
#include <signal.h>
#include <sys/ioctl.h>
#include <termios.h>
#include <unistd.h>

#include <chrono>
#include <cstdlib>
#include <cstring>

#include "tools/cli/live/live_commands.h"
#include "tools/cli/live/live_top.h"

namespace lockstep::cli {
namespace {

// The one thing that a signal handler may reach: the signal's number.
volatile sig_atomic_t stopped_by_signal = 0;
constexpr int kExitBySignal = 128;  // and the number, as shells have it

// The alternate screen without cursor, and keys without echo, while it lives. Does nothing if
// standard output is no terminal, or one that knows no cursor codes.
class Terminal {
public:
    Terminal()
        : on_(isatty(STDOUT_FILENO) == 1 && has_cursor()), keys_(on_ && isatty(STDIN_FILENO) == 1) {
        if (keys_ && tcgetattr(STDIN_FILENO, &before_) == 0) {
            termios raw = before_;
            raw.c_lflag &= ~static_cast<tcflag_t>(ICANON | ECHO);
            tcsetattr(STDIN_FILENO, TCSANOW, &raw);
        }
        if (on_) write("\033[?1049h\033[?25l");
    }
    ~Terminal() {
        if (on_) write("\033[?25h\033[?1049l");
        if (keys_) tcsetattr(STDIN_FILENO, TCSANOW, &before_);
    }
    Terminal(const Terminal&) = delete;
    Terminal& operator=(const Terminal&) = delete;
    bool is_on() const { return on_; }
    bool has_keys() const { return keys_; }

    // Overwrites the screen line by line, so that it does not flicker. The last line has no line
    // feed: the terminal would scroll.
    void show(const std::string& text) const {
        std::string out = "\033[H";
        for (const char c : text) {
            if (c == '\n') out += "\033[K\r\n";
            else out += c;
        }
        if (out.ends_with("\r\n")) out.resize(out.size() - 2);
        write(out + "\033[J");
    }
    static void size(size_t& columns, size_t& rows) {
        winsize now{};
        if (ioctl(STDOUT_FILENO, TIOCGWINSZ, &now) != 0 || now.ws_col == 0) return;
        columns = now.ws_col;
        rows = now.ws_row;
    }

private:
    static bool has_cursor() {
        const char* const term = std::getenv("TERM");
        return term != nullptr && *term != '\0' && std::strcmp(term, "dumb") != 0;
    }
    static void write(const std::string& text) {
        std::fwrite(text.data(), 1, text.size(), stdout);
        std::fflush(stdout);
    }
    const bool on_, keys_;
    termios before_{};
};

void catch_signals() {
    struct sigaction action {};
    action.sa_handler = [](int signal) { stopped_by_signal = signal; };
    sigaction(SIGINT, &action, nullptr);
    sigaction(SIGTERM, &action, nullptr);
    sigaction(SIGHUP, &action, nullptr);
}

int status_at_leave() { return stopped_by_signal == 0 ? 0 : kExitBySignal + stopped_by_signal; }

// True: the user wants to leave.
bool sleep_until_key(int64_t until_ms, bool keys) {
    while (stopped_by_signal == 0 && now_ms() < until_ms) {
        pollfd polled{keys ? STDIN_FILENO : -1, POLLIN, 0};
        if (poll(&polled, 1, static_cast<int>(std::max<int64_t>(1, until_ms - now_ms()))) <= 0)
            continue;
        char key = 0;
        if (read(STDIN_FILENO, &key, 1) <= 0) keys = false;
        else if (key == 'q' || key == 'Q') return true;
    }
    return stopped_by_signal != 0;
}

// Two connections: transactions need a turn of every worker, and the counters must not wait for
// that.
class Source {
public:
    static Live<Source> open(const std::string& path) {
        auto stat = LiveClient::connect(path), transactions = LiveClient::connect(path);
        if (!stat) return std::unexpected(stat.error());
        if (!transactions) return std::unexpected(transactions.error());
        return Source(std::move(*stat), std::move(*transactions));
    }
    // The next view, and the present snapshot becomes the earlier one.
    Live<void> next(TopView& view) {
        auto now = stat_.ask(command("stat"));
        if (!now) return std::unexpected(now.error());
        view.before = view.now.is_null() ? *now : std::move(view.now);
        view.now = *std::move(now);
        return read_transactions(view);
    }

private:
    Source(LiveClient stat, LiveClient transactions)
        : stat_(std::move(stat)), transactions_(std::move(transactions)) {}
    Live<void> read_transactions(TopView& view) {
        if (!asked_) {
            Json request = command("transactions");
            request["limit"] = kTransactionsShown;
            if (auto sent = transactions_.send(request); !sent) return sent;
            asked_ = true;
        }
        auto answer = transactions_.receive(kPatienceMs);
        view.transactions = nullptr;
        if (!answer) {
            view.no_transactions = "no answer yet; a worker may be blocked by a callback";
            return {};
        }
        asked_ = false;
        if (*answer) view.transactions = (**answer)["transactions"];
        else if (answer->error().not_live()) return std::unexpected(answer->error());
        else view.no_transactions = answer->error().text();
        return {};
    }
    static constexpr int kTransactionsShown = 40, kPatienceMs = 300;
    LiveClient stat_, transactions_;
    bool asked_ = false;
};

}  // namespace

int top(const std::string& path, const TopSettings& settings) {
    catch_signals();
    auto source = Source::open(path);
    if (!source) return live_failed(source.error(), settings.json);
    TopView view;
    Live<void> read = source->next(view);
    {
        std::optional<Terminal> terminal;
        if (!settings.json && !settings.once) terminal.emplace();
        const bool screen = terminal && terminal->is_on();
        if (screen) terminal->show("lockstep top: the first second is being counted\n");
        const auto pause = static_cast<int64_t>(settings.interval * 1000);
        for (int64_t next = now_ms() + pause; read; next = std::max(next + pause, now_ms())) {
            if (sleep_until_key(next, terminal && terminal->has_keys())) return status_at_leave();
            read = source->next(view);
            if (!read) break;
            size_t columns = 80, rows = 24;
            Terminal::size(columns, rows);
            if (screen) terminal->show(top_text(view, columns, rows));
            else if (settings.json) fmt::print("{}\n", top_json(view).dump());
            else fmt::print("{}\n", top_text(view, columns, rows));
            std::fflush(stdout);
            if (settings.once) return 0;
        }
    }
    // A signal ends the wait for an answer, too.
    if (stopped_by_signal != 0) return status_at_leave();
    return live_failed(read.error(), settings.json);
}

}  // namespace lockstep::cli
