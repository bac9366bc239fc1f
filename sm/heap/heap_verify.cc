// heap_verify.cc - checks a quiet heap: every page, the map, stubs and moved copies.
#include <fmt/format.h>

#include <map>

#include "sm/heap/heap_impl.h"

namespace lockstep::sm {

using namespace heap;

namespace {

struct Links {
    std::map<RecordId, RecordId> stubs;   // home -> copy
    std::map<RecordId, RecordId> copies;  // copy -> home
};

void look_at(const Page& page, ObjectId object, PageId map_page, uint32_t index, Links& links,
             StructureReport& report) {
    auto fault = [&](const char* text) {
        report.faults.push_back(
            fmt::format("heap {} page {}: {}", object.value, page.header.page_id, text));
    };
    if (page.kind() != PageKind::heap || page.header.object != object.value)
        return fault("listed in the map, but of another kind or object");
    if (data(page).map_page != map_page.value || data(page).map_index != index)
        fault("does not point back to its map entry");
    if (const char* text = check_page(page)) return fault(text);
    if (page.header.hole_begin != kSlotsAt + data(page).slot_count * sizeof(Slot) ||
        page.header.hole_end != data(page).heap_begin)
        fault("hole is wrong");
    for (uint32_t i = 0; i < data(page).slot_count; ++i) {
        const Slot& s = slot(page, i);
        const RecordId at{page.id(), SlotNo{static_cast<uint16_t>(i)}};
        if (s.state == kEmpty) continue;
        if (s.state & kGhost) {
            report.ghosts++;
            continue;
        }
        report.bytes_used += s.length;
        if (s.state & kStub) {
            if (s.length != sizeof(Link)) fault("stub of a wrong length");
            links.stubs[at] = link_of(content(page, s));
        }
        if (s.state & kMoved)
            links.copies[at] = s.length >= sizeof(Link) ? link_of(content(page, s)) : RecordId{};
        if (is_record(s)) report.records++;
    }
}

}  // namespace

Result<StructureReport> HeapFile::verify() {
    StructureReport report;
    Links links;
    report.levels = 1;
    for (PageId at = first_; at != kPageNone;) {
        std::vector<PageId> pages;
        PageId next = kPageNone;
        {
            SharedPage page = TRY(env_.pool->fix_shared(at));
            if (page->kind() != PageKind::heap_map || page->header.object != id_.value ||
                map(*page).entries > kMapEntries) {
                report.faults.push_back(
                    fmt::format("heap {} page {}: no map page of this heap", id_.value, at.value));
                return report;
            }
            report.pages.push_back(at);
            report.pages_inner++;
            for (uint32_t i = 0; i < map(*page).entries; ++i)
                pages.push_back(PageId{map(*page).page[i]});
            next = PageId{map(*page).next};
        }
        for (uint32_t i = 0; i < pages.size(); ++i) {
            SharedPage page = TRY(env_.pool->fix_shared(pages[i]));
            report.pages.push_back(pages[i]);
            report.pages_leaf++;
            look_at(*page, id_, at, i, links, report);
        }
        at = next;
    }
    for (const auto& [home, copy] : links.stubs) {  // HF-2
        const auto it = links.copies.find(copy);
        if (it == links.copies.end() || it->second != home)
            report.faults.push_back(fmt::format("heap {} record {}.{}: stub without its moved copy",
                                                id_.value, home.page.value, home.slot.value));
    }
    for (const auto& [copy, home] : links.copies)
        if (!links.stubs.contains(home))
            report.faults.push_back(fmt::format("heap {} record {}.{}: moved copy without a stub",
                                                id_.value, copy.page.value, copy.slot.value));
    return report;
}

}  // namespace lockstep::sm
