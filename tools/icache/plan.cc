// plan.cc - reads plans and chooses store options for them.
#include <fmt/core.h>

#include <algorithm>
#include <charconv>

#include "threads/base/try.h"
#include "tools/icache/child.h"

namespace lockstep::icache {

namespace {

struct ModeName {
    StepsMode mode;
    std::string_view name;
};
constexpr ModeName kModes[] = {{StepsMode::off, "off"},           {StepsMode::on, "on"},
                               {StepsMode::ctx, "ctx"},           {StepsMode::grouping, "grouping"},
                               {StepsMode::prefetch, "prefetch"}, {StepsMode::ctx_only, "ctx_only"},
                               {StepsMode::fastctx, "fastctx"}};

std::string_view mode_name(StepsMode mode) {
    return std::find_if(std::begin(kModes), std::end(kModes),
                        [&](auto& m) { return m.mode == mode; })
        ->name;
}

std::vector<std::string_view> split(std::string_view text, char separator) {
    std::vector<std::string_view> parts;
    for (size_t begin = 0; begin <= text.size();) {
        const size_t end = std::min(text.find(separator, begin), text.size());
        parts.push_back(text.substr(begin, end - begin));
        begin = end + 1;
    }
    return parts;
}

Result<Part> parse_part(std::string_view text) {
    const auto words = split(text, ':');
    Part part{std::string(words[0])};
    if (words.size() > 3 || !(is_operation(part.what) || is_transaction(part.what)))
        return fail(ErrorCode::bad_argument,
                    "plan: OPERATION[:MODE[:THREADS]] is wanted; operations are fetch update "
                    "insert delete scan begin "
                    "commit, transactions payment neworder mix4 mix");
    if (words.size() > 1) part.mode = TRY(parse_mode(words[1]));
    if (words.size() > 2) {
        const auto [end, error] =
            std::from_chars(words[2].data(), words[2].data() + words[2].size(), part.threads);
        if (error != std::errc() || end != words[2].data() + words[2].size() || part.threads < 1 ||
            part.threads > 200)
            return fail(ErrorCode::bad_argument, "plan: threads must be 1 to 200");
    }
    return part;
}

}  // namespace

bool is_operation(std::string_view what) {
    return std::find(std::begin(kOperations), std::end(kOperations), what) != std::end(kOperations);
}
bool is_transaction(std::string_view what) {
    return std::find(std::begin(kTransactions), std::end(kTransactions), what) !=
           std::end(kTransactions);
}

std::string Part::text() const { return fmt::format("{}:{}:{}", what, mode_name(mode), threads); }

Result<StepsMode> parse_mode(std::string_view text) {
    for (const auto& m : kModes)
        if (m.name == text) return m.mode;
    return fail(ErrorCode::bad_argument,
                "mode: off, on, grouping, prefetch, ctx_only and fastctx are known");
}

Result<std::vector<Part>> parse_plan(std::string_view text) {
    std::vector<Part> plan;
    for (const std::string_view part : split(text, ',')) plan.push_back(TRY(parse_part(part)));
    for (const Part& part : plan)
        if (is_operation(part.what) != is_operation(plan[0].what))
            return fail(ErrorCode::bad_argument, "plan: operations and transactions do not mix");
    return plan;
}

Result<Options> options_for(const ChildSettings& settings, bool simulated) {
    const bool transactions = is_transaction(settings.plan[0].what);
    const uint64_t warehouses = settings.workload.warehouses;
    Options options;
    options.pool_bytes = 256ull << 20;
    if (transactions)
        options.pool_bytes = (simulated ? warehouses * 24 + 128 : warehouses * 160 + 512) << 20;
    options.executors = 1u << 20;  // members of the thesis's teams are user threads
    options.log_bytes = 16ull << 30;
    options.log_ring_bytes = 256ull << 20;  // no flush because the buffer fills
    options.lock_timeout = 1000 * kSecond;
    options.lock_stage = settings.lock_stage;
    options.steps.team_max = settings.team_max != 0 ? settings.team_max : transactions ? 64 : 256;
    options.steps.policy = settings.team_policy;
    options.steps.window_records = 0;  // what is asked for is what is measured
    options.steps.gate = settings.team_gate;
    options.steps.float_state = settings.float_state;
    if (!settings.points.empty()) options.steps.points = TRY(ctx_points_from(settings.points));
    return options;
}

}  // namespace lockstep::icache
