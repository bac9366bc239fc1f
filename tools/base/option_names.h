// option_names.h - names of a store's choices on command lines, for the driver and the tools.
#pragma once

#include <CLI/CLI.hpp>
#include <algorithm>
#include <map>
#include <string>
#include <vector>

#include <lockstep/options.h>

namespace lockstep {

template <class T>
using Names = std::map<std::string, T>;

inline const Names<LockPolicy> kLockPolicies = {{"fifo", LockPolicy::fifo},
                                                {"short-first", LockPolicy::short_first},
                                                {"priority", LockPolicy::priority},
                                                {"local-first", LockPolicy::local_first}};
inline const Names<StepsMode> kStepsModes = {
    {"off", StepsMode::off},           {"on", StepsMode::on},
    {"ctx", StepsMode::ctx},           {"grouping", StepsMode::grouping},
    {"prefetch", StepsMode::prefetch}, {"ctx-only", StepsMode::ctx_only},
    {"fastctx", StepsMode::fastctx}};
inline const Names<TeamPolicy> kTeamPolicies = {{"last-leaver", TeamPolicy::last_leaver},
                                                {"largest", TeamPolicy::largest},
                                                {"oldest", TeamPolicy::oldest}};
inline const Names<TeamGate> kTeamGates = {
    {"t-gated", TeamGate::t_gated}, {"d-gated", TeamGate::d_gated}, {"c-gated", TeamGate::c_gated}};

// Names have hyphens. The spelling with underscores, as of the enumerators, is accepted as well.
inline std::string with_hyphens(std::string name) {
    std::ranges::replace(name, '_', '-');
    return name;
}

// As chosen_from() takes it.
template <class T>
std::string name_of(const Names<T>& names, T choice) {
    return std::ranges::find(names, choice, &Names<T>::value_type::second)->first;
}

// For transform(): the option then holds the name as the list spells it.
template <class T>
CLI::IsMember one_of(const Names<T>& names) {
    std::vector<std::string> list;
    for (const auto& entry : names) list.push_back(entry.first);
    return CLI::IsMember(list, with_hyphens);
}

// Turns a name into its choice. CLI11's own transformer would print the choices as raw bytes, in
// its help and in its errors.
template <class T>
CLI::Validator chosen_from(const Names<T>& names) {
    const CLI::Validator member = one_of(names);
    return {[names, member](std::string& text) {
                const std::string wrong = member(text);
                if (wrong.empty()) text = std::to_string(static_cast<int64_t>(names.at(text)));
                return wrong;
            },
            member.get_description()};
}

}  // namespace lockstep
