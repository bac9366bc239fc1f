// needs_team.cc - walks the needs of packets that have not begun.
#include "sm/needs/needs_team.h"

#include <unistd.h>

#include <lockstep/packet.h>
#include "threads/steps/steps.h"

namespace lockstep::sm {

namespace {

constexpr uint64_t kL2BytesUnknown = 1 << 20, kShareOfL2 = 16;

// A sixteenth of the second-level cache, in lines.
uint64_t lines_of_a_team() {
    const long bytes = sysconf(_SC_LEVEL2_CACHE_SIZE);
    return (bytes > 0 ? static_cast<uint64_t>(bytes) : kL2BytesUnknown) / kCacheLineBytes /
           kShareOfL2;
}

}  // namespace

NeedsTeam::NeedsTeam(Host& host) : host_(host), lines_max_(lines_of_a_team()) {
    DCHECK(lines_max_ > 0);
}

size_t NeedsTeam::team_max() {
    const auto& local = threads::worker_local;
    if (!local.needs || local.begin_steps == nullptr) return 1;
    return std::clamp<size_t>(local.teams->options().team_max, 1, kTeamMax);
}

size_t NeedsTeam::prepare(threads::Packet* const* packets, size_t n) {
    DCHECK(n > 0 && n <= kTeamMax && threads::current() != nullptr);
    if (!threads::worker_local.needs) return n;
    NeedsWalk walk(host_);
    size_t prepared = 0;
    // The first packet is prepared whatever its size is.
    while (prepared < n && (prepared == 0 || walk.lines() < lines_max_)) {
        threads::Packet& packet = *packets[prepared++];
        DCHECK(packet.above == nullptr);
        Places& places = *take_places(host_);
        const uint64_t before = walk.lines();
        Announcement to(walk, places);
        packet.announce(to);
        if (walk.lines() != before) packet.above = &places;
        else give_places(host_, places);
    }
    DCHECK(prepared > 0 && prepared <= n);
    return prepared;
}

// The packet began no transaction that took them.
void NeedsTeam::unused(void* above) { give_places(host_, *static_cast<Places*>(above)); }

}  // namespace lockstep::sm

void lockstep::Announcement::add(const Need& need) { walk_.add(need, places_); }
