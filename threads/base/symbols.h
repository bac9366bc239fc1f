// symbols.h - names of code addresses, for messages about a stack.
#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

namespace lockstep {

// The executable mappings of the process, to tell return addresses from other words.
class CodeMap {
public:
    CodeMap();  // reads /proc/self/maps
    // Does a call instruction end right before `address`? On other architectures than x86-64:
    // whether it is code.
    bool is_return_address(uintptr_t address) const;

private:
    bool holds(uintptr_t address) const;
    std::vector<std::pair<uintptr_t, uintptr_t>> ranges_;
};

// "name+0x12 in module+0x3456", or less if less is known. addr2line takes the module's part. Reads
// the module's symbol table from its file, so it also names functions that are not exported. Slow;
// allocates. Not in a signal handler.
[[gnu::cold]] std::string symbol_of(uintptr_t address);

}  // namespace lockstep
