// team_hook.h - lets the layer above see several packets before the first of them runs.
//
// Concepts   An executing thread may take several packets at once, a team. It shows them to the
//            hook, on its own stack, and then runs them one after the other, each to its end. If
//            one of them waits, another executing thread goes on with the rest, in order. The hook
//            serves to fetch the data of the whole team into the caches.
//            One hook serves all workers of a runtime and may be called on each of them at once;
//            worker_index() tells them apart.
#pragma once

#include <cstddef>

#include <lockstep/packet.h>

namespace lockstep::threads {

class TeamHook {
public:
    static constexpr size_t kTeamMax = 64;

    // How many packets to show to prepare() next: 1..kTeamMax. With 1 prepare() is called, too.
    // Called before each team; must not wait.
    virtual size_t team_max() = 0;
    // Prepares the first packets of `packets`, at least one, and returns how many these are. They
    // run next, in order. The others are shown again, in front of the next team. None of the `n`
    // packets has begun. May suspend: the packets shown then wait for the return.
    virtual size_t prepare(Packet* const* packets, size_t n) = 0;

    // Packet::above as prepare() left it, of a packet that has ended and did not take it.
    virtual void unused(void* /*above*/) {}

protected:
    ~TeamHook() = default;
};

}  // namespace lockstep::threads
