// steps.cc - the wrapper between operations, the ring, and CTX inside it.
#include "threads/steps.h"

#include "threads/base/check.h"
#include "threads/worker.h"

namespace lockstep::threads {

const char* team_op_name(TeamOp op) {
    static constexpr const char* kNames[] = {"begin", "commit", "update", "scan", "fetch", "insert", "delete"};
    return op < TeamOp::kCount ? kNames[static_cast<size_t>(op)] : "?";
}

Steps::Steps(Worker& worker, const StepsOptions& options)
    : worker_(worker), options_(options), lists_(std::make_unique<List[]>(kLists)), ignore_latches_(options.ignore_latches) {
    set_points(options.points);
}

void Steps::set_points(uint32_t points) {
    options_.points = points;
    points_ = points == UINT32_MAX ? kCtxManual : points;
    if (options_.mode == StepsMode::grouping) points_ = 0;
    set_mask();
}

void Steps::set_mode(StepsMode mode) {
    options_.mode = mode;
    set_points(options_.points);
}

void Steps::clear_stats() {
    for (uint32_t i = 0; i < kLists; ++i) lists_[i].stats = {};
    ctx_stats_ = {};
}

// In a team of two a switch only pays where it hides a memory access.
void Steps::set_mask() { mask_ = members_ < 3 ? points_ & ~kCtxCode : points_; }

Steps::List& Steps::list_of(TeamOp op, uint32_t object) {
    const auto kind = static_cast<uint32_t>(op);
    if (op < TeamOp::fetch) {
        lists_[kind].stats.op = op;
        return lists_[kind];
    }
    List& list = lists_[4 + (object % kObjects) * 3 + (kind - 4)];
    list.stats.op = op;
    list.stats.object = object;
    return list;
}

void Steps::boundary(Thread& self, TeamOp op, uint32_t object) {
    DCHECK(self.latch_depth == 0);                                   // ST-5
    List& list = list_of(op, object);
    Thread* successor = nullptr;
    if (self.next != nullptr) {
        ++running_->stats.left;
        if (self.next != &self) successor = self.next;
        unlink(self);
    }
    if (successor == nullptr && waiting_ == 0 && teams_left_ > 0 && worker_.idle_but_for_self()) {
        --teams_left_;                                               // alone on the worker: go straight on
        ++list.stats.teams;
        ++list.stats.entered;
        ++list.stats.left;
        ++list.stats.ready;
        return;
    }
    wait_in(list, self);
    if (successor != nullptr) return switch_to(self, *successor);
    if (teams_left_ > 0 && worker_.idle_but_for_self()) {
        Thread* first = start_team(pick(&list));
        if (first != &self) switch_to(self, *first);
        return;
    }
    leave_to_scheduler(self);
}

void Steps::wait_in(List& list, Thread& self) {
    self.queue_next = nullptr;
    (list.last != nullptr ? list.last->queue_next : list.first) = &self;
    list.last = &self;
    if (list.size++ == 0) add_to_waiting(list);
    ++waiting_;
}

void Steps::add_to_waiting(List& list) {
    list.since = team_number_;
    list.prev_waiting = newest_;
    list.next_waiting = nullptr;
    (newest_ != nullptr ? newest_->next_waiting : oldest_) = &list;
    newest_ = &list;
}

void Steps::remove_from_waiting(List& list) {
    (list.prev_waiting != nullptr ? list.prev_waiting->next_waiting : oldest_) = list.next_waiting;
    (list.next_waiting != nullptr ? list.next_waiting->prev_waiting : newest_) = list.prev_waiting;
}

Thread* Steps::take_first(List& list) {
    Thread* thread = list.first;
    list.first = thread->queue_next;
    if (list.first == nullptr) list.last = nullptr;
    --waiting_;
    if (--list.size == 0) remove_from_waiting(list);
    return thread;
}

Steps::List& Steps::pick(List* wish) {
    DCHECK(oldest_ != nullptr);
    if (team_number_ - oldest_->since > kAgeMax) return *oldest_;    // ST-6
    switch (options_.policy) {
        case TeamPolicy::last_leaver:
            if (wish != nullptr && wish->size > 0) return *wish;
            break;
        case TeamPolicy::largest: {
            List* best = oldest_;
            for (List* l = oldest_; l != nullptr; l = l->next_waiting)
                if (l->size > best->size) best = l;
            return *best;
        }
        case TeamPolicy::oldest: break;
    }
    return *oldest_;
}

Thread* Steps::start_next_team() { return start_team(pick(newest_)); }

Thread* Steps::start_team(List& list) {
    DCHECK(members_ == 0);
    const uint32_t size = options_.gate == TeamGate::d_gated ? list.size : std::min(list.size, options_.team_max);
    ++list.stats.teams;
    list.stats.entered += size;
    list.stats.ready += waiting_;
    Thread* first = take_first(list);
    Thread* last = first;
    first->team_rounds = 0;
    for (uint32_t i = 1; i < size; ++i) {
        Thread* thread = take_first(list);
        thread->team_rounds = 0;
        thread->prev = last;
        last->next = thread;
        last = thread;
    }
    last->next = first;
    first->prev = last;
    running_ = &list;
    members_ = size;
    ++team_number_;
    teams_left_ -= std::min(teams_left_, size);
    if (list.size > 0) {                         // who was served goes to the end of the line (ST-6)
        remove_from_waiting(list);
        add_to_waiting(list);
    }
    set_mask();
    return first;
}

void Steps::unlink(Thread& self) {
    self.prev->next = self.next;
    self.next->prev = self.prev;
    self.prev = self.next = nullptr;
    if (--members_ == 2) set_mask();
}

Thread* Steps::gone_stray(Thread& self, ParkReason reason) {
    if (reason != ParkReason::kCount) ++running_->stats.strays[static_cast<size_t>(reason)];      // else the thread has ended
    Thread* next = self.next != &self ? self.next : nullptr;
    unlink(self);
    return next;
}

namespace {

// "Float on": a thread that is suspended by the fast switch finds its mxcsr and x87 control word again.
class FloatModes {
public:
#if defined(__x86_64__)
    explicit FloatModes(bool keep) : keep_(keep) {
        if (keep_) asm volatile("stmxcsr %0\n\tfnstcw %1" : "=m"(mxcsr_), "=m"(x87_));
    }
    ~FloatModes() {
        if (keep_) asm volatile("ldmxcsr %0\n\tfldcw %1" : : "m"(mxcsr_), "m"(x87_));
    }

private:
    const bool keep_;
    uint32_t mxcsr_;
    uint16_t x87_;
#else
    explicit FloatModes(bool) {}
#endif
};

}  // namespace

void Steps::switch_to(Thread& self, Thread& next) {
    worker_local.current = &next;
    if constexpr (kFastSwitch) {
        DCHECK(next.fast_form);
        self.fast_form = true;
        FloatModes modes(options_.float_state);
        lockstep_ctx_swap(&self.sp, next.sp);
    } else {
        switch_context(&self.sp, next.sp, *static_cast<Stack*>(next.stack));
    }
}

// To the scheduler, suspended in the form that CTX can enter.
void Steps::leave_to_scheduler(Thread& self) {
    if constexpr (kFastSwitch) {
        self.fast_form = true;
        FloatModes modes(options_.float_state);
        lockstep_ctx_leave(&self.sp, [](void* worker) { static_cast<Worker*>(worker)->enter_scheduler(); }, &worker_);
    } else {
        worker_.suspend_to_scheduler(self);
    }
}

void ctx_in_team(Thread& self, CtxPoint point) { worker_local.worker->steps().ctx(self, point); }

void Steps::ctx(Thread& self, CtxPoint point) {
    const auto i = static_cast<unsigned>(point);
    if (!teams_on(options_.mode)) [[unlikely]]
        return worker_.disband(self);
    if (!(mask_ >> i & 1)) {
        ++ctx_stats_.off[i];
        return;
    }
    if (self.next == &self) {
        ++ctx_stats_.alone[i];
        return;
    }
    if (self.latch_depth != 0 && !ignore_latches_) {
        ++ctx_stats_.latched[i];
        return;
    }
    ++ctx_stats_.taken[i];
    if (options_.gate == TeamGate::c_gated && ++self.team_rounds > options_.rounds_max) [[unlikely]]
        return stay_behind(self);
    switch_to(self, *self.next);
}

// Over its share of rounds: the rest of the operation is for a later team of the same list.
void Steps::stay_behind(Thread& self) {
    Thread* next = self.next;
    List& list = *running_;
    unlink(self);
    wait_in(list, self);
    switch_to(self, *next);
}

std::vector<TeamStats> Steps::team_stats() const {
    std::vector<TeamStats> all;
    for (uint32_t i = 0; i < kLists; ++i)
        if (lists_[i].stats.teams > 0) all.push_back(lists_[i].stats);
    return all;
}

void TeamStats::add(const TeamStats& other) {
    teams += other.teams;
    entered += other.entered;
    left += other.left;
    ready += other.ready;
    for (size_t i = 0; i < static_cast<size_t>(ParkReason::kCount); ++i) strays[i] += other.strays[i];
}

void CtxStats::add(const CtxStats& other) {
    for (unsigned i = 0; i < kCtxPoints; ++i) {
        taken[i] += other.taken[i];
        off[i] += other.off[i];
        alone[i] += other.alone[i];
        latched[i] += other.latched[i];
    }
}

std::string Steps::verify() const {
    uint32_t waiting = 0;
    for (uint32_t i = 0; i < kLists; ++i) {
        uint32_t size = 0;
        for (const Thread* t = lists_[i].first; t != nullptr; t = t->queue_next, ++size) {
            if (t->next != nullptr || t->prev != nullptr) return "ST-2: a waiting thread has ring links";
            if (t->state.load(std::memory_order_relaxed) == Thread::kParked) return "ST-4: a parked thread is on a list";
        }
        if (size != lists_[i].size) return "a list's size is wrong";
        waiting += size;
    }
    return waiting == waiting_ ? "" : "the number of waiting threads is wrong";
}

}  // namespace lockstep::threads
