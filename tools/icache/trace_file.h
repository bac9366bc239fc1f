// trace_file.h - a recorded trace in memory, divided into the parts of its plan.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include <lockstep/result.h>
#include "tools/icache/trace_format.h"

namespace lockstep::icache {

inline TraceKind kind_of(uint64_t word) { return static_cast<TraceKind>(word >> TRACE_KIND_SHIFT); }
inline uint32_t small_of(uint64_t word) {
    return static_cast<uint32_t>(word >> TRACE_ADDRESS_BITS & 0xfff);
}
inline uint64_t address_of(uint64_t word) { return word & TRACE_ADDRESS_MASK; }
inline uint32_t instructions_of(uint64_t run) { return small_of(run) & 15; }
inline uint32_t bytes_of(uint64_t run) { return small_of(run) >> 4; }

// Makes words for tests and hand-made traces.
inline uint64_t trace_word(TraceKind kind, uint32_t small, uint64_t address) {
    return uint64_t{kind} << TRACE_KIND_SHIFT | uint64_t{small & 0xfff} << TRACE_ADDRESS_BITS |
           (address & TRACE_ADDRESS_MASK);
}
inline uint64_t run_word(uint64_t address, uint32_t bytes, uint32_t instructions) {
    return trace_word(kTraceRun, instructions | bytes << 4, address);
}

class TraceFile {
public:
    TraceFile() = default;
    TraceFile(TraceFile&& other) noexcept : words_(other.words_), bytes_(other.bytes_) {
        other.words_ = nullptr;
    }
    TraceFile& operator=(TraceFile&&) = delete;
    ~TraceFile();
    // Errors: bad_path, io_error; bad_argument if the file is not a trace.
    static Result<TraceFile> open(const std::string& path);

    std::span<const uint64_t> words() const { return {words_ + 1, bytes_ / sizeof(uint64_t) - 1}; }
    // The words between mark `segment` and the next such mark. Without such marks, segment 0 is
    // everything.
    std::span<const uint64_t> segment(uint64_t segment) const;

private:
    const uint64_t* words_ = nullptr;  // mapped; the first is the magic number
    size_t bytes_ = 0;
};

}  // namespace lockstep::icache
