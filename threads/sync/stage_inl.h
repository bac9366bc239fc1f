// stage_inl.h - the bodies of Stage's templates; included by stage.h only.
#pragma once

#include <type_traits>
#include <utility>

namespace lockstep::threads {

// Stable merge sort of a chain linked by `next`, bottom up, `width` packets per side at a time.
// Allocates nothing.
template <class P, class Before>
P* sort_chain(P* first, Before before) {
    for (uint64_t width = 1;; width *= 2) {
        P* rest = first;
        P** end = &first;
        uint64_t merges = 0;
        while (rest) {
            ++merges;
            P *left = rest, *right = rest;
            uint64_t lefts = 0, rights = width;
            while (lefts < width && right) ++lefts, right = right->next;
            while (lefts || (rights && right)) {
                const bool from_left = lefts && !(rights && right && before(*right, *left));
                P*& side = from_left ? left : right;
                --(from_left ? lefts : rights);
                *end = side;
                end = &side->next;
                side = side->next;
            }
            rest = right;
        }
        *end = nullptr;
        if (merges <= 1) return first;
    }
}

template <StagePacket P, bool kShared>
StageBatch<P> Stage<P, kShared>::open(Line& line) const {
    return {&line, gate().quota(line.length, options_.batch_max)};
}

template <StagePacket P, bool kShared>
template <class Before>
P* Stage<P, kShared>::dequeue_all(Line& line, Nanos now, Before before) {
    P* first = nullptr;
    P** end = &first;
    Batch batch = open(line);
    while (P* packet = dequeue(batch, now)) {
        *end = packet;
        end = &packet->next;
    }
    *end = nullptr;
    if constexpr (!std::is_null_pointer_v<Before>) first = sort_chain(first, before);
    return first;
}

template <StagePacket P, bool kShared>
void Stage<P, kShared>::place(Line& line, P& packet, Nanos now) {
    line.assert_state();
    DCHECK(line.last != &packet && line.first != &packet);
    length_.record(line.length);
    packet.entered = now;
    packet.bypassed = 0;
    P* next = options_.order && line.last ? overtake(line, packet) : nullptr;
    link(line, packet, next);
}

template <StagePacket P, bool kShared>
bool Stage<P, kShared>::promote(Line& line, P& packet, P& place) {
    line.assert_state();
    for (const P* at = packet.prev;; at = at->prev) {
        DCHECK(at != nullptr);  // place is in front of it
        if (at->bypassed >= options_.bypass_max) return false;
        if (at == &place) break;
    }
    for (P* at = packet.prev; at != place.prev; at = at->prev) count_bypass(*at);
    unlink(line, packet);
    link(line, packet, &place);
    return true;
}

template <StagePacket P, bool kShared>
void Stage<P, kShared>::count_bypass(P& packet) {
    ++packet.bypassed;
    DCHECK(packet.bypassed <= options_.bypass_max);  // STG-2
    bypasses_.add();
    bypassed_max_.raise_to(packet.bypassed);
}

// Links the packet before `next`; null: at the end.
template <StagePacket P, bool kShared>
void Stage<P, kShared>::link(Line& line, P& packet, P* next) {
    DCHECK(next != &packet);
    packet.next = next;
    packet.prev = next ? next->prev : line.last;
    (packet.prev ? packet.prev->next : line.first) = &packet;
    (next ? next->prev : line.last) = &packet;
    ++line.length;
}

// Walks from the end forwards, so that only neighbours are overtaken. Counts the overtaken packets
// once the place is known.
template <StagePacket P, bool kShared>
P* Stage<P, kShared>::overtake(Line& line, const P& packet) {
    P* place = nullptr;
    // False once a packet is overtaken by always_before.
    bool counts = true;
    for (P* at = line.last; at; at = at->prev) {
        const Precedence precedence = options_.order(packet, *at);
        if (precedence == Precedence::behind) break;
        if (precedence == Precedence::always_before) counts = false;
        else if (at->bypassed >= options_.bypass_max) break;
        place = at;
    }
    if (!place || !counts) return place;
    for (P* at = place; at; at = at->next) count_bypass(*at);
    return place;
}

template <StagePacket P, bool kShared>
void Stage<P, kShared>::unlink(Line& line, P& packet) {
    line.assert_state();
    DCHECK(line.length > 0 && (packet.prev ? packet.prev->next == &packet : line.first == &packet));
    DCHECK(packet.next ? packet.next->prev == &packet : line.last == &packet);
    (packet.prev ? packet.prev->next : line.first) = packet.next;
    (packet.next ? packet.next->prev : line.last) = packet.prev;
    --line.length;
    packet.next = packet.prev = nullptr;
}

template <StagePacket P, bool kShared>
StageStats Stage<P, kShared>::stats() const {
    StageStats s;
    // Reads ends before beginnings, so a snapshot of a busy stage has no negative difference.
    s.finished = finished_.get();
    s.forwarded = forwarded_.get();
    s.cancelled = cancelled_.get();
    s.requeued = requeued_.get();
    const uint64_t taken = taken_.get();
    s.entered = entered_.get();
    s.in_service = taken - std::min(taken, s.requeued + s.finished + s.forwarded);
    s.queued = s.entered + s.requeued - std::min(s.entered + s.requeued, taken + s.cancelled);
    s.bypasses = bypasses_.get();
    s.bypassed_max = bypassed_max_.get();
    s.suspended = suspended_.get();
    s.length = length_.snapshot();
    s.wait = wait_.snapshot();
    s.batch = batch_.snapshot();
    return s;
}

template <StagePacket P, bool kShared>
std::string Stage<P, kShared>::verify(uint64_t queued, uint64_t in_service) const {
    const StageStats s = stats();
    const auto wrong = [](const char* what, uint64_t counted, uint64_t there) {
        return std::string("STG-1: ") + what + ": " + std::to_string(counted) + " counted, " +
               std::to_string(there) + " there";
    };
    if (s.queued != queued) return wrong("packets queued", s.queued, queued);
    if (s.in_service != in_service) return wrong("packets in service", s.in_service, in_service);
    if (inside() != queued + in_service)
        return wrong("packets inside", inside(), queued + in_service);
    if (s.bypassed_max > options_.bypass_max)
        return wrong("STG-2: bypasses", s.bypassed_max, options_.bypass_max);
    return {};
}

template <StagePacket P, bool kShared>
std::string Stage<P, kShared>::verify_line(const Line& line) {
    const P* before = nullptr;
    uint64_t length = 0;
    for (const P* at = line.first; at; before = at, at = at->next, ++length)
        if (at->prev != before || length > line.length) return "line: broken links";
    if (line.last != before) return "line: wrong end";
    return length == line.length ? "" : "line: wrong length";
}

}  // namespace lockstep::threads
