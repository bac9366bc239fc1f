// ctx_x86_64.S - the fast context switch: callee-saved registers and the stack pointer, nothing else.
//
// Layout     a thread suspended here has on its stack, from its saved sp upwards: r15 r14 r13 r12 rbx rbp, return address.
// Source     S. Harizopoulos, "Staged Database Systems", 2005, section 5.3 (the fast switch of STEPS).
#if defined(__x86_64__)
    .text

// void lockstep_ctx_swap(void** save [rdi], void* to [rsi])
    .globl lockstep_ctx_swap
    .type lockstep_ctx_swap, @function
    .p2align 6
lockstep_ctx_swap:
    .cfi_startproc
    push %rbp
    push %rbx
    push %r12
    push %r13
    push %r14
    push %r15
    mov %rsp, (%rdi)
    mov %rsi, %rsp
    pop %r15
    pop %r14
    pop %r13
    pop %r12
    pop %rbx
    pop %rbp
    ret
    .cfi_endproc
    .size lockstep_ctx_swap, . - lockstep_ctx_swap

// void lockstep_ctx_leave(void** save [rdi], void (*then)(void*) [rsi], void* arg [rdx])
// Saves as lockstep_ctx_swap does, then calls `then` on what is left of this stack; `then` never returns. The caller goes on when somebody
// swaps to the saved pointer.
    .globl lockstep_ctx_leave
    .type lockstep_ctx_leave, @function
    .p2align 4
lockstep_ctx_leave:
    .cfi_startproc
    push %rbp
    push %rbx
    push %r12
    push %r13
    push %r14
    push %r15
    mov %rsp, (%rdi)
    mov %rdx, %rdi
    sub $8, %rsp
    call *%rsi
    ud2
    .cfi_endproc
    .size lockstep_ctx_leave, . - lockstep_ctx_leave

// Where a regular switch (jump_fcontext) arrives in a thread that was suspended by the fast one: rdi = context left, rsi = where its pointer
// belongs (switch.h). See regular_form() in ctx.cc.
    .globl lockstep_ctx_arrive
    .type lockstep_ctx_arrive, @function
    .p2align 4
lockstep_ctx_arrive:
    .cfi_startproc
    mov %rdi, (%rsi)
    pop %r15
    pop %r14
    pop %r13
    pop %r12
    pop %rbx
    pop %rbp
    ret
    .cfi_endproc
    .size lockstep_ctx_arrive, . - lockstep_ctx_arrive

#endif
    .section .note.GNU-stack,"",@progbits
