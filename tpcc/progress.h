// progress.h - a line on the terminal that shows the progress of a load or a run. Silent if
// standard output is no terminal.
#pragma once

#include <atomic>
#include <string>
#include <thread>

#include "tpcc/loader.h"

namespace lockstep::tpcc {

// Turns SIGINT and SIGTERM into a state that can be polled. Both signals are blocked for the
// process, so create it before the store starts its kernel threads.
class Interrupt {
public:
    Interrupt();
    ~Interrupt();
    Interrupt(const Interrupt&) = delete;
    Interrupt& operator=(const Interrupt&) = delete;
    // True if a signal has arrived; consumes it.
    bool take();

private:
    int fd_;
};

// Standard output is a terminal that can clear a line.
bool on_terminal();
// Overwrites the line shown before, with as much of an ASCII text as the terminal is wide. An empty
// text clears it.
void show_line(const std::string& text);

// While alive, an interrupt ends the process, after removing the named directory, if any. For
// opening, loading and checking: these leave nothing behind that a crash would not. Shows the
// progress of a load, if given, twice a second. Has a kernel thread of its own.
class Watch {
public:
    Watch(const LoadProgress* progress, Interrupt& interrupt, std::string remove_on_interrupt);
    ~Watch();

private:
    void watch();
    const LoadProgress* const progress_;
    Interrupt& interrupt_;
    const std::string remove_on_interrupt_;
    std::atomic<bool> done_{false};
    std::jthread thread_;
};

}  // namespace lockstep::tpcc
