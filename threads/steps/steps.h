// steps.h - STEPS: teams of threads that run the same operation, and the wrapper between
// operations.
//
// Concepts   A *list* holds the threads of this worker that want to run one operation. Begin,
//            commit, update and scan have one list each; fetch, insert and delete have one per
//            index or heap. When a list is served, its first team_max threads become the running
//            *team*. A team is a ring in which CTX passes the CPU on. Later arrivals wait for the
//            list's next team.
//            The wrapper, boundary(), runs before each operation. It leaves the team, joins the
//            list of the next operation, and switches to the ring's successor. The last thread out
//            runs ready strays and the scheduler, or picks the next team. A member that changes one
//            row after the other keeps its place for a few changes.
//            *Active* transactions have begun and are blocked by nothing but a lock. Their limit is
//            team_max, and twice that where few of them can go on. Begin is served only up to this
//            limit. More active transactions would evict each other's stacks, rows and locks, and
//            wait for each other's locks.
//            A member that parks or yields becomes a *stray*: unlinked, with null links. CTX does
//            nothing in it until its next boundary.
// States     outside -> waiting (boundary) -> member (start_team) -> outside (boundary,
//            gone_stray).
// Invariants ST-1 A thread is on at most one of: a list, the ring. [checked: verify()]
//            ST-2 The running thread's next is null exactly if it is in no ring.
//            ST-3 While the ring is not empty, a member runs.
//            ST-4 No blocked thread is on a list or in the ring.
//            ST-5 latch_depth is 0 at a boundary.
//            ST-6 No list starves: a waiting list is passed over at most kAgeMax times, begin
//            kBeginAgeMax times.
// Blocking   boundary() may switch; call it with no latch held.
// Source     S. Harizopoulos, "Staged Database Systems", 2005, sections 5.3 and 5.4.
#pragma once

#include <algorithm>
#include <array>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include <lockstep/steps_options.h>
#include "threads/base/hints.h"
#include "threads/steps/team_tuner.h"
#include "threads/thread/ctx_points.h"
#include "threads/thread/fast_switch.h"
#include "threads/thread/thread.h"
#include "threads/worker/team_scheduler.h"

namespace lockstep::threads {

class Worker;

enum class OpKind : uint8_t { begin, commit, update, scan, fetch, insert, erase, kCount };
const char* op_kind_name(OpKind op);

// Statistics of one list, in the form of the thesis's table 5-4.
struct TeamStats {
    OpKind op{};
    // ObjectId (modulo kTeamObjects) for fetch, insert, erase; else 0.
    uint32_t object = 0;
    bool merged = false;   // list of all objects, see steps_merge.cc
    uint64_t teams = 0;    // formed
    uint64_t entered = 0;  // threads, over all teams
    // Threads that reached the operation's end in their team.
    uint64_t left = 0;
    // Sum over teams: threads on all lists of the worker when the team formed.
    uint64_t ready = 0;
    uint64_t strays[static_cast<size_t>(ParkReason::kCount)] = {};
    void add(const TeamStats& other);
};
struct CtxStats {
    uint64_t taken[kCtxPoints] = {};
    uint64_t off[kCtxPoints] = {};      // skipped: point switched off
    uint64_t alone[kCtxPoints] = {};    // skipped: last member, or it runs to completion
    uint64_t latched[kCtxPoints] = {};  // skipped: exclusive latch held
    void add(const CtxStats& other);
};

// Number of a list. The lists of one object are adjacent. Objects equal modulo kTeamObjects share
// their lists.
inline constexpr uint32_t kTeamObjects = 256;
constexpr uint32_t team_list_number(OpKind op, uint32_t object) {
    const auto kind = static_cast<uint32_t>(op);
    return op < OpKind::fetch ? kind : kind + 3 * (object % kTeamObjects);
}

// One per worker. All calls on that worker's kernel thread.
class Steps final : public TeamScheduler {
public:
    Steps(Worker& worker, const StepsOptions& options);

    // The wrapper: the current thread is about to run `op` on `object`. Returns when its team runs
    // and its turn has come.
    [[gnu::always_inline]] void boundary(Thread& self, OpKind op, uint32_t object) {
        if (self.to_completion) return;
        const bool change = op == OpKind::update || op == OpKind::insert || op == OpKind::erase;
        if (Thread* next = cross(self, team_list_number(op, object), change)) {
            prefetch_stack(*next->next);
            fast_switch(&self.sp, next->sp, kCtxPoints);
        }
    }
    // Unlinks `self`, the running thread, which parks, yields or has ended (reason kCount). Returns
    // the ring's next member, or null.
    Thread* gone_stray(Thread& self, ParkReason reason) override;

    // --- the scheduler
    bool any_waiting() const override { return oldest_ != nullptr; }
    // Forms the team that the policy picks; returns its first member.
    Thread* start_next_team() override;
    void new_turn(uint32_t members) override { turn_members_left_ = members; }

    // Options may switch teams off while teams run. Members then leave one by one, at their next
    // CTX point or boundary.
    void set_options(const StepsOptions& options) override;
    void publish(WorkerLocal& local) override;
    // The options in force: as set, with the tuner's present setting.
    const StepsOptions& options() const { return options_; }
    // A transaction of `records` records has committed. The tuner counts this work, see
    // StepsOptions::window_records.
    void note_work(uint64_t records) {
        work_ += records;
        if (work_ >= work_goal_) [[unlikely]]
            window_ended();
    }
    TunerStats tuner_stats() const;
    void clear_stats() override;
    bool has_code_points() const { return (points_ & kCtxCode) != 0; }
    // CTX in a member of a team: the checks and the switch. See ctx.h.
    [[gnu::always_inline]] void ctx(Thread& self, CtxPoint point);
    // CTX when fast_mask_ does not allow the fast switch: reasons not to switch, and switches with
    // extra work. [public for tracers that watch it]
    [[gnu::noinline]] static void ctx_slow(Steps& steps, unsigned point, Thread& self);

    std::vector<TeamStats> team_stats() const;  // lists that ever had a team
    const CtxStats& ctx_stats() const { return ctx_stats_; }
    // ST-1, ST-3, ST-6 in what a boundary sees; empty in a build without DEBUG_CHECKS.
    void assert_state(const Thread& self) const;
    std::string verify() const;  // ST-1, ST-2; text of the first fault or empty

private:
    static constexpr uint32_t kLists = 4 + 3 * kTeamObjects;
    static constexpr uint32_t kAgeMax = 64, kBeginAgeMax = 1024;  // ST-6
    // A member keeps its place for this many changes of one kind in a row.
    static constexpr uint32_t kStaysMax = 16;
    // The wanted list yields to a larger one if it has fewer threads than this.
    static constexpr uint32_t kSmall = 4;
    // The last cause: the thread ended inside an operation.
    static constexpr size_t kCauses = static_cast<size_t>(ParkReason::kCount) + 1;
    // The first cache line holds what a boundary touches.
    struct alignas(kCacheLineBytes) List {
        // Waiting threads, linked by next. Closing a list makes it a ring.
        Thread* first = nullptr;
        Thread* last = nullptr;
        List* prev_waiting = nullptr;  // order of non-empty lists, longest unserved first
        List* next_waiting = nullptr;
        uint32_t size = 0;
        // Team number when the list became non-empty or was last served.
        uint32_t since = 0;
        uint64_t teams = 0, entered = 0;  // as in TeamStats
        uint64_t ready = 0;
        // Operations of a thread alone on the worker: teams of one.
        uint64_t alone = 0;
        // Members that left the team before the operation's end.
        uint64_t gone[kCauses] = {};
    };

    // Whether the per-object lists of fetch, insert or erase are merged at present, and why.
    struct Merging {
        bool merged = false;
        // Mean size of a team in the window before the merge.
        double split_size = 0;
        uint32_t windows = 0;  // since the merge
        uint32_t rest = 0;     // windows to wait after a merge that did not pay
        uint64_t teams = 0, entered = 0, ready = 0;  // sums at the last review
    };
    static constexpr uint32_t kReviewTeams = 8192, kMergeableKinds = 3;
    // The last lists hold all objects of fetch, insert, erase: one list each.
    static constexpr uint32_t kAllLists = kLists + kMergeableKinds;

    // --- steps_merge.cc
    [[gnu::cold, gnu::noinline]] void review_lists();
    void review(uint32_t kind);
    void route(uint32_t kind, bool merged);

    // Prefetches the top frames of the thread that runs after the next one.
    static void prefetch_stack(const Thread& thread) {
        const char* const sp = static_cast<const char*>(thread.sp);
#pragma GCC unroll 4
        for (unsigned line = 0; line < 4; ++line) prefetch_line(sp + line * kCacheLineBytes);
    }
    // The wrapper without its last step: the caller makes the fast switch to the returned thread.
    // Null: it is the caller's turn. `change`: the operation may keep its place, see stays().
    Thread* cross(Thread& self, uint32_t number, bool change);
    [[gnu::noinline]] Thread* finish_ring(Thread& self, List& list);
    Thread* preempt_for(Thread& self, Thread& next);
    void join(List& list, Thread& self);
    void leave_team(Thread& self);
    bool stays(Thread& self);
    void add_to_waiting(List& list);
    void remove_from_waiting(List& list);
    List& pick(List* wish, uint32_t size);
    List* overdue() const;
    uint32_t admission_limit(uint32_t going_on) const;
    // Threads that a list of `size` threads would bring to a team now.
    uint32_t weight(const List& list, uint32_t size) const {
        return &list == &begin_ ? std::min(size, begin_credits_) : size;
    }
    Thread* start_team(List& list);
    Thread* cut(List& list, uint32_t size);
    void set_mask();
    void apply(const StepsOptions& options);
    [[gnu::cold, gnu::noinline]] void window_ended();
    void shift(const TeamSetting& wanted);  // applies it and begins a window
    void begin_window(bool warm_up);
    [[gnu::cold, gnu::noinline]] void pass_to(Thread& self, Thread& next);
    [[gnu::noinline]] void yield_to_scheduler(Thread& self);
    [[gnu::noinline]] void switch_to_ready(Thread& self, Thread& ready);
    [[gnu::cold, gnu::noinline]] void requeue_self(Thread& self);

    // Fields that a boundary or a point touches share one cache line.
    // Points at which CTX needs no further check: mask_, or none.
    uint32_t fast_mask_ = 0;
    uint32_t latch_mask_ = ~0u;  // 0 for an experiment: latches are ignored
    Thread* before_ = nullptr;   // the running member's predecessor in the ring
    uint32_t members_ = 0;       // of the ring
    uint32_t waiting_ = 0;       // threads on lists
    // Members that may still run in teams before the scheduler's turn.
    uint32_t turn_members_left_ = 0;
    uint32_t team_number_ = 0;
    List* oldest_ = nullptr;  // non-empty lists in order of their last service
    List* newest_ = nullptr;
    List* running_ = nullptr;          // the list whose team is the ring
    std::unique_ptr<List*[]> routes_;  // list number -> the list that serves it
    std::unique_ptr<List[]> lists_;
    List& begin_;                 // the list of begin
    uint32_t begin_credits_ = 0;  // transactions that may begin, set by pick()

    Worker& worker_;
    StepsOptions options_;
    uint32_t points_ = 0;  // switched on
    uint32_t mask_ = 0;    // subset of points_ that the present team's size justifies
    StepsOptions given_;   // as set, without the tuner's setting
    CtxStats ctx_stats_;
    Merging merging_[kMergeableKinds];

    uint64_t work_ = 0, work_goal_ = UINT64_MAX;  // records in the present window
    // After a change of setting: transactions begun in the old one end first.
    bool warming_up_ = false;
    Nanos window_began_ = 0;
    uint64_t window_sleeps_ = 0;
    // Survives modes that need no tuner.
    std::optional<TeamTuner> tuner_;
    uint32_t tuner_max_ = 0;  // StepsOptions::team_max of tuner_
};

inline void Steps::ctx(Thread& self, CtxPoint point) {
    const auto i = static_cast<unsigned>(point);
    Thread* next = self.next;
    if (!kFastSwitch || (fast_mask_ >> i & 1) == 0 || next == &self ||
        (self.latch_depth & latch_mask_) != 0 || self.to_completion) [[unlikely]]
        return ctx_slow(*this, i, self);
    ++ctx_stats_.taken[i];
    before_ = &self;
    worker_local.current = next;
    prefetch_stack(*next->next);
    fast_switch(&self.sp, next->sp, i);
}

}  // namespace lockstep::threads
