// standard.h - refuses a language older than C++20, which every public header needs.
//
// Nothing in the public headers depends on the standard beyond that: objects have one layout in
// C++20, C++23 and later, and the library may be compiled with another standard than the program.
#pragma once

#if __cplusplus < 202002L
#error "Lockstep needs C++20 or newer: compile with -std=c++20"
// Compilers go on after #error, with hundreds of errors that hide it. A missing file stops them.
#define LOCKSTEP_STOP <lockstep/needs_cpp20>
#include LOCKSTEP_STOP
#endif
