// injection.cc - child processes that work and check, and the pipe of acknowledgements.
#include "tools/faultfs/injection.h"

#include <poll.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <functional>
#include <utility>

#include "threads/base/check.h"
#include "tools/acked/check.h"
#include "tools/acked/work.h"
#include "tools/faultfs/passthrough.h"

namespace lockstep::faultfs {
namespace {

constexpr uint32_t kClients = 6;
constexpr int kStoppedByError = 3;
constexpr int kPatienceMs = 60 * 1000;  // without a word from a child

// A child process and the text that it sends.
class Child {
public:
    explicit Child(const std::function<int(int fd)>& body) {
        int ends[2];
        CHECK(pipe(ends) == 0);
        std::fflush(nullptr);
        pid_ = fork();
        CHECK(pid_ >= 0);
        if (pid_ == 0) {
            close(ends[0]);
            _exit(body(ends[1]));
        }
        close(ends[1]);
        fd_ = ends[0];
    }
    Child(const Child&) = delete;
    Child& operator=(const Child&) = delete;
    ~Child() { close(fd_); }

    // The lines that come until the child ends, or until `lines_max`, when it is killed.
    std::vector<std::string> lines(size_t lines_max = SIZE_MAX) {
        std::vector<std::string> out;
        std::string part;
        for (char buffer[4096];;) {
            pollfd ready{fd_, POLLIN, 0};
            if (poll(&ready, 1, kPatienceMs) == 0) {
                hangs_ = true;
                kill(pid_, SIGKILL);
            }
            const ssize_t got = read(fd_, buffer, sizeof buffer);
            if (got <= 0) break;
            part.append(buffer, static_cast<size_t>(got));
            for (size_t end; (end = part.find('\n')) != std::string::npos;) {
                out.push_back(part.substr(0, end));
                part.erase(0, end + 1);
            }
            if (out.size() >= lines_max && !std::exchange(killed_, true)) kill(pid_, SIGKILL);
        }
        waitpid(pid_, &status_, 0);
        return out;
    }
    bool killed() const { return killed_; }
    // Why the end was none that is allowed, or nothing.
    std::string wrong_end() const {
        if (hangs_) return "hangs";
        if (WIFSIGNALED(status_) && !killed_)
            return "ends by signal " + std::to_string(WTERMSIG(status_));
        return {};
    }
    int exit_status() const { return WIFEXITED(status_) ? WEXITSTATUS(status_) : -1; }

private:
    pid_t pid_ = -1;
    int fd_ = -1, status_ = 0;
    bool killed_ = false, hangs_ = false;
};

int work_in_child(const std::string& path, uint64_t seed, uint64_t transactions, int fd) {
    acked::Work work;
    work.seed = seed;
    work.clients = kClients;
    work.transactions = transactions;
    work.acknowledged = [fd](uint32_t client, uint64_t number) {
        const std::string line = std::to_string(client) + " " + std::to_string(number) + "\n";
        if (write(fd, line.data(), line.size()) < 0) _exit(1);
    };
    return acked::run_work(path, work) ? 0 : kStoppedByError;
}

int check_in_child(const std::string& path, uint64_t seed, const std::vector<uint64_t>& acked,
                   int fd) {
    for (const std::string& fault : acked::check_store(path, seed, acked).faults)
        dprintf(fd, "%s\n", fault.c_str());
    return 0;
}

void note_acknowledged(const std::vector<std::string>& lines, std::vector<uint64_t>& acked) {
    for (const std::string& line : lines) {
        unsigned client = 0;
        unsigned long long number = 0;
        CHECK(std::sscanf(line.c_str(), "%u %llu", &client, &number) == 2 && client < kClients);
        acked[client] = std::max<uint64_t>(acked[client], number);
    }
}

}  // namespace

Outcome inject(const Injection& injection) {
    Outcome out;
    Passthrough fuse;
    out.why_not = fuse.why_not();
    if (!out.why_not.empty()) return out;
    std::vector<uint64_t> acked(kClients);
    const auto work = [&](uint64_t transactions, size_t acknowledged_max) {
        Child child([&](int fd) {
            return work_in_child(fuse.path() + "/store", injection.seed, transactions, fd);
        });
        const auto lines = child.lines(acknowledged_max);
        note_acknowledged(lines, acked);
        out.acknowledged += lines.size();
        if (const std::string why = child.wrong_end(); !why.empty())
            out.faults.push_back("the work " + why);
        return child.exit_status();
    };
    constexpr uint64_t kTransactions = 25;
    if (injection.begin == Begin::closed_store && work(kTransactions, SIZE_MAX) != 0)
        out.faults.push_back("the work without a fault ends with an error");
    if (injection.begin == Begin::killed_store)
        work(kTransactions * 100, 20 + injection.seed % 100);
    fuse.set_plan(injection.plan);
    const int status = work(kTransactions, SIZE_MAX);
    out.stopped = status == kStoppedByError;
    for (size_t i = 0; i < kOperations; ++i) out.counts[i] = fuse.count(static_cast<Operation>(i));
    out.failed = fuse.failed();
    if (out.failed == 0 && status != 0)
        out.faults.push_back("the work ends with status " + std::to_string(status) +
                             ", and no operation failed");
    fuse.unmount();
    Child child([&](int fd) {
        return check_in_child(fuse.behind() + "/store", injection.seed, acked, fd);
    });
    for (const std::string& line : child.lines()) out.faults.push_back(line);
    if (const std::string why = child.wrong_end(); !why.empty())
        out.faults.push_back("the check " + why);
    else if (child.exit_status() != 0) out.faults.push_back("the check ended with an error");
    return out;
}

}  // namespace lockstep::faultfs
