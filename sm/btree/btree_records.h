// btree_records.h - the state of a B-tree record, as versions keep it.
#pragma once

#include "sm/btree/btree_node.h"
#include "sm/version/record_state.h"

namespace lockstep::sm {

// RecordState::bits: the bytes are an OverflowRef.
inline constexpr uint8_t kRecordOverflow = 1;

// The record in that slot of a leaf; it refers to the page's bytes.
RecordState record_in(const Page& page, unsigned slot);

}  // namespace lockstep::sm
