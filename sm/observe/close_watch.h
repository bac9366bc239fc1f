// close_watch.h - says what close() waits for.
//
// Concepts   close() waits until the functions of the application have ended, however long that
//            takes. While a CloseWatch exists, its kernel thread gives the logger a warning after
//            one second, and then after pauses that double, up to a minute. The first line has the
//            number of functions. It comes even if a worker is blocked. The second line has the
//            transactions, which each worker reports itself: it waits for a worker that is blocked,
//            and so do later reports.
//            Transactions that ended threads have left open are rolled back before the second
//            line: the functions may wait for their locks, or in begin for their slots.
// Blocking   The destructor waits for a report that is being made.
#pragma once

#include <pthread.h>

#include <atomic>
#include <cstdint>

#include <lockstep/clock.h>

namespace lockstep::sm {

class Host;
class TxnWatch;

class CloseWatch {
public:
    static constexpr Nanos kFirstPause = kSecond, kPauseMax = 60 * kSecond;

    // `host` has stopped admission. Without memory for a kernel thread nothing is reported.
    CloseWatch(Host& host, TxnWatch& watch);
    ~CloseWatch();
    CloseWatch(const CloseWatch&) = delete;
    CloseWatch& operator=(const CloseWatch&) = delete;

private:
    static void* thread_main(void* self);
    void work();
    void sleep(Nanos pause);
    void report(Nanos waited);

    Host& engine_;
    TxnWatch& watch_;
    std::atomic<uint32_t> ending_{0};  // futex
    bool runs_ = false;
    pthread_t thread_{};
};

}  // namespace lockstep::sm
