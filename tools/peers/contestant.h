// contestant.h - one row of the tables: an engine that is loaded once, and measured in many slices.
//
// Concepts   Every slice begins with a copy of the loaded directory, so that all of them begin with
//            the same rows, however far the slices before came. It ends with the workload's check.
#pragma once

#include <string>

#include <lockstep/types.h>
#include "tools/peers/workload.h"

namespace lockstep::peers {

// What a slice runs with.
struct Plan {
    const WorkloadKind* workload = nullptr;
    bool sync = false;
    unsigned workers = 1;
};

struct Conditions {
    std::string directory;  // scratch space
    Sizes sizes;
    uint64_t cache_bytes = 1ull << 30;
    Nanos warmup = kSecond, duration = 5 * kSecond;
};

// What a slice measured.
struct Measured {
    Nanos nanos = 0;
    uint64_t transactions = 0;
    uint64_t repeats = 0;             // attempts that the engine refused
    double p50_us = 0, p99_us = 0;    // of all transactions
    double cpu_share = 0;             // of one CPU, used by this process
    double foreign_share = 0;         // of all CPUs, used by other processes
    std::vector<std::string> faults;  // that the check found

    double per_second() const {
        return nanos == 0 ? 0
                          : static_cast<double>(transactions) * static_cast<double>(kSecond) /
                                static_cast<double>(nanos);
    }
};

class Contestant {
public:
    virtual ~Contestant() = default;
    virtual std::string name() const = 0;   // a word
    virtual std::string title() const = 0;  // as in tables
    virtual const Product& product() const = 0;
    virtual bool runs(const WorkloadKind& workload) const = 0;
    // Makes and fills the tables in an empty directory.
    virtual Result<void> load(const WorkloadKind& workload, const Conditions& conditions,
                              const std::string& directory) = 0;
    // Measures on a directory that load() has filled.
    virtual Result<Measured> measure(const Plan& plan, const Conditions& conditions, uint64_t seed,
                                     const std::string& directory) = 0;
};

// An engine behind the small interface, with one session for each worker.
std::unique_ptr<Contestant> engine_contestant(const Product& product);
// Lockstep's own TPC-C driver; `terminals` for each warehouse, 0: one for each worker.
std::unique_ptr<Contestant> driver_contestant(uint32_t terminals);

// Counts what this process and others use of the CPUs, from its making on.
class CpuUse {
public:
    CpuUse();
    // Writes the shares since then.
    void note(Nanos elapsed, Measured& measured) const;

private:
    double own_, all_;  // seconds of CPU
};

}  // namespace lockstep::peers
