// steps.cc - the wrapper between operations, the ring, and CTX inside it.
#include "threads/steps/steps.h"

#include <algorithm>

#include "threads/base/check.h"
#include "threads/thread/float_modes.h"
#include "threads/worker/worker.h"

namespace lockstep::threads {

const char* op_kind_name(OpKind op) {
    static constexpr const char* kNames[] = {"begin", "commit", "update", "scan",
                                             "fetch", "insert", "delete"};
    return op < OpKind::kCount ? kNames[static_cast<size_t>(op)] : "?";
}

Steps::Steps(Worker& worker, const StepsOptions& options)
    : routes_(std::make_unique<List*[]>(kLists)),
      lists_(std::make_unique<List[]>(kAllLists)),
      begin_(lists_[team_list_number(OpKind::begin, 0)]),
      worker_(worker) {
    for (uint32_t i = 0; i < kLists; ++i) routes_[i] = &lists_[i];
    set_options(options);
}

// Sanitizers must see every switch (switch.h), and the fast one tells nobody.
static StepsOptions possible(StepsOptions options) {
    if (kFastSwitch && switches_announced && teams_on(options.mode))
        options.mode = prefetch_on(options.mode) ? StepsMode::prefetch : StepsMode::off;
    return options;
}

void Steps::set_options(const StepsOptions& options) {
    given_ = possible(options);
    work_goal_ = UINT64_MAX;
    if (given_.mode != StepsMode::on || given_.window_records == 0) return apply(given_);
    if (!tuner_ || tuner_max_ != given_.team_max) tuner_.emplace(tuner_max_ = given_.team_max);
    (void)tuner_->disturbed();
    shift(tuner_->setting());
}

void Steps::publish(WorkerLocal& local) {
    const StepsMode mode = options_.mode;
    local.steps = operations_in_teams(mode) ? this : nullptr;
    local.begin_steps = teams_on(mode) ? this : nullptr;
    local.teams = this;
    local.prefetch = prefetch_on(mode);
    local.points = prefetch_on(mode) || ctx_on(mode);
    local.code_points = has_code_points();
    local.needs = needs_on(mode);
}

void Steps::shift(const TeamSetting& wanted) {
    StepsOptions next = given_;
    next.mode = wanted.mode;
    next.team_max = wanted.team_max;
    apply(next);
    begin_window(true);
}

void Steps::begin_window(bool warm_up) {
    warming_up_ = warm_up;
    work_ = 0;
    work_goal_ = warm_up ? given_.window_records / 8 : given_.window_records;
    window_began_ = worker_.clock().now();
    window_sleeps_ = worker_.sleeps();
}

void Steps::window_ended() {
    if (warming_up_) return begin_window(false);
    CHECK(tuner_.has_value());
    DCHECK(worker_.clock().now() >= window_began_);
    const Nanos took = worker_.clock().now() - window_began_;
    // A window says nothing about the setting if the worker slept or the clock stood still.
    const bool disturbed = worker_.sleeps() != window_sleeps_ || took == 0;
    if (disturbed ? tuner_->disturbed() : tuner_->window_ended(took)) {
        shift(tuner_->setting());
        return worker_.follow_steps();
    }
    begin_window(false);
}

TunerStats Steps::tuner_stats() const {
    return tuner_ && given_.mode == StepsMode::on && given_.window_records != 0 ? tuner_->stats()
                                                                                : TunerStats{};
}

void Steps::apply(const StepsOptions& options) {
    options_ = options;
    latch_mask_ = options.ignore_latches ? 0 : ~0u;
    points_ = !ctx_on(options.mode)          ? 0
              : options.points == UINT32_MAX ? kCtxManual
                                             : options.points;
    set_mask();
}

void Steps::clear_stats() {
    for (Merging& m : merging_) m.teams = m.entered = m.ready = 0;
    for (uint32_t i = 0; i < kAllLists; ++i) {
        List& list = lists_[i];
        list.teams = list.entered = list.ready = list.alone = 0;
        std::fill(std::begin(list.gone), std::end(list.gone), 0);
    }
    if (running_ != nullptr) running_->entered = members_;  // these have not left yet
    ctx_stats_ = {};
}

// In a team of two a switch pays only where it hides a memory access.
inline void Steps::set_mask() {
    mask_ = members_ < 3 ? points_ & ~kCtxCode : points_;
    fast_mask_ = options_.float_state || options_.gate == TeamGate::c_gated ? 0 : mask_;
}

inline void Steps::assert_state([[maybe_unused]] const Thread& self) const {
    DCHECK((oldest_ == nullptr) == (newest_ == nullptr));
    DCHECK((oldest_ == nullptr) == (waiting_ == 0));
    DCHECK(oldest_ == nullptr || oldest_->prev_waiting == nullptr);
    DCHECK(newest_ == nullptr || newest_->next_waiting == nullptr);
    DCHECK(oldest_ == nullptr || (oldest_->size > 0 && oldest_->last->next == nullptr));
    DCHECK((fast_mask_ & ~mask_) == 0 && (mask_ & ~points_) == 0);
    DCHECK(self.worker == &worker_);
    DCHECK(self.next == nullptr || members_ > 0);  // ST-2
    DCHECK(self.next == nullptr || before_ == nullptr || before_->next == &self || members_ == 1);
    DCHECK(self.next != &self || members_ == 1);
}

// --- the wrapper

Thread* Steps::cross(Thread& self, uint32_t number, bool change) {
    DCHECK(self.latch_depth == 0);  // ST-5
    DCHECK(&self == current());
    assert_state(self);
    List& list = *routes_[number];
    Thread* next = self.next;
    if (next != nullptr) [[likely]] {
        if (change && &list == running_ && next != &self && stays(self)) return nullptr;
        leave_team(self);
        if (next != &self) [[likely]] {
            join(list, self);
            return preempt_for(self, *next);
        }
    }
    return finish_ring(self, list);
}

// The ring is empty. The scheduler comes first if it is due. Then come ready strays, so that they
// can join a list, and then the next team.
Thread* Steps::finish_ring(Thread& self, List& list) {
    if (turn_members_left_ == 0 || worker_.system_waits()) {
        join(list, self);
        yield_to_scheduler(self);
        return nullptr;
    }
    if (!worker_.idle_but_for_self()) {
        join(list, self);
        Thread* ready = worker_.take_ready();
        if (ready != nullptr) switch_to_ready(self, *ready);
        else yield_to_scheduler(self);
        return nullptr;
    }
    List& next = oldest_ != nullptr ? pick(&list, list.size + 1) : list;
    // A team of one: continue.
    if (&next == &list && list.size == 0) {
        --turn_members_left_;
        ++list.alone;
        if (++team_number_ % kReviewTeams == 0) [[unlikely]]
            review_lists();
        return nullptr;
    }
    join(list, self);
    Thread* first = start_team(next);
    return first != &self ? preempt_for(self, *first) : nullptr;
}

// A member may keep its place for another change of the team's kind. Transactions often change the
// rows that they have read together, and a new team would gain nothing.
inline bool Steps::stays(Thread& self) {
    DCHECK(self.team_stays <= kStaysMax);
    if (self.team_stays == kStaysMax || turn_members_left_ == 0) return false;
    ++self.team_stays;
    --turn_members_left_;
    return true;
}

inline void Steps::join(List& list, Thread& self) {
    DCHECK((list.first == nullptr) == (list.size == 0));
    DCHECK(list.last == nullptr || list.last->next == nullptr);
    DCHECK(list.last != &self);  // ST-1
    self.next = nullptr;
    self.fast_form = kFastSwitch;
    self.team_rounds = 0;
    self.team_stays = 0;
    if (list.last != nullptr) {
        list.last->next = &self;
    } else {
        list.first = &self;
        add_to_waiting(list);
    }
    list.last = &self;
    ++list.size;
    ++waiting_;
}

inline void Steps::leave_team(Thread& self) {
    DCHECK(members_ > 0 && before_ != nullptr && before_->next == &self);
    DCHECK((self.next == &self) == (members_ == 1));
    before_->next = self.next;
    self.next = nullptr;
    if (--members_ == 2) set_mask();
}

inline void Steps::add_to_waiting(List& list) {
    list.since = team_number_;
    list.prev_waiting = newest_;
    list.next_waiting = nullptr;
    (newest_ != nullptr ? newest_->next_waiting : oldest_) = &list;
    newest_ = &list;
}

inline void Steps::remove_from_waiting(List& list) {
    DCHECK(oldest_ != nullptr && newest_ != nullptr);
    DCHECK(list.prev_waiting != nullptr || oldest_ == &list);
    DCHECK(list.next_waiting != nullptr || newest_ == &list);
    (list.prev_waiting != nullptr ? list.prev_waiting->next_waiting : oldest_) = list.next_waiting;
    (list.next_waiting != nullptr ? list.next_waiting->prev_waiting : newest_) = list.prev_waiting;
}

// ST-6. New transactions come last, so that active ones end first.
Steps::List* Steps::overdue() const {
    List* list = oldest_;
    if (list == &begin_ && team_number_ - begin_.since <= kBeginAgeMax) list = list->next_waiting;
    return list != nullptr && team_number_ - list->since > kAgeMax ? list : nullptr;
}

// How many transactions may begin while `going_on` threads wait to continue theirs. Lock waiters
// count too: the more transactions are active, the more of them meet on the same rows. Where few
// can continue, the limit is twice as high. Where none can, one more transaction may begin in any
// case.
uint32_t Steps::admission_limit(uint32_t going_on) const {
    if (options_.gate == TeamGate::d_gated) return UINT32_MAX;
    const auto left_of = [](uint32_t limit, uint32_t used) {
        return limit - std::min(limit, used);
    };
    const uint32_t begun = going_on + worker_.waiting(ParkReason::lock), most = options_.team_max;
    if (begun < most) return most - begun;
    if (going_on == 0) return 1;
    return std::min(left_of(2 * most, begun), left_of((most + 3) / 4, going_on));
}

// `wish`: the list that the last leaver wants, of `size` threads including it; or null.
Steps::List& Steps::pick(List* wish, uint32_t size) {
    DCHECK(oldest_ != nullptr);
    List* const late = overdue();
    const bool wished = options_.policy == TeamPolicy::last_leaver && wish != nullptr;
    if (late == nullptr && wished && wish != &begin_ && size >= kSmall) return *wish;
    begin_credits_ = admission_limit(waiting_ - begin_.size + (wish != nullptr && wish != &begin_));
    if (late == &begin_) begin_credits_ = std::max(begin_credits_, kSmall);
    if (late != nullptr) return *late;
    if (wished && weight(*wish, size) >= kSmall) return *wish;
    List* best = wish != nullptr && weight(*wish, size) != 0 ? wish : nullptr;
    uint32_t best_weight = best != nullptr ? weight(*best, size) : 0;
    for (List* l = oldest_; l != nullptr; l = l->next_waiting) {
        const uint32_t w = weight(*l, l->size);
        if (w != 0 && options_.policy == TeamPolicy::oldest) return *l;
        if (w > best_weight) best = l, best_weight = w;
    }
    // Without active transactions there are begin credits.
    DCHECK(best != nullptr);
    return *best;
}

Thread* Steps::start_next_team() { return start_team(pick(nullptr, 0)); }

Thread* Steps::start_team(List& list) {
    DCHECK(members_ == 0);
    uint32_t limit = options_.gate == TeamGate::d_gated ? UINT32_MAX : options_.team_max;
    if (&list == &begin_) limit = std::min(limit, begin_credits_);
    const uint32_t size = std::min(list.size, limit);
    DCHECK(size > 0 && size <= waiting_);
    Thread* const first = list.first;
    Thread* last = list.last;
    remove_from_waiting(list);
    if (size == list.size) [[likely]] {
        list.first = list.last = nullptr;
        list.size = 0;
    } else {
        last = cut(list, size);
        // A served list goes to the end of the order (ST-6).
        add_to_waiting(list);
    }
    last->next = first;
    before_ = last;
    ++list.teams;
    list.entered += size;
    list.ready += waiting_;
    waiting_ -= size;
    running_ = &list;
    members_ = size;
    if (++team_number_ % kReviewTeams == 0) [[unlikely]]
        review_lists();
    turn_members_left_ -= std::min(turn_members_left_, size);
    set_mask();
    return first;
}

// Removes the first `size` threads of a longer list; returns the last of them.
Thread* Steps::cut(List& list, uint32_t size) {
    DCHECK(size > 0 && size < list.size);
    Thread* last = list.first;
    for (uint32_t i = 1; i < size; ++i) last = last->next;
    list.first = last->next;
    list.size -= size;
    return last;
}

Thread* Steps::gone_stray(Thread& self, ParkReason reason) {
    DCHECK(self.next != nullptr && running_ != nullptr && members_ > 0);
    ++running_->gone[static_cast<size_t>(reason)];
    Thread* next = self.next != &self ? self.next : nullptr;
    leave_team(self);
    return next;
}

// --- switches

// Prepares the fast switch to `next` and returns `next`. If another form of switch is needed, makes
// it and returns null.
inline Thread* Steps::preempt_for(Thread& self, Thread& next) {
    if (!kFastSwitch || options_.float_state) [[unlikely]] {
        pass_to(self, next);
        return nullptr;
    }
    DCHECK(next.fast_form);
    worker_local.current = &next;
    return &next;
}

void Steps::pass_to(Thread& self, Thread& next) {
    worker_local.current = &next;
    if constexpr (kFastSwitch) {
        DCHECK(next.fast_form);
        if (options_.float_state) [[unlikely]] {  // "float on"
            [[maybe_unused]] FloatModes modes;
            return fast_switch(&self.sp, next.sp, kCtxPoints);
        }
        fast_switch(&self.sp, next.sp, kCtxPoints);
    } else {
        switch_context(&self.sp, next.sp, *static_cast<Stack*>(next.stack));
    }
}

// Switches to the scheduler; `self` is suspended in fast form, which CTX can enter.
void Steps::yield_to_scheduler(Thread& self) {
    if constexpr (kFastSwitch) {
        [[maybe_unused]] FloatModes modes;
        fast_leave(
            &self.sp, [](void* worker) { static_cast<Worker*>(worker)->enter_scheduler(); },
            &worker_);
    } else {
        worker_.suspend_to_scheduler(self);
    }
}

// The same to a ready thread, without the scheduler.
void Steps::switch_to_ready(Thread& self, Thread& ready) {
    worker_.note_switch(ready);
    if constexpr (kFastSwitch) {
        [[maybe_unused]] FloatModes modes;
        const auto enter = [](void* thread) {
            auto& next = *static_cast<Thread*>(thread);
            switch_last(resume_point(next), *static_cast<Stack*>(next.stack));
        };
        fast_leave(&self.sp, enter, &ready);
    } else {
        switch_context(&self.sp, resume_point(ready), *static_cast<Stack*>(ready.stack));
    }
}

// --- CTX

void Steps::ctx_slow(Steps& steps, unsigned point, Thread& self) {
    const StepsOptions& options = steps.options_;
    if (!teams_on(options.mode)) return steps.worker_.disband(self);
    if ((steps.mask_ >> point & 1) == 0) {
        ++steps.ctx_stats_.off[point];
    } else if (self.next == &self) {
        ++steps.ctx_stats_.alone[point];
    } else if (self.to_completion) {
        ++steps.ctx_stats_.alone[point];
    } else if ((self.latch_depth & steps.latch_mask_) != 0) {
        ++steps.ctx_stats_.latched[point];
    } else {
        ++steps.ctx_stats_.taken[point];
        if (options.gate == TeamGate::c_gated && ++self.team_rounds > options.rounds_max)
            return steps.requeue_self(self);
        steps.before_ = &self;
        steps.pass_to(self, *self.next);
    }
}

// Rounds exceeded: a later team of the same list runs the rest of the operation.
void Steps::requeue_self(Thread& self) {
    Thread* next = self.next;
    DCHECK(running_ != nullptr && next != &self);
    List& list = *running_;
    ++list.gone[kCauses - 1];
    leave_team(self);
    join(list, self);
    pass_to(self, *next);
}

// --- statistics

std::vector<TeamStats> Steps::team_stats() const {
    std::vector<TeamStats> all;
    for (uint32_t i = 0; i < kAllLists; ++i) {
        const List& list = lists_[i];
        if (list.teams + list.alone == 0) continue;
        TeamStats stats{.op = static_cast<OpKind>(i < 4 ? i : 4 + (i - 4) % 3),
                        .object = i < 4 || i >= kLists ? 0 : (i - 4) / 3};
        stats.merged = i >= kLists;
        stats.teams = list.teams + list.alone;
        stats.entered = list.entered + list.alone;
        stats.ready = list.ready + list.alone;
        stats.left = stats.entered - (running_ == &list ? members_ : 0);
        for (size_t cause = 0; cause < kCauses; ++cause) {
            stats.left -= list.gone[cause];
            if (cause + 1 < kCauses) stats.strays[cause] = list.gone[cause];
        }
        all.push_back(stats);
    }
    return all;
}

void TeamStats::add(const TeamStats& other) {
    teams += other.teams;
    entered += other.entered;
    left += other.left;
    ready += other.ready;
    for (size_t i = 0; i < static_cast<size_t>(ParkReason::kCount); ++i)
        strays[i] += other.strays[i];
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
    for (uint32_t i = 0; i < kAllLists; ++i) {
        uint32_t size = 0;
        for (const Thread* t = lists_[i].first; t != nullptr; t = t->next, ++size) {
            if (size > lists_[i].size) return "ST-1: a list runs into a ring";
            if (t->state.load(std::memory_order_relaxed) == Thread::kParked)
                return "ST-4: a parked thread is on a list";
        }
        if (size != lists_[i].size) return "a list's size is wrong";
        waiting += size;
    }
    if (waiting != waiting_) return "the number of waiting threads is wrong";
    const Thread* member = before_;
    for (uint32_t i = 0; i < members_; ++i, member = member->next)
        if (member == nullptr || member->state.load(std::memory_order_relaxed) == Thread::kParked)
            return "ST-4: the ring is broken";
    return members_ == 0 || member == before_ ? "" : "ST-1: the ring has another size";
}

}  // namespace lockstep::threads
