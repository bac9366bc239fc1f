// inputs.cc - makes batches of inputs.
#include "tpcc/shard/inputs.h"

#include <cstring>
#include <set>
#include <string>
#include <vector>

#include "tpcc/deck.h"
#include "tpcc/shard/shard_options.h"
#include "tpcc/shard/wire.h"

namespace lockstep::tpcc {

namespace {

template <class T>
void append(std::string& out, T value) {
    out.append(reinterpret_cast<const char*>(&value), sizeof value);
}

}  // namespace
}  // namespace lockstep::tpcc

struct lockstep_tpcc_inputs {
    lockstep_tpcc_inputs(const lockstep::tpcc::ShardOptions& options, uint64_t seed)
        : scale_(options.scale),
          shards_(options.shards),
          rules_{options.scale, lockstep::tpcc::RandomConstants::choose(options.seed),
                 options.remote},
          rng_(lockstep::tpcc::row_rng(seed, 211, options.shard)),
          deck_(options.mix, lockstep::tpcc::row_rng(seed, 212, options.shard)) {}

    const std::string& next(uint32_t count) {
        using lockstep::tpcc::append;
        std::vector<std::string> local;
        std::string across;
        uint32_t across_count = 0;
        for (uint32_t n = 0; n < count; ++n) {
            const lockstep::tpcc::Input input = make();
            const std::set<uint32_t> others = warehouses_elsewhere(input);
            if (others.empty()) {
                local.push_back(packet_of(input));
                continue;
            }
            ++across_count;
            append_across(input, others, across);
        }
        std::string head;
        append(head, static_cast<uint32_t>(local.size()));
        for (const std::string& packet : local) append(head, static_cast<uint32_t>(packet.size()));
        for (const std::string& packet : local) head += packet;
        batch_.clear();
        append(batch_, static_cast<uint32_t>(head.size()));
        batch_ += head;
        append(batch_, across_count);
        batch_ += across;
        return batch_;
    }

private:
    // Terminals take turns: each has a warehouse and, for Stock-Level, a district of its own.
    lockstep::tpcc::Input make() {
        using namespace lockstep::tpcc;
        const uint32_t here = scale_.warehouses_here();
        const uint32_t w = scale_.first + terminal_ % here;
        const uint32_t d = terminal_ / here % scale_.districts + 1;
        ++terminal_;
        switch (deck_.deal()) {
            case TxnType::new_order: return make_new_order(rng_, rules_, w);
            case TxnType::payment: return make_payment(rng_, rules_, w);
            case TxnType::order_status: return make_order_status(rng_, rules_, w);
            case TxnType::delivery: return make_delivery(rng_, w);
            case TxnType::stock_level: break;
        }
        return make_stock_level(rng_, w, d);
    }

    // One warehouse of each other shard that the transaction needs.
    std::set<uint32_t> warehouses_elsewhere(const lockstep::tpcc::Input& input) const {
        using namespace lockstep::tpcc;
        std::set<uint32_t> shards, found;
        const auto need = [&](uint32_t w) {
            if (!scale_.holds(w) && shards.insert(shard_of(w, scale_.warehouses, shards_)).second)
                found.insert(w);
        };
        if (const auto* in = std::get_if<PaymentInput>(&input)) need(in->customer.w);
        if (const auto* in = std::get_if<NewOrderInput>(&input))
            for (uint8_t i = 0; i < in->ol_cnt - in->rolls_back; ++i) need(in->lines[i].supply_w);
        return found;
    }

    static void append_across(const lockstep::tpcc::Input& input, const std::set<uint32_t>& others,
                              std::string& out) {
        using namespace lockstep::tpcc;
        const auto* order = std::get_if<NewOrderInput>(&input);
        const std::string packet = packet_of(input);
        append(out, static_cast<uint8_t>(type_of(input)));
        append(out, static_cast<uint16_t>(order ? order->w : std::get<PaymentInput>(input).w));
        append(out, static_cast<uint8_t>(others.size()));
        for (const uint32_t w : others) append(out, static_cast<uint16_t>(w));
        append(out, static_cast<uint16_t>(packet.size()));
        out += packet;
    }

    const lockstep::tpcc::Scale scale_;
    const uint32_t shards_;
    const lockstep::tpcc::InputRules rules_;
    lockstep::Rng rng_;
    lockstep::tpcc::Deck deck_;
    uint32_t terminal_ = 0;
    std::string batch_;
};

lockstep_tpcc_inputs* lockstep_tpcc_inputs_open(const char* options, uint64_t seed, char* text,
                                                size_t room) {
    const auto read = lockstep::tpcc::read_shard_options(options);
    if (read) return new lockstep_tpcc_inputs(*read, seed);
    const std::string said = read.error().text();
    if (room != 0) {
        const size_t size = std::min(said.size(), room - 1);
        std::memcpy(text, said.data(), size);
        text[size] = '\0';
    }
    return nullptr;
}

const char* lockstep_tpcc_inputs_next(lockstep_tpcc_inputs* inputs, uint32_t count, size_t* size) {
    const std::string& batch = inputs->next(count);
    *size = batch.size();
    return batch.data();
}

void lockstep_tpcc_inputs_close(lockstep_tpcc_inputs* inputs) { delete inputs; }
