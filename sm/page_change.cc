// page_change.cc - the change recipe: every modification of every page runs through here, some fifty times per TPC-C New-Order.
//
// One open reservation spans everything from the first byte of the record to the page's new lsn, in this order and with no switch
// in between: look at the horizon again (PC-3), chain, note the pages as dirty, write the record, apply the actions from the
// record's own bytes, set the pages' lsn, publish. Applying before publishing keeps the record's bytes in the ring as long as they
// are read, and makes Log::settle() cover the pages as well (PC-4).
//
// Undo space. A rollback logs at most as much for a record as the record itself has (before-values are in it) plus a header, and
// after a checkpoint the page's image once more. One image is promised per page and stretch of work: as long as a page is among the
// last ones this transaction has logged, it is not promised again; a compensation record uses promises up, so it clears that memory.
#include "sm/page_change.h"

#include <cstring>

#include "sm/engine.h"

namespace lockstep::sm {
namespace {

constexpr uint32_t kPartsMax = 16;
constexpr uint32_t kUndoHeadBytes = 64;
constexpr uint32_t kUndoImageBytes = kPageBytes + 256;

constexpr uint32_t padded(uint32_t bytes) { return (bytes + 7) & ~7u; }

inline uint32_t payload_bytes(const ChangePart& part) {
    return static_cast<uint32_t>(part.pieces[0].size() + part.pieces[1].size() + part.pieces[2].size() + part.pieces[3].size());
}

// Actions that need nothing of the old page are fresh whatever the caller says.
inline bool is_fresh(const ChangePart& part) {
    return (part.flags & kPartFresh) || part.action == PageAction::page_free || part.action == PageAction::page_image;
}

// PC-3. The same answer before the record is written and while it is: pages change only when it is complete.
inline bool needs_image(const ChangePart& part, uint64_t horizon) {
    return (*part.page)->header.lsn <= horizon && !is_fresh(part);
}

inline uint32_t part_bytes(const ChangePart& part, uint64_t horizon) {
    uint32_t bytes = static_cast<uint32_t>(sizeof(PartHeader)) + padded(payload_bytes(part));
    if (needs_image(part, horizon)) [[unlikely]]
        bytes += padded(image_bytes(**part.page));
    return bytes;
}

[[gnu::noinline]] std::byte* put_image(const Page& page, std::byte* at) {
    const uint32_t bytes = image_bytes(page);
    write_image(page, at);
    std::memset(at + bytes, 0, padded(bytes) - bytes);
    return at + padded(bytes);
}

// Writes the part at `at`; the first byte behind it.
inline std::byte* put_part(const ChangePart& part, bool image, std::byte* at) {
    const Page& page = **part.page;
    auto* header = reinterpret_cast<PartHeader*>(at);
    const uint32_t payload = payload_bytes(part);
    *header = PartHeader{.page = page.header.page_id,
                         .action = static_cast<uint8_t>(part.action),
                         .flags = static_cast<uint8_t>((is_fresh(part) ? kPartFresh : 0) | (image ? kPartImage : 0)),
                         .image_bytes = 0,
                         .payload_bytes = payload,
                         .reserved = 0};
    at += sizeof(PartHeader);
    if (image) [[unlikely]] {
        header->image_bytes = static_cast<uint16_t>(image_bytes(page));
        at = put_image(page, at);
    }
    if (payload % 8 != 0) std::memset(at + payload / 8 * 8, 0, 8);         // the padding
    std::byte* to = at;
    for (const Slice& piece : part.pieces) {
        if (piece.empty()) continue;
        std::memcpy(to, piece.data(), piece.size());
        to += piece.size();
    }
    return at + padded(payload);
}

// Runs the action of the part written at `at`; the first byte behind it. `end` becomes the page's lsn.
inline const std::byte* apply_part(const ChangePart& part, Lsn end, const std::byte* at) {
    const auto* header = reinterpret_cast<const PartHeader*>(at);
    Page& page = *part.page->mutable_page();
    at += sizeof(PartHeader) + padded(header->image_bytes);
    apply_action(part.action, page, Slice(reinterpret_cast<const char*>(at), header->payload_bytes));
    CHECK(page.header.page_id == header->page);
    page.header.lsn = end.value;
    return at + padded(header->payload_bytes);
}

// True if the page was among the last ones; now it is the newest.
inline bool remember_page(txn::Transaction& txn, PageId page) {
    PageId* recent = txn.recent_pages;
    if (recent[0] == page) return true;
    const bool known = recent[1] == page || recent[2] == page || recent[3] == page;
    if (recent[1] != page) {
        if (recent[2] != page) recent[3] = recent[2];
        recent[2] = recent[1];
    }
    recent[1] = recent[0];
    recent[0] = page;
    return known;
}

// PC-5.
[[maybe_unused]] bool pages_distinct(std::span<const ChangePart> parts) {
    for (size_t i = 0; i < parts.size(); ++i)
        for (size_t j = 0; j < i; ++j)
            if (parts[i].page->mutable_page() == parts[j].page->mutable_page()) return false;
    return true;
}

void forget_pages(txn::Transaction& txn) {
    for (PageId& page : txn.recent_pages) page = PageId{0};
}

inline Result<void> promise_undo(txn::Log& log, txn::Transaction& txn, std::span<const ChangePart> parts, uint32_t bytes) {
    if (txn.last_lsn == kLsnNone) forget_pages(txn);       // left over from the slot's last user
    uint64_t undo = bytes + kUndoHeadBytes;
    for (const ChangePart& part : parts)
        if (!remember_page(txn, (*part.page)->id())) undo += kUndoImageBytes;
    Result<void> promised = log.reserve_undo(txn.undo, bytes, undo);
    if (!promised) [[unlikely]]
        forget_pages(txn);                                 // nothing was promised for them
    return promised;
}

inline void fill_header(txn::LogRecordHeader& header, txn::Transaction* txn, ChangeRole role, LogKind kind, StoreId store, size_t parts, Lsn lsn,
                        Lsn undo_next) {
    header.prev = 0;
    header.txn = 0;
    header.flags = 0;
    if (txn != nullptr) {
        const Lsn before = txn::TransactionTable::chain(*txn, lsn);
        header.prev = role == ChangeRole::forward ? before.value : undo_next.value;
        header.txn = txn->id.value;
        header.flags = role == ChangeRole::forward ? txn::kLogUndoable : txn::kLogCompensation;
    }
    header.kind = static_cast<uint16_t>(kind);
    header.parts = static_cast<uint8_t>(parts);
    header.store = store.value;
}

}  // namespace

Result<Lsn> change_pages(Engine& engine, txn::Transaction* txn, ChangeRole role, LogKind kind, StoreId store,
                         std::span<ChangePart> parts, Lsn undo_next) {
    txn::Log& log = *engine.log;
    BufferPool& pool = *engine.pool;
    DCHECK(!parts.empty() && parts.size() <= kPartsMax && pages_distinct(parts));
    DCHECK((txn == nullptr) == (role == ChangeRole::system));
    bool promised = role != ChangeRole::forward;
    for (;;) {
        const uint64_t horizon = engine.image_horizon.load(std::memory_order_acquire);
        uint32_t bytes = sizeof(txn::LogRecordHeader);
        for (const ChangePart& part : parts) bytes += part_bytes(part, horizon);
        CHECK(bytes <= txn::kLogRecordMax);
        if (!promised) {
            TRY(promise_undo(log, *txn, parts, bytes));
            txn->locks.work += bytes;
            promised = true;
        }
        if (log.failed()) [[unlikely]]
            return fail(ErrorCode::store_failed, "log");
        const txn::LogSpace space = log.reserve(bytes);
        // A record at or above a checkpoint's begin was reserved after that checkpoint had set the horizon: seen here.
        if (engine.image_horizon.load(std::memory_order_seq_cst) != horizon) [[unlikely]] {
            log.discard(space);
            continue;
        }
        fill_header(*space.header(), txn, role, kind, store, parts.size(), space.lsn, undo_next);
        std::byte* put = space.payload();
        for (const ChangePart& part : parts) {
            pool.note_dirty(*part.page, space.lsn);
            put = put_part(part, needs_image(part, horizon), put);
        }
        CHECK(put == space.at + space.bytes);
        const std::byte* at = space.payload();               // only now: payloads may lie in the pages
        for (const ChangePart& part : parts) at = apply_part(part, Lsn{space.lsn.value + space.bytes}, at);
        log.publish(space);
        if (role == ChangeRole::compensation) {
            log.use_undo(txn->undo, bytes);
            forget_pages(*txn);
        }
        return space.lsn;
    }
}

}  // namespace lockstep::sm
