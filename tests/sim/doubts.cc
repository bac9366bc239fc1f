// doubts.cc - what is in doubt after a crash, compared with what was answered, and its end.
#include "tests/sim/doubts.h"

#include <fmt/format.h>

#include <algorithm>

#include "sm/buffer/page.h"

namespace lockstep::sim {

namespace {

// False: a damaged page forbids it.
Result<bool> end(Host& host, const std::string& gid, bool commit) {
    Result<void> outcome;
    const bool ended = host.on_thread(
        [&]() -> Result<void> {
            const bool known =
                TRY(commit ? host->commit_prepared(gid) : host->rollback_prepared(gid));
            if (!known) return fail(ErrorCode::bad_argument, "listed, but unknown");
            return {};
        },
        &outcome);
    if (!ended) return fail(ErrorCode::timeout, "the end of a transaction in doubt hangs");
    if (!outcome && sm::is_bad_page(outcome.error().code)) return false;
    if (!outcome) return std::unexpected(outcome.error());
    return true;
}

}  // namespace

const Doubt* Doubts::find(const std::string& gid) const {
    const auto at = std::ranges::find(all_, gid, &Doubt::gid);
    return at == all_.end() ? nullptr : &*at;
}

// What was decided, or what a coordinator might decide that comes back after the crash.
bool Doubts::choice(const Doubt& doubt, uint64_t at) {
    return doubt.decided <= at ? doubt.decision : (hash_of(doubt.gid) + at) % 2 == 0;
}

Doubts::Settled Doubts::settle(Host& host, uint64_t at, bool again) const {
    Settled settled;
    std::set<std::string> listed;
    for (const PreparedInfo& info : host->prepared()) {
        listed.insert(info.gid);
        const Doubt* doubt = find(info.gid);
        const bool of_earlier = rolled_back_.contains(info.gid);
        if (!of_earlier && (doubt == nullptr || doubt->called > at)) {
            settled.fault =
                fmt::format("{} is in doubt, but was never prepared", info.gid);  // TD-3
            return settled;
        }
        if (!of_earlier && doubt->decision && doubt->ended <= at) {
            settled.fault = fmt::format("{} was committed and is in doubt", info.gid);  // TD-2
            return settled;
        }
        const bool commit = !of_earlier && choice(*doubt, at);
        const auto done = end(host, info.gid, commit);
        if (!done.has_value()) {
            settled.fault = fmt::format("{} {}: {}", commit ? "committing" : "rolling back",
                                        info.gid, done.error().text());
            return settled;
        }
        settled.refused |= !*done;
        if (!commit) settled.rolled_back.insert(info.gid);
    }
    // The ledger knows what was decided.
    for (const Doubt& doubt : all_) {
        if (doubt.called > at || doubt.decided <= at) continue;
        const bool is_listed = listed.contains(doubt.gid), was_prepared = doubt.prepared <= at;
        if (!is_listed && !again && was_prepared) {
            settled.fault = fmt::format("{} was prepared and is lost", doubt.gid);  // TD-1
            return settled;
        }
        if ((is_listed || again) && choice(doubt, at))
            settled.late.push_back({doubt.marker, &doubt.changes, is_listed || was_prepared});
    }
    return settled;
}

std::vector<LateCommit> Doubts::undecided() const {
    std::vector<LateCommit> found;
    for (const Doubt& doubt : all_)
        if (doubt.decided == kNotYet) found.push_back({doubt.marker, &doubt.changes, false});
    return found;
}

std::string Doubts::roll_back_all(Host& host) const {
    for (const PreparedInfo& info : host->prepared()) {
        if (find(info.gid) == nullptr) return info.gid + " is in doubt, but was never prepared";
        if (const auto done = end(host, info.gid, false); !done.has_value())
            return "rolling back " + info.gid + ": " + done.error().text();
    }
    return {};
}

}  // namespace lockstep::sim
