// admission.cc - packets enter the admission stage, come due, and leave it.
#include "threads/worker/admission.h"

#include <algorithm>
#include <utility>

#include "threads/base/check.h"
#include "threads/base/limits.h"
#include "threads/base/sim_point.h"

namespace lockstep::threads {

namespace {
// Packets that come due together are moved in pieces: others spin for the lock.
}  // namespace

Result<void> Admission::submit(Packet& packet, Nanos now, bool foreign, bool& wake) {
    DCHECK(packet.place.get() == Packet::kOutside);  // AD-1
    DCHECK(packet.priority < Packet::kPriorities && packet.not_before != kNever);
    DCHECK(packet.next == nullptr && packet.prev == nullptr && packet.right == nullptr);
    const SpinGuard guard(lock_);
    assert_state();
    if (closed_) return fail(ErrorCode::store_closed, "runtime");
    if (length_ + heap_.size() >= settings_.packets_max) [[unlikely]]
        return fail(ErrorCode::too_many,
                    "packets that wait on a worker: submit fewer, or raise option packets_max",
                    settings_.packets_max);
    packet.home.set(static_cast<uint8_t>(worker_));
    std::atomic_thread_fence(std::memory_order_release);  // before the place, see withdraw()
    submitted_.store(submitted_.load(std::memory_order_relaxed) + 1, std::memory_order_release);
    if (packet.not_before <= now) {
        enqueue(packet, now);
        wake = true;
    } else {
        packet.place.set(Packet::kTimed);
        heap_.add(packet);
        wake = heap_.earliest() == packet.not_before;
    }
    publish(foreign);
    return {};
}

// A locked instruction only where a worker may be falling asleep (AD-2).
void Admission::publish(bool foreign) {
    DCHECK(lock_.is_held() && length_ >= pinned_);
    const auto order = foreign ? std::memory_order_seq_cst : std::memory_order_relaxed;
    queued_.store(length_, order);
    next_due_.store(closed_ && !heap_.empty() ? 0 : heap_.earliest(), order);
    movable_.store(length_ - pinned_, std::memory_order_relaxed);
    timed_.store(heap_.size(), std::memory_order_relaxed);
}

void Admission::enqueue(Packet& packet, Nanos now) {
    DCHECK(lock_.is_held() && packet.home.get() == worker_);
    packet.place.set(Packet::kQueued);
    stage_.enqueue(line_of(packet), packet, now);
    ++length_;
    pinned_ += packet.pinned;
}

Packet& Admission::dequeue(Line& line, Nanos now) {
    DCHECK(lock_.is_held() && !line.empty() && length_ > 0);
    DCHECK(line.first->place.get() == Packet::kQueued);  // AD-1
    Packet& packet = *line.first;
    stage_.take(line, packet, now);
    packet.place.set(Packet::kOutside);
    --length_;
    pinned_ -= packet.pinned;
    return packet;
}

uint32_t Admission::waiting_lines() const {
    uint32_t waiting = 0;
    for (uint32_t i = 0; i < Packet::kPriorities; ++i)
        waiting |= static_cast<uint32_t>(!lines_[i].empty()) << i;
    return waiting;
}

size_t Admission::take(Packet** packets, size_t most, Nanos now) {
    DCHECK(packets != nullptr && most > 0);
    size_t taken = 0;
    const SpinGuard guard(lock_);
    assert_state();
    for (; taken < most && length_ > 0; ++taken) {
        const uint32_t waiting = waiting_lines();
        packets[taken] = &dequeue(waiting == 8 ? lines_[3] : lines_[classes_.pick(waiting)], now);
    }
    if (taken == 0) return 0;
    stage_.served_together(taken);
    publish(false);
    return taken;
}

bool Admission::expire_due(Nanos now) {
    bool any = false;
    for (bool more = true; more;) {
        const SpinGuard guard(lock_);
        more = false;
        for (uint32_t i = 0; i < limits::packets_due_at_once(); ++i) {
            Packet* const due = heap_.pop_due(closed_ ? kNever : now);
            more = due != nullptr;
            if (!more) break;
            DCHECK(due->place.get() == Packet::kTimed);  // AD-1
            enqueue(*due, std::min(due->not_before, now));
            any = true;
        }
        publish(false);
    }
    return any;
}

Admission::Withdrawn Admission::withdraw(Packet& packet) {
    const SpinGuard guard(lock_);
    // The place first. A packet that another worker has just enqueued then shows its new home, too.
    const uint8_t place = packet.place.get();
    std::atomic_thread_fence(std::memory_order_acquire);
    SIM_POINT();
    if (packet.home.get() != worker_) return Withdrawn::at_another_worker;
    switch (place) {
        case Packet::kOutside: return Withdrawn::outside;
        case Packet::kTimed: heap_.remove(packet); break;
        default:
            DCHECK(place == Packet::kQueued && length_ > 0);  // AD-1
            stage_.cancel(line_of(packet), packet);
            --length_;
            pinned_ -= packet.pinned;
    }
    packet.place.set(Packet::kOutside);
    DCHECK(packet.next == nullptr && packet.prev == nullptr);
    assert_state();
    publish(false);
    withdrawn_.store(withdrawn_.load(std::memory_order_relaxed) + 1, std::memory_order_release);
    return Withdrawn::yes;
}

// Both locks, in the order of the workers.
uint64_t Admission::give_to(Admission& thief, uint64_t most, Nanos now) {
    DCHECK(&thief != this && thief.worker_ != worker_);
    const bool mine_first = worker_ < thief.worker_;
    const SpinGuard first(mine_first ? lock_ : thief.lock_);
    const SpinGuard second(mine_first ? thief.lock_ : lock_);
    most = std::min(most, (length_ - pinned_ + 1) / 2);
    uint64_t moved = 0;
    for (Line& line : lines_) {
        Packet* next = nullptr;
        for (Packet* at = line.first; at != nullptr && moved < most; at = next) {
            next = at->next;
            if (at->pinned) continue;
            stage_.take(line, *at, now);
            --length_;
            ++thief.length_;
            ++moved;
            at->home.set(static_cast<uint8_t>(thief.worker_));
            stage_.forward(*at, thief.stage_, thief.line_of(*at), now);
        }
    }
    DCHECK(moved <= most && thief.length_ >= moved);
    assert_state();
    thief.assert_state();
    publish(false);
    thief.publish(false);
    return moved;
}

void Admission::close() {
    const SpinGuard guard(lock_);
    DCHECK(heap_.earliest() != 0);
    closed_ = true;
    publish(true);  // what waits for a time is due: the next turn moves it
}

void Admission::drop_all() {
    Packet* dropped = nullptr;
    {
        const SpinGuard guard(lock_);
        assert_state();
        for (Line& line : lines_)
            while (!line.empty()) {
                Packet& packet = dequeue(line, 0);
                stage_.finish();
                packet.next = std::exchange(dropped, &packet);
            }
        while (Packet* packet = heap_.pop_due(kNever)) {
            packet->place.set(Packet::kOutside);
            packet->next = std::exchange(dropped, packet);
        }
        publish(false);
    }
    while (dropped != nullptr) {
        Packet& packet = *std::exchange(dropped, dropped->next);
        packet.next = nullptr;
        packet.dropped();
    }
    DCHECK(queued() == 0 && timed() == 0);
}

std::string Admission::verify(uint64_t in_service) const {
    uint64_t queued = 0;
    for (const Line& line : lines_) {
        if (auto fault = Stage<Packet, false>::verify_line(line); !fault.empty()) return fault;
        queued += line.length;
    }
    heap_.verify();
    if (queued != length_ || queued != queued_.load()) return "AD-1: packets in the lines";
    return stage_.verify(queued, in_service);
}

}  // namespace lockstep::threads
