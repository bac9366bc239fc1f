// ctx_aarch64.S - the fast context switch on 64-bit ARM: callee-saved registers (x19-x30, d8-d15) and the stack pointer.
#if defined(__aarch64__)
    .text
// void lockstep_ctx_swap(void** save [x0], void* to [x1])
    .globl lockstep_ctx_swap
    .type lockstep_ctx_swap, %function
    .p2align 6
lockstep_ctx_swap:
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
    mov x9, sp
    str x9, [x0]
    mov sp, x1
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
    .size lockstep_ctx_swap, . - lockstep_ctx_swap
#endif
    .section .note.GNU-stack,"",%progbits
