// heap_records.h - the state of a heap slot, as versions keep it.
#pragma once

#include "sm/heap/heap_page.h"
#include "sm/version/record_state.h"

namespace lockstep::sm {

// The slot of a data page; bits: SlotState. It refers to the page's bytes.
RecordState slot_state(const Page& page, uint32_t number);

}  // namespace lockstep::sm
