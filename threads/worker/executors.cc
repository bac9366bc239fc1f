// executors.cc - the life of an executing thread: admitted, runs packets, rests, ends.
#include "threads/worker/executors.h"

#include <algorithm>

#include "threads/base/limits.h"
#include "threads/worker/worker.h"

namespace lockstep::threads {

namespace {
constexpr Nanos kBlockedPause = kMillisecond;
}  // namespace

void Executors::List::append(Packet& packet) {
    DCHECK((first == nullptr) == (last == nullptr) && last != &packet);
    DCHECK(packet.place.get() == Packet::kOutside);
    packet.next = nullptr;
    (last != nullptr ? last->next : first) = &packet;
    last = &packet;
}

Packet* Executors::List::pop() {
    Packet* const packet = first;
    if (packet == nullptr) return nullptr;
    DCHECK(last != nullptr && last->next == nullptr);
    first = packet->next;
    if (first == nullptr) last = nullptr;
    packet->next = nullptr;
    return packet;
}

// --- the scheduler

bool Executors::reserve() {
    if (shared_.begun.fetch_add(1, std::memory_order_acq_rel) < shared_.begun_max) return true;
    release();
    return false;
}

// The drainer sets its mark before it reads `begun`; both are sequentially consistent.
void Executors::release() {
    [[maybe_unused]] const uint32_t before = shared_.begun.fetch_sub(1, std::memory_order_seq_cst);
    DCHECK(before > 0);
    if (shared_.draining.load(std::memory_order_seq_cst)) [[unlikely]]
        shared_.begun.notify_all();
}

void Executors::block() {
    blocked_until_ = worker_.clock().now() + kBlockedPause;
    DCHECK(blocked_until_ != 0);
}

Thread* Executors::admit_one() {
    if (!reserve()) {
        block();
        return nullptr;
    }
    Thread* thread = nullptr;
    if (Executor* const e = resting_) {
        DCHECK(e->resting && resting_count_ > 0);  // EX-1
        resting_ = e->below;
        --resting_count_;
        e->resting = false;
        thread = e->thread;
        uint32_t parked = Thread::kParked;
        // Otherwise a late wake() has put it into the ready queue.
        if (!thread->state.compare_exchange_strong(parked, Thread::kRunning,
                                                   std::memory_order_acq_rel))
            thread = nullptr;
    } else {
        auto& live = worker_.shared().live;
        const auto made = worker_.make_thread(
            "application", [this] { main(*current()); },
            live.fetch_add(1, std::memory_order_acq_rel) + 1);
        shared_.no_stack.store(!made, std::memory_order_relaxed);
        if (!made) {
            live.fetch_sub(1, std::memory_order_acq_rel);  // stop() waits for this packet first
            release();
            block();
            return nullptr;
        }
        thread = *made;
    }
    DCHECK(thread == nullptr || thread->packet == nullptr);
    DCHECK(thread == nullptr || thread->state.load() != Thread::kParked);
    ++busy_;
    one_more_ = false;
    stalled_since_ = 0;
    passed_over_ = 0;
    return thread;
}

Nanos Executors::look_again(Nanos now) {
    DCHECK(busy_ <= shared_.begun.load(std::memory_order_relaxed));
    if (!packets_wait()) return kNever;
    if (blocked_until_ != 0) return blocked_until_;
    if (!stalled()) return 0;
    if (stalled_since_ == 0) stalled_since_ = now;
    if (now < stalled_since_ + kStallPause) return stalled_since_ + kStallPause;
    one_more_ = true;
    return 0;
}

// By the time of the turn: threads that poll with yield() come here often.
void Executors::note_stall() {
    DCHECK(stalled());
    DCHECK(busy_ > 0 && packets_wait());
    if (busy_ > worker_.waiting(ParkReason::lock) + worker_.waiting(ParkReason::admission)) return;
    const Nanos now = worker_.turn_time();
    if (stalled_since_ == 0) stalled_since_ = now;
    DCHECK(stalled_since_ <= now);
    one_more_ = now >= stalled_since_ + kStallPause;
}

void Executors::retire() {
    while (Executor* const e = resting_) {
        DCHECK(e->resting && !e->ends && e->thread->packet == nullptr);  // EX-1
        resting_ = e->below;
        --resting_count_;
        e->resting = false;
        e->ends = true;
        wake(e->thread);
    }
    DCHECK(resting_count_ == 0);  // EX-1
}

// --- the threads

void Executors::main(Thread& self) {
    DCHECK(&self == current() && self.packet == nullptr);
    Executor me{.thread = &self};
    do {
        do {
            Packet* const packet = next_packet();
            if (packet == nullptr) break;
            run(self, *packet);
        } while (goes_on(self));
    } while (rest(me));
}

Packet* Executors::next_packet() {
    if (Packet* const next = prepared_.pop()) return next;  // EX-2
    TeamHook* const hook = shared_.hook.load(std::memory_order_acquire);
    if (hook != nullptr) return take_team(*hook);
    if (Packet* const next = shown_.pop()) [[unlikely]]
        return next;
    Packet* packet = nullptr;
    return admission_.take(&packet, 1, worker_.turn_time()) != 0 ? packet : nullptr;
}

Packet* Executors::take_team(TeamHook& hook) {
    Packet* team[TeamHook::kTeamMax];
    const size_t most = std::clamp<size_t>(hook.team_max(), 1, TeamHook::kTeamMax);
    size_t n = 0;
    while (n < most && (team[n] = shown_.pop()) != nullptr) ++n;
    if (n < most) n += admission_.take(team + n, most - n, worker_.turn_time());
    DCHECK(n <= most && prepared_.first == nullptr);  // EX-2
    if (n == 0) return nullptr;
    const size_t ready = std::clamp<size_t>(hook.prepare(team, n), 1, n);
    // Others may have added to both lists while prepare() was suspended.
    List rest = shown_;
    shown_ = {};
    for (size_t i = ready; i < n; ++i) shown_.append(*team[i]);
    while (Packet* const later = rest.pop()) shown_.append(*later);
    for (size_t i = 0; i < ready; ++i) prepared_.append(*team[i]);
    return prepared_.pop();
}

// To the rest of the engine each packet is a thread of its own: it has an id and its own waits.
void Executors::run(Thread& self, Packet& packet) {
    if (ids_next_ == ids_end_) {
        ids_next_ =
            worker_.shared().next_id.fetch_add(limits::thread_ids(), std::memory_order_relaxed);
        ids_end_ = ids_next_ + limits::thread_ids();
    }
    DCHECK(ids_next_ < ids_end_ && self.packet == nullptr && busy_ > 0);
    DCHECK(&self == current() && packet.place.get() == Packet::kOutside);
    self.id = ids_next_++;
    std::fill(std::begin(self.waited), std::end(self.waited), 0);
    self.packet = &packet;
    self.packet_begins = true;
    self.ahead = std::exchange(packet.above, nullptr);
    stalled_since_ = 0;
    run_.store(run_.load(std::memory_order_relaxed) + 1, std::memory_order_relaxed);
    packet.run();
    CHECK(self.latch_depth == 0);  // LA-2
    DCHECK(&self == current() && self.packet == &packet);
    DCHECK(!self.between_calls && self.callbacks == 0 && self.task == nullptr);
    DCHECK(self.lock_wait.load(std::memory_order_relaxed) == nullptr);
    if (self.ahead != nullptr) [[unlikely]]
        shared_.hook.load(std::memory_order_acquire)->unused(std::exchange(self.ahead, nullptr));
    self.to_completion = false;
    self.packet = nullptr;
    self.packet_begins = false;
    self.id = 0;  // what the packet left open belongs to no thread
    self.urgent = false;
    admission_.finish();
}

bool Executors::goes_on(Thread& self) const {
    return packets_wait() && busy_ <= shared_.executors && worker_.gives_slice(self);
}

// False: the thread ends.
bool Executors::rest(Executor& me) {
    DCHECK(busy_ > 0 && !me.resting);
    --busy_;
    blocked_until_ = 0;
    const bool stays =
        resting_count_ < shared_.executors && !shared_.retiring.load(std::memory_order_relaxed);
    if (stays) {
        me.resting = true;
        me.below = resting_;
        resting_ = &me;
        ++resting_count_;
    }
    release();
    if (!stays) return false;
    while (me.resting) worker_.rest(*me.thread);  // EX-1
    return !me.ends;
}

void Executors::abandon(Thread* all_threads) {
    for (Thread* t = all_threads; t != nullptr; t = t->all_next)
        if (t->packet != nullptr) std::exchange(t->packet, nullptr)->dropped();
    while (Packet* const packet = prepared_.pop()) packet->dropped();
    while (Packet* const packet = shown_.pop()) packet->dropped();
    admission_.drop_all();
}

std::string Executors::verify(const Thread* threads) const {
    uint32_t resting = 0, busy = 0;
    for (const Executor* e = resting_; e != nullptr; e = e->below) ++resting;
    if (resting != resting_count_) return "EX-1: threads that rest";
    for (const Thread* t = threads; t != nullptr; t = t->all_next)
        busy += t->packet != nullptr && counts_while_waiting(t->reason);
    return busy == busy_ ? "" : "EX-3: threads that are busy";
}

uint64_t Executors::in_service(const Thread* threads) const {
    uint64_t packets = 0;
    DCHECK((prepared_.first == nullptr) == (prepared_.last == nullptr));
    DCHECK((shown_.first == nullptr) == (shown_.last == nullptr));
    for (const Thread* t = threads; t != nullptr; t = t->all_next) packets += t->packet != nullptr;
    for (const List* list : {&prepared_, &shown_})
        for (const Packet* p = list->first; p != nullptr; p = p->next) ++packets;
    return packets;
}

}  // namespace lockstep::threads
