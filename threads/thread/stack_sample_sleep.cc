// stack_sample_sleep.cc - what the kernel tells of a thread that sleeps, and how its stack is read.
#include <fcntl.h>
#include <unistd.h>

#include <cstdio>
#include <cstring>
#include <string>

#include "threads/base/sanitized.h"
#include "threads/base/symbols.h"
#include "threads/thread/stack_sample_impl.h"
#include "threads/thread/thread.h"

namespace lockstep::threads {
namespace {

// Stack that is read at once. What lies above is not looked at.
constexpr size_t kBytesMax = 64 * 1024;

// The kernel copies, so memory that another thread gives back meanwhile is no fault.
size_t read_memory(uintptr_t address, void* to, size_t bytes) {
    const int file = open("/proc/self/mem", O_RDONLY | O_CLOEXEC);
    if (file < 0) return 0;
    const ssize_t found = pread(file, to, bytes, static_cast<off_t>(address));
    close(file);
    return found > 0 ? static_cast<size_t>(found) : 0;
}

// The kernel does not tell the frame pointer. A frame of code that has one is a word that points up
// the stack, with a return address above it. Two such frames in a chain are no accident.
uintptr_t find_frame(const std::vector<uintptr_t>& words, uintptr_t sp) {
    constexpr uintptr_t kWord = sizeof(uintptr_t);
    const CodeMap code;
    DCHECK(sp % kWord == 0 && words.size() <= kBytesMax / kWord);
    const uintptr_t top = sp + words.size() * kWord;
    const auto above = [&](size_t at) -> size_t {  // 0: no frame
        const uintptr_t next = words[at];
        const bool inside = next > sp + at * kWord && next + kWord < top && next % kWord == 0;
        return inside && code.is_return_address(words[at + 1]) ? (next - sp) / kWord : 0;
    };
    for (size_t at = 0; at + 1 < words.size(); ++at)
        if (const size_t next = above(at); next != 0 && above(next) != 0) return sp + at * kWord;
    return 0;
}

LOCKSTEP_NO_TSAN Stack stack_of(const Thread& thread) {
    const auto* const stack = static_cast<const Stack*>(thread.stack);
    return stack != nullptr ? Stack{.base = stack->base, .top = stack->top} : Stack{};
}

}  // namespace

// "running", or the number of the call and its arguments, then stack pointer and program counter.
KernelActivity activity_of(pid_t kernel_thread) {
    using Kind = KernelActivity::Kind;
    DCHECK(kernel_thread > 0);
    const std::string path = "/proc/self/task/" + std::to_string(kernel_thread) + "/syscall";
    FILE* file = std::fopen(path.c_str(), "re");
    if (file == nullptr) return {};
    char line[256] = {};
    const bool read = std::fgets(line, sizeof line, file) != nullptr;
    std::fclose(file);
    if (!read) return {};
    if (std::strncmp(line, "running", 7) == 0) return {.kind = Kind::ready};
    const char* last = std::strrchr(line, ' ');
    if (last == nullptr) return {};
    const char* before = last;
    while (before > line && before[-1] != ' ') --before;
    unsigned long sp = 0, pc = 0;
    if (std::sscanf(before, "%lx %lx", &sp, &pc) != 2) return {};
    return {.kind = Kind::asleep, .sp = sp, .pc = pc};
}

StackSample read_stack(const KernelActivity& asleep, const Thread& thread) {
    DCHECK(asleep.kind == KernelActivity::Kind::asleep && current() == nullptr);
    const Stack stack = stack_of(thread);
    const auto base = reinterpret_cast<uintptr_t>(stack.base),
               top = reinterpret_cast<uintptr_t>(stack.top);
    constexpr uintptr_t kWord = sizeof(uintptr_t);
    StackCopy copy;
    Registers at{.pc = asleep.pc, .sp = (asleep.sp + kWord - 1) / kWord * kWord, .fp = 0};
    std::vector<uintptr_t> words;
    if (at.sp >= base && at.sp < top) {
        words.resize(std::min<size_t>(top - at.sp, kBytesMax) / kWord);
        words.resize(read_memory(at.sp, words.data(), words.size() * kWord) / kWord);
        at.fp = find_frame(words, at.sp);
    }
    copy_stack(copy, at, stack, [&](uintptr_t address) {
        const size_t index = (address - at.sp) / kWord;
        return index < words.size() ? words[index] : 0;
    });
    return copy.sample();
}

}  // namespace lockstep::threads
