// arrow.h - blocks of a scan as the structs of the Arrow C data interface.
//
// Concepts   What a struct points to lies in one piece of memory, which counts its references: one
//            of the parent and one of each child, because a consumer may keep a child and release
//            the rest.
// Invariants AW-1 The memory goes with the last release of parent and children. [checked: drop()]
#pragma once

#include <span>

#include <lockstep/block.h>
#include <lockstep/c/report.h>

namespace lockstep::c {

enum class Decimals : uint8_t { wide, narrow, integer };

// Sets *out to the type of a block with these columns.
void export_schema(std::span<const Column> columns, Decimals decimals, ArrowSchema* out);
// Sets *out to a reference to the block. Errors: bad_argument (a decimal has too many digits),
// out_of_memory.
Result<void> export_block(const Block& block, Decimals decimals, ArrowArray* out);

}  // namespace lockstep::c
