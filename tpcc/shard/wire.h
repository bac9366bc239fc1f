// wire.h - the inputs of transactions, and what the parts of one transaction tell each other, as
// bytes between processes.
//
// Concepts   A packet is a byte with the TxnType and the input's struct. All processes run the same
//            build of the object, so the structs have one layout. A reader trusts no packet:
//            numbers outside the scale are refused.
#pragma once

#include <optional>
#include <string>

#include "tpcc/executor.h"
#include "tpcc/foreign_rows.h"

namespace lockstep::tpcc {

std::string packet_of(const Input& input);
// Empty: no packet, or one with numbers outside the scale.
std::optional<Input> read_packet(Slice packet, const Scale& scale);

// Appends the replies of supply_remote() for the lines whose stock this store has.
void append_supplies(const NewOrderInput& in, const Scale& scale, const RemoteStock* stocks,
                     std::string& out);
// Reads the replies of all other shards into out[line]. False: a line of another shard is missing,
// or one is malformed.
bool read_supplies(Slice replies, const NewOrderInput& in, const Scale& scale, RemoteStock* out);

// A request that ends with something behind its packet: u16 size, the packet, the rest.
bool split_packet(Slice request, Slice& packet, Slice& rest);

std::string bytes_of_rows(const ForeignRows& rows);
// Adds the rows of several stores, one after the other. False: malformed.
bool read_rows(Slice bytes, ForeignRows& out);

}  // namespace lockstep::tpcc
