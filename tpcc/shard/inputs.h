// inputs.h - the terminals of a shard's warehouses, on the side of the client: makes inputs.
//
// Concepts   The functions are C, so that a client in any language may load the object and call
//            them. They need no store. A batch has the inputs of one transaction each for `count`
//            terminals, whose warehouses take turns. Its parts follow one another.
// Layout     A batch begins with its local part: its size as u32, then a count, the sizes and the
//            packets, as "tpcc.run" takes them (all u32). The transactions over several shards
//            follow: their count as u32, then one after the other. Each has its TxnType (u8), its
//            home warehouse (u16), the number of other shards (u8), one warehouse of each of them
//            (u16), the size of its packet (u16), and the packet.
//            Numbers are little-endian.
#pragma once

#include <stddef.h>
#include <stdint.h>

extern "C" {
struct lockstep_tpcc_inputs;

// `options` is that of the shard (shard_options.h). NULL: they are wrong, and `text`, of `room`
// bytes, says why. Never blocks.
lockstep_tpcc_inputs* lockstep_tpcc_inputs_open(const char* options, uint64_t seed, char* text,
                                                size_t room);
// The next batch. Its bytes belong to the inputs and are valid until the next call. One thread at
// a time; never blocks.
const char* lockstep_tpcc_inputs_next(lockstep_tpcc_inputs* inputs, uint32_t count, size_t* size);
void lockstep_tpcc_inputs_close(lockstep_tpcc_inputs* inputs);
}
