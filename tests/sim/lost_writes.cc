// lost_writes.cc - a store on a disk that has swallowed writes: every page concerned is healed or
// named, and what is read is right.
#include "tests/sim/injury.h"

#include <fmt/format.h>

#include <cstring>
#include <map>

#include "sm/buffer/page.h"

namespace lockstep::sim {

namespace {

// Pages of the volume whose last write has not arrived, with the lsn that it would have brought; 0:
// the page's head did arrive.
std::map<uint32_t, uint64_t> old_pages(const threads::SimDisk& disk) {
    std::map<uint32_t, uint64_t> pages;
    for (const auto& lost : disk.lost_bytes("/store/data")) {
        const auto page = static_cast<uint32_t>(lost.offset / kPageBytes);
        uint64_t lsn = 0;
        if (lost.offset % kPageBytes == 0)
            std::memcpy(&lsn, lost.data.get() + offsetof(sm::PageHeader, lsn), sizeof lsn);
        pages[page] = std::max(pages[page], lsn);
    }
    return pages;
}

// Superblocks have their own ways: the other copy serves, or the log's missing begin is noticed.
bool is_answer(ErrorCode code) {
    return sm::is_bad_page(code) || code == ErrorCode::corrupt_log ||
           code == ErrorCode::corrupt_superblock;
}

// One page: read as anybody reads it.
Result<void> look_at(Host& host, uint32_t page, uint64_t lsn, Report& report) {
    const Result<bool> used = host.engine().space->is_used(PageId{page});
    if (!used.value_or(true)) return {};  // nobody's data
    const auto got = host.engine().pool->fix_shared(PageId{page});
    if (!got) {
        if (!sm::is_bad_page(got.error().code) || got.error().a != page)
            return std::unexpected(got.error());
        report.add(Count::lost_write_named);
        return {};
    }
    // If the space map is lost itself, and named, the page may be nobody's data.
    if ((*got)->header.lsn < lsn && !used.has_value()) return {};
    if ((*got)->header.lsn < lsn) {
        report.fail(fmt::format("page {} of lsn {} was returned as data, its last write had lsn {}",
                                page, (*got)->header.lsn, lsn));
        return {};
    }
    report.add(Count::lost_write_healed);
    return {};
}

}  // namespace

void judge_lost_writes(threads::SimDisk& disk, Work& work, uint64_t at, Shared& shared) {
    if (disk.exists("/store/creating")) return;
    const size_t before = old_pages(disk).size();
    Host host(disk, shared.config, 4000);
    if (auto opened = host.open(); !opened) {
        if (before == 0 || !is_answer(opened.error().code))
            return shared.report.fail("opening after lost writes: " + opened.error().text());
        return shared.report.add(Count::lost_write_named);
    }
    // Those that recovery has not written again.
    const std::map<uint32_t, uint64_t> pages = old_pages(disk);
    if (pages.empty()) {
        (void)work.judge(host, at, 0, shared);
        return;
    }
    Result<void> outcome;
    const bool ended = host.on_thread(
        [&]() -> Result<void> {
            for (const auto& [page, lsn] : pages)
                if (page >= sm::kFirstMapPage.value) TRY(look_at(host, page, lsn, shared.report));
            return {};
        },
        &outcome);
    if (!ended) return shared.report.fail("reading after lost writes hangs");
    if (!outcome) return shared.report.fail("reading after lost writes: " + outcome.error().text());
    if (!shared.report.failed()) work.judge_injured(host, at);
}

}  // namespace lockstep::sim
