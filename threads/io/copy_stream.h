// copy_stream.h - moves bytes through three steps in their order: read, look at, write.
//
// Concepts   A stream has a few buffers. With threads of their own, the steps work on different
//            buffers at the same time, so the device reads and writes while the processor checks.
//            Without them, each buffer passes all steps before the next one is read. A simulated
//            disk needs that, because its events have one order.
// Invariants CS-1 Each step sees the buffers in the order in which they were read. A buffer is
//                 written only if both earlier steps took it, and nothing is written behind a
//                 buffer that failed. So what is written is a prefix, with threads or without.
// Blocking   run() blocks the calling kernel thread, which writes.
#pragma once

#include <array>

#include <lockstep/function_ref.h>
#include <lockstep/result.h>
#include "threads/io/aligned_buffer.h"

namespace lockstep::threads {

enum class CopySteps : uint8_t {
    alternate,  // on the caller's thread
    overlap,    // on threads of their own, or on the caller's if the system refuses threads
};

struct CopyBuffer {
    static constexpr size_t kBytes = 1 << 20;
    std::byte* bytes = nullptr;  // kBytes, aligned for direct transfers
    uint64_t at = 0;             // where the bytes belong; set by the reader
    size_t size = 0;             // how many there are; set by the reader
    bool dropped = false;        // the stream ended before it
};

class CopyStream {
public:
    static constexpr size_t kBuffers = 4;
    // Error: out_of_memory.
    static Result<CopyStream> create(CopySteps steps);

    // Fills the buffer. False: the end was reached before, and the buffer has nothing.
    using Read = FunctionRef<Result<bool>(CopyBuffer&)>;
    // False: this buffer is the last one; it is still written.
    using Look = FunctionRef<Result<bool>(CopyBuffer&)>;
    using Write = FunctionRef<Result<void>(CopyBuffer&)>;

    // Until the end, or until a step fails: then the error that concerns the earliest buffer.
    Result<void> run(Read read, Look look, Write write);

private:
    CopyStream(CopySteps steps, AlignedBuffer memory);
    Result<void> alternate(Read read, Look look, Write write);
    Result<void> overlap(Read read, Look look, Write write);

    CopySteps steps_;
    AlignedBuffer memory_;
    std::array<CopyBuffer, kBuffers> buffers_;
};

}  // namespace lockstep::threads
