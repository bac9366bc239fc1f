// sim_point.h - points where a simulation may preempt a virtual worker, as an operating system
// does; nothing in a normal build.
//
// Concepts   User threads switch only at parks and yields. Virtual workers that alternate there
//            never show races inside a latch. SIM_POINT() therefore stands before each step of a
//            protocol between workers: a latch's word, a spin lock, a wake-up, the log's tail. With
//            LOCKSTEP_SIM_POINTS it calls the virtual cores (threads/runtime/virtual_cores.h). They
//            draw from the seed whether another worker runs there. Loops that wait for another
//            kernel thread end in cpu_relax(), which always lets another worker run.
#pragma once

#ifdef LOCKSTEP_SIM_POINTS
namespace lockstep {
void sim_point();  // another worker may run
void sim_wait();   // another worker must run
// The running worker took (1) or released (-1) a spin lock.
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
