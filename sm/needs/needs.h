// needs.h - walks to the records that transactions have announced, before they use them.
//
// Concepts   The needs of one transaction, or of a team of transactions that have not begun, are
//            walked in groups of sixteen keys (sm/btree/btree_key_walk.h). What is found goes to
//            the transaction's places (sm/core/places.h). Needs only cost time if they are wrong.
// Blocking   Starts page reads; waits for nothing.
// Source     The team at begin: S. Harizopoulos, "Staged Database Systems", 2005, section 5.3,
//            with one walk for all members in place of a switch at each miss.
#pragma once

#include <lockstep/need.h>
#include "sm/btree/btree_key_walk.h"
#include "sm/change/savepoints.h"
#include "sm/core/places.h"
#include "sm/host/host.h"
#include "sm/version/txn_snapshot.h"

namespace lockstep::sm {

// Of one worker; only its user threads use it.
struct alignas(kCacheLineBytes) WorkerNeeds {
    PlacesPool places;
    // As in StoreStats; read by other threads.
    std::atomic<uint64_t> walked{0}, used{0};
};

// Walks needs of several transactions in turn. On the stack of one user thread.
class NeedsWalk {
public:
    explicit NeedsWalk(Host& host);
    ~NeedsWalk() { finish(); }
    NeedsWalk(const NeedsWalk&) = delete;
    NeedsWalk& operator=(const NeedsWalk&) = delete;

    // Its place will be in `places`, unless the need is useless.
    void add(const Need& need, Places& places);
    // Ends what is under way, with all follow-ups.
    void finish() {
        while (walk_.size() != 0) finish_group();
    }
    // Cache lines asked for so far, about.
    uint64_t lines() const { return lines_; }

private:
    struct Followed;  // what follow-ups add
    void put(BTree& tree, Slice key, size_t bytes, bool for_change, const FollowUp* follow_up,
             Places& places);
    void finish_group();
    void finish_alone();
    [[gnu::noinline]] void follow();

    Host& host_;
    KeyWalk walk_;
    Places* owners_[KeyWalk::kKeys];
    const FollowUp* follow_ups_[KeyWalk::kKeys];
    size_t leads_ = 0;              // of the group: needs with a follow-up
    Followed* followed_ = nullptr;  // while follow-ups are called
    uint64_t lines_ = 0;
};

// The calling user thread's transaction will use these records: walks to them, and runs it to
// completion if teams are on.
void walk_ahead(Host& host, txn::Transaction& txn, std::span<const Need> needs);
// Of the calling worker's pool, for a transaction that has not begun.
Places* take_places(Host& host);
void give_places(Host& host, Places& places);
// The transaction that the user thread has begun gets the places of its packet.
[[gnu::cold, gnu::noinline]] void attach_places(txn::Transaction& txn, Places& places);
// Call it before the transaction object is free again (TL-3).
[[gnu::cold, gnu::noinline]] void give_back_places(Host& host, txn::Transaction& txn);
inline void forget_places(Host& host, txn::Transaction& txn) {
    if (local_of(txn).places != nullptr) [[unlikely]]
        give_back_places(host, txn);
}
// All that the transaction object refers to beside its log and locks. At each end but a prepare.
inline void forget_local(Host& host, txn::Transaction& txn) {
    forget_places(host, txn);
    forget_savepoints(txn);
    close_snapshot(host, txn);
}

}  // namespace lockstep::sm
