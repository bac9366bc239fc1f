// version.h - the version of the interface, for the preprocessor of C and C++. It comes with
// <lockstep/lockstep.h> and <lockstep/store.h>. The build compares it with the project's.
#ifndef LOCKSTEP_C_VERSION_H
#define LOCKSTEP_C_VERSION_H

#define LOCKSTEP_VERSION_MAJOR 0
#define LOCKSTEP_VERSION_MINOR 2
#define LOCKSTEP_VERSION_PATCH 0
// Grows with each version: 10000 * major + 100 * minor + patch.
#define LOCKSTEP_VERSION \
    (10000 * LOCKSTEP_VERSION_MAJOR + 100 * LOCKSTEP_VERSION_MINOR + LOCKSTEP_VERSION_PATCH)

#endif
