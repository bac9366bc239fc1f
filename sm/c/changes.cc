// changes.cc - the C interface of the change feed.
#include <lockstep/c/changes.h>

#include <algorithm>
#include <atomic>
#include <memory>
#include <utility>

#include <lockstep/changes.h>
#include "sm/c/objects.h"
#include "threads/sync/foreign_wait.h"

namespace lockstep::c {

namespace {

constexpr Keeps kFeed = {Kind::feed, "change feed", "feed is NULL", "no change feed",
                         "change feed, which was closed or whose store was closed"};
// A store that closes waits so long for a call that waits for a change.
constexpr Nanos kLook = threads::kWatchPause;

struct FeedObject {
    explicit FeedObject(ChangeFeed begun) : feed(std::move(begun)) {}
    ChangeFeed feed;
    std::atomic<bool> used{false};  // by a call
};

// The feed, while one call uses it.
template <class Body>
int on_feed(lockstep_changes* handle, lockstep_error* error, Body body) {
    return on_kept<FeedObject>(
        handle, kFeed, error, [&](StoreObject& store, FeedObject& object) -> Result<void> {
            if (object.used.exchange(true, std::memory_order_acquire))
                return fail(ErrorCode::wrong_thread, "change feed, which another call uses");
            const Result<void> done = body(store, object.feed);
            object.used.store(false, std::memory_order_release);
            return done;
        });
}

lockstep_change c_struct(const Change& change) {
    return {.size = sizeof(lockstep_change),
            .kind = static_cast<int>(change.kind),
            .is_index = change.is_index,
            .has_old = change.old.has_value(),
            .id = change.id.value,
            .of = change.of.value,
            .object = to_c(change.object),
            .key = to_c(change.key),
            .record = to_c(change.record),
            .offset = change.offset,
            .value = to_c(change.value),
            .old = to_c(change.old.value_or(Slice{})),
            .txn = change.txn.value,
            .commit = change.commit.value,
            .time = change.time};
}

// The first change, for which it waits; looks at the watch and at close() meanwhile.
Result<bool> first(const StoreObject& store, ChangeFeed& feed, Change& change, Nanos wait) {
    bool tired = false;
    const auto tire = [&] { tired = true; };
    const threads::GiveUp give_up(tire);
    const Nanos begun = lockstep::now();
    for (;;) {
        const Nanos waited = std::min(lockstep::now() - begun, wait);
        if (TRY(feed.next(change, std::min(wait - waited, kLook)))) return true;
        if (waited == wait) return false;
        if (store.closing.load(std::memory_order_acquire))
            return fail(ErrorCode::store_closed, "change feed");
        threads::look_between_waits();
        if (tired) return fail(ErrorCode::cancelled, "change feed");
    }
}

}  // namespace
}  // namespace lockstep::c

namespace c = lockstep::c;
using lockstep::Change;
using lockstep::ChangeFeed;
using lockstep::ChangeKind;
using lockstep::Result;

const char* lockstep_change_kind_name(int kind) {
    static_assert(int{LOCKSTEP_CHANGE_COMMIT} == static_cast<int>(ChangeKind::commit));
    const bool known = kind >= 0 && kind <= LOCKSTEP_CHANGE_COMMIT;
    return known ? lockstep::change_kind_name(static_cast<ChangeKind>(kind)) : "unknown";
}

int lockstep_changes_begin(lockstep_store* store, lockstep_slice position, lockstep_changes** feed,
                           lockstep_error* error) {
    return c::on_store(store, error, [&](c::StoreObject& s) -> Result<void> {
        LOCKSTEP_NOT_NULL(feed);
        *feed = nullptr;
        LOCKSTEP_SOUND(position);
        auto made = std::make_shared<c::FeedObject>(TRY(s.store.changes(c::slice_of(position))));
        *feed = c::handle_of<lockstep_changes>(TRY(keep(s, c::Kind::feed, std::move(made), 0)));
        return {};
    });
}

int lockstep_changes_read(lockstep_changes* feed, uint64_t wait,
                          bool (*each)(void* arg, const lockstep_change* change), void* arg,
                          size_t* given, lockstep_error* error) {
    c::set(given, size_t{0});
    return c::on_feed(feed, error, [&](c::StoreObject& store, ChangeFeed& of) -> Result<void> {
        LOCKSTEP_NOT_NULL(each);
        Change change;
        bool more = TRY(c::first(store, of, change, wait));
        for (size_t n = 1; more; ++n) {
            c::set(given, n);
            const lockstep_change told = c::c_struct(change);
            if (!each(arg, &told)) break;
            more = TRY(of.next(change));
        }
        return {};
    });
}

int lockstep_changes_position(lockstep_changes* feed, char* buffer, size_t room, size_t* bytes,
                              lockstep_error* error) {
    return c::on_feed(feed, error, [&](c::StoreObject&, ChangeFeed& of) {
        return c::copy_text(of.position(), buffer, room, bytes);
    });
}

int lockstep_changes_close(lockstep_changes* feed, lockstep_error* error) {
    return c::on_kept<c::FeedObject>(feed, c::kFeed, error,
                                     [&](c::StoreObject& store, c::FeedObject&) -> Result<void> {
                                         end_kept(store, c::number_of(feed));
                                         return {};
                                     });
}

int lockstep_changes_point(lockstep_txn* txn, char* buffer, size_t room, size_t* bytes,
                           uint64_t* lsn, lockstep_error* error) {
    return c::in_txn(txn, error, [&](c::TxnObject& t) -> Result<void> {
        const lockstep::ChangePoint point = TRY(t.store->store.changes_point(*t.txn));
        c::set(lsn, point.lsn.value);
        return c::copy_text(point.position, buffer, room, bytes);
    });
}
