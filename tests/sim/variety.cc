// variety.cc - drawing a mixture, and the forms of keys.
#include "tests/sim/variety.h"

#include <fmt/format.h>

#include <algorithm>

#include "tests/sim/config.h"

namespace lockstep::sim {

namespace {

constexpr uint64_t kFirstVarietyStream = 3, kSecondVarietyStream = 4;
constexpr uint32_t kGroup = 16;  // keys that share a first byte or two

// Groups have one byte as long as that suffices, so that the shortest keys are there.
std::string group_of(uint32_t number) {
    const uint32_t group = number / kGroup;
    if (group < 0xf0) return std::string(1, static_cast<char>(group));
    return {static_cast<char>(0xf0 + (group - 0xf0) / 256), static_cast<char>(group % 256)};
}

std::string nested(const Variety& variety, uint32_t number) {
    return group_of(number) + std::string(number % kGroup * variety.key_step, 'x');
}

std::string in_runs(uint32_t number, size_t longest) {
    const uint32_t at = number % kGroup;
    std::string key = group_of(number);
    if (at == 0) return key;
    key += static_cast<char>(at);
    if (at >= 12) key += std::string(longest - key.size() - (at % 2) * 300, 'l');
    return key;
}

std::string with_shared(const Variety& variety, uint32_t number, size_t longest) {
    std::string key(variety.key_step, 's');
    key += static_cast<char>(number >> 8);
    key += static_cast<char>(number);
    if (number % 5 == 0) key.resize(longest, '\0');
    return key;
}

std::string with_any_length(uint32_t number, size_t longest) {
    static constexpr size_t kLengths[] = {0, 0, 0, 1, 2, 9, 30, 120, 400, 1024};
    std::string key = group_of(number);
    key += static_cast<char>(number % kGroup * 16);
    const uint32_t mixed = number * 0x9e3779b1u >> 16;
    key.resize(std::min(longest, key.size() + kLengths[mixed % 10]),
               mixed / 16 % 2 == 0 ? '\0' : '\xff');
    return key;
}

// Always the same draws in the same order.
void draw_second(Variety& variety, Rng rng) {
    variety.second = true;
    variety.hoard_odds = one_of(rng, {0.0, 0.0, 0.02, 0.05});
    variety.shared_odds = one_of(rng, {0.0, 0.0, 0.1, 0.2});
    variety.cycle_odds = one_of(rng, {0.0, 0.0, 0.02});
    variety.audit_odds = one_of(rng, {0.0, 0.0, 0.02});
    variety.steps_odds = one_of(rng, {0.0, 0.0, 0.001, 0.01});
    variety.small_pool = rng.chance(0.4);
    variety.crowd = rng.chance(0.1);
    variety.torn_reads = rng.chance(0.5);
    variety.late_backups = rng.chance(0.12);
}

}  // namespace

std::string key_of(const Variety& variety, uint32_t key_pad, uint32_t number, size_t longest) {
    if (variety.keys == KeyForm::numbered) {
        std::string key = fmt::format("key/{:05}", number);
        if (key_pad > 0) key += std::string(number * 7919u % key_pad, '.');
        return key;
    }
    if (number == 0) return {};
    switch (variety.keys) {
        case KeyForm::nested: return nested(variety, number);
        case KeyForm::runs: return in_runs(number, longest);
        case KeyForm::shared: return with_shared(variety, number, longest);
        default: return with_any_length(number, longest);
    }
}

// Always the same draws in the same order.
Variety draw_variety(uint64_t seed, uint32_t version) {
    Rng rng = stream(seed, Stream::configuration).fork(kFirstVarietyStream);
    Variety variety;
    if (rng.chance(0.6)) variety.keys = static_cast<KeyForm>(1 + rng.below(4));
    const uint32_t step = one_of(rng, {1u, 7u, 60u}), prefix = one_of(rng, {100u, 500u, 1000u});
    variety.key_step = variety.keys == KeyForm::nested ? step : prefix;
    variety.share = one_of(rng, {0.0, 0.2, 0.5, 0.8});
    variety.range = one_of(rng, {4u, 20u, 60u});
    variety.short_odds = one_of(rng, {0.0, 0.1, 0.5});
    variety.border_odds = one_of(rng, {0.0, 0.0, 0.05, 0.3});
    variety.prepare_odds = one_of(rng, {0.0, 0.0, 0.1, 0.3});
    variety.idle_odds = one_of(rng, {0.0, 0.0, 0.02});
    variety.backup_odds = one_of(rng, {0.0, 0.0, 0.02});
    variety.end_odds = one_of(rng, {0.0, 0.0, 0.05, 0.3});
    variety.shrink_odds = one_of(rng, {0.0, 0.0, 0.02});
    variety.secondary = rng.chance(0.15);
    variety.archive = rng.chance(0.25);
    if (version >= 2)
        draw_second(variety, stream(seed, Stream::configuration).fork(kSecondVarietyStream));
    variety.ranges = version >= 3;
    return variety;
}

std::string Variety::text() const {
    return fmt::format(
        "keys {} step {} share {:.1f} range {} short {:.1f} border {:.2f} prepare {:.1f} idle "
        "{:.2f} backup {:.2f} end {:.2f} shrink {:.2f} secondary {} archive {} "
        "hoard {:.2f} shared {:.1f} cycle {:.2f} audit {:.2f} switch {:.3f} small pool {} crowd {} "
        "torn {} late {}",
        static_cast<int>(keys), key_step, share, range, short_odds, border_odds, prepare_odds,
        idle_odds, backup_odds, end_odds, shrink_odds, secondary, archive, hoard_odds, shared_odds,
        cycle_odds, audit_odds, steps_odds, small_pool, crowd, torn_reads, late_backups);
}

}  // namespace lockstep::sim
