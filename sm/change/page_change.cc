// page_change.cc - how pages change: every modification of every page runs through here, some fifty
// times per TPC-C New-Order.
//
// Concepts   One open reservation lasts from the first byte of the record to the page's new lsn,
//            with no switch in between. The order: read the full-page-image LSN again (PC-3),
//            chain, note the pages as dirty, write the record. Then apply the actions from the
//            record's own bytes, set the pages' lsn, publish.
//            Applying before publishing keeps the record's bytes in the ring while they are read.
//            It also makes Log::wait_until_published() cover the pages (PC-4).
// Undo space A rollback logs at most as much for a record as the record itself has, plus a header:
//            before-values are in the record. After a checkpoint it also logs the page's image once
//            more. A fresh page's undo frees the page and logs neither content nor image.
//            Log space for an image is reserved once per page while the page is among the last ones
//            that this transaction logged. A compensation record uses the reservation up, so it
//            clears that list.
#include "sm/change/page_change.h"

#include <cstring>

#include "sm/buffer/bytes.h"
#include "sm/change/page_image.h"
#include "sm/change/record_changes.h"
#include "sm/core/env.h"
#include "sm/core/txn_local.h"
#include "sm/version/changed_records.h"
#include "threads/base/error_detail.h"

namespace lockstep::sm {
namespace {

constexpr uint32_t kPartsMax = 16;
constexpr uint32_t kUndoHeadBytes = 64;
constexpr uint32_t kUndoImageBytes = kPageBytes + 256;

static_assert(kPartsMax <= UINT8_MAX);  // LogRecordHeader::parts

inline uint32_t payload_bytes(const ChangePart& part) {
    return static_cast<uint32_t>(part.pieces[0].size() + part.pieces[1].size() +
                                 part.pieces[2].size() + part.pieces[3].size());
}

// Actions that need nothing of the old page are always fresh.
inline bool is_fresh(const ChangePart& part) {
    return (part.flags & kPartFresh) || part.action == PageAction::page_free ||
           part.action == PageAction::page_image;
}

// What a part takes in the record: worked out once, since the compiler must assume that writing the
// record changes everything. Passed by value to functions that are not inlined. So that of a single
// part stays in registers.
struct PartSize {
    uint32_t payload;
    uint32_t image;     // 0: none
    uint32_t flags;     // PartFlags
    std::byte* packed;  // with kPartPacked, until put_image() or drop_images(): the image
};

[[gnu::cold, gnu::noinline]] PartSize with_image(Env& env, const Page& page, PartSize size) {
    size.image = image_bytes(page);
    size.flags |= kPartImage;
    const ObjectId object{page.header.object};
    if (!env.image_trials.due(object)) return size;
    uint32_t bytes = 0;
    size.packed = pack_image(page, bytes);
    env.image_trials.note(object, size.packed != nullptr);
    if (size.packed == nullptr) return size;
    size.image = bytes;
    size.flags |= kPartPacked;
    return size;
}

[[gnu::always_inline]] inline void measure(Env& env, const ChangePart& part, uint64_t image_lsn,
                                           PartSize& size) {
    part.assert_state();
    const bool fresh = is_fresh(part);
    size.payload = payload_bytes(part);
    size.image = 0;
    size.flags = fresh ? kPartFresh : 0;
    size.packed = nullptr;
    // PC-3.
    if ((*part.page)->header.lsn <= image_lsn && !fresh) [[unlikely]]
        size = with_image(env, **part.page, size);
}

// The record is not written: frees what measure() has packed.
[[gnu::cold, gnu::noinline]] void drop_image(PartSize size) {
    if (size.flags & kPartPacked) delete[] size.packed;
}

inline uint32_t bytes_in_record(const PartSize& size) {
    return static_cast<uint32_t>(sizeof(PartHeader)) + txn::log_align(size.payload) +
           txn::log_align(size.image);
}

[[gnu::noinline]] std::byte* put_image(const Page& page, std::byte* at, PartSize size) {
    if (size.flags & kPartPacked) {
        std::memcpy(at, size.packed, size.image);
        delete[] size.packed;
    } else {
        write_image(page, at);
    }
    std::memset(at + size.image, 0, txn::log_align(size.image) - size.image);
    return at + txn::log_align(size.image);
}

[[gnu::always_inline]] inline std::byte* put_piece(const Slice& piece, std::byte* at) {
    return reinterpret_cast<std::byte*>(bytes::copy_bytes(reinterpret_cast<char*>(at), piece));
}

// Writes the part at `at`; the first byte behind it.
[[gnu::always_inline]] inline std::byte* put_part(const ChangePart& part, const PartSize& size,
                                                  std::byte* at) {
    const Page& page = **part.page;
    *reinterpret_cast<PartHeader*>(at) =
        PartHeader{.page = page.header.page_id,
                   .action = static_cast<uint8_t>(part.action),
                   .flags = static_cast<uint8_t>(size.flags),
                   .image_bytes = static_cast<uint16_t>(size.image),
                   .payload_bytes = size.payload,
                   .reserved = 0};
    at += sizeof(PartHeader);
    if (size.image != 0) [[unlikely]]
        at = put_image(page, at, size);
    std::byte* const behind = at + txn::log_align(size.payload);
    if (size.payload % 8 != 0) std::memset(behind - 8, 0, 8);  // the padding
    at = put_piece(part.pieces[0], at);                        // most parts have one or two
    at = put_piece(part.pieces[1], at);
    if (part.pieces[2].size() + part.pieces[3].size() != 0)
        put_piece(part.pieces[3], put_piece(part.pieces[2], at));
    return behind;
}

// Runs the action of the part written at `at`; the first byte behind it. `end` becomes the page's
// lsn.
[[gnu::always_inline]] inline const std::byte* apply_part(const ChangePart& part,
                                                          const PartSize& size, Lsn end,
                                                          const std::byte* at) {
    const uint32_t id = reinterpret_cast<const PartHeader*>(at)->page;
    Page& page = *part.page->mutable_page();
    at += sizeof(PartHeader) + txn::log_align(size.image);
    apply_action(part.action, page, Slice(reinterpret_cast<const char*>(at), size.payload));
    CHECK(page.header.page_id == id);
    page.assert_state();
    page.header.lsn = end.value;
    return at + txn::log_align(size.payload);
}

// True if the page was among the last ones; now it is the newest.
inline bool remember_page(txn::Transaction& txn, PageId page) {
    DCHECK(page.value != 0);  // the superblock is never changed by a record
    PageId* recent = local_of(txn).recent_pages;
    if (recent[0] == page) return true;
    const bool known = recent[1] == page || recent[2] == page || recent[3] == page;
    if (recent[1] != page) {
        if (recent[2] != page) recent[3] = recent[2];
        recent[2] = recent[1];
    }
    recent[1] = recent[0];
    recent[0] = page;
    DCHECK(recent[1] != page && recent[2] != page && recent[3] != page);
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
    for (PageId& page : local_of(txn).recent_pages) page = PageId{0};
}

// Nothing was promised. log_full names what the transaction needs and what the log takes: a, b and
// c, see page_change.h.
[[gnu::cold, gnu::noinline]] void refuse_promise(const Env& env, txn::Transaction& txn,
                                                 Result<void>& promised) {
    forget_pages(txn);
    DCHECK(!promised);
    Error& error = promised.error();
    if (error.code != ErrorCode::log_full || error.b == 0) return;
    const txn::Log& log = *env.log;
    if (const std::string keeper = env.log_keeper ? env.log_keeper() : ""; !keeper.empty()) {
        error = fail(ErrorCode::log_full, "log_bytes").error();
        set_error_detail(error, keeper);
        return;
    }
    const uint64_t needs = txn.locks.work + txn.undo.bytes + error.b, most = log.promises_max();
    const uint64_t safe = log.safe_bytes();
    error = fail(ErrorCode::log_full, "log_bytes", needs, most, safe).error();
    set_error_detail(error, "transaction " + std::to_string(txn.id.value) + " needs " +
                                std::to_string(needs) +
                                " bytes for its log records and their undo so far, besides page "
                                "splits; a transaction that is alone may need " +
                                std::to_string(most) + ", beside others " + std::to_string(safe) +
                                "; split it, or raise option log_bytes (" +
                                std::to_string(log.capacity_bytes()) + ")");
}

[[gnu::always_inline]] inline Result<void> promise_undo(Env& env, txn::Transaction& txn,
                                                        std::span<const ChangePart> parts,
                                                        const PartSize* sizes, uint32_t bytes) {
    if (txn.last_lsn == kLsnNone) forget_pages(txn);  // left over from the slot's last user
    uint64_t undo = bytes + kUndoHeadBytes;
    for (size_t i = 0; i < parts.size(); ++i) {
        const ChangePart& part = parts[i];
        // Undone by freeing or emptying the page: no image, no content.
        if ((sizes[i].flags & kPartFresh) && part.action != PageAction::page_image) [[unlikely]]
            undo -= txn::log_align(sizes[i].payload);
        else if (!remember_page(txn, (*part.page)->id())) undo += kUndoImageBytes;
        undo += part.undo_bytes;
    }
    DCHECK(undo >= kUndoHeadBytes);
    Result<void> promised = env.log->reserve_undo(txn.undo, bytes, undo);
    if (!promised) [[unlikely]]
        refuse_promise(env, txn, promised);
    return promised;
}

inline void fill_header(txn::LogRecordHeader& header, txn::Transaction* txn, ChangeRole role,
                        LogKind kind, ObjectId object, size_t parts, Lsn lsn, Lsn undo_next) {
    header.prev = 0;
    header.txn = 0;
    header.flags = 0;
    if (txn != nullptr) {
        DCHECK(txn->runs_here() && txn->last_lsn < lsn);
        DCHECK(role != ChangeRole::forward || undo_next == kLsnNone);
        // RC-2: rollback goes on with the same record or an older one.
        DCHECK(role != ChangeRole::compensation || undo_next <= txn->last_lsn);
        const Lsn before = txn::TransactionTable::chain(*txn, lsn);
        header.prev = role == ChangeRole::forward ? before.value : undo_next.value;
        header.txn = txn->id.value;
        header.flags = role == ChangeRole::forward ? txn::kLogUndoable : txn::kLogCompensation;
    }
    header.kind = static_cast<uint16_t>(kind);
    header.parts = static_cast<uint8_t>(parts);
    header.object = object.value;
}

// Between the writing of the record, whose parts begin at `at`, and the first action (VT-1).
// Not cold for the compiler, although few stores have snapshots open: it would make small code of
// what runs for every change meanwhile.
[[gnu::noinline]] void keep_versions(Env& env, txn::Transaction& txn,
                                     std::span<const ChangePart> parts, const std::byte* at) {
    const size_t n = parts.size();
    DCHECK(env.versions != nullptr && n != 0);
    ChangedRecords changed(*env.versions, txn, n == 1);
    for (size_t i = 0; i < n; ++i) {
        const auto& header = *reinterpret_cast<const PartHeader*>(at);
        at += sizeof(PartHeader) + txn::log_align(header.image_bytes);
        records_before(parts[i].action, **parts[i].page,
                       {reinterpret_cast<const char*>(at), header.payload_bytes}, changed);
        at += txn::log_align(header.payload_bytes);
    }
    changed.keep();
}

[[gnu::noinline]] void keep_version(Env& env, txn::Transaction& txn, const ChangePart& part,
                                    const std::byte* at) {
    DCHECK(env.versions != nullptr);
    const auto& header = *reinterpret_cast<const PartHeader*>(at);
    const Slice payload(
        reinterpret_cast<const char*>(at) + sizeof header + txn::log_align(header.image_bytes),
        header.payload_bytes);
    VersionTable& versions = *env.versions;
    if (part.action == PageAction::btree_replace)
        return keep_before_only_replace(versions, txn, **part.page, payload, part.record);
    if (part.action == PageAction::heap_put)
        return keep_before_only_heap_put(versions, txn, **part.page, payload, part.record);
    keep_versions(env, txn, {&part, 1}, at);
}

// A change whose reservation became padding, because the full-page-image LSN had moved. Its undo
// space is promised.
[[gnu::cold, gnu::noinline]] Result<Lsn> change_again(Env& env, txn::Transaction* txn,
                                                      ChangeRole role, LogKind kind,
                                                      ObjectId object, std::span<ChangePart> parts,
                                                      Lsn undo_next);

// kParts: how many parts there are, if that is known at compile time; 0: as many as `parts` has.
template <size_t kParts>
[[gnu::always_inline]] inline Result<Lsn> change(Env& env, txn::Transaction* txn, ChangeRole role,
                                                 LogKind kind, ObjectId object,
                                                 std::span<ChangePart> parts, Lsn undo_next,
                                                 bool promised) {
    txn::Log& log = *env.log;
    const size_t n = kParts != 0 ? kParts : parts.size();
    PartSize sizes[kParts != 0 ? kParts : kPartsMax];
    const auto drop_images = [&] {
        for (size_t i = 0; i < n; ++i) drop_image(sizes[i]);
    };
    const uint64_t image_lsn = env.image_lsn.load(std::memory_order_acquire);
    uint32_t bytes = sizeof(txn::LogRecordHeader);
    for (size_t i = 0; i < n; ++i) {
        measure(env, parts[i], image_lsn, sizes[i]);
        bytes += bytes_in_record(sizes[i]);
    }
    CHECK(bytes <= txn::kLogRecordMax);
    if (role == ChangeRole::forward && !promised) {
        const Result<void> promise = promise_undo(env, *txn, {parts.data(), n}, sizes, bytes);
        if (!promise) [[unlikely]] {
            drop_images();
            return std::unexpected(promise.error());
        }
        txn->locks.work += bytes;
    }
    if (log.failed()) [[unlikely]] {
        drop_images();
        return log.refused();
    }
    const txn::LogSpace space = log.reserve(bytes);
    DCHECK(space.bytes == bytes && space.lsn.value % 8 == 0);
    // A record at or above a checkpoint's begin was reserved after that checkpoint had set the
    // full-page-image LSN. So the change is seen here.
    if (env.image_lsn.load(std::memory_order_seq_cst) != image_lsn) [[unlikely]] {
        log.discard(space);
        drop_images();
        return change_again(env, txn, role, kind, object, parts, undo_next);
    }
    const bool keeps = env.keeps_versions.load(std::memory_order_acquire) && txn != nullptr;
    if (keeps) [[unlikely]]
        (void)env.versions->begin_writer(*txn);
    fill_header(*space.header(), txn, role, kind, object, n, space.lsn, undo_next);
    std::byte* put = space.payload();
    for (size_t i = 0; i < n; ++i) {
        DCHECK((*parts[i].page)->header.lsn <= space.lsn.value);  // PG-1: it only grows
        env.pool->note_dirty(*parts[i].page, space.lsn);
        put = put_part(parts[i], sizes[i], put);
    }
    CHECK(put == space.at + space.bytes);
    if (keeps) [[unlikely]] {
        if (kParts == 1) keep_version(env, *txn, parts[0], space.payload());
        else keep_versions(env, *txn, parts, space.payload());
    }
    // Only now: payloads may lie in the pages.
    const std::byte* at = space.payload();
    for (size_t i = 0; i < n; ++i)
        at = apply_part(parts[i], sizes[i], Lsn{space.lsn.value + space.bytes}, at);
    log.publish(space);
    if (role == ChangeRole::compensation) [[unlikely]] {
        log.use_undo(txn->undo, bytes);
        forget_pages(*txn);
    }
    return space.lsn;
}

Result<Lsn> change_again(Env& env, txn::Transaction* txn, ChangeRole role, LogKind kind,
                         ObjectId object, std::span<ChangePart> parts, Lsn undo_next) {
    return change<0>(env, txn, role, kind, object, parts, undo_next, true);
}

// Apart, so that it takes no registers from the change of one page.
[[gnu::noinline]] Result<Lsn> change_many(Env& env, txn::Transaction* txn, ChangeRole role,
                                          LogKind kind, ObjectId object,
                                          std::span<ChangePart> parts, Lsn undo_next) {
    CHECK(parts.size() <= kPartsMax);
    return change<0>(env, txn, role, kind, object, parts, undo_next, false);
}

}  // namespace

Result<Lsn> change_pages(Env& env, txn::Transaction* txn, ChangeRole role, LogKind kind,
                         ObjectId object, std::span<ChangePart> parts, Lsn undo_next) {
    DCHECK(!parts.empty() && parts.size() <= kPartsMax && pages_distinct(parts));
    DCHECK((txn == nullptr) == (role == ChangeRole::system));
    DCHECK(txn == nullptr || txn->state == txn::TxnState::active ||
           txn->state == txn::TxnState::aborting);
    DCHECK(role != ChangeRole::forward || !txn->read_only);
    if (parts.size() == 1) [[likely]]
        return change<1>(env, txn, role, kind, object, parts, undo_next, false);
    return change_many(env, txn, role, kind, object, parts, undo_next);
}

}  // namespace lockstep::sm
