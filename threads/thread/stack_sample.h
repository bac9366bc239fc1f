// stack_sample.h - asks a worker's kernel thread which user thread it runs, and for its stack.
//
// Concepts   A kernel thread that sleeps in a system call must not be disturbed: a signal would end
//            nanosleep() or poll() early (EINTR). For such a thread the kernel tells stack pointer
//            and program counter (/proc/self/task/N/syscall), and read_stack() reads its stack from
//            outside. One that computes is sent SIGURG by take(). The handler copies the program
//            counter, the chain of frame pointers and the innermost words of the user thread's
//            stack. The caller names the addresses afterwards, outside the handler. The system
//            ignores SIGURG by default and few programs use it, so a signal that arrives late does
//            little harm. It can end a system call early that the thread begins just then.
//            A chain of frame pointers breaks in code that was compiled without them, such as the
//            C library. Then words of the stack that look like return addresses stand in.
// Invariants SS-1 The handler of the process is ours while a StackSamples exists, and afterwards
//            the one before it. Signals that take() did not send go to that one. A handler that the
//            application installs meanwhile is left alone; take() then sends nothing.
//            SS-2 One sample is taken at a time. A handler that comes too late finds its number
//            outdated and writes nothing. [checked: handle()]
//            SS-3 A kernel thread that sleeps in a system call gets no signal. [kept by:
//            SliceWatch]
// Blocking   take() waits up to 100 ms for the kernel thread. The handler is async-signal-safe.
#pragma once

#include <pthread.h>
#include <sys/types.h>

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace lockstep::threads {

struct Thread;

// What a kernel thread of this process does at the moment, as the kernel tells.
struct KernelActivity {
    enum class Kind : uint8_t {
        ready,   // computes, or waits for a CPU
        asleep,  // in a system call, or for a page
        unknown
    };
    Kind kind = Kind::unknown;
    uintptr_t sp = 0, pc = 0;  // of one that is asleep
};
KernelActivity activity_of(pid_t kernel_thread);

struct StackSample {
    uint64_t thread_id = 0;  // of the user thread; 0: the scheduler ran
    const char* name = "";   // of the user thread, static
    // words[0 .. gap) lie before the chain's second frame, and words[rest ..) behind its last one.
    // Functions without frame pointers, such as the C library's, have their frames there.
    size_t gap = 0, rest = 0;
    std::vector<uintptr_t> frames;  // program counter, then return addresses, innermost first
    std::vector<uintptr_t> words;   // of the stack, innermost first
    // A line for each frame.
    [[gnu::cold]] std::string text() const;
};

// The stack of a user thread whose kernel thread sleeps so. Interrupts nothing. Nonsense if it does
// not sleep any more: the caller finds out.
StackSample read_stack(const KernelActivity& asleep, const Thread& thread);

// Keeps the handler installed; the process has one in all. Any kernel thread.
class StackSamples {
public:
    StackSamples();
    ~StackSamples();
    StackSamples(const StackSamples&) = delete;
    StackSamples& operator=(const StackSamples&) = delete;
    // Empty if the kernel thread, which must live, does not answer. For one that does not sleep
    // (SS-3).
    std::optional<StackSample> take(pthread_t worker);
};

}  // namespace lockstep::threads
