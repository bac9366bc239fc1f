// virtual_cores.cc - chooses the next core, and suspends a worker inside its turn.
#ifdef LOCKSTEP_SIM_POINTS

#include "threads/runtime/virtual_cores.h"

#include "threads/base/check.h"
#include "threads/base/sim_point.h"

namespace lockstep {

using threads::worker_local;

void sim_point() {
    if (worker_local.cores != nullptr) worker_local.cores->point();
}
void sim_wait() {
    if (worker_local.cores != nullptr) worker_local.cores->suspend(true);
}
void sim_hold(int spin_locks) {
    if (worker_local.cores != nullptr) worker_local.cores->hold(spin_locks);
}

}  // namespace lockstep

namespace lockstep::threads {

namespace {
constexpr size_t kCoreStackBytes = 512 * 1024;  // the simulated disk's observers run here too
constexpr uint64_t kPausesLog2 = 9;             // an interruption lasts up to 2^8 turns
}  // namespace

VirtualCores::VirtualCores(const std::vector<std::unique_ptr<Worker>>& workers, uint64_t seed,
                           uint32_t one_in)
    : cores_(workers.size()), stacks_(kCoreStackBytes), rng_(seed), one_in_(one_in) {
    for (size_t i = 0; i < cores_.size(); ++i) cores_[i].worker = workers[i].get();
}

Result<void> VirtualCores::start() {
    // Once, because this system call costs far more than a turn.
    caller_stack_ = kernel_stack();
    for (Core& core : cores_) {
        core.stack = TRY(stacks_.take());
        core.sp = make_context(*core.stack, core_main);
        core.where = core.stack;
        core.local.cores = this;
        core.worker->runs_on(*core.stack, this);
    }
    return {};
}

VirtualCores::~VirtualCores() {
    for (Core& core : cores_)
        if (core.stack != nullptr) stacks_.give(core.stack);
}

void VirtualCores::core_main(Transfer transfer) {
    arrived(transfer);
    VirtualCores* self = worker_local.cores;
    self->run_core(*self->running_);
}

void VirtualCores::run_core(Core& core) {
    for (;;) {
        DCHECK(&core == running_ && core.in_turn);
        core.progress = core.worker->step();
        core.in_turn = false;
        core.local = worker_local;
        switch_context(&core.sp, caller_sp_, caller_stack_);
    }
}

// Never called from a caller's context: `cores` is null there.
void VirtualCores::suspend(bool waits) {
    assert_state();
    Core& core = *running_;
    DCHECK(core.in_turn && worker_local.worker == core.worker);
    ++interruptions_;
    core.not_before = turn_ + (waits ? 1 : uint64_t{1} << rng_.below(kPausesLog2));
    core.local = worker_local;
    core.where =
        core.local.current != nullptr ? static_cast<Stack*>(core.local.current->stack) : core.stack;
    switch_context(&core.sp, caller_sp_, caller_stack_);
}

// Any core that may resume; otherwise the core that may resume first.
VirtualCores::Core& VirtualCores::draw() {
    const size_t first = rng_.below(cores_.size());
    Core* next = nullptr;
    for (size_t i = 0; i < cores_.size(); ++i) {
        Core& core = cores_[(first + i) % cores_.size()];
        if (core.not_before <= turn_) return core;
        if (next == nullptr || core.not_before < next->not_before) next = &core;
    }
    return *next;
}

void VirtualCores::resume(Core& core) {
    assert_state();
    DCHECK(running_ == nullptr && core.sp != nullptr && core.local.cores == this);
    ++turn_;
    if (!core.in_turn) {
        core.where = core.stack;
        core.in_turn = true;
    }
    running_ = &core;
    caller_local_ = worker_local;
    worker_local = core.local;
    switch_context(&caller_sp_, core.sp, *core.where);
    worker_local = caller_local_;
    running_ = nullptr;
}

// Continues until no core holds a spin lock (VC-1). Only a whole turn can tell that a core has no
// work: since an interrupted one looked, others may have made some.
bool VirtualCores::run(Core& core) {
    bool progress = core.in_turn;
    resume(core);
    progress |= core.in_turn || core.progress;
    while (held_ != 0) {
        Core& other = draw();
        progress |= other.in_turn;
        resume(other);
        progress |= other.in_turn || other.progress;
    }
    return progress;
}

// Tries a drawn core, then the others in order. If any core has work, it makes progress.
bool VirtualCores::step() {
    CHECK(worker_local.cores == nullptr);
    assert_state();
    DCHECK(held_ == 0);  // run() ends with no spin lock held
    const auto first = static_cast<size_t>(&draw() - cores_.data());
    for (size_t i = 0; i < cores_.size(); ++i)
        if (run(cores_[(first + i) % cores_.size()])) return true;
    return false;
}

}  // namespace lockstep::threads

#endif
