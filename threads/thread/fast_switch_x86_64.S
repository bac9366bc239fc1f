// fast_switch_x86_64.S - the fast context switch: frame pointer and stack pointer only. See
// fast_switch.h.
//
// Layout     A suspended thread's stack holds, from its saved sp upwards: resume address, rbp.
// Source     S. Harizopoulos, "Staged Database Systems", 2005, section 5.3 (the fast switch of
//            STEPS).
#if defined(__x86_64__)
    .text

// Entered by a jump. rax: resume address of the leaving thread; rdi: void** save; rsi: CTX point,
// for tracers only; rdx: the pointer to enter.
    .globl lockstep_ctx_swap
    .type lockstep_ctx_swap, @function
    .p2align 6
lockstep_ctx_swap:
    push %rbp
    push %rax
    mov %rsp, (%rdi)
    mov %rdx, %rsp
    pop %rax
    pop %rbp
    jmp *%rax
    .size lockstep_ctx_swap, . - lockstep_ctx_swap

// Entered by a jump. rax and rdi as above; rsi: void (*then)(void*), which never returns; rdx: its
// argument. Calls `then` on the rest of this stack.
    .globl lockstep_ctx_leave
    .type lockstep_ctx_leave, @function
    .p2align 4
lockstep_ctx_leave:
    push %rbp
    push %rax
    mov %rsp, (%rdi)
    mov %rdx, %rdi
    and $-16, %rsp
    call *%rsi
    ud2
    .size lockstep_ctx_leave, . - lockstep_ctx_leave

// A regular switch (jump_fcontext) arrives here in a thread that the fast switch suspended. rdi:
// the context left; rsi: address of the variable for its pointer (switch.h). See regular_form() in
// fast_switch.cc.
    .globl lockstep_ctx_arrive
    .type lockstep_ctx_arrive, @function
    .p2align 4
lockstep_ctx_arrive:
    mov %rdi, (%rsi)
    pop %rax
    pop %rbp
    jmp *%rax
    .size lockstep_ctx_arrive, . - lockstep_ctx_arrive

#endif
    .section .note.GNU-stack,"",@progbits
