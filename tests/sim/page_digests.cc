// page_digests.cc - hashing and comparing pages.
#include "tests/sim/page_digests.h"

#include <fmt/format.h>

namespace lockstep::sim {

namespace {

// Every so many looks one page that has no new lsn is hashed as well.
constexpr uint64_t kLooksPerCheck = 61;

uint64_t digest_of(const sm::Page& page) {
    const auto* bytes = reinterpret_cast<const char*>(page.bytes());
    const size_t begin = page.header.hole_begin, end = page.header.hole_end;
    if (begin > end || end > kPageBytes) return 0;
    return threads::sim_hash(
        hash_of({bytes + sizeof page.header.checksum, begin - sizeof page.header.checksum}),
        bytes + end, kPageBytes - end);
}

}  // namespace

void PageDigests::look(sm::Engine& engine, Report& report) {
    if (!engine.space || !engine.pool) return;
    const auto pages = static_cast<uint32_t>(engine.space->pages_total());
    if (last_.size() < pages) {
        last_.resize(pages);
        digests_.resize(pages);
    }
    ++looks_;
    for (uint32_t p = 0; p < pages; ++p) {
        const sm::Page* page = engine.pool->resident(PageId{p});
        if (page == nullptr || page->header.lsn == 0) continue;
        Seen& last = last_[p];
        if (page->header.lsn == last.lsn) {
            if ((looks_ + p) % kLooksPerCheck == 0 && digest_of(*page) != last.digest)
                report.fail(fmt::format("page {} has changed and kept its lsn {}", p, last.lsn));
            continue;
        }
        last = {page->header.lsn, digest_of(*page)};
        digests_[p].emplace(last.lsn, last.digest);
    }
}

void PageDigests::compare(sm::Engine& redone, Report& report) const {
    const auto pages = static_cast<uint32_t>(redone.space->pages_total());
    for (uint32_t p = 0; p < pages; ++p) {
        const sm::Page* page = redone.pool->resident(PageId{p});
        if (page == nullptr || page->header.lsn == 0) continue;
        const uint64_t lsn = page->header.lsn;
        if (p >= digests_.size() || !digests_[p].contains(lsn)) {
            report.add(Count::pages_redone_unseen);
        } else if (digests_[p].at(lsn) != digest_of(*page)) {
            report.fail(
                fmt::format("page {} after redo differs from what it was at lsn {}", p, lsn));
        } else {
            report.add(Count::pages_redone_alike);
        }
    }
}

}  // namespace lockstep::sim
