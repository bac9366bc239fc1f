// executors.h - the executing threads of one worker: user threads that run packets one after the
// other.
//
// Concepts   An executing thread takes a packet, runs it to its end, and takes the next, as long as
//            nothing else needs the CPU: threads that have begun come before packets that have not.
//            Otherwise it rests. The thread that rested last is used first, so its stack is warm.
//            *Busy* are the threads whose packet runs, is ready to run, or waits for a lock or in
//            begin. At most `executors` are busy; packets beyond that wait in the admission stage.
//            A thread that waits for anything else (the log, a page, another packet, time) is not
//            busy, so another packet begins in its place. Commits thereby gather for one flush, and
//            packets may wait for each other. If all busy threads wait and nothing else can run,
//            one more packet is admitted at a time, in case the others wait for it.
//            At most `begun_max` packets of all workers have begun and not ended.
//            With a TeamHook a thread takes several packets and shows them to the hook. The list
//            `prepared_` has those that the hook has prepared, `shown_` those that it left.
// States     made -> busy (admit) -> resting (rest) -> busy (admit); resting -> ended (retire).
// Invariants EX-1 A resting thread is on the list `resting_` and in no other. wake() by another
//                 kernel thread may still make it ready; it then rests again. [checked: rest()]
//            EX-2 Prepared packets run in their order, before any packet that is not prepared.
//                 [checked: next_packet()]
//            EX-3 While packets wait, the worker does not sleep without end: a thread may be
//                 admitted, or a time is set at which one more may. [checked: look_again()]
//            EX-4 Threads that wake each other for ever do not keep packets from beginning: after
//                 kPassedOverMax slices one is admitted. So does a yield(). Both keep to the limit,
//                 except while all busy threads wait: then one more is admitted after the pause of
//                 EX-3, also by a worker that never sleeps. [checked: note_stall()]
// Blocking   never, but main().
#pragma once

#include <atomic>
#include <cstdint>
#include <string>

#include "threads/base/check.h"
#include "threads/thread/thread.h"
#include "threads/worker/admission.h"
#include "threads/worker/team_hook.h"

namespace lockstep::threads {

struct RuntimeShared;

// State of the executing threads of all workers.
struct ExecutorsShared {
    uint32_t executors = 16;            // busy ones, on each worker
    uint32_t begun_max = 32000;         // packets that have begun and not ended
    std::atomic<bool> draining{false};  // a thread waits until `begun` is 0
    std::atomic<bool> retiring{false};  // resting threads end
    std::atomic<bool> no_stack{false};  // the last stack could not be made
    std::atomic<TeamHook*> hook{nullptr};
    // Threads that do not rest. Apart from what is read only.
    alignas(kCacheLineBytes) std::atomic<uint32_t> begun{0};
};

// All calls on the worker's kernel thread.
class Executors {
public:
    // While all busy threads wait, one more packet is admitted after this time.
    static constexpr Nanos kStallPause = 100 * kMicrosecond;
    // Slices that other threads run before packets.
    static constexpr uint32_t kPassedOverMax = 64;

    Executors(Worker& worker, ExecutorsShared& shared, Admission& admission)
        : worker_(worker), shared_(shared), admission_(admission) {}
    Executors(const Executors&) = delete;
    Executors& operator=(const Executors&) = delete;

    // Packets that have not begun, on this worker.
    bool packets_wait() const {
        return admission_.queued() != 0 || shown_.first != nullptr || prepared_.first != nullptr;
    }
    bool may_admit() const {
        return packets_wait() && (busy_ < shared_.executors || one_more_) && blocked_until_ == 0;
    }
    // No packet waits here, and one that is brought could begin.
    bool wants_packets() const {
        return !packets_wait() && busy_ < shared_.executors && blocked_until_ == 0;
    }
    // A thread for the packets that wait, which the caller runs or makes ready; or null.
    Thread* admit() { return may_admit() ? admit_one() : nullptr; }
    // Threads that had begun ran for so many slices. Packets that waited meanwhile for a turn's
    // time get a thread, which the caller makes ready (EX-4).
    Thread* passed_over(uint32_t slices) {
        if (!may_admit()) [[likely]] {
            passed_over_ = 0;
            // What runs may wait for a packet that has not begun, and the busy threads for a lock
            // that it holds.
            if (stalled()) [[unlikely]]
                note_stall();
            return nullptr;
        }
        passed_over_ += slices;
        return passed_over_ >= kPassedOverMax ? admit_one() : nullptr;
    }
    // A turn begins.
    void new_turn(Nanos now) {
        if (blocked_until_ <= now) blocked_until_ = 0;
        if (shared_.retiring.load(std::memory_order_relaxed)) [[unlikely]]
            retire();
    }
    // The worker has nothing to run. 0: now a thread may be admitted. Otherwise the time at which
    // one may be, kNever if no packet waits (EX-3).
    Nanos look_again(Nanos now);
    // The same in a simulation, without the pause. True: a thread may be admitted.
    bool admit_stalled() {
        if (!stalled()) return false;
        return one_more_ = true;
    }
    // Deadline of a simulation.
    Nanos next_deadline() const {
        return blocked_until_ != 0 && packets_wait() ? blocked_until_ : kNever;
    }
    bool retires() const {
        return resting_ != nullptr && shared_.retiring.load(std::memory_order_seq_cst);
    }

    // The thread parks while its packet runs, and runs again.
    static bool counts_while_waiting(ParkReason reason) {
        return reason == ParkReason::lock || reason == ParkReason::admission;
    }
    void parks() {
        DCHECK(busy_ > 0);
        --busy_;
    }
    void runs_again() {
        ++busy_;
        DCHECK(busy_ <= shared_.begun.load(std::memory_order_relaxed));
    }

    // The runtime is abandoned: drops the packets that wait or have begun.
    void abandon(Thread* all_threads);

    uint64_t packets_run() const { return run_.load(std::memory_order_relaxed); }
    uint32_t busy() const { return busy_; }
    // While nothing runs: text of a fault, or empty. `threads`: the first one of the worker.
    std::string verify(const Thread* threads) const;
    // Packets that the stage has given out and not got back, while nothing runs.
    uint64_t in_service(const Thread* threads) const;

private:
    // Lies on the stack of its thread.
    struct Executor {
        Thread* const thread;
        Executor* below = nullptr;  // in the list of resting threads
        bool resting = false;
        bool ends = false;
    };
    // Packets in order, linked by next.
    struct List {
        Packet* first = nullptr;
        Packet* last = nullptr;
        void append(Packet& packet);
        Packet* pop();
    };

    [[gnu::noinline]] Thread* admit_one();
    bool reserve();
    void release();
    bool stalled() const {
        return packets_wait() && busy_ >= shared_.executors && !one_more_ && blocked_until_ == 0;
    }
    [[gnu::noinline]] void note_stall();
    void main(Thread& self);
    Packet* next_packet();
    Packet* take_team(TeamHook& hook);
    void run(Thread& self, Packet& packet);
    bool goes_on(Thread& self) const;
    bool rest(Executor& me);
    void retire();
    void block();

    Worker& worker_;
    ExecutorsShared& shared_;
    Admission& admission_;
    Executor* resting_ = nullptr;  // the last one first
    uint32_t resting_count_ = 0;
    uint32_t busy_ = 0;
    bool one_more_ = false;     // beyond the limit
    uint32_t passed_over_ = 0;  // slices since a packet that could begin was admitted
    Nanos stalled_since_ = 0;   // 0: not stalled
    // No thread could be had; another attempt at this time. 0: not so.
    Nanos blocked_until_ = 0;
    List prepared_, shown_;
    uint64_t ids_next_ = 0, ids_end_ = 0;  // ids for threads' packets
    std::atomic<uint64_t> run_{0};         // packets that have begun
};

}  // namespace lockstep::threads
