// inputs.h - the terminals of a shard's warehouses, on the side of the client: makes inputs.
//
// Concepts   The functions are C, so that a client in any language may load the object and call
//            them. They need no store. A batch has the inputs of one transaction each for `count`
//            terminals, whose warehouses take turns. Numbers are little-endian:
//              u32 size   of the local part, which follows
//              u32 count, u32 size[count], packets     as "tpcc.run" takes them
//              u32 count, then for each transaction over several shards
//                u8 TxnType, u16 home, u8 n, u16 warehouse[n], u16 size, packet
//            The n warehouses are one of each other shard that takes part.
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
