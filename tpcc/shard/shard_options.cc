// shard_options.cc - reads the options of a shard.
#include "tpcc/shard/shard_options.h"

#include <nlohmann/json.hpp>

#include "threads/base/try.h"

namespace lockstep::tpcc {

namespace {

using nlohmann::json;

Result<void> read_field(const std::string& name, const json& value, ShardOptions& out) {
    const auto number = [&](auto& field) -> Result<void> {
        if (!value.is_number_unsigned())
            return fail(ErrorCode::bad_option, "options of a TPC-C shard: a number is expected");
        field = value.get<std::remove_reference_t<decltype(field)>>();
        return {};
    };
    const auto flag = [&](bool& field) -> Result<void> {
        if (!value.is_boolean())
            return fail(ErrorCode::bad_option, "options of a TPC-C shard: true or false expected");
        field = value.get<bool>();
        return {};
    };
    if (name == "warehouses") return number(out.scale.warehouses);
    if (name == "districts") return number(out.scale.districts);
    if (name == "customers") return number(out.scale.customers);
    if (name == "undelivered") return number(out.scale.undelivered);
    if (name == "items") return number(out.scale.items);
    if (name == "shards") return number(out.shards);
    if (name == "shard") return number(out.shard);
    if (name == "seed") return number(out.seed);
    if (name == "remote") return flag(out.remote);
    if (name == "ch") return flag(out.ch);
    if (name == "snapshot_reads") return flag(out.executor.snapshot_reads);
    if (name == "durability" && (value == "durable" || value == "lazy")) {
        out.executor.durability = value == "lazy" ? Durability::lazy : Durability::durable;
        return {};
    }
    if (name == "mix") {
        constexpr const char* kMixes[] = {"full", "without_delivery", "new_order", "payment"};
        for (size_t i = 0; i < std::size(kMixes); ++i) {
            if (value != kMixes[i]) continue;
            out.mix = static_cast<Mix>(i);
            return {};
        }
    }
    return fail(ErrorCode::bad_option, "options of a TPC-C shard: a field is unknown");
}

bool possible(const Scale& s) {
    return s.warehouses > 0 && s.warehouses <= kWarehousesMax && s.districts > 0 &&
           s.districts <= 10 && s.customers >= 15 && s.customers <= 65535 &&
           s.undelivered <= s.customers && s.items >= 100;
}

}  // namespace

uint32_t shard_of(uint32_t w, uint32_t warehouses, uint32_t shards) {
    return static_cast<uint32_t>((uint64_t{w} * shards - 1) / warehouses);
}

Result<ShardOptions> read_shard_options(const std::string& text) {
    const json given = json::parse(text, nullptr, false);
    if (!given.is_object())
        return fail(ErrorCode::bad_option, "options of a TPC-C shard: a JSON object is expected");
    ShardOptions out;
    for (const auto& [name, value] : given.items()) TRY(read_field(name, value, out));
    Scale& scale = out.scale;
    if (!possible(scale) || out.shards == 0 || out.shards > scale.warehouses ||
        out.shard >= out.shards)
        return fail(ErrorCode::bad_option,
                    "options of a TPC-C shard: impossible scale, or fewer warehouses than shards");
    const uint64_t all = scale.warehouses;
    scale.first = static_cast<uint32_t>(out.shard * all / out.shards) + 1;
    scale.last = static_cast<uint32_t>((out.shard + 1) * all / out.shards);
    return out;
}

}  // namespace lockstep::tpcc
