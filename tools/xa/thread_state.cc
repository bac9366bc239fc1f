// thread_state.cc - what a thread of control has opened.
#include "tools/xa/thread_state.h"

namespace lockstep::xa {

namespace {

thread_local std::map<int, Opened> of_thread;

}  // namespace

Opened::~Opened() {
    if (resource == nullptr) return;
    if (active != nullptr) resource->abandon(*active, true);
    for (const auto& [name, branch] : suspended) resource->abandon(*branch, false);
    if (works_outside()) (void)lockstep_abort(outside, nullptr);
    active = nullptr;
    suspended.clear();
    (void)Resource::close(std::move(resource));
}

Opened* opened(int rmid) {
    const auto at = of_thread.find(rmid);
    return at == of_thread.end() ? nullptr : &at->second;
}

Opened& open_as(int rmid) { return of_thread[rmid]; }

void forget(int rmid) { of_thread.erase(rmid); }

}  // namespace lockstep::xa
