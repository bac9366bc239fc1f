// page_survey.cc - one pass over all pages, then maps, parents and names.
#include "tools/cli/pages/page_survey.h"

#include <fmt/core.h>
#include <tbb/blocked_range.h>
#include <tbb/parallel_for.h>

#include <algorithm>
#include <cstring>
#include <set>
#include <utility>

#include "sm/btree/btree_node.h"
#include "sm/core/cleanup.h"
#include "sm/heap/heap_page.h"
#include "sm/space/space_map.h"
#include "sm/space/space_map_impl.h"
#include "tools/cli/counted.h"
#include "tools/cli/pages/page_source.h"
#include "tools/cli/rows/row_format.h"

namespace lockstep::cli {
namespace {

namespace node = sm::node;

bool is_map(uint32_t page) {
    return page == sm::kFirstMapPage.value || (page > 0 && page % sm::kPagesPerMap == 0);
}

}  // namespace

std::string FoundObject::text() const {
    const std::string kind = is_index ? "index " : "heap ";
    return kind + (name.empty() ? fmt::format("object-{}", id) : readable(name));
}

void Survey::run() {
    const auto block = file_.superblock();
    if (block) ask_log(*block);
    classify();
    ask_maps();
    if (block) accept(block->catalog_root, sm::kCatalogObject.value);
    else
        lose({.what = "warning",
              .why = "both superblocks are damaged: it is not known whether the store was closed "
                     "properly"});
    follow_parents(true);
    collect(true);
    read_names();
    for (const auto& [id, object] : objects)
        if (object.is_index && object.root != 0) accept(object.root, id);
    follow_parents(false);
    follow_heaps();
    collect(false);
    // With all names known, what has none was dropped.
    if (names_complete) std::erase_if(objects, [](const auto& o) { return o.second.name.empty(); });
}

// The mark in the superblock proves nothing: an open leaves it there (closed_store.cc).
void Survey::ask_log(const sm::Superblock& block) {
    const auto log = file_.log_since_checkpoint(block);
    if (!log) return;
    clean = log->closed;
    if (log->changes == 0) in_doubt = log->unended;
}

// The page's place in a sound structure shows that it is in use.
void Survey::accept(uint32_t page, uint32_t object) {
    if (state_of(page) == PageState::good && notes[page].object == object &&
        notes[page].used == Used::unknown)
        notes[page].used = Used::yes;
}

void Survey::classify() {
    notes.resize(file_.pages());
    tbb::parallel_for(
        tbb::blocked_range<uint32_t>(sm::kFirstMapPage.value, std::max(file_.pages(), 2u), 256),
        [&](const tbb::blocked_range<uint32_t>& range) {
            auto page = std::make_unique<sm::Page>();
            for (uint32_t p = range.begin(); p < range.end(); ++p) {
                PageNote& note = notes[p];
                note.state = file_.read(p, *page);
                if (note.state != PageState::good) continue;
                note.kind = page->kind();
                note.level = page->header.level;
                note.object = page->header.object;
            }
        });
}

void Survey::ask_maps() {
    auto page = std::make_unique<sm::Page>();
    for (uint32_t map = 0; sm::space::map_page(map).value < notes.size(); ++map) {
        const uint32_t number = sm::space::map_page(map).value, first = map * sm::kPagesPerMap;
        const PageState state = file_.read(number, *page);
        const auto end = static_cast<uint32_t>(
            std::min<uint64_t>(notes.size(), uint64_t{first} + sm::kPagesPerMap));
        const bool known = state == PageState::zero ||
                           (state == PageState::good && page->kind() == sm::PageKind::space_map);
        notes[number].named = true;
        if (!known) {
            lose({.what = "warning",
                  .pages = {number},
                  .why = "a map of used pages is lost (" + std::string(text_of(state)) +
                         "); pages that nothing refers to are not taken"});
            continue;
        }
        const auto is_used = [&](uint32_t bit) {
            return state == PageState::good &&
                   (sm::space::words(*page)[bit / 64] >> (bit % 64) & 1);
        };
        for (uint32_t p = first; p < end; ++p)
            notes[p].used = is_used(p - first) ? Used::yes : Used::no;
        uint32_t missing = 0;
        for (uint32_t bit = end - first; bit < sm::kPagesPerMap; ++bit) missing += is_used(bit);
        if (missing > 0)
            lose({.what = "page",
                  .why = fmt::format("{} beyond the end of the data file, which has {}",
                                     counted(missing, "page in use lies", "pages in use lie"),
                                     counted(notes.size(), "page", "pages"))});
    }
}

// From the top level down: a child that a page in use names is in use.
void Survey::follow_parents(bool catalog) {
    std::map<int, std::vector<uint32_t>, std::greater<>> by_level;
    for (uint32_t p = 0; p < notes.size(); ++p)
        if (notes[p].state == PageState::good && notes[p].kind == sm::PageKind::btree &&
            notes[p].level > 0 && notes[p].used != Used::no &&
            catalog == (notes[p].object == sm::kCatalogObject.value))
            by_level[notes[p].level].push_back(p);
    auto page = std::make_unique<sm::Page>();
    for (const auto& [level, pages] : by_level)
        for (const uint32_t p : pages)
            if (notes[p].used == Used::yes && file_.read(p, *page) == PageState::good &&
                node::check_node(*page).empty())
                follow_children(*page);
}

void Survey::follow_children(const sm::Page& page) {
    FoundObject& object = objects[page.header.object];
    const int n = static_cast<int>(node::count(page));
    for (int slot = -1; slot < n; ++slot) {
        const uint32_t child = node::child_at(page, slot).value;
        const bool sound =
            state_of(child) == PageState::good && notes[child].object == page.header.object &&
            notes[child].kind == sm::PageKind::btree && notes[child].level + 1 == page.header.level;
        if (sound) accept(child, page.header.object);
        if (sound || page.header.level > 1) continue;
        object.gone[slot < 0 ? std::string(node::low(page))
                             : node::full_key(page, static_cast<unsigned>(slot))] = child;
    }
}

// Along the chains of map pages.
void Survey::follow_heaps() {
    auto page = std::make_unique<sm::Page>();
    for (const auto& [id, object] : objects) {
        if (object.is_index || object.root == 0) continue;
        std::set<uint32_t> seen;
        for (uint32_t at = object.root; at != kPageNone.value && seen.insert(at).second;) {
            if (state_of(at) != PageState::good || notes[at].object != id ||
                notes[at].kind != sm::PageKind::heap_map ||
                file_.read(at, *page) != PageState::good) {
                name(at);
                lose({.object = object.text(),
                      .what = "page",
                      .pages = {at},
                      .why = std::string("a map of the heap's pages is ") + text_of(state_of(at))});
                break;
            }
            accept(at, id);
            follow_map(*page, object);
            at = sm::heap::map(*page).next;
        }
    }
}

void Survey::follow_map(const sm::Page& page, const FoundObject& object) {
    const auto& map = sm::heap::map(page);
    for (uint32_t i = 0; i < std::min<uint32_t>(map.entries, sm::heap::kMapEntries); ++i) {
        const uint32_t data = map.page[i];
        if (state_of(data) == PageState::good && notes[data].object == object.id) {
            accept(data, object.id);
            continue;
        }
        name(data);
        lose({.object = object.text(),
              .what = "page",
              .pages = {data},
              .why = text_of(state_of(data))});
    }
}

void Survey::collect(bool catalog) {
    auto page = std::make_unique<sm::Page>();
    uint64_t doubtful = 0;
    for (uint32_t p = 0; p < notes.size(); ++p) {
        const PageNote& note = notes[p];
        if (note.state != PageState::good || note.used == Used::no ||
            catalog != (note.object == sm::kCatalogObject.value))
            continue;
        const bool leaf = note.kind == sm::PageKind::btree && note.level == 0,
                   data = note.kind == sm::PageKind::heap;
        if (!leaf && !data) continue;
        if (note.used == Used::unknown) {
            ++doubtful;
            continue;
        }
        FoundObject& object = objects[note.object];
        if (object.name.empty()) object.is_index = leaf;
        if (data && !object.is_index) object.pages.push_back(p);
        if (leaf && object.is_index && file_.read(p, *page) == PageState::good)
            object.leaves.push_back({std::string(node::low(*page)), p});
    }
    if (doubtful > 0)
        lose({.what = "page",
              .why = fmt::format("{} sound pages are not taken, because nothing tells whether they "
                                 "are in use; they may be old",
                                 doubtful)});
    for (auto& [id, object] : objects) {
        object.id = id;
        std::ranges::sort(object.leaves, {}, &FoundObject::Leaf::low);
    }
}

// The catalog is an index: its records are the names.
void Survey::read_names() {
    const size_t before = losses.size();
    FoundObject catalog = std::exchange(objects[sm::kCatalogObject.value], {});
    objects.erase(sm::kCatalogObject.value);
    catalog.name = "(the catalog)";
    const auto source = read_leaves(*this, catalog);
    for (Slice key, value; source->next(key, value);) {
        uint32_t head[3] = {};  // id, kind, root
        uint32_t tail[2] = {};  // of a secondary index: the primary's id, unique
        if (key.empty() || key[0] == '\0' || value.size() < sizeof head) continue;
        std::memcpy(head, value.data(), sizeof head);
        FoundObject& object = objects[head[0]];
        object.id = head[0];
        object.name = std::string(key);
        object.is_index = head[1] == 1;
        object.root = head[2];
        if (value.size() == sizeof head + sizeof tail && object.is_index)
            std::memcpy(tail, value.data() + sizeof head, sizeof tail);
        object.of = tail[0];
        object.unique = tail[1] != 0;
        object.extended = value.size() > sizeof head && object.of == 0;
    }
    names_complete = losses.size() == before;
}

std::string Survey::name_of(uint32_t object) const {
    const auto found = objects.find(object);
    return found != objects.end() && !found->second.name.empty() ? found->second.name
                                                                 : fmt::format("object-{}", object);
}

std::vector<LeftOut> Survey::leave_out_secondaries() {
    std::vector<LeftOut> all;
    for (const auto& [id, object] : objects) {
        if (object.of == 0) continue;
        all.push_back({.name = name_of(id), .of = name_of(object.of), .unique = object.unique});
        name(object.root);
        for (const auto& [low, page] : object.gone) name(page);
    }
    std::ranges::sort(all, {}, &LeftOut::name);
    return all;
}

void Survey::add_unnamed() {
    std::map<PageState, std::vector<uint32_t>> bad;
    for (uint32_t p = sm::kFirstMapPage.value; p < notes.size(); ++p)
        if (notes[p].state != PageState::good && !notes[p].named && !is_map(p) &&
            (notes[p].used == Used::yes ||
             (notes[p].used == Used::unknown && notes[p].state != PageState::zero)))
            bad[notes[p].state].push_back(p);
    for (auto& [state, pages] : bad)
        lose({.what = "page",
              .pages = std::move(pages),
              .why = std::string(text_of(state)) +
                     "; it may hold a branch of an index, part of a large value, or "
                     "keys of a range above"});
}

}  // namespace lockstep::cli
