// labels: unit
// stack_overflow_test.cc - what a process says when a user thread overflows its stack, and who gets
// the signal afterwards.
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/wait.h>

#include <atomic>
#include <cstdio>
#include <cstring>
#include <string>

#include "tests/end_child.h"
#include "threads/base/sanitized.h"
#include "threads/runtime/runtime.h"
#include "threads/thread/switch.h"

namespace lockstep::threads::stack_overflow_test {

struct Ended {
    int status = 0;     // of waitpid()
    std::string error;  // all that the child wrote there
    bool says(const char* text) const { return error.find(text) != std::string::npos; }
};

// Runs `body` in a child process; the child ends itself with 0 if `body` returns.
template <class Body>
Ended in_child(Body body) {
    Ended ended;
    int ends[2];
    EXPECT_EQ(pipe(ends), 0);
    const pid_t child = fork();
    if (child == 0) {
        dup2(ends[1], STDERR_FILENO);
        body();
        end_child(0);
    }
    close(ends[1]);
    char buffer[4096];
    for (ssize_t n; (n = read(ends[0], buffer, sizeof buffer)) > 0;)
        ended.error.append(buffer, static_cast<size_t>(n));
    close(ends[0]);
    EXPECT_EQ(waitpid(child, &ended.status, 0), child);
    return ended;
}

[[gnu::noinline]] int run_over(int depth) {
    volatile char frame[1024];
    std::memset(const_cast<char*>(frame), depth, sizeof frame);
    return depth == 0 ? frame[7] : run_over(depth - 1) + frame[depth % 1024];
}

void on_user_thread(const char* name, void (*body)(), size_t stack_bytes = 64 * 1024) {
    auto runtime = *Runtime::start({.stack_bytes = stack_bytes});
    (void)runtime->spawn(0, name, [body] { body(); });
    runtime->stop();
}

// Writes only the lowest bytes of its frame. Larger than a stack, also than a sanitizer's.
[[gnu::noinline]] int large_frame(int value) {
    char page[300 * 1024];
    asm volatile("" ::"r"(page) : "memory");
    return std::snprintf(page, sizeof page, "row %d", value);
}
void overflow_at_once() {
    if (large_frame(7) == 42) fputs("impossible\n", stderr);
}

void overflow() {
    if (run_over(1'000'000) == 42) fputs("impossible\n", stderr);
}
// Nothing is mapped here. UndefinedBehaviorSanitizer would report a null pointer itself.
int* volatile nowhere = reinterpret_cast<int*>(4096);
void write_nowhere() { *nowhere = 1; }

void say_and_end(int, siginfo_t*, void*) {
    (void)!write(STDERR_FILENO, "own handler\n", 12);
    end_child(7);
}
void install(void (*handler)(int, siginfo_t*, void*), int flags = 0) {
    struct sigaction action {};
    action.sa_sigaction = handler;
    action.sa_flags = SA_SIGINFO | flags;
    sigemptyset(&action.sa_mask);
    ASSERT_EQ(sigaction(SIGSEGV, &action, nullptr), 0);
}
void* installed() {
    struct sigaction action {};
    sigaction(SIGSEGV, nullptr, &action);
    return reinterpret_cast<void*>(action.sa_sigaction);
}
// A sanitizer's own handler ends the process in its own way.
bool dies_of_the_signal(const Ended& ended) {
#ifdef LOCKSTEP_SANITIZED
    return !WIFEXITED(ended.status) || WEXITSTATUS(ended.status) != 0;
#else
    return WIFSIGNALED(ended.status) && WTERMSIG(ended.status) == SIGSEGV;
#endif
}

TEST(StackOverflow, SaysWhichThreadAndWhichOption) {
    const Ended ended = in_child([] { on_user_thread("runaway", overflow, 80 * 1024); });
    EXPECT_TRUE(dies_of_the_signal(ended)) << ended.status;
    EXPECT_TRUE(ended.says("lockstep: stack overflow in user thread 1 \"runaway\"")) << ended.error;
    EXPECT_TRUE(ended.says("81920 bytes")) << ended.error;
    EXPECT_TRUE(ended.says("stack_bytes")) << ended.error;
}

// Below the stack lie other stacks: such a function must not reach them.
TEST(StackOverflow, ALargeFrameDoesNotStepOverTheGuard) {
    const Ended ended = in_child([] { on_user_thread("large", overflow_at_once); });
    EXPECT_TRUE(dies_of_the_signal(ended)) << ended.status;
    EXPECT_TRUE(ended.says("lockstep: stack overflow in user thread 1 \"large\"")) << ended.error;
}

TEST(StackOverflow, HandlerOfTheApplicationComesNext) {
    const Ended ended = in_child([] {
        install(say_and_end);
        on_user_thread("runaway", overflow);
    });
    ASSERT_TRUE(WIFEXITED(ended.status)) << ended.status << ended.error;
    EXPECT_EQ(WEXITSTATUS(ended.status), 7);
    const size_t ours = ended.error.find("stack overflow");
    ASSERT_NE(ours, std::string::npos) << ended.error;
    EXPECT_LT(ours, ended.error.find("own handler"));
}

// Such a handler returns, and expects that the fault then kills the process.
TEST(StackOverflow, AHandlerForOneSignalIsCalledOnce) {
    const Ended ended = in_child([] {
        install([](int, siginfo_t*, void*) { (void)!write(STDERR_FILENO, "once\n", 5); },
                SA_RESETHAND);
        on_user_thread("runaway", overflow);
    });
    EXPECT_TRUE(WIFSIGNALED(ended.status) && WTERMSIG(ended.status) == SIGSEGV) << ended.status;
    EXPECT_TRUE(ended.error.ends_with("stack\nonce\n")) << ended.error;
}

TEST(StackOverflow, OtherFaultsGoStraightToTheApplication) {
    const Ended ended = in_child([] {
        install(say_and_end);
        on_user_thread("faulty", write_nowhere);
    });
    ASSERT_TRUE(WIFEXITED(ended.status)) << ended.status << ended.error;
    EXPECT_EQ(WEXITSTATUS(ended.status), 7);
    EXPECT_EQ(ended.error, "own handler\n");
}

TEST(StackOverflow, OtherFaultsKillWithoutAHandler) {
    const Ended ended = in_child([] { on_user_thread("faulty", write_nowhere); });
    EXPECT_TRUE(dies_of_the_signal(ended)) << ended.status;
    EXPECT_FALSE(ended.says("stack overflow")) << ended.error;
}

TEST(StackOverflow, ASentSignalKillsToo) {
    const Ended ended = in_child([] { on_user_thread("sender", [] { kill(getpid(), SIGSEGV); }); });
    EXPECT_TRUE(dies_of_the_signal(ended)) << ended.status;
    EXPECT_FALSE(ended.says("stack overflow")) << ended.error;
}

// Collectors and emulators handle faults as a matter of course.
std::byte* page = nullptr;
void open_page(int, siginfo_t*, void*) { mprotect(page, 4096, PROT_READ | PROT_WRITE); }

TEST(StackOverflow, AHandlerMayMendTheFault) {
    const Ended ended = in_child([] {
        page = static_cast<std::byte*>(
            mmap(nullptr, 4096, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0));
        install(open_page);
        on_user_thread("writer", [] { *page = std::byte{1}; });
        if (*page != std::byte{1}) end_child(8);
    });
    EXPECT_TRUE(WIFEXITED(ended.status) && WEXITSTATUS(ended.status) == 0) << ended.status;
    EXPECT_EQ(ended.error, "");
}

TEST(StackOverflow, TheLastRuntimeRestoresTheHandler) {
    const Ended ended = in_child([] {
        install(say_and_end);
        auto first = *Runtime::start({});
        auto second = *Runtime::start({.workers = 2});
        if (installed() == reinterpret_cast<void*>(say_and_end)) end_child(1);
        first.reset();
        if (installed() == reinterpret_cast<void*>(say_and_end)) end_child(2);
        second.reset();
        if (installed() != reinterpret_cast<void*>(say_and_end)) end_child(3);
    });
    EXPECT_TRUE(WIFEXITED(ended.status) && WEXITSTATUS(ended.status) == 0) << ended.status;
}

// It may pass on to ours, so ours must work on, also in the next runtime.
struct sigaction before_theirs {};
void theirs(int number, siginfo_t* info, void* context) {
    (void)!write(STDERR_FILENO, "theirs\n", 7);
    before_theirs.sa_sigaction(number, info, context);
}

TEST(StackOverflow, AHandlerInstalledLaterStaysAndMayPassOn) {
    const Ended ended = in_child([] {
        install(say_and_end);
        auto first = *Runtime::start({});
        struct sigaction action {};
        action.sa_sigaction = theirs;
        action.sa_flags = SA_SIGINFO | SA_ONSTACK;
        sigaction(SIGSEGV, &action, &before_theirs);
        first.reset();
        if (installed() != reinterpret_cast<void*>(theirs)) end_child(1);
        on_user_thread("runaway", overflow);
    });
    ASSERT_TRUE(WIFEXITED(ended.status)) << ended.status << ended.error;
    EXPECT_EQ(WEXITSTATUS(ended.status), 7) << ended.error;
    EXPECT_TRUE(ended.error.starts_with("theirs\nlockstep: stack overflow")) << ended.error;
    EXPECT_TRUE(ended.error.ends_with("own handler\n")) << ended.error;
}

}  // namespace lockstep::threads::stack_overflow_test
