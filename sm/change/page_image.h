// page_image.h - page images in log records, compressed where that pays.
//
// Concepts   A plain image is the page without its hole (log_kinds.h). A packed image is the same
//            bytes as an LZ4 block. It is logged if it is at least an eighth smaller. ImageTrials
//            (sm/core/image_trials.h) says when a try is worth its time.
// Layout     Packed image: u16 hole_begin, u16 hole_end, u32 sum, LZ4 block of the bytes before and
//            behind the hole. `sum` is the low half of their XXH3.
// Invariants PI-1 A packed image is shorter than the plain one by an eighth at least. [checked:
//                 next_part()]
//            PI-2 A packed image that does not give back the logged bytes is corrupt_log. No byte
//                 outside the page is touched, whatever the block holds. [checked: bring_image()]
//            PI-3 Only a store whose superblock has version 3 holds packed images.
// Source     https://github.com/lz4/lz4/blob/dev/doc/lz4_Block_format.md
#pragma once

#include "sm/change/log_kinds.h"

namespace lockstep::sm {

// The page as a packed image in memory of its own, which the caller frees with delete[]. Null if it
// does not pay, or if there is no memory. `bytes`: its length. Takes 5 to 12 us.
[[gnu::cold, gnu::noinline]] std::byte* pack_image(const Page& page, uint32_t& bytes);

// Puts the image of a part over the page, plain or packed. Error: corrupt_log; the page then holds
// any bytes.
Result<void> bring_image(Page& page, const PartView& part);

}  // namespace lockstep::sm
