// virtual_cores.h - virtual workers that are interrupted in the middle of their turns: builds with
// LOCKSTEP_SIM_POINTS only.
//
// Concepts   Each virtual worker's turn runs on a stack of its own, its *core*. At a SIM_POINT()
//            the seed decides whether the core is suspended where it stands (in its scheduler or in
//            one of its user threads) and for how many turns of the others: mostly few, sometimes
//            hundreds, which is how a thread that the system has put aside looks to the rest.
// States     idle -> running (step) -> suspended (point, wait) -> running (step) -> idle (the
//            turn's end). Invariants VC-1 The caller never runs while a suspended core holds a spin
//            lock: what it calls may need it. [run()]
//            VC-2 A core goes on with the worker_local with which it was suspended. [suspend(),
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
    // One core per worker; at a point one turn in `one_in` is interrupted.
    VirtualCores(const std::vector<std::unique_ptr<Worker>>& workers, uint64_t seed,
                 uint32_t one_in);
    // Makes the stacks, on the kernel thread that will call step(); error: out_of_memory.
    Result<void> start();
    ~VirtualCores();

    // A worker runs until its turn ends or is interrupted. False if no worker has anything to do.
    bool step();
    uint64_t interruptions() const { return interruptions_; }

    // From the running core.
    void point() {
        if (rng_.below(one_in_) == 0) suspend(false);
    }
    void suspend(bool waits);
    void hold(int spin_locks) { held_ += spin_locks; }

private:
    struct Core {
        Worker* worker = nullptr;
        Stack* stack = nullptr;
        void* sp = nullptr;       // of what is suspended, or of the core's own loop
        Stack* where = nullptr;   // the stack that sp lies on
        WorkerLocal local;        // VC-2
        uint64_t not_before = 0;  // turn at which it may go on
        bool in_turn = false;
        bool progress = false;  // of the last turn that ended
    };
    static void core_main(Transfer transfer);
    [[noreturn]] void run_core(Core& core);
    Core& draw();
    void resume(Core& core);
    bool run(Core& core);

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
