// heap_file.cc - creating, destroying and inserting; room is found in heap_space.cc.
#include "sm/heap/heap_file.h"

#include <algorithm>

#include "sm/core/lock_wait.h"
#include "sm/heap/heap_impl.h"
#include "threads/base/limits.h"

namespace lockstep::sm {

using namespace heap;

HeapFile::HeapFile(Env& env, ObjectId id, PageId first)
    : env_(env), id_(id), first_(first), hints_(std::make_shared<Hints>()) {
    DCHECK(id.value != 0 && first != kPageNone);
    lock_.id = id;
    hints_->worker_count = env.runtime->workers();
    hints_->workers = std::make_unique<Hints::Worker[]>(hints_->worker_count);
}

Result<PageId> HeapFile::create(Env& env, ObjectId id, txn::Transaction* txn) {
    PageReservation reservation = TRY(env.space->prepare(1));
    const PageId first = reservation.pages[0];
    ExclusivePage page = TRY(env.pool->fix_new(first));
    const MapFormatPayload format{first.value, id.value, kPageNone.value, 0};
    ChangePart parts[2] = {reservation.part(),
                           {&page, PageAction::heap_map_format, kPartFresh, {bytes_of(format)}}};
    Result<Lsn> done = change_pages(env, txn, txn ? ChangeRole::forward : ChangeRole::system,
                                    LogKind::heap_create, id, parts);
    if (!done) {
        env.pool->drop(std::move(page));
        return std::unexpected(done.error());
    }
    return first;
}

// Last entry first, one record per page: a crash in between leaves a shorter heap, which the next
// attempt goes on freeing. A freed page's copy on the volume may be out of date, so the space map
// is asked before anything is believed.
Result<void> HeapFile::destroy() {
    if (!TRY(env_.space->is_used(first_))) return {};
    std::vector<PageId> maps;
    for (PageId at = first_; at != kPageNone;) {
        SharedPage page = TRY(env_.pool->fix_shared(at));
        // Freed earlier, in use elsewhere now.
        if (page->kind() != PageKind::heap_map || page->header.object != id_.value) return {};
        maps.push_back(at);
        at = PageId{map(*page).next};
    }
    for (; !maps.empty(); maps.pop_back()) {
        for (;;) {
            ExclusivePage map_page = TRY(env_.pool->fix_exclusive(maps.back()));
            const MapBody& body = map(*map_page);
            if (body.entries == 0) break;
            const uint16_t last = static_cast<uint16_t>(body.entries - 1);
            ExclusivePage page = TRY(env_.pool->fix_exclusive(PageId{body.page[last]}));
            PageReservation reservation = TRY(env_.space->prepare_free(page->id()));
            const MapSetPayload set{last, 0, kRemoveLast, page->header.page_id};
            ChangePart parts[3] = {{&map_page, PageAction::heap_map_set, 0, {bytes_of(set)}},
                                   {&page, PageAction::page_free, 0, {}},
                                   reservation.part()};
            TRY(change_pages(env_, nullptr, ChangeRole::system, LogKind::heap_free_space, id_,
                             parts));
            env_.pool->drop(std::move(page));
        }
        if (maps.size() > 1) {
            ExclusivePage before = TRY(env_.pool->fix_exclusive(maps[maps.size() - 2]));
            ExclusivePage page = TRY(env_.pool->fix_exclusive(maps.back()));
            PageReservation reservation = TRY(env_.space->prepare_free(page->id()));
            const uint32_t none = kPageNone.value;
            ChangePart parts[3] = {{&before, PageAction::heap_set_link, 0, {bytes_of(none)}},
                                   {&page, PageAction::page_free, 0, {}},
                                   reservation.part()};
            TRY(change_pages(env_, nullptr, ChangeRole::system, LogKind::heap_free_space, id_,
                             parts));
            env_.pool->drop(std::move(page));
        }
    }
    const PageId first = first_;
    return env_.space->free_now({&first, 1});
}

namespace {

constexpr uint32_t kSlotsTried = 16;

// Candidates for the new record's slot: a few empty ones, then new ones at the end; `skip` counts
// the refused locks.
uint32_t choose_slot(const Page& page, uint32_t skip) {
    const DataHeader& head = data(page);
    DCHECK(skip < kSlotsTried && head.empty_slots <= head.slot_count);
    const uint32_t empty = std::min<uint32_t>(head.empty_slots, limits::empty_slots_tried());
    if (empty <= skip) [[likely]]
        return head.slot_count + skip - empty;
    for (uint32_t i = 0, seen = 0; i < head.slot_count; ++i)
        if (slot(page, i).state == kEmpty && seen++ == skip) return i;
    return head.slot_count;
}

}  // namespace

Result<RecordId> HeapFile::insert(txn::Transaction& txn, Slice record) {
    if (record.size() > kHeapRecordBytesMax)
        return fail(ErrorCode::value_too_long, "heap record", record.size(), kHeapRecordBytesMax);
    txn::LockManager& locks = *env_.locks;
    // Lock first: the pages of a dropped heap may belong to another object.
    TRY(locks.lock_object(txn.locks, lock_, txn::LockMode::IX));
    for (uint32_t skip = 0;;) {
        const uint32_t bytes = room_for(record.size()) + skip * static_cast<uint32_t>(sizeof(Slot));
        ExclusivePage page =
            TRY(page_with_room(txn, std::min<uint32_t>(bytes, kPageBytes - kSlotsAt)));
        const RecordId id{page->id(), SlotNo{static_cast<uint16_t>(choose_slot(*page, skip))}};
        const txn::LockName name = txn::record_lock_name(id_, id);
        // Under the latch the lock is only tried. After a refusal the insert unlatches, waits and
        // starts over. HF-3: an empty slot whose lock is held must not be filled.
        if (!locks.try_lock_record(txn.locks, lock_, name, txn::LockMode::X)) [[unlikely]] {
            page.release();
            TRY(locks.lock_object(txn.locks, lock_, txn::LockMode::IX));
            if (++skip == kSlotsTried) {
                TRY(lock_record(txn, id, name, txn::LockMode::X));
                skip = 0;
            }
            continue;
        }
        DCHECK(page->header.object == id_.value && free_now(*page) >= room_for(record.size()));
        DCHECK(id.slot.value >= data(*page).slot_count ||
               slot(*page, id.slot.value).state == kEmpty);
        const PutPayload head{id.slot.value, kLive, 0};
        ChangePart part{&page, PageAction::heap_put, 0, {bytes_of(head), record}, 0, name.value};
        TRY(change_pages(env_, &txn, ChangeRole::forward, LogKind::heap_insert, id_, {&part, 1}));
        return id;
    }
}

}  // namespace lockstep::sm
