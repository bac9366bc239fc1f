// try.h - the short name of LOCKSTEP_TRY inside this project.
//
// Not installed: an application may have a macro TRY of its own.
#pragma once

#include <expected>  // keep: std::unexpected(error), to pass an error up by hand

#include <lockstep/result.h>

#define TRY(...) LOCKSTEP_TRY(__VA_ARGS__)
