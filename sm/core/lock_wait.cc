// lock_wait.cc - waits for a refused lock under the name of its key or record.
#include "sm/core/lock_wait.h"

#include "sm/core/lock_error.h"
#include "threads/base/check.h"
#include "threads/base/error_detail.h"

namespace lockstep::sm {

namespace {

using txn::LockPlace;
using txn::PlaceKind;

// Tells others what the owner waits for, while it does.
class Told {
public:
    Told(txn::LockOwner& owner, const LockPlace& place) : owner_(owner) {
        DCHECK(owner.place == nullptr && owner.waiting.load() == nullptr);
        DCHECK(place.kind != PlaceKind::unknown);
        owner.place = &place;
    }
    ~Told() {
        DCHECK(owner_.place != nullptr && owner_.waiting.load() == nullptr);
        owner_.place = nullptr;
    }
    Told(const Told&) = delete;
    Told& operator=(const Told&) = delete;

private:
    txn::LockOwner& owner_;
};

Result<void> wait_for(txn::LockManager& locks, txn::LockOwner& owner, const Refused& refused,
                      const LockPlace& place) {
    DCHECK(refused.name.value != 0 && refused.mode != txn::LockMode::none);
    DCHECK(owner.thread == nullptr || owner.thread == threads::current());
    DCHECK(threads::current() == nullptr || threads::current()->latch_depth == 0);  // BT-3
    Result<void> locked;
    {
        const Told told(owner, place);
        locked = locks.lock_record(owner, refused.object, refused.name, refused.mode);
    }
    if (!locked && locked.error().code == ErrorCode::lock_refused) {
        txn::LockManager::Wait wanted;
        wanted.mode = refused.mode;
        wanted.object = refused.object.id;
        wanted.name = refused.name.value;
        wanted.place = place;
        set_error_detail(locked.error(), "asked for " + locks.text_of(wanted));
    }
    if (!locked) return named_lock_error(locked.error(), lock_place_text(place));
    return {};
}

}  // namespace

Result<void> wait_for_key(txn::LockManager& locks, txn::LockOwner& owner, const Refused& refused,
                          Slice key) {
    return wait_for(locks, owner, refused, LockPlace::of_key(PlaceKind::key, key));
}
Result<void> wait_for_gap(txn::LockManager& locks, txn::LockOwner& owner, const Refused& refused,
                          Slice key) {
    return wait_for(locks, owner, refused, LockPlace::of_key(PlaceKind::gap_above, key));
}
Result<void> wait_for_end(txn::LockManager& locks, txn::LockOwner& owner, const Refused& refused) {
    return wait_for(locks, owner, refused, LockPlace{.kind = PlaceKind::gap_at_end});
}
Result<void> wait_for_record(txn::LockManager& locks, txn::LockOwner& owner, const Refused& refused,
                             RecordId id) {
    DCHECK(id.page != kPageNone);
    return wait_for(locks, owner, refused, LockPlace{.kind = PlaceKind::record, .record = id});
}

Result<void> wait_for_insert(txn::LockManager& locks, txn::LockOwner& owner, ObjectId object,
                             txn::LockName next, Slice key) {
    DCHECK(next.value != 0 && object != txn::kNoObject);
    const LockPlace place = LockPlace::of_key(PlaceKind::gap_above, key);
    Result<void> free;
    {
        const Told told(owner, place);
        free = locks.wait_until_grantable(owner, next, txn::LockMode::gap_insert, object);
    }
    if (!free) return named_lock_error(free.error(), lock_place_text(place));
    return {};
}

std::string lock_place_text(const LockPlace& place) {
    DCHECK(place.key_bytes == 0 || place.kind == PlaceKind::key ||
           place.kind == PlaceKind::gap_above);
    DCHECK(place.record == RecordId{} || place.kind == PlaceKind::record);
    const auto key = [&] {
        std::string text = printable(place.key_kept());
        if (place.key_bytes > LockPlace::kKeyBytesKept)
            text += "... (" + std::to_string(place.key_bytes) + " bytes)";
        return text;
    };
    switch (place.kind) {
        case PlaceKind::unknown: return {};
        case PlaceKind::key: return "key " + key();
        case PlaceKind::gap_above: return "the gap above key " + key();
        case PlaceKind::gap_at_end: return "the gap above the largest key";
        case PlaceKind::record:
            return "record " + std::to_string(place.record.slot.value) + " of page " +
                   std::to_string(place.record.page.value);
        case PlaceKind::line: return "its turn to repeat a deadlock victim";
    }
    return {};
}

}  // namespace lockstep::sm
