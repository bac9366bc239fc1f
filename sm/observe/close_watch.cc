// close_watch.cc - the kernel thread that reports while close() waits.
#include "sm/observe/close_watch.h"

#include <linux/futex.h>
#include <signal.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include <algorithm>
#include <string>

#include "sm/host/host.h"
#include "sm/observe/txn_watch.h"
#include "threads/base/check.h"

namespace lockstep::sm {
namespace {

constexpr size_t kTransactionsMax = 8;  // named in a line

std::string seconds(Nanos time) { return std::to_string(time / kSecond) + " s"; }

std::string described(const TransactionInfo& info) {
    DCHECK(info.id != kTxnNone && !info.internal);
    std::string text = std::to_string(info.id.value) + " (" + transaction_state_name(info.state) +
                       ", user thread " + std::to_string(info.thread) + ", " + seconds(info.age) +
                       " old";
    if (!info.waits_for.empty()) text += ", waits for " + info.waits_for;
    return text + ")";
}

}  // namespace

CloseWatch::CloseWatch(Host& host, TxnWatch& watch) : engine_(host), watch_(watch) {
    DCHECK(host.closing());
    sigset_t all, before;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    runs_ = pthread_create(&thread_, nullptr, thread_main, this) == 0;
    pthread_sigmask(SIG_SETMASK, &before, nullptr);
}

CloseWatch::~CloseWatch() {
    if (!runs_) return;
    DCHECK(ending_.load() == 0);
    ending_.store(1, std::memory_order_release);
    syscall(SYS_futex, &ending_, FUTEX_WAKE_PRIVATE, 1, nullptr, nullptr, 0);
    pthread_join(thread_, nullptr);
}

void* CloseWatch::thread_main(void* self) {
    pthread_setname_np(pthread_self(), "lockstep-close");
    static_cast<CloseWatch*>(self)->work();
    return nullptr;
}

void CloseWatch::work() {
    DCHECK(threads::current() == nullptr);
    const MonotonicClock clock;
    const Nanos begin = clock.now();
    Nanos pause = kFirstPause, due = begin + pause;
    while (ending_.load(std::memory_order_acquire) == 0) {
        const Nanos now = clock.now();
        if (now < due) {
            sleep(due - now);
            continue;
        }
        report(now - begin);
        pause = std::min(2 * pause, kPauseMax);
        due = clock.now() + pause;
    }
}

// Or until close() goes on, or a signal comes.
void CloseWatch::sleep(Nanos pause) {
    DCHECK(pause > 0 && pause <= kPauseMax);
    const timespec time{.tv_sec = static_cast<time_t>(pause / kSecond),
                        .tv_nsec = static_cast<long>(pause % kSecond)};
    syscall(SYS_futex, &ending_, FUTEX_WAIT_PRIVATE, 0, &time, nullptr, 0);
}

void CloseWatch::report(Nanos waited) {
    DCHECK(engine_.closing() && waited >= kFirstPause);
    const std::string begin = "close() has waited " + seconds(waited);
    engine_.report(1, begin +
                          " for functions of the application (run(), spawn(), start(), packets) "
                          "that have not ended: " +
                          std::to_string(engine_.functions()));
    watch_.end_orphans_while_closing();
    std::vector<TransactionInfo> all = watch_.list_while_closing();
    std::erase_if(all, [](const TransactionInfo& info) { return info.internal; });
    std::string text;
    for (size_t i = 0; i < std::min(all.size(), kTransactionsMax); ++i)
        text += (i == 0 ? "" : "; ") + described(all[i]);
    if (all.size() > kTransactionsMax)
        text += "; and " + std::to_string(all.size() - kTransactionsMax) + " more";
    if (!all.empty()) engine_.report(1, begin + " for transactions: " + text);
}

}  // namespace lockstep::sm
