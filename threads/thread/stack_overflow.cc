// stack_overflow.cc - the handler of SIGSEGV.
#include "threads/thread/stack_overflow.h"

#include <errno.h>
#include <signal.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <cstring>

#include "threads/base/check.h"
#include "threads/thread/signal_chain.h"
#include "threads/thread/stack.h"
#include "threads/thread/thread.h"

namespace lockstep::threads {
namespace {

constexpr size_t kPage = 4096;
// The handler before ours runs on this stack too, and may print a stack trace.
constexpr size_t kSignalStackBytes = 64 * 1024;
// What sysconf() is asked for the least that this processor needs. C libraries before 2.34, whose
// headers have no name for it, answer -1.
#ifdef _SC_SIGSTKSZ
constexpr int kSignalStackBytesLeast = _SC_SIGSTKSZ;
#else
constexpr int kSignalStackBytesLeast = 250;
#endif

void handle(int number, siginfo_t* info, void* context);
constinit SignalChain chain(SIGSEGV, handle, SA_ONSTACK);
// Id of the thread that was reported last: if the handler before ours returns, the fault repeats.
std::atomic<uint64_t> reported{UINT64_MAX};

// One line, built without memory allocation.
class Line {
public:
    Line& operator<<(const char* text) {
        const size_t bytes = std::min(std::strlen(text), sizeof text_ - used_);
        std::memcpy(text_ + used_, text, bytes);
        used_ += bytes;
        return *this;
    }
    Line& operator<<(uint64_t number) {
        char digits[21];
        char* at = digits + sizeof digits;
        *--at = '\0';
        do *--at = static_cast<char>('0' + number % 10);
        while ((number /= 10) != 0);
        return *this << at;
    }
    void write_to(int file) const {
        for (size_t done = 0; done < used_;) {
            const ssize_t bytes = write(file, text_ + done, used_ - done);
            if (bytes > 0) done += static_cast<size_t>(bytes);
            else if (bytes == 0 || errno != EINTR) return;
        }
    }

private:
    char text_[512];
    size_t used_ = 0;
};
static_assert(std::atomic<uint64_t>::is_always_lock_free);  // the handler uses one

void report(const Thread& thread, const Stack& stack) {
    Line line;
    line << "lockstep: stack overflow in user thread " << thread.id << " \"" << thread.name
         << "\", whose stack has " << stack.option_bytes()
         << " bytes; raise the option stack_bytes, or keep large objects and deep recursion off "
            "the stack\n";
    line.write_to(STDERR_FILENO);
}

// The kernel ends the process when the fault repeats without a handler. A signal that another
// process or raise() sent does not repeat by itself; it stays blocked until we return.
void die_by_default(int number, const siginfo_t& info) {
    chain.reset();
    if (info.si_code <= 0) raise(number);
}

void handle(int number, siginfo_t* info, void* context) {
    const int error = errno;
    const Thread* thread = current();
    if (info->si_code > 0 && thread != nullptr && thread->stack != nullptr) {
        const Stack& stack = *static_cast<const Stack*>(thread->stack);
        if (stack.guards(info->si_addr) && reported.exchange(thread->id) != thread->id)
            report(*thread, stack);
    }
    errno = error;
    const SignalChain::Before before = chain.pass_on(info, context);
    // The kernel does not let a process ignore a fault either.
    if (before == SignalChain::Before::standard ||
        (before == SignalChain::Before::ignore && info->si_code > 0))
        die_by_default(number, *info);
}

}  // namespace

OverflowReports::OverflowReports() { chain.hold(); }
OverflowReports::~OverflowReports() { chain.release(); }

SignalStack::SignalStack() {
    DCHECK(current() == nullptr);  // a user thread would give it to its kernel thread
    stack_t has{};
    if (sigaltstack(nullptr, &has) != 0 || !(has.ss_flags & SS_DISABLE)) return;
    const long least = sysconf(kSignalStackBytesLeast);
    const size_t usable = std::max(kSignalStackBytes, least > 0 ? static_cast<size_t>(least) : 0);
    const size_t bytes = (usable + kPage - 1) / kPage * kPage + kPage;  // and a guard page
    void* memory = mmap(nullptr, bytes, PROT_READ | PROT_WRITE,
                        MAP_PRIVATE | MAP_ANONYMOUS | MAP_STACK, -1, 0);
    if (memory == MAP_FAILED) return;
    auto* start = static_cast<std::byte*>(memory);
    const stack_t stack{.ss_sp = start + kPage, .ss_flags = 0, .ss_size = bytes - kPage};
    if (mprotect(start, kPage, PROT_NONE) != 0 || sigaltstack(&stack, nullptr) != 0) {
        munmap(memory, bytes);
        return;
    }
    memory_ = start;
    bytes_ = bytes;
}

SignalStack::~SignalStack() {
    DCHECK((memory_ == nullptr) == (bytes_ == 0) && current() == nullptr);
    if (memory_ == nullptr) return;
    const stack_t none{.ss_sp = nullptr, .ss_flags = SS_DISABLE, .ss_size = 0};
    // If the application gave the thread another stack, ours is out of use already.
    CHECK(sigaltstack(&none, nullptr) == 0);
    munmap(memory_, bytes_);
}

}  // namespace lockstep::threads
