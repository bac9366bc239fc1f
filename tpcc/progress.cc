// progress.cc - progress on the terminal, and interrupts.
#include "tpcc/progress.h"
#include "tools/base/say.h"

#include <fmt/format.h>
#include <signal.h>
#include <sys/ioctl.h>
#include <sys/signalfd.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <filesystem>

namespace lockstep::tpcc {

Interrupt::Interrupt() {
    sigset_t signals;
    sigemptyset(&signals);
    sigaddset(&signals, SIGINT);
    sigaddset(&signals, SIGTERM);
    pthread_sigmask(SIG_BLOCK, &signals, nullptr);
    fd_ = signalfd(-1, &signals, SFD_NONBLOCK | SFD_CLOEXEC);
}

Interrupt::~Interrupt() {
    if (fd_ >= 0) close(fd_);
}

bool Interrupt::take() {
    signalfd_siginfo info;
    return fd_ >= 0 && read(fd_, &info, sizeof(info)) == sizeof(info);
}

bool on_terminal() {
    const char* kind = std::getenv("TERM");
    return isatty(STDOUT_FILENO) == 1 && kind != nullptr && std::string_view(kind) != "dumb";
}

// A line that is longer than the terminal would go on in the next one, and stay there.
static size_t columns() {
    winsize size{};
    const bool known = ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_col > 1;
    return known ? size.ws_col - 1u : 79;
}

void show_line(const std::string& text) {
    if (!on_terminal()) return;
    say("\r\033[K{}", std::string_view(text).substr(0, columns()));
    flush_output();
}

Watch::Watch(const LoadProgress* progress, Interrupt& interrupt, std::string remove_on_interrupt)
    : progress_(progress),
      interrupt_(interrupt),
      remove_on_interrupt_(std::move(remove_on_interrupt)),
      thread_([this] { watch(); }) {}

Watch::~Watch() {
    done_ = true;
    thread_.join();
    show_line("");
}

void Watch::watch() {
    for (unsigned tick = 0; !done_; ++tick) {
        std::this_thread::sleep_for(std::chrono::milliseconds(20));
        if (interrupt_.take()) {
            show_line("");
            say_error("lockstep-tpcc: interrupted\n");
            std::error_code ignored;
            if (!remove_on_interrupt_.empty())
                std::filesystem::remove_all(remove_on_interrupt_, ignored);
            _exit(130);
        }
        if (tick % 25 != 0 || !progress_ || progress_->rows_total.load() == 0) continue;
        const uint64_t rows = progress_->rows.load(std::memory_order_relaxed);
        show_line(fmt::format("loading: {} rows, {}%", rows,
                              std::min<uint64_t>(100, rows * 100 / progress_->rows_total.load())));
    }
}

}  // namespace lockstep::tpcc
