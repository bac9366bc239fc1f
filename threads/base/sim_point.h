// sim_point.h - places where a simulation may take the CPU from a virtual worker, as an operating
// system does: nothing at all in a normal build.
//
// Concepts   User threads switch at parks and yields only, so N virtual workers that take turns
//            there never show what two processors do to one another in the middle of a latch.
//            SIM_POINT() stands before each step of a protocol between workers (a latch's word, a
//            spin lock, a wake-up, the log's tail). A build with LOCKSTEP_SIM_POINTS turns it into
//            a call of the virtual cores (threads/runtime/virtual_cores.h), which draw from the
//            seed whether another worker goes on there. Loops that wait for another kernel thread
//            end in cpu_relax(), which always lets another go on.
#pragma once

#ifdef LOCKSTEP_SIM_POINTS
namespace lockstep {
void sim_point();  // perhaps another worker goes on
void sim_wait();   // another one must
// Taken (1) or given back (-1) by the running worker.
void sim_hold(int spin_locks);
}  // namespace lockstep
#define SIM_POINT() ::lockstep::sim_point()
#define SIM_WAIT() ::lockstep::sim_wait()
#define SIM_HOLD(spin_locks) ::lockstep::sim_hold(spin_locks)
#else
#define SIM_POINT() static_cast<void>(0)
#define SIM_WAIT() static_cast<void>(0)
#define SIM_HOLD(spin_locks) static_cast<void>(0)
#endif
