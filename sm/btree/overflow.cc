// overflow.cc - writing, reading and freeing chains of overflow pages.
#include "sm/btree/overflow.h"
#include "sm/change/deferred.h"
#include "sm/change/rollback.h"
#include "sm/space/space_map.h"

#include <algorithm>

#include "sm/core/cleanup.h"
#include "sm/core/record.h"
#include "threads/base/limits.h"
#include "threads/base/memory_reserve.h"
#include "threads/base/on_disk.h"

namespace lockstep::sm {

namespace {

constexpr uint32_t kChainGroup =
    limits::most::overflow_group;  // pages per record: what one space reservation gives

struct OverflowPayload {
    uint32_t page, object;
    OverflowHeader header;
};
static_assert(kOnDisk<OverflowPayload, 24> && offsetof(OverflowPayload, header) == 8);
static_assert(kChainGroup * sizeof(PageId) <= sizeof(PageReservation::pages));

const OverflowHeader& header_of(const Page& page) {
    return *reinterpret_cast<const OverflowHeader*>(page.body);
}

bool belongs(const Page& page, ObjectId object, uint64_t chain) {
    return page.kind() == PageKind::overflow && page.header.object == object.value &&
           header_of(page).chain == chain;
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
// the chain its number if it has none (0). Notes their pages in `at`.
Result<void> write_group(Env& env, txn::Transaction* txn, ObjectId object, Slice value,
                         uint64_t& chain, size_t from, uint32_t n, PageId next, PageId* at) {
    DCHECK(n > 0 && n <= kChainGroup && (from + n - 1) * kOverflowCapacity < value.size());
    PageReservation space = TRY(env.space->prepare(n));
    CHECK(space.count == n);
    if (chain == 0) chain = chain_number(env, space.pages[0]);
    OverflowPayload payloads[kChainGroup];
    ExclusivePage pages[kChainGroup];
    ChangePart parts[kChainGroup + 1];
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
        if (done) {
            std::ranges::copy_n(space.pages, n, at);
            return {};
        }
        ready = std::unexpected(done.error());
    }
    for (ExclusivePage& page : pages)
        if (page) env.pool->drop(std::move(page));
    return std::unexpected(ready.error());
}

std::string reference_to(Slice value, uint64_t chain, std::span<const PageId> pages) {
    DCHECK(!pages.empty() && chain != 0 && value.size() > (pages.size() - 1) * kOverflowCapacity);
    const OverflowRef ref{pages[0].value, static_cast<uint32_t>(value.size()), chain};
    std::string text(reinterpret_cast<const char*>(&ref), sizeof ref);
    const auto append = [&](const OverflowRun& run) {
        text.append(reinterpret_cast<const char*>(&run), sizeof run);
    };
    OverflowRun run{pages[0].value, 0};
    size_t runs = 0;
    for (const PageId page : pages) {
        if (page.value != run.first + run.count) {
            append(run);
            if (++runs == kOverflowRunsMax) return text;
            run = {page.value, 0};
        }
        ++run.count;
    }
    append(run);
    DCHECK(run.count > 0 && runs < kOverflowRunsMax && !is_unlisted(text));
    return text;
}

}  // namespace

Slice overflow_piece(Slice payload, uint64_t& chain) {
    OverflowPayload head;
    CHECK(payload.size() >= sizeof head);  // KI-2
    std::memcpy(&head, payload.data(), sizeof head);
    DCHECK(head.header.chain != 0 && payload.size() == sizeof head + head.header.bytes);
    chain = head.header.chain;
    return payload.substr(sizeof head);
}

Result<std::string> write_overflow(Env& env, txn::Transaction* txn, ObjectId object, Slice value) {
    const Lsn before = txn ? txn->last_lsn : kLsnNone;
    DCHECK(!value.empty() && value.size() <= kValueBytesMax);
    std::vector<PageId> pages((value.size() + kOverflowCapacity - 1) / kOverflowCapacity);
    uint64_t chain = 0;
    // From the end, so that each page's successor is known.
    for (size_t left = pages.size(); left > 0;) {
        const uint32_t n = static_cast<uint32_t>(std::min<size_t>(limits::overflow_group(), left));
        const PageId next = left < pages.size() ? pages[left] : kPageNone;
        const Result<void> done =
            write_group(env, txn, object, value, chain, left - n, n, next, &pages[left - n]);
        if (!done) {
            if (txn) return undo_operation(env, *txn, before, done.error());
            if (next != kPageNone) (void)free_overflow(env, object, next, chain);
            return std::unexpected(done.error());
        }
        left -= n;
    }
    DCHECK(pages[0] != kPageNone && chain != 0);
    return reference_to(value, chain, pages);
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

Result<void> release_overflow(Env& env, txn::Transaction& txn, ObjectId object, Slice ref) {
    const OverflowRef head = overflow_ref(ref);
    DCHECK(head.first != kPageNone.value && head.bytes != 0);
    DCHECK(txn.state == txn::TxnState::active && txn.last_lsn != kLsnNone);
    const Lsn removed = txn.last_lsn;
    // Both of them, also if the second fails: the caller rolls back.
    if (env.ghost_notes) release_at_end(txn, *env.ghost_notes, {object, std::string(ref), removed});
    if (env.drops)
        TRY(env.drops->add(txn, {DropKind::chain, object, PageId{head.first}, head.chain}));
    return {};
}

Result<std::vector<PageId>> listed_pages(Env& env, ObjectId object, Slice ref) {
    const OverflowRef head = overflow_ref(ref);
    const size_t all = (size_t{head.bytes} + kOverflowCapacity - 1) / kOverflowCapacity;
    DCHECK(ref.size() >= sizeof head && head.bytes > 0);
    std::vector<PageId> pages;
    const auto damaged = [&] {
        return fail(ErrorCode::corrupt_page, "overflow chain", head.first, head.chain);
    };
    for (size_t at = sizeof head; at < ref.size(); at += sizeof(OverflowRun)) {
        OverflowRun run;
        std::memcpy(&run, ref.data() + at, sizeof run);
        if (run.count > all - pages.size() || run.first <= kFirstMapPage.value ||
            uint64_t{run.first} + run.count > env.space->pages_total())
            return damaged();
        for (uint32_t i = 0; i < run.count; ++i) {
            if (is_map_page(PageId{run.first + i})) return damaged();
            pages.push_back(PageId{run.first + i});
        }
    }
    DCHECK(pages.size() <= all);
    if (pages.size() == all) return pages;
    PageId next{head.first};
    if (!pages.empty()) {
        const SharedPage last = TRY(env.pool->fix_shared(pages.back()));
        if (!belongs(*last, object, head.chain)) return damaged();
        next = PageId{header_of(*last).next};
    }
    uint64_t bytes = 0;
    const std::vector<PageId> rest = TRY(walk(*env.pool, object, next, head.chain, bytes));
    pages.insert(pages.end(), rest.begin(), rest.end());
    if (pages.size() != all) return damaged();
    return pages;
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
    return free_from_end(env, TRY(overflow_remains(env, object, first, chain)));
}

Result<void> free_from_end(Env& env, std::vector<PageId> pages) {
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
