// shrink.cc - leaving out halves, quarters, single transactions, then single operations, while it
// still fails (after Zeller's ddmin).
#include "tests/sim/shrink.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cctype>

#include "tests/end_child.h"
#include "tests/sim/run.h"

namespace lockstep::sim {

namespace {

constexpr int kAttemptsMax = 300;
constexpr unsigned kSecondsMax = 20;  // of one attempt

class Shrinker {
public:
    Shrinker(const Arguments& arguments, uint64_t seed)
        : arguments_(arguments), config_(draw_config(seed, arguments)) {
        arguments_.until = 0;  // event numbers change with the plan
        plan_ = draw_plan(config_, stream(seed, Stream::work));
    }

    std::string run() {
        if (!fails(plan_)) return "  not shrunk: the failure needs the whole process\n";
        bool smaller = true;
        while (smaller && attempts_ < kAttemptsMax) {
            smaller = leave_out_transactions();
            smaller |= leave_out_operations();
        }
        return fmt::format("  shrunk to {} transactions, {} operations ({} attempts):\n{}",
                           plan_.transactions(), plan_.operations(), attempts_, plan_.text());
    }

private:
    // The words of a failure without its numbers: what is shrunk must go on failing for the same
    // reason.
    static uint64_t reason_of(const std::string& failure) {
        std::string words;
        for (const char c : failure)
            if (std::isalpha(static_cast<unsigned char>(c)) && words.size() < 60) words += c;
        return 1 + hash_of(words) % 200;
    }
    bool fails(const Plan& plan) {
        const int status = try_out(plan);
        if (status == 0 || (reason_ != 0 && status != reason_)) return false;
        reason_ = status;
        return true;
    }
    // In a child: it may die, and hang. Its wait status.
    int try_out(const Plan& plan) {
        ++attempts_;
        std::fflush(stdout);
        const pid_t pid = fork();
        if (pid == 0) {
            const int nowhere = open("/dev/null", O_WRONLY);
            dup2(nowhere, 1);
            dup2(nowhere, 2);
            alarm(kSecondsMax);
            Report report;
            Progress progress;
            (void)Run(config_, arguments_, report, progress).execute(plan);
            end_child(report.failed() ? static_cast<int>(reason_of(report.failure)) : 0);
        }
        int status = 0;
        waitpid(pid, &status, 0);
        return status;
    }

    bool leave_out_transactions() {
        bool any = false;
        for (size_t chunk = std::max<size_t>(1, plan_.transactions() / 2); chunk >= 1; chunk /= 2) {
            for (auto& thread : plan_.threads) {
                for (size_t at = 0; at < thread.size() && attempts_ < kAttemptsMax;) {
                    const size_t n = std::min(chunk, thread.size() - at);
                    const auto saved = thread;
                    thread.erase(thread.begin() + static_cast<ptrdiff_t>(at),
                                 thread.begin() + static_cast<ptrdiff_t>(at + n));
                    if (fails(plan_)) any = true;
                    else thread = saved, at += n;
                }
            }
        }
        return any;
    }

    bool leave_out_operations() {
        bool any = false;
        for (auto& thread : plan_.threads)
            for (auto& transaction : thread)
                for (size_t at = 0; at < transaction.ops.size() && attempts_ < kAttemptsMax;) {
                    const auto saved = transaction.ops;
                    transaction.ops.erase(transaction.ops.begin() + static_cast<ptrdiff_t>(at));
                    if (fails(plan_)) any = true;
                    else transaction.ops = saved, ++at;
                }
        return any;
    }

    Arguments arguments_;
    const Config config_;
    Plan plan_;
    int attempts_ = 0, reason_ = 0;
};

}  // namespace

std::string shrink(const Arguments& arguments, uint64_t seed) {
    return Shrinker(arguments, seed).run();
}

}  // namespace lockstep::sim
