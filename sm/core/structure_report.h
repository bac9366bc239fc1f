// structure_report.h - what the check of an index or a heap found.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include <lockstep/types.h>

namespace lockstep::sm {

struct StructureReport {
    uint64_t pages_inner = 0, pages_leaf = 0, pages_overflow = 0, records = 0, ghosts = 0,
             levels = 0, bytes_used = 0;
    std::vector<PageId> pages;        // all of them, for the store's check
    std::vector<std::string> faults;  // empty = sound
};

}  // namespace lockstep::sm
