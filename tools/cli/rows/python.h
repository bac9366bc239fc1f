// python.h - commands that the Python package performs: this program starts its interpreter.
#pragma once

#include <string>
#include <vector>

namespace lockstep::cli {

// Exit status of a command whose interpreter or packages are not installed.
inline constexpr int kAbsent = 3;

// Runs python3, the first in PATH, with a program and its arguments, and waits for it. The program
// ends with kAbsent if it lacks a package. `needs` says what to install. Ctrl-C is the program's.
// The result: an exit status.
int run_python(const char* command, const char* program, const std::vector<std::string>& arguments,
               const char* needs);

}  // namespace lockstep::cli
