// heap_chunks.h - parts of a heap: neighbours in its list of data pages.
//
// Concepts   A *place* is where the map lists a data page: number of the map page in its chain,
//            that page, entry. Written one behind the other with the largest byte first, places
//            are keys that ascend. Pages keep their places while the heap exists, and new ones
//            come last.
// Blocking   Parks for map pages. The caller holds no latch.
#pragma once

#include <string>
#include <vector>

#include "sm/heap/heap_file.h"

namespace lockstep::sm {

// The places, ascending, at which all parts but the first begin; a part has at most `pages` data
// pages, except that the last one also has those that come later. Errors: corrupt_page, and those
// of reading pages.
Result<std::vector<std::string>> cut_into_chunks(HeapFile& heap, unsigned pages);
// The data pages whose places lie in [low, high), or go to the end. Errors: the same.
Result<std::vector<PageId>> pages_of_chunk(HeapFile& heap, Slice low, Slice high);

}  // namespace lockstep::sm
