// labels: unit
// switch_test.cc - contexts by themselves: registers, alignment, the floating-point unit.
#include "threads/thread/switch.h"

#include <gtest/gtest.h>

#include <cfenv>
#include <cstdint>
#include <cstring>

#include "threads/base/sanitized.h"

namespace lockstep::threads::switch_test {

// Two places that take turns: the test's own stack and one of a pool.
struct Pair {
    StackPool pool{64 * 1024};
    Stack home = kernel_stack();
    Stack* away_stack = nullptr;
    void* home_sp = nullptr;
    void* away_sp = nullptr;
    uint64_t value = 0;
    bool done = false;
};
Pair* pair = nullptr;  // an entry function has no argument of its own

void to_away() { switch_context(&pair->home_sp, pair->away_sp, *pair->away_stack); }
[[gnu::noinline]] void to_home() { switch_context(&pair->away_sp, pair->home_sp, pair->home); }
[[noreturn]] void end_away() {
    pair->done = true;
    switch_last(pair->home_sp, pair->home);
}

class Switch : public ::testing::Test {
public:
    ~Switch() override {
        if (pair_.away_stack != nullptr) pair_.pool.give(pair_.away_stack);
    }

protected:
    void begin(ContextEntry entry) {
        pair = &pair_;
        pair_.away_stack = *pair_.pool.take();
        pair_.away_sp = make_context(*pair_.away_stack, entry);
    }
    Pair pair_;
};

TEST_F(Switch, PingPongKeepsLocals) {
    begin([](Transfer t) {
        arrived(t);
        uint64_t a = 1, b = 2, c = 3, d = 4, e = 5;
        for (int i = 0; i < 1000; ++i) {
            a += b;
            b += c;
            c += d;
            d += e;
            e += a;
            pair->value = a ^ b ^ c ^ d ^ e;
            to_home();
        }
        end_away();
    });
    uint64_t a = 1, b = 2, c = 3, d = 4, e = 5;
    for (int i = 0; i < 1000; ++i) {
        to_away();
        a += b;
        b += c;
        c += d;
        d += e;
        e += a;
        ASSERT_EQ(pair->value, a ^ b ^ c ^ d ^ e) << i;
    }
    EXPECT_FALSE(pair->done);
    to_away();
    EXPECT_TRUE(pair->done);
}

// Puts known values into the callee-saved registers, calls `fn`, and stores what is in them
// afterwards.
#ifdef __aarch64__
[[gnu::noinline]] void call_with_known_registers(void (*fn)(), uint64_t base, uint64_t out[5]) {
    register uint64_t* to asm("x0") = out;
    register void (*call)() asm("x1") = fn;
    register uint64_t number asm("x2") = base;
    // The last number is in a floating-point register meanwhile.
    asm volatile(
        "stp x29, x0, [sp, #-16]!\n\t"
        "add x19, x2, #1\n\t"
        "add x20, x2, #2\n\t"
        "add x21, x2, #3\n\t"
        "add x28, x2, #4\n\t"
        "add x9, x2, #5\n\t"
        "fmov d8, x9\n\t"
        "blr x1\n\t"
        "ldp x29, x0, [sp], #16\n\t"
        "stp x19, x20, [x0]\n\t"
        "stp x21, x28, [x0, #16]\n\t"
        "str d8, [x0, #32]\n\t"
        : "+r"(to), "+r"(call), "+r"(number)
        :
        : "x3", "x4", "x5", "x6", "x7", "x8", "x9", "x10", "x11", "x12", "x13", "x14", "x15", "x16",
          "x17", "x19", "x20", "x21", "x22", "x23", "x24", "x25", "x26", "x27", "x28", "x30", "v0",
          "v1", "v2", "v3", "v4", "v5", "v6", "v7", "v8", "v9", "v10", "v11", "v12", "v13", "v14",
          "v15", "v16", "v17", "v18", "v19", "v20", "v21", "v22", "v23", "v24", "v25", "v26", "v27",
          "v28", "v29", "v30", "v31", "cc", "memory");
}
#else
// NOLINTNEXTLINE(readability-non-const-parameter): the assembly writes to `out`.
[[gnu::noinline]] void call_with_known_registers(void (*fn)(), uint64_t base, uint64_t out[5]) {
    asm volatile(
        "movq %%rsp, %%rax\n\t"
        "subq $256, %%rsp\n\t"
        "andq $-16, %%rsp\n\t"
        "pushq %%rax\n\t"
        "pushq %%rdi\n\t"
        "leaq 1(%%rdx), %%rbx\n\t"
        "leaq 2(%%rdx), %%r12\n\t"
        "leaq 3(%%rdx), %%r13\n\t"
        "leaq 4(%%rdx), %%r14\n\t"
        "leaq 5(%%rdx), %%r15\n\t"
        "call *%%rsi\n\t"
        "popq %%rdi\n\t"
        "movq %%rbx, 0(%%rdi)\n\t"
        "movq %%r12, 8(%%rdi)\n\t"
        "movq %%r13, 16(%%rdi)\n\t"
        "movq %%r14, 24(%%rdi)\n\t"
        "movq %%r15, 32(%%rdi)\n\t"
        "popq %%rsp\n\t"
        : "+D"(out), "+S"(fn), "+d"(base)
        :
        : "rax", "rbx", "rcx", "r8", "r9", "r10", "r11", "r12", "r13", "r14", "r15", "memory", "cc",
          "xmm0", "xmm1", "xmm2", "xmm3", "xmm4", "xmm5", "xmm6", "xmm7", "xmm8", "xmm9", "xmm10",
          "xmm11", "xmm12", "xmm13", "xmm14", "xmm15");
}
#endif

TEST_F(Switch, CalleeSavedRegistersSurvive) {
    begin([](Transfer t) {
        arrived(t);
        uint64_t out[5];
        call_with_known_registers(to_home, 0xaaaa0000, out);
        pair->value = 1;
        for (uint64_t i = 0; i < 5; ++i)
            if (out[i] != 0xaaaa0000 + i + 1) pair->value = 0;
        end_away();
    });
    uint64_t out[5];
    call_with_known_registers(to_away, 0x55550000, out);
    for (uint64_t i = 0; i < 5; ++i) EXPECT_EQ(out[i], 0x55550000 + i + 1);
    to_away();
    EXPECT_EQ(pair->value, 1u);
}

// SW-1: on x86-64, movaps on a local faults if the stack is off by 8.
TEST_F(Switch, StackAlignment) {
    begin([](Transfer t) {
        arrived(t);
        using Lanes [[gnu::vector_size(16)]] = float;
        Lanes lanes = {1, 2, 3, 4};
        asm volatile("" : "+m"(lanes));
        lanes += 1;
        asm volatile("" : "+m"(lanes));
        pair->value = reinterpret_cast<uintptr_t>(__builtin_frame_address(0)) % 16;
        if (lanes[3] != 5) pair->value = 99;
        end_away();
    });
    pair->value = 77;
    to_away();
    EXPECT_EQ(pair->value, 0u);
}

// The debugger script relies on this layout.
TEST_F(Switch, WaitingContextShowsWhereItStands) {
    begin([](Transfer t) {
        arrived(t);
        pair->value = reinterpret_cast<uintptr_t>(__builtin_frame_address(0));
        to_home();
        end_away();
    });
    to_away();
    const auto* saved = static_cast<const char*>(pair_.away_sp);
    uintptr_t frame, counter;
    std::memcpy(&frame, saved + kSavedFramePointer, sizeof frame);
    std::memcpy(&counter, saved + kSavedReturnAddress, sizeof counter);
    EXPECT_LT(frame, pair_.value);  // of a function that the entry function called
    EXPECT_GT(frame, pair_.value - 1024);
#if defined(LOCKSTEP_SANITIZED)
    const auto function = reinterpret_cast<uintptr_t>(&switch_announced);
#elif !defined(__OPTIMIZE__)  // there it is called, not inlined
    const auto function = reinterpret_cast<uintptr_t>(&switch_context);
#else
    const auto function = reinterpret_cast<uintptr_t>(&to_home);
#endif
    EXPECT_GT(counter, function);
    EXPECT_LT(counter, function + (switches_announced ? 4096 : 512));
    to_away();
}

TEST_F(Switch, RoundingModeBelongsToTheContext) {
    begin([](Transfer t) {
        arrived(t);
        std::fesetround(FE_UPWARD);
        to_home();
        pair->value = static_cast<uint64_t>(std::fegetround());
        end_away();
    });
    const int before = std::fegetround();
    to_away();
    EXPECT_EQ(std::fegetround(), before);
    to_away();
    EXPECT_EQ(pair->value, uint64_t{FE_UPWARD});
    EXPECT_EQ(std::fegetround(), before);
}

}  // namespace lockstep::threads::switch_test
