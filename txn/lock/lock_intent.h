// lock_intent.h - what an owner notes about an object: the short cases, inline.
//
// Concepts   The first record lock on an object and the ones after it are the common cases. All
//            other requests for objects stand in lock_object.cc, with the protocol and its proof
//            (IL-1 to IL-5, LM-6).
#pragma once

#include "threads/base/check.h"
#include "threads/base/limits.h"
#include "threads/base/sim_point.h"
#include "txn/lock/lock_bucket.h"
#include "txn/lock/lock_owner.h"

namespace lockstep::txn {

static_assert(LockOwner::kIntentsMax == limits::most::intents);

// Bits of LockOwner::noted.
namespace noted {
// A real request of that owner for that object is in the table.
inline constexpr uint64_t kMaterialised = 0x80;
inline uint64_t tag(ObjectId object) {
    DCHECK(object.value != UINT32_MAX);  // else the tag of none
    return (uint64_t{object.value} + 1) << 32;
}
inline bool is_for(uint64_t word, ObjectId object) {
    return (word >> 32) == uint64_t{object.value} + 1;
}
inline LockMode mode(uint64_t word) { return static_cast<LockMode>(word & 0x7f); }
}  // namespace noted

// Rights on records that an object's lock covers, and those for which it is a sufficient intention.
struct RecordRights {
    LockMode covered, allowed;
};
struct RightsTable {
    RecordRights of[128] = {};
    constexpr RightsTable();
};
constexpr RightsTable::RightsTable() {
    constexpr LockMode kReads = LockMode::IS | LockMode::S | LockMode::gap_read;
    for (unsigned m = 0; m < 128; ++m) {
        const LockMode held = static_cast<LockMode>(m);
        if (covers(held, LockMode::X)) of[m].covered = kAllRights;
        else if (covers(held, LockMode::S)) of[m].covered = kReads;
        else if (covers(held, LockMode::IX)) of[m].allowed = kAllRights;
        else if (covers(held, LockMode::IS)) of[m].allowed = kReads;
    }
}
inline constexpr RightsTable kRights;

inline void set_held(Intent& intent, LockMode held) {
    const RecordRights rights = kRights.of[static_cast<uint8_t>(held)];
    intent.held = held;
    intent.records_covered = rights.covered;
    intent.records_short = intent.left == 0 ? LockMode::none : rights.allowed;
}

inline Intent& likely_intent(LockOwner& owner, const ObjectLock& object) {
    return owner.intents[owner.intent_hint[object.id.value % 16]];
}

// Null: the owner has no intent for the object.
inline Intent* find_intent(LockOwner& owner, const ObjectLock& object) {
    Intent& likely = likely_intent(owner, object);
    if (likely.lock == &object) [[likely]]
        return &likely;
    if (!(owner.intents_of >> object.id.value % 64 & 1)) return nullptr;
    for (uint32_t i = 0; i < owner.intents_used; ++i)
        if (owner.intents[i].lock == &object) {
            owner.intent_hint[object.id.value % 16] = static_cast<uint8_t>(i);
            return &owner.intents[i];
        }
    return nullptr;
}

// `noted`: the mode that the owner notes at once, or none. `escalate_at`: record locks before the
// first try to escalate, 0 = never. Null: all intents are in use.
inline Intent* add_intent(LockOwner& owner, ObjectLock& object, LockMode noted,
                          uint32_t escalate_at) {
    if (owner.intents_used == limits::intents()) [[unlikely]]
        return nullptr;
    DCHECK(owner.noted[owner.intents_used].load() == 0);  // IL-2
    DCHECK(object.id.value != kNoObject.value && find_intent(owner, object) == nullptr);
    const uint32_t i = owner.intents_used++;
    owner.intents[i] =
        Intent{.lock = &object, .left = escalate_at && object.escalates ? escalate_at : UINT32_MAX};
    owner.intent_hint[object.id.value % 16] = static_cast<uint8_t>(i);
    owner.intents_of |= uint64_t{1} << object.id.value % 64;
    owner.noted[i].store(noted::tag(object.id) | static_cast<uint8_t>(noted));
    return &owner.intents[i];
}

// Notes `mode`, which is IS or IX, in `intent` or in a new one. True: the intention is confirmed
// (IL-1). Otherwise lock_weak_slow() goes on, with the word `before` the note; null intent: all are
// in use.
inline bool note_weak(LockOwner& owner, ObjectLock& object, LockMode mode, uint32_t escalate_at,
                      Intent*& intent, uint64_t& before) {
    DCHECK(mode == LockMode::IS || mode == LockMode::IX);
    DCHECK(intent == nullptr || intent->lock == &object);
    before = noted::tag(object.id);
    if (intent) before = owner.noted[intent - owner.intents].fetch_or(static_cast<uint8_t>(mode));
    else intent = add_intent(owner, object, mode, escalate_at);
    if (!intent) [[unlikely]]
        return false;
    SIM_POINT();
    if (object.strong.load() != 0 || (before & noted::kMaterialised)) [[unlikely]]
        return false;
    set_held(*intent, intent->held | mode);
    return true;
}

// `n` record locks in the object that are new to the owner. With none left, the next request looks
// whether to escalate.
inline void count_records(Intent& intent, uint32_t n) {
    DCHECK(intent.lock != nullptr && intent.left >= n);
    intent.left -= n;
    if (intent.left == 0) [[unlikely]]
        intent.records_short = LockMode::none;
}
inline void count_record(Intent& intent) { count_records(intent, 1); }

}  // namespace lockstep::txn
