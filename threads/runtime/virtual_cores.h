// virtual_cores.h - virtual workers that are interrupted inside their turns; only in builds with
// LOCKSTEP_SIM_POINTS.
//
// Concepts   Each virtual worker's turn runs on its own stack, its *core*. At a SIM_POINT() the
//            seed decides whether to suspend the core, in its scheduler or in a user thread. The
//            seed also draws for how many turns of the others: mostly few, sometimes hundreds. To
//            the others a long suspension looks like a kernel thread that the operating system
//            preempted.
// States     idle -> running (step) -> suspended (point, wait) -> running (step) -> idle (the
//            turn's end).
// Invariants VC-1 The caller never runs while a suspended core holds a spin lock, because the
//            caller's code may need that lock. [run()]
//            VC-2 A core resumes with the worker_local with which it was suspended. [suspend(),
//            resume()]
// Blocking   step() returns when a turn has ended or been suspended.
// Source     S. Burckhardt et al., "A Randomized Scheduler with Probabilistic Guarantees of Finding
//            Bugs", 2010.
#pragma once

#ifdef LOCKSTEP_SIM_POINTS

#include <memory>
#include <vector>

#include "threads/base/rng.h"
#include "threads/thread/stack.h"
#include "threads/worker/worker.h"

namespace lockstep::threads {

class VirtualCores {
public:
    // One core per worker. A point interrupts with probability 1 / `one_in`.
    VirtualCores(const std::vector<std::unique_ptr<Worker>>& workers, uint64_t seed,
                 uint32_t one_in);
    // Makes the stacks. Call on the kernel thread that will call step(). Error: out_of_memory.
    Result<void> start();
    ~VirtualCores();

    // Runs a worker until its turn ends or is interrupted. False if no worker has work.
    bool step();
    uint64_t interruptions() const { return interruptions_; }

    // Called by the running core.
    void point() {
        if (rng_.below(one_in_) == 0) suspend(false);
    }
    void suspend(bool waits);
    void hold(int spin_locks) { held_ += spin_locks; }

private:
    struct Core {
        Worker* worker = nullptr;
        Stack* stack = nullptr;
        void* sp = nullptr;       // of the suspended context or the own loop
        Stack* where = nullptr;   // the stack that sp lies on
        WorkerLocal local;        // VC-2
        uint64_t not_before = 0;  // turn at which it may resume
        bool in_turn = false;
        bool progress = false;  // of the last turn that ended
    };
    static void core_main(Transfer transfer);
    [[noreturn]] void run_core(Core& core);
    Core& draw();
    void resume(Core& core);
    bool run(Core& core);
    void assert_state() const {
        DCHECK(held_ >= 0);
        DCHECK(running_ == nullptr || running_ >= cores_.data());
        DCHECK(running_ == nullptr || running_ < cores_.data() + cores_.size());
        DCHECK((running_ != nullptr) == (worker_local.cores == this));  // VC-2
    }

    std::vector<Core> cores_;
    StackPool stacks_;
    Rng rng_;
    const uint32_t one_in_;
    Core* running_ = nullptr;
    int held_ = 0;  // spin locks, by all cores together
    uint64_t turn_ = 0;
    uint64_t interruptions_ = 0;
    WorkerLocal caller_local_;
    void* caller_sp_ = nullptr;
    Stack caller_stack_;
};

}  // namespace lockstep::threads

#endif
