// fast_switch_aarch64.S - the fast context switch on 64-bit ARM: callee-saved registers (x19-x30,
// d8-d15) and the stack pointer.
//
// Layout     A suspended thread's stack holds, from its saved sp upwards: x29 x30 x19 .. x28 d8 ..
//            d15, 160 bytes. With 20 registers to save, the switch is longer than a cache line.
// Source     as fast_switch_x86_64.S.
#if defined(__aarch64__)
    .text

    .macro SAVE
    stp x29, x30, [sp, #-160]!
    stp x19, x20, [sp, #16]
    stp x21, x22, [sp, #32]
    stp x23, x24, [sp, #48]
    stp x25, x26, [sp, #64]
    stp x27, x28, [sp, #80]
    stp d8, d9, [sp, #96]
    stp d10, d11, [sp, #112]
    stp d12, d13, [sp, #128]
    stp d14, d15, [sp, #144]
    .endm

    .macro RESTORE_AND_RETURN
    ldp x19, x20, [sp, #16]
    ldp x21, x22, [sp, #32]
    ldp x23, x24, [sp, #48]
    ldp x25, x26, [sp, #64]
    ldp x27, x28, [sp, #80]
    ldp d8, d9, [sp, #96]
    ldp d10, d11, [sp, #112]
    ldp d12, d13, [sp, #128]
    ldp d14, d15, [sp, #144]
    ldp x29, x30, [sp], #160
    ret
    .endm

// void lockstep_ctx_swap(void** save [x0], unsigned point [x1], void* to [x2])
    .globl lockstep_ctx_swap
    .type lockstep_ctx_swap, %function
    .p2align 6
lockstep_ctx_swap:
    SAVE
    mov x9, sp
    str x9, [x0]
    mov sp, x2
    RESTORE_AND_RETURN
    .size lockstep_ctx_swap, . - lockstep_ctx_swap

// void lockstep_ctx_leave(void** save [x0], void (*then)(void*) [x1], void* arg [x2]): see
// fast_switch_x86_64.S.
    .globl lockstep_ctx_leave
    .type lockstep_ctx_leave, %function
    .p2align 4
lockstep_ctx_leave:
    SAVE
    mov x9, sp
    str x9, [x0]
    mov x0, x2
    blr x1
    brk #1
    .size lockstep_ctx_leave, . - lockstep_ctx_leave

// A regular switch (jump_fcontext) arrives here in a thread that the fast switch suspended. x0: the
// context left; x1: address of the variable for its pointer (switch.h). See regular_form() in
// fast_switch.cc.
    .globl lockstep_ctx_arrive
    .type lockstep_ctx_arrive, %function
    .p2align 4
lockstep_ctx_arrive:
    str x0, [x1]
    RESTORE_AND_RETURN
    .size lockstep_ctx_arrive, . - lockstep_ctx_arrive

#endif
    .section .note.GNU-stack,"",%progbits
