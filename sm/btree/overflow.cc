// overflow.cc - writing, reading and freeing chains of overflow pages.
#include "sm/btree/overflow.h"
#include "sm/change/rollback.h"
#include "sm/space/space_map.h"

#include <algorithm>

#include "sm/core/cleanup.h"
#include "sm/core/record.h"
#include "threads/base/memory_reserve.h"
#include "threads/base/mutants.h"
#include "threads/base/on_disk.h"

namespace lockstep::sm {

namespace {

constexpr uint32_t kGroup = 8;  // pages per record: what one space reservation gives

struct OverflowPayload {
    uint32_t page, object;
    OverflowHeader header;
};
static_assert(kOnDisk<OverflowPayload, 24> && offsetof(OverflowPayload, header) == 8);
static_assert(kGroup * sizeof(PageId) <= sizeof(PageReservation::pages));

const OverflowHeader& header_of(const Page& page) {
    return *reinterpret_cast<const OverflowHeader*>(page.body);
}

bool belongs(const Page& page, ObjectId object, uint64_t chain) {
    return page.kind() == PageKind::overflow &&
           (page.header.object == object.value || MUTANT(chain_object_unread)) &&
           (header_of(page).chain == chain || MUTANT(chain_number_unread));
}

// Pages of a chain from `first` on; `whole` set if it ended as it should.
Result<std::vector<PageId>> walk(BufferPool& pool, ObjectId object, PageId first, uint64_t chain,
                                 uint64_t& bytes) {
    std::vector<PageId> pages;
    bytes = 0;
    for (PageId at = first; at != kPageNone;) {
        SharedPage page = TRY(pool.fix_shared(at));
        if (!belongs(*page, object, chain))
            return fail(ErrorCode::corrupt_page, "overflow chain", at.value, chain);
        const OverflowHeader& h = header_of(*page);
        if (h.bytes == 0 || h.bytes > kOverflowCapacity)
            return fail(ErrorCode::corrupt_page, "overflow chain", at.value, chain);
        bytes += h.bytes;
        pages.push_back(at);
        at = PageId{h.next};
    }
    return pages;
}

// OV-2. Call it while `page` is reserved. When the page is reserved again, the log has grown by the
// record that used it. Writers that find the same end have different pages.
uint64_t chain_number(const Env& env, PageId page) {
    const uint64_t end = env.log->tail().value;
    const uint64_t number = end + page.value * 0x9e3779b97f4a7c15ull;
    return number != 0 ? number : 1;
}

// Writes pieces [from, from + n) of the value as one record; `next` is the page behind them. Gives
// the chain its number if it has none (0). Returns the first one's page.
Result<PageId> write_group(Env& env, txn::Transaction* txn, ObjectId object, Slice value,
                           uint64_t& chain, size_t from, uint32_t n, PageId next) {
    DCHECK(n > 0 && n <= kGroup && (from + n - 1) * kOverflowCapacity < value.size());
    if (MUTANT(chain_number_shared) && chain == 0) chain = env.log->tail().value;
    PageReservation space = TRY(env.space->prepare(n));
    CHECK(space.count == n);
    if (chain == 0) chain = chain_number(env, space.pages[0]);
    OverflowPayload payloads[kGroup];
    ExclusivePage pages[kGroup];
    ChangePart parts[kGroup + 1];
    Result<void> ready{};
    for (uint32_t i = 0; i < n && ready; ++i) {
        Result<ExclusivePage> page = env.pool->fix_new(space.pages[i]);
        if (!page) {
            ready = std::unexpected(page.error());
            break;
        }
        pages[i] = std::move(*page);
        const Slice piece = value.substr((from + i) * kOverflowCapacity, kOverflowCapacity);
        payloads[i] = {space.pages[i].value,
                       object.value,
                       {chain, i + 1 < n ? space.pages[i + 1].value : next.value,
                        static_cast<uint32_t>(piece.size())}};
        parts[i + 1].page = &pages[i];
        parts[i + 1].action = PageAction::overflow_format;
        parts[i + 1].flags = kPartFresh;
        parts[i + 1].pieces[0] = {reinterpret_cast<const char*>(&payloads[i]), sizeof payloads[i]};
        parts[i + 1].pieces[1] = piece;
    }
    if (ready) {
        parts[0] = space.part();
        Result<Lsn> done = change_pages(env, txn, txn ? ChangeRole::forward : ChangeRole::system,
                                        LogKind::overflow_write, object, std::span(parts, n + 1));
        if (done) return space.pages[0];
        ready = std::unexpected(done.error());
    }
    for (ExclusivePage& page : pages)
        if (page) env.pool->drop(std::move(page));
    return std::unexpected(ready.error());
}

}  // namespace

Result<OverflowRef> write_overflow(Env& env, txn::Transaction* txn, ObjectId object, Slice value) {
    const Lsn before = txn ? txn->last_lsn : kLsnNone;
    const size_t pieces = (value.size() + kOverflowCapacity - 1) / kOverflowCapacity;
    uint64_t chain = 0;
    DCHECK(!value.empty() && value.size() <= kValueBytesMax);
    PageId next = kPageNone;
    // From the end, so that each page's successor is known.
    for (size_t left = pieces; left > 0;) {
        const uint32_t n = static_cast<uint32_t>(std::min<size_t>(kGroup, left));
        Result<PageId> first = write_group(env, txn, object, value, chain, left - n, n, next);
        if (!first) {
            if (txn) return undo_operation(env, *txn, before, first.error());
            if (next != kPageNone) (void)free_overflow(env, object, next, chain);
            return std::unexpected(first.error());
        }
        next = *first;
        left -= n;
    }
    DCHECK(next != kPageNone && chain != 0);
    return OverflowRef{next.value, static_cast<uint32_t>(value.size()), chain};
}

Result<void> read_overflow(BufferPool& pool, ObjectId object, const OverflowRef& ref, size_t offset,
                           char* out, size_t bytes) {
    // Of the page's first byte in the value.
    size_t position = 0;
    DCHECK(offset + bytes <= ref.bytes);
    PageId at{ref.first};
    while (bytes > 0) {
        if (at == kPageNone)
            return fail(ErrorCode::corrupt_page, "overflow chain", ref.first, ref.chain);
        SharedPage page = TRY(pool.fix_shared(at));
        if (!belongs(*page, object, ref.chain))
            return fail(ErrorCode::corrupt_page, "overflow chain", at.value, ref.chain);
        const OverflowHeader& h = header_of(*page);
        if (h.bytes == 0 || h.bytes > kOverflowCapacity)
            return fail(ErrorCode::corrupt_page, "overflow chain", at.value, ref.chain);
        if (offset < position + h.bytes) {
            const size_t skip = offset - position, n = std::min<size_t>(bytes, h.bytes - skip);
            std::memcpy(out, page->bytes() + kOverflowDataAt + skip, n);
            out += n;
            offset += n;
            bytes -= n;
        }
        position += h.bytes;
        at = PageId{h.next};
    }
    return {};
}

Result<void> read_overflow(BufferPool& pool, ObjectId object, const OverflowRef& ref,
                           std::string& out) {
    if (out.capacity() < ref.bytes && !MemoryReserve::has_room_for(ref.bytes))
        return fail(ErrorCode::out_of_memory, "value", ref.bytes);
    out.resize(ref.bytes);
    return read_overflow(pool, object, ref, 0, out.data(), ref.bytes);
}

Result<void> read_overflow(BufferPool& pool, ObjectId object, const OverflowRef& ref,
                           ValueOut& out) {
    out.bytes = ref.bytes;
    if (out.fixed)
        return read_overflow(pool, object, ref, 0, reinterpret_cast<char*>(out.fixed),
                             std::min<size_t>(out.capacity, ref.bytes));
    if (!out.text) return {};
    return read_overflow(pool, object, ref, *out.text);
}

Result<std::vector<PageId>> overflow_pages(BufferPool& pool, ObjectId object,
                                           const OverflowRef& ref) {
    uint64_t bytes = 0;
    std::vector<PageId> pages = TRY(walk(pool, object, PageId{ref.first}, ref.chain, bytes));
    if (bytes != ref.bytes)
        return fail(ErrorCode::corrupt_page, "overflow chain's length", ref.first, bytes);
    return pages;
}

Result<bool> overflow_exists(Env& env, ObjectId object, PageId first, uint64_t chain) {
    // A freed page's old bytes may still lie on disk, so the map is asked before the page.
    if (!TRY(env.space->is_used(first))) return false;
    SharedPage page = TRY(env.pool->fix_shared(first));
    return belongs(*page, object, chain);
}

Result<void> release_overflow(Env& env, txn::Transaction& txn, ObjectId object, Slice key,
                              const OverflowRef& ref) {
    DCHECK(ref.first != kPageNone.value && ref.bytes != 0);
    if (env.drops)
        TRY(env.drops->add(txn, {DropKind::chain, object, PageId{ref.first}, ref.chain}));
    if (env.ghost_notes) env.ghost_notes->note_chain(object, key, PageId{ref.first}, ref.chain);
    return {};
}

Result<std::vector<PageId>> overflow_remains(Env& env, ObjectId object, PageId first,
                                             uint64_t chain) {
    std::vector<PageId> pages;
    for (PageId at = first; at != kPageNone && TRY(overflow_exists(env, object, at, chain));) {
        pages.push_back(at);
        at = PageId{header_of(*TRY(env.pool->fix_shared(at))).next};
    }
    return pages;
}

Result<void> free_overflow(Env& env, ObjectId object, PageId first, uint64_t chain) {
    // From its end, so that what a crash leaves still hangs on the first page; the freed rest may
    // look whole on disk.
    std::vector<PageId> pages = TRY(overflow_remains(env, object, first, chain));
    std::ranges::reverse(pages);
    return env.space->free_now(pages);
}

void apply_overflow_format(Page& page, Slice payload) {
    OverflowPayload p;
    CHECK(payload.size() >= sizeof p && payload.size() - sizeof p <= kOverflowCapacity);
    std::memcpy(&p, payload.data(), sizeof p);
    DCHECK(p.header.bytes != 0 && p.header.bytes == payload.size() - sizeof p);  // OV-1
    DCHECK(p.header.next != p.page && p.header.chain != 0);
    const uint64_t lsn = page.header.lsn;
    format_page(page, PageId{p.page}, ObjectId{p.object}, PageKind::overflow);
    page.header.lsn = lsn;
    std::memcpy(page.body, &p.header, sizeof p.header);
    std::memcpy(page.bytes() + kOverflowDataAt, payload.data() + sizeof p,
                payload.size() - sizeof p);
    page.header.hole_begin = static_cast<uint16_t>(kOverflowDataAt + payload.size() - sizeof p);
    page.header.hole_end = kPageBytes;
}

}  // namespace lockstep::sm
