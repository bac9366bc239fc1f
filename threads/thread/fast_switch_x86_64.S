// fast_switch_x86_64.S - the fast context switch: the frame pointer and the stack pointer, nothing
// else. See fast_switch.h.
//
// Layout     a thread suspended here has on its stack, from its saved sp upwards: where it goes on,
//            rbp.
// Source     S. Harizopoulos, "Staged Database Systems", 2005, section 5.3 (the fast switch of
//            STEPS).
#if defined(__x86_64__)
    .text

// Jumped to. rax: where the leaving thread goes on; rdi: void** save; rsi: CTX point, only looked
// at by tracers; rdx: the pointer to enter.
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

// Jumped to. rax and rdi as above; rsi: void (*then)(void*), never returns; rdx: its argument.
// Calls it on what is left of this stack.
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

// Where a regular switch (jump_fcontext) arrives in a thread that was suspended by the fast one:
// rdi = context left, rsi = where its pointer belongs (switch.h). See regular_form() in
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
