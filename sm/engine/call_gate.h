// call_gate.h - counts the public calls that are inside an engine, so that close() can wait for
// them.
//
// Concepts   close() frees what the calls of other kernel threads read: tables, pool, log. So such
//            a call passes the gate first (Call in engine.h). close() shuts the gate when the
//            functions of the application have ended, waits for the calls that are inside, and
//            frees everything. Later calls are refused with store_closed. The engine itself lives
//            as long as its Store, so that they find the gate.
//            Calls on user threads of the store are not counted: close() waits for the threads.
// Invariants CG-1 No call is inside when close() stops the services. [checked: shut()]
//                 [test: CallsWhileClosing.FindAStoreOrNone]
#pragma once

#include <atomic>
#include <cstdint>

#include "threads/base/check.h"

namespace lockstep::sm {

class CallGate {
public:
    // True: the call is inside until leave().
    bool enter() {
        if ((word_.fetch_add(1, std::memory_order_acq_rel) & kShut) == 0) return true;
        leave();
        return false;
    }
    // The engine may be gone when this returns: the last word is the address for those who wait.
    void leave() {
        const uint32_t before = word_.fetch_sub(1, std::memory_order_acq_rel);
        DCHECK((before & ~kShut) != 0);
        if (before == (kShut | 1)) word_.notify_all();
    }
    // Refuses calls from now on, and waits for those that are inside. Suspends a user thread (of
    // another store), blocks any other.
    void shut();
    bool is_shut() const { return (word_.load(std::memory_order_acquire) & kShut) != 0; }

private:
    static constexpr uint32_t kShut = 1u << 31;
    std::atomic<uint32_t> word_{0};  // kShut, and the number of calls inside
};

}  // namespace lockstep::sm
