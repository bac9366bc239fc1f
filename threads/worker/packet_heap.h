// packet_heap.h - the packets of one worker that wait for a time, earliest first.
//
// Concepts   A skew heap, linked through the packets: nothing allocates, and a packet costs no
//            memory beside its own. Adding and removing take O(log n) on average over any sequence
//            of calls. Packets of equal time leave in the order in which they came. In the heap
//            `next` is the left child, `right` the right one, and `prev` the parent.
// Invariants PH-1 No packet comes before its parent. [checked: verify()]
// Sharing    Under the lock of its owner.
// Blocking   never.
// Source     D. Sleator, R. Tarjan, "Self-Adjusting Heaps", SIAM J. Comput. 15, 1986.
#pragma once

#include <utility>

#include <lockstep/packet.h>
#include "threads/base/check.h"

namespace lockstep::threads {

class PacketHeap {
public:
    bool empty() const { return root_ == nullptr; }
    uint64_t size() const { return size_; }
    Nanos earliest() const { return root_ != nullptr ? root_->not_before : kNever; }

    void add(Packet& packet) {
        DCHECK(packet.next == nullptr && packet.prev == nullptr && packet.right == nullptr);
        DCHECK(packet.not_before != kNever);
        packet.entered = ++sequence_;
        ++size_;
        root_ = merge(root_, &packet);
        assert_state();
    }

    void remove(Packet& packet) {
        DCHECK(size_ > 0 && (packet.prev != nullptr || root_ == &packet));
        Packet* const rest = merge(packet.next, packet.right);
        Packet* const parent = packet.prev;
        DCHECK(parent == nullptr || parent->next == &packet || parent->right == &packet);
        DCHECK(rest == nullptr || !before(*rest, packet));  // PH-1
        if (rest != nullptr) rest->prev = parent;
        if (parent == nullptr) root_ = rest;
        else (parent->next == &packet ? parent->next : parent->right) = rest;
        packet.next = packet.prev = packet.right = nullptr;
        --size_;
        assert_state();
    }

    // The earliest packet, removed; null if its time is later than `now`.
    Packet* pop_due(Nanos now) {
        if (root_ == nullptr || root_->not_before > now) return nullptr;
        Packet* const first = root_;
        remove(*first);
        return first;
    }

    // PH-1 on the whole heap.
    void verify() const {
        uint64_t count = 0;
        const Packet* at = root_;
        const Packet* from = nullptr;
        while (at != nullptr) {  // by the parents' links: a heap may be deep
            const bool down = from == at->prev;
            const Packet* to = nullptr;
            if (down) {
                ++count;
                CHECK(at->prev == nullptr || !before(*at, *at->prev));
                to = at->next;
            }
            if (to == nullptr && (down || from == at->next))
                to = from == at->right ? nullptr : at->right;
            from = at;
            at = to != nullptr ? to : at->prev;
        }
        CHECK(count == size_);
    }

private:
    static bool before(const Packet& a, const Packet& b) {
        return a.not_before != b.not_before ? a.not_before < b.not_before : a.entered < b.entered;
    }
    // Of two heaps, either of which may be null. The children on the path change sides, which keeps
    // later paths short.
    static Packet* merge(Packet* a, Packet* b) {
        Packet* root = nullptr;
        Packet** link = &root;
        Packet* parent = nullptr;
        while (a != nullptr && b != nullptr) {
            if (before(*b, *a)) std::swap(a, b);
            *link = a;
            a->prev = parent;
            parent = a;
            link = &a->next;
            Packet* const right = std::exchange(a->right, a->next);
            a = right;
        }
        Packet* const rest = a != nullptr ? a : b;
        *link = rest;
        if (rest != nullptr) rest->prev = parent;
        return root;
    }
    void assert_state() const {
        DCHECK((root_ == nullptr) == (size_ == 0));
        DCHECK(root_ == nullptr || root_->prev == nullptr);
    }

    Packet* root_ = nullptr;
    uint64_t size_ = 0;
    uint64_t sequence_ = 0;
};

}  // namespace lockstep::threads
