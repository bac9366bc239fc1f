// replay.h - plays a recorded stream through caches and predictors and counts misses by role.
//
// Concepts   A part of a plan that runs one operation carries marks: user thread i begins and ends
//            its operation. The replay leaves out code between operations, such as the loop that
//            makes the next key. The stream is thus what a processor would see that does nothing
//            but this operation. The wrapper, the switches and the scheduler inside operations stay
//            in, because they are the price of teams.
// Roles      All threads begin the operation once per round. The first thread to run after the last
//            has begun is the leader; the others are followers. Code on an unknown stack (the
//            scheduler) has the role `other`. In transactions everything is `other`.
// Cold       First-level caches are emptied and branch predictors forget before each operation
//            (serial) or round (team).
// Warm       Caches and predictors are never emptied.
// Invariants RP-1 Every counted miss has exactly one role; totals are their sums.
//            [kept by: update_role()]
//            RP-2 Equal streams and options give equal results: nothing depends on time or on
//            addresses of this process.
#pragma once

#include <array>
#include <map>
#include <span>
#include <string>
#include <unordered_map>
#include <unordered_set>
#include <vector>

#include "tools/icache/cache.h"
#include "tools/icache/predictor.h"
#include "tools/icache/trace_file.h"

namespace lockstep::icache {

enum class Role : uint8_t { leader, follower, other, uncounted };
inline constexpr size_t kRoles = 4;

struct PerRole {
    std::array<uint64_t, kRoles> by{};
    uint64_t& operator[](Role role) { return by[static_cast<size_t>(role)]; }
    uint64_t operator[](Role role) const { return by[static_cast<size_t>(role)]; }
    uint64_t total() const { return by[0] + by[1] + by[2]; }
};

enum class Empty : uint8_t { never, each_operation, each_round };

struct ReplayOptions {
    std::vector<Machine> machines;
    // Threads of the team or of the serial run; 0: transactions, no roles.
    uint32_t threads = 0;
    uint64_t warm_units = 0;  // simulated, but not counted
    Empty empty = Empty::never;
    // Address of the fast switch, watched while recording.
    uint64_t swap = 0;
    // Bytes of straight-line code added to each fast switch.
    uint32_t pad_bytes = 0;
    uint64_t pad_at = 0x7000000000;  // address of that code
    // An instruction or access that crosses lines misses at most once, as in cachegrind.
    bool once_per_access = false;
};

struct MachineCounts {
    Machine machine;
    PerRole l1i, l1d, l2i, l2d;  // misses
};
struct PredictorCounts {
    std::string name;
    PerRole branches, indirect, returns;  // wrong guesses
    uint64_t total() const { return branches.total() + indirect.total() + returns.total(); }
};

struct ReplayResult {
    uint64_t units = 0;  // operations or transactions counted
    PerRole instructions, data, branches, switches;
    uint64_t lines = 0;         // distinct 64-byte lines of counted code
    double lines_per_unit = 0;  // mean, serial parts only
    std::vector<MachineCounts> machines;
    std::vector<PredictorCounts> predictors;
};

class Replay {
public:
    explicit Replay(const ReplayOptions& options);
    ReplayResult run(std::span<const uint64_t> words);

private:
    static constexpr int kUnknown = -1;
    static constexpr uint64_t kStackReach = 60 * 1024, kStackAbove = 4096;
    struct Simulated {
        Cache l1i, l1d, l2;
        MachineCounts counts;
        explicit Simulated(const Machine& m)
            : l1i(m.l1), l1d(m.l1), l2(m.l2), counts{m, {}, {}, {}, {}} {}
        void use(Cache& l1, uint64_t address, uint32_t bytes, bool once, uint64_t& l1_misses,
                 uint64_t& l2_misses);
    };
    struct Line {
        uint64_t last_unit = 0;
    };

    void on_stack(uint64_t sp);
    void on_mark(uint32_t code, uint64_t argument);
    void begin_operation(int thread);
    void begin_unit();
    void fetch(uint64_t address, uint32_t bytes, bool one_instruction = false);
    void on_data(uint64_t address, uint32_t bytes);
    void on_run(uint64_t word);
    void on_branch(uint64_t address, bool taken);
    void on_watch(uint64_t address);
    void find_backward(std::span<const uint64_t> words);
    void make_cold();
    // Updates role_ and skipped_ after a change of thread or a mark.
    void update_role();
    int thread_at(uint64_t sp) const;

    const ReplayOptions options_;
    std::vector<Simulated> machines_;
    std::vector<Predictor> predictors_;
    ReplayResult result_;

    std::map<uint64_t, int> stacks_;  // stack pointer at a mark -> thread
    std::vector<uint8_t> in_operation_;
    uint64_t sp_ = 0;
    int thread_ = kUnknown;
    // The running thread is in its operation. On an unknown stack: the thread before it.
    bool inside_ = false;
    int leader_ = kUnknown;
    bool leader_open_ = false;  // the next other thread to run leads
    uint64_t begun_ = 0;        // operations
    uint64_t units_seen_ = 0;   // transactions, or operations begun
    bool counting_ = false;
    Role role_ = Role::uncounted;
    bool skipped_ = false;

    std::unordered_set<uint64_t> backward_;  // conditional branches seen to jump back
    // An indirect jump or return whose target is the next run.
    uint64_t waiting_target_ = 0;
    TraceKind waiting_kind_ = kTraceRun;
    std::unordered_map<uint64_t, Line> lines_;
    uint64_t line_touches_ = 0;  // distinct lines per unit, summed
    uint64_t last_line_ = UINT64_MAX;
};

ReplayResult replay(std::span<const uint64_t> words, const ReplayOptions& options);

}  // namespace lockstep::icache
