// packet_policy.h - the order in which packets begin.
#pragma once

#include <cstdint>

#include <lockstep/standard.h>  // keep: it refuses older standards

namespace lockstep {

// fifo: in the order in which they were submitted, or came due. priority: higher priorities first
// (PacketOptions::priority), fifo within one; a priority that was passed over 16 times comes first
// once.
enum class PacketPolicy : uint8_t { fifo, priority };

}  // namespace lockstep
