// stack_sample_impl.h - copies frames and words of a stack, for the handler and from outside.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>

#include "threads/base/check.h"
#include "threads/thread/stack.h"
#include "threads/thread/stack_sample.h"

// Reads the stack of another function, red zones of a sanitizer included.
#define LOCKSTEP_READS_STACK __attribute__((no_sanitize("address", "thread"), noinline))

namespace lockstep::threads {

struct Registers {
    uintptr_t pc, sp, fp;
};

struct StackCopy {
    static constexpr size_t kFramesMax = 48, kWordsMax = 512;
    size_t frame_count = 0, word_count = 0, gap = 0, rest = 0;
    uintptr_t frames[kFramesMax];
    uintptr_t words[kWordsMax];

    StackSample sample() const {
        DCHECK(frame_count <= kFramesMax && word_count <= kWordsMax);
        DCHECK(gap <= rest && rest <= word_count);
        DCHECK(frame_count > 0 || word_count == 0);
        StackSample made;
        made.gap = gap;
        made.rest = rest;
        made.frames.assign(frames, frames + frame_count);
        made.words.assign(words, words + word_count);
        return made;
    }
};

// `word(address)` reads a word between the stack pointer and the stack's top. Async-signal-safe.
template <class Word>
LOCKSTEP_READS_STACK void copy_stack(StackCopy& copy, const Registers& at, const Stack& stack,
                                     Word word) {
    const auto base = reinterpret_cast<uintptr_t>(stack.base),
               top = reinterpret_cast<uintptr_t>(stack.top);
    copy.frames[0] = at.pc;
    copy.frame_count = 1;
    copy.word_count = 0;
    copy.gap = copy.rest = 0;
    if (at.sp < base || at.sp >= top) return;  // in the middle of a switch
    constexpr uintptr_t kWord = sizeof(uintptr_t);
    for (uintptr_t a = (at.sp + kWord - 1) / kWord * kWord;
         a + kWord <= top && copy.word_count < StackCopy::kWordsMax; a += kWord)
        copy.words[copy.word_count++] = word(a);
    const auto index = [&](uintptr_t address) {
        return std::min((address - at.sp) / kWord, copy.word_count);
    };
    // A frame has the caller's frame pointer, and above it the return address.
    uintptr_t fp = at.fp, below = at.sp;
    // Code without frame pointers may hold any number in this register.
    while (copy.frame_count < StackCopy::kFramesMax && fp >= below && fp < top &&
           top - fp >= 2 * kWord && fp % kWord == 0) {
        if (copy.frame_count <= 2) copy.gap = index(fp);
        copy.frames[copy.frame_count++] = word(fp + kWord);
        below = fp + 2 * kWord;
        fp = word(fp);
    }
    // Of thread_entry() and what called it.
    constexpr uintptr_t kFirstFrames = 512;
    copy.rest = top - below < kFirstFrames ? copy.word_count : index(below);
}

}  // namespace lockstep::threads
