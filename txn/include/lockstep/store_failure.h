// store_failure.h - why a store has stopped. Part of the public interface.
#pragma once

#include <string>

#include <lockstep/result.h>

namespace lockstep {

// The first failure that stopped a store. Later failures are consequences and are not kept. Every
// error store_failed repeats `what`, and of `cause` the errno and the first number.
struct StoreFailure {
    // The operation and the kind of file, a static string: "write and sync of log segment". In this
    // case one system call does both (pwritev2 with RWF_DSYNC); the other names mean the system
    // call of that name (write, sync, read, open, allocate, rename, unlink).
    const char* what = "";
    // Path of the file or directory; empty if no file is to blame.
    std::string file = {};
    // What the operation returned. `os` is its errno, or 0 if no system call failed, for example
    // because a page was corrupt. `a` is the LSN of a log segment, or the page of the data file.
    Error cause = {};

    // One line: operation, path, and errno with its meaning. Allocates.
    [[gnu::cold]] std::string text() const;
};

}  // namespace lockstep
