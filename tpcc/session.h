// session.h - one use of the program on an open store: find or load the database, run, check,
// report.
//
// Concepts   What was measured is printed and written also if the run fails or is interrupted, and
//            if the check afterwards fails. The exit status then says that it failed.
#pragma once

#include "tpcc/progress.h"
#include "tpcc/report.h"

namespace lockstep::tpcc {

inline constexpr int kExitBroken = 1, kExitError = 2, kExitInterrupted = 130;

struct Session {
    Store& store;
    const Settings& settings;
    const std::string& path;  // of the database
    bool temporary;           // the directory is removed at the end
    Interrupt& interrupt;

    // Blocks. Returns the exit status of the program; errors are printed.
    int work();

private:
    Result<Database> find_database(Results& results);
    Result<Database> load_database(Results& results);
    Result<void> run(Database& db, Results& results);
    Result<void> begin(Database& db, Results& results);
    std::unique_ptr<RunReport> measure(Database& db, const RunSettings& how);
    Result<void> ramp(Database& db, Results& results);
    // True: every condition holds, and every acknowledged transaction is there.
    Result<bool> check(Database& db, Results& results);
    bool write_outputs(const Results& results);
    std::string path_if_temporary() const { return temporary ? path : ""; }
};

// Prints "lockstep-tpcc: <subject>: <error>" on stderr.
void print_error(const std::string& subject, const Error& error);
// Checked before a long run, so that its results can be written at the end. On failure: false, and
// a message on stderr.
bool can_write_outputs(const Settings& settings);

}  // namespace lockstep::tpcc
