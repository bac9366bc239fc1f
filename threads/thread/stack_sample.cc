// stack_sample.cc - the handler of SIGURG, and the request that it answers.
#include "threads/thread/stack_sample.h"

#include <errno.h>
#include <signal.h>
#include <time.h>
#include <ucontext.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>

#include "threads/base/check.h"
#include "threads/base/symbols.h"
#include "threads/thread/signal_chain.h"
#include "threads/thread/stack.h"
#include "threads/thread/stack_sample_impl.h"
#include "threads/thread/thread.h"

namespace lockstep::threads {
namespace {

constexpr int kSignal = SIGURG;

void handle(int number, siginfo_t* info, void* context);
constinit SignalChain chain(kSignal, handle, SA_ONSTACK | SA_RESTART);

// The request. `phase` is 4 * its number + one of the states; the handler moves asked -> filling ->
// filled, the asker everything else.
enum : uint32_t { kFree, kAsked, kFilling, kFilled, kStates };
std::atomic<uint32_t> phase{kFree};
std::atomic<bool> busy{false};  // a take() is active
std::atomic<pthread_t> target;  // which kernel thread is asked; written in state free
struct {
    uint64_t thread_id;
    const char* name;
    StackCopy stack;
} answer;  // written by the handler in state filling
static_assert(std::atomic<uint32_t>::is_always_lock_free);  // the handler uses one

Registers registers_of(const void* context) {
    const mcontext_t& m = static_cast<const ucontext_t*>(context)->uc_mcontext;
#if defined(__x86_64__)
    return {static_cast<uintptr_t>(m.gregs[REG_RIP]), static_cast<uintptr_t>(m.gregs[REG_RSP]),
            static_cast<uintptr_t>(m.gregs[REG_RBP])};
#elif defined(__aarch64__)
    return {m.pc, m.sp, m.regs[29]};
#else
#error "registers of a signal's context"
#endif
}

LOCKSTEP_READS_STACK uintptr_t word(uintptr_t address) {
    return *reinterpret_cast<const volatile uintptr_t*>(address);
}

void fill(const void* context) {
    const Thread* thread = current();
    answer.thread_id = 0;
    answer.stack = {};
    if (thread == nullptr || thread->stack == nullptr) return;
    answer.thread_id = thread->id;
    answer.name = thread->name;
    copy_stack(answer.stack, registers_of(context), *static_cast<const Stack*>(thread->stack),
               word);
}

void handle(int, siginfo_t* info, void* context) {
    if (info->si_code != SI_QUEUE || info->si_pid != getpid() ||
        info->si_value.sival_ptr != static_cast<void*>(&answer)) {
        (void)chain.pass_on(info, context);  // the default action of SIGURG is to do nothing
        return;
    }
    const int error = errno;
    uint32_t asked = phase.load(std::memory_order_acquire);
    // SS-2.
    if (asked % kStates == kAsked &&
        pthread_equal(target.load(std::memory_order_relaxed), pthread_self()) &&
        phase.compare_exchange_strong(asked, asked - kAsked + kFilling,
                                      std::memory_order_acq_rel)) {
        fill(context);
        phase.store(asked - kAsked + kFilled, std::memory_order_release);
    }
    errno = error;
}

void pause_for(Nanos time) {
    const timespec pause{.tv_sec = 0, .tv_nsec = static_cast<long>(time)};
    nanosleep(&pause, nullptr);
}

// Waits for the answer to request `asked`. False: it is withdrawn.
bool await_answer(uint32_t asked) {
    constexpr int kPauses = 100;
    for (int i = 0; phase.load(std::memory_order_acquire) != asked - kAsked + kFilled; ++i) {
        uint32_t unanswered = asked;
        if (i >= kPauses && phase.compare_exchange_strong(unanswered, asked - kAsked + kStates,
                                                          std::memory_order_acq_rel))
            return false;
        pause_for(kMillisecond);
    }
    return true;
}

StackSample copy_answer() {
    DCHECK(phase.load() % kStates == kFilled);
    StackSample sample = answer.stack.sample();
    sample.thread_id = answer.thread_id;
    if (answer.thread_id != 0) sample.name = answer.name;
    return sample;
}

}  // namespace

StackSamples::StackSamples() { chain.hold(); }
StackSamples::~StackSamples() { chain.release(); }

std::optional<StackSample> StackSamples::take(pthread_t worker) {
    DCHECK(current() == nullptr);
    if (!chain.installed()) return std::nullopt;
    while (busy.exchange(true, std::memory_order_acquire)) pause_for(kMillisecond);
    const uint32_t asked = phase.load(std::memory_order_relaxed) + kAsked;
    DCHECK(asked % kStates == kAsked);
    target.store(worker, std::memory_order_relaxed);
    phase.store(asked, std::memory_order_release);
    std::optional<StackSample> sample;
    const sigval value{.sival_ptr = &answer};
    const bool sent = pthread_sigqueue(worker, kSignal, value) == 0;
    if (await_answer(asked) && sent) sample = copy_answer();
    // The next request has another number.
    phase.store(asked - kAsked + kStates, std::memory_order_relaxed);
    busy.store(false, std::memory_order_release);
    return sample;
}

std::string StackSample::text() const {
    DCHECK(gap <= words.size() && rest <= words.size());
    std::string lines;
    const CodeMap code;
    size_t number = 0;
    const auto line = [&](const char* mark, uintptr_t address) {
        lines += "\n  #" + std::to_string(number++) + mark + symbol_of(address);
    };
    // Not every word that looks like a return address is one of an active call.
    const auto guess = [&](size_t begin, size_t end, size_t most) {
        for (size_t i = begin; i < end && most > 0; ++i) {
            if (!code.is_return_address(words[i])) continue;
            if (frames.size() > 1 && words[i] == frames[1]) continue;
            line(" maybe ", words[i] - 1);
            --most;
        }
    };
    constexpr size_t kGapMost = 8, kRestMost = 24;
    if (!frames.empty()) line(" ", frames[0]);
    // A return address may lie behind the caller's last instruction.
    if (frames.size() > 1) line(" ", frames[1] - 1);
    guess(0, gap, kGapMost);
    for (size_t i = 2; i < frames.size(); ++i) line(" ", frames[i] - 1);
    guess(rest, words.size(), kRestMost);
    return lines;
}

}  // namespace lockstep::threads
