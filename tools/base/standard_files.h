// standard_files.h - descriptors 0, 1 and 2 of a program exist, whatever its caller has closed.
//
// Concepts   A store's file would get the number of a descriptor that is closed, and then what the
//            program prints would go into the store. A descriptor that was closed becomes one on
//            which reads and writes fail, so lost output is noticed (say.h).
#pragma once

#include <fcntl.h>

#include <cerrno>

namespace lockstep {

// Call it before anything opens a file.
inline void hold_standard_files() {
    // In ascending order: open() returns the lowest free number.
    for (const int fd : {0, 1, 2})
        if (::fcntl(fd, F_GETFD) < 0 && errno == EBADF)
            (void)::open("/dev/null", fd == 0 ? O_WRONLY : O_RDONLY);
}

}  // namespace lockstep
