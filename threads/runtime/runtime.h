// runtime.h - a set of workers: start, spawn user threads, stop; or step through a simulation.
//
// Concepts   A store has one Runtime. A worker is one kernel thread with its own ready queue,
//            timers, mailbox and I/O queue. Caller-driven mode (simulation) has no kernel threads:
//            N virtual workers advance when the caller calls step().
// Blocking   spawn() never blocks. stop() blocks the calling kernel thread until every user thread
//            has ended.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include <lockstep/clock.h>
#include <lockstep/result.h>
#include <lockstep/steps_options.h>
#include "threads/base/mapping_cache.h"
#include "threads/io/io.h"
#include "threads/runtime/slice_watch.h"
#include "threads/steps/steps.h"
#include "threads/sync/completion.h"
#include "threads/thread/thread.h"
#include "threads/worker/admission.h"
#include "threads/worker/runtime_stats.h"
#include "threads/worker/scheduler_policy.h"
#include "threads/worker/team_hook.h"

namespace lockstep::threads {

struct RuntimeOptions {
    uint32_t workers = 1;  // kernel threads, 1..64
    // The last so many workers take no packets, only threads that are spawned there; less than all.
    uint32_t without_packets = 0;
    // Per user thread, guard excluded. An overflow is reported: see stack_overflow.h.
    size_t stack_bytes = 64 * 1024;
    bool pin_workers = false;    // bind worker i to the i-th allowed CPU
    bool caller_driven = false;  // simulation: no kernel threads, see step()
    // caller_driven: a step is a worker's whole turn, not one slice (see step()).
    bool whole_turns = false;
    uint64_t seed = 1;  // caller_driven: draws the worker of each step
    // caller_driven, builds with LOCKSTEP_SIM_POINTS: interrupt a worker at one point in so many.
    // 0: never.
    uint32_t interrupt_one_in = 0;
    const Clock* clock = nullptr;  // null: a MonotonicClock. Must outlive the runtime
    // Disk of the files; must outlive the runtime. Null: no I/O.
    Disk* disk = nullptr;
    StepsOptions steps = {};       // teams; off by default
    uint32_t offload_threads = 4;  // kernel threads for offload(), at least 1; begun at first use
    // Packets (executors.h, admission.h): packets of a worker that run or wait for locks; packets
    // of all workers that have begun and not ended; packets that wait on one worker.
    uint32_t executors = 16;
    uint32_t begun_max = 32000;
    uint64_t packets_max = 1 << 20;
    PacketPolicy packet_policy = PacketPolicy::priority;
    // Makes each worker's policy; null: fifo.
    std::function<std::unique_ptr<SchedulerPolicy>(uint32_t worker)> policy = {};
    MappingCache* mappings = nullptr;  // of stacks; must outlive the runtime
};

class Runtime {
public:
    // Errors: bad_option; out_of_memory; io_error when an I/O queue cannot be made.
    static Result<std::unique_ptr<Runtime>> start(const RuntimeOptions& options);
    ~Runtime();  // stop()
    Runtime(const Runtime&) = delete;
    Runtime& operator=(const Runtime&) = delete;

    // Starts a user thread on `worker` (modulo the number of workers), from any kernel thread.
    // `name` is a static string. Errors: out_of_memory (no stack); store_closed after stop() began.
    Result<Thread*> spawn(uint32_t worker, const char* name, ThreadFn fn);

    // --- packets (packet.h), from any kernel thread
    // Enqueues a packet on `worker` (modulo the number of those that take packets). Errors:
    // too_many, store_closed after close_admission(); out_of_memory if no stack could be made for
    // an earlier one.
    Result<void> submit(uint32_t worker, Packet& packet);
    // True: the packet waited and is outside now. False: it has begun, or is not inside.
    bool withdraw(Packet& packet);
    // Shows packets to `hook` before they run; null: to nothing. It must outlive the packets.
    void set_team_hook(TeamHook* hook);
    // Refuses packets from now on. Those inside run; a time that they wait for has come.
    void close_admission();
    // Packets that wait or run.
    uint64_t packets() const;
    // After close_admission(), on a foreign kernel thread: waits until all packets have run.
    void drain();
    // The same as a question, for a caller that must not block.
    bool drained() const;
    StageStats admission_stats() const;  // summed over the workers
    uint64_t packets_timed() const;      // that wait for a time

    uint32_t workers() const;
    bool owns(const Thread& thread) const;  // is it a user thread of this runtime?
    // Backend of the workers' I/O queues; "none" without a disk.
    const char* io_name() const;
    const Clock& clock() const;
    // Reports slices of user threads that are longer than `bound` nanoseconds; see slice_watch.h.
    // Until stop(). At most once. Does nothing in a simulation. Error: out_of_memory.
    Result<void> watch_slices(Nanos bound, SliceReport report);
    // Ends all calls of wait_fd() with the error cancelled, and refuses further ones. Any kernel
    // thread.
    void end_fd_waits();
    Disk* disk() const;
    // Waits until all user threads have ended, then ends the workers. Call from a foreign kernel
    // thread. Idempotent. Caller-driven: steps until all have ended or nothing more can happen, and
    // then abandons parked threads.
    void stop();

    // --- caller_driven only
    // Runs one slice of a worker that has work: a thread, a timer, a completion or mail. With
    // whole_turns it runs a whole turn of slices and teams, for callers that study the executed
    // code and not schedules. False if nothing can happen until the clock or the simulated disk
    // moves.
    bool step();
    // Earliest deadline of a parked thread, or kNever.
    Nanos next_deadline() const;
    // Between two steps, when step() has found nothing to do and no transfer is in flight: checks
    // that nobody waits without a reason and that counters equal the queues. Text of a fault, or
    // empty.
    std::string verify() const;
    // Drops all user threads without unwinding them, as a crash would. No user thread runs again.
    // After this, only destroy the runtime.
    void abandon();

    using Stats = RuntimeStats;
    // Statistics of the teams, summed over workers; empty if STEPS is off. Exact only while nothing
    // runs.
    std::vector<TeamStats> team_stats() const;
    CtxStats ctx_stats() const;
    std::vector<TunerStats> tuner_stats() const;  // by worker

    IoStats io_stats() const;  // of the workers' I/O stages, summed
    // Sums over workers; reads each counter without a lock.
    Stats stats() const;

private:
    struct Impl;
    friend class Worker;
    explicit Runtime(std::unique_ptr<Impl> impl);
    std::unique_ptr<Impl> impl_;
};

}  // namespace lockstep::threads
