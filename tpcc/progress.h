// progress.h - a line on the terminal that shows how far loading or running is; nothing if standard
// output is no terminal.
#pragma once

#include <atomic>
#include <string>
#include <thread>

#include "tpcc/loader.h"

namespace lockstep::tpcc {

// Turns an interrupt from the keyboard (or a request to end) into something that can be asked for:
// both signals are blocked for the process, so make it before the store starts its kernel threads.
class Interrupt {
public:
    Interrupt();
    ~Interrupt();
    Interrupt(const Interrupt&) = delete;
    Interrupt& operator=(const Interrupt&) = delete;
    // True once one has come; takes it.
    bool take();

private:
    int fd_;
};

bool on_terminal();
// Overwrites the line that was shown before; empty: wipes it.
void show_line(const std::string& text);

// While alive, an interrupt ends the process, after removing a directory if one is named: for
// opening, loading and checking, which leave nothing behind that a crash would not. Shows how far a
// load is, twice a second, if given one. Works from a kernel thread of its own.
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
