// heap_verify.cc - checks a quiet heap: every page, the map, stubs and moved copies.
#include <fmt/format.h>

#include <map>

#include "sm/core/crew.h"
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

// Some data pages of one map page, and what was found there.
struct Piece {
    PageId map_page;
    uint32_t first;  // index in the map of pages[0]
    std::vector<PageId> pages;
    Links links = {};
    StructureReport report = {};
};
constexpr size_t kPieceMax = 100;

Result<void> look_at(Piece& piece, Env& env, ObjectId object) {
    DCHECK(piece.pages.size() <= kPieceMax && piece.first % kPieceMax == 0);
    for (uint32_t i = 0; i < piece.pages.size(); ++i) {
        SharedPage page = TRY(env.pool->fix_shared(piece.pages[i]));
        piece.report.pages.push_back(piece.pages[i]);
        piece.report.pages_leaf++;
        look_at(*page, object, piece.map_page, piece.first + i, piece.links, piece.report);
    }
    return {};
}

void add_pieces(std::vector<Piece>& pieces, const Page& map_page) {
    for (uint32_t i = 0; i < map(map_page).entries; ++i) {
        if (i % kPieceMax == 0)
            pieces.push_back({.map_page = map_page.id(), .first = i, .pages = {}});
        pieces.back().pages.push_back(PageId{map(map_page).page[i]});
    }
}

void join(StructureReport& to, Links& links, Piece& piece) {
    const StructureReport& from = piece.report;
    DCHECK(from.pages_leaf == piece.pages.size() && from.pages_inner == 0);
    to.pages_leaf += from.pages_leaf;
    to.records += from.records;
    to.ghosts += from.ghosts;
    to.bytes_used += from.bytes_used;
    to.pages.insert(to.pages.end(), from.pages.begin(), from.pages.end());
    to.faults.insert(to.faults.end(), from.faults.begin(), from.faults.end());
    links.stubs.merge(piece.links.stubs);
    links.copies.merge(piece.links.copies);
}

}  // namespace

Result<StructureReport> HeapFile::verify(Crew* crew) {
    StructureReport report;
    Links links;
    report.levels = 1;
    std::vector<Piece> pieces;
    for (PageId at = first_; at != kPageNone;) {
        SharedPage page = TRY(env_.pool->fix_shared(at));
        if (page->kind() != PageKind::heap_map || page->header.object != id_.value ||
            map(*page).entries > kMapEntries) {
            report.faults.push_back(
                fmt::format("heap {} page {}: no map page of this heap", id_.value, at.value));
            return report;
        }
        report.pages.push_back(at);
        report.pages_inner++;
        add_pieces(pieces, *page);
        at = PageId{map(*page).next};
    }
    Crew alone(*env_.runtime, 1);
    TRY((crew ? *crew : alone).for_each(pieces.size(), [&](size_t i) {
        return look_at(pieces[i], env_, id_);
    }));
    for (Piece& piece : pieces) join(report, links, piece);
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
