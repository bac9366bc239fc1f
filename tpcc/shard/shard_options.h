// shard_options.h - what a shard of TPC-C is told: the scale of the whole, and its part.
#pragma once

#include <string>

#include "tpcc/deck.h"
#include "tpcc/executor.h"

namespace lockstep::tpcc {

struct ShardOptions {
    Scale scale;  // with the part of this shard
    uint32_t shards = 1, shard = 0;
    uint64_t seed = 1;   // of the load
    bool remote = true;  // InputRules::remote
    bool ch = false;     // the tables of CH-benCHmark, too (tpcc/ch/tables.h)
    Mix mix = Mix::full;
    ExecutorSettings executor{.durability = Durability::durable};
};

// The shard of a warehouse. Shard i has the warehouses i * W / N + 1 to (i + 1) * W / N.
uint32_t shard_of(uint32_t w, uint32_t warehouses, uint32_t shards);

// Reads a JSON object with the fields warehouses, districts, customers, undelivered, items, shards,
// shard, seed, remote, ch, mix (full, without_delivery, new_order, payment), durability (durable,
// lazy), snapshot_reads. Error: bad_option.
Result<ShardOptions> read_shard_options(const std::string& text);

}  // namespace lockstep::tpcc
