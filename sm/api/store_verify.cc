// store_verify.cc - the whole-store check: every structure sound, every page used exactly once,
// every page in use reachable.
//
// Concepts   First every page in use is read (checksum, number, lost writes), and all bad pages are
//            named. Then each structure is walked. Then each secondary index is compared with its
//            primary.
// Invariants SV-1 A page belongs to one structure. [checked: claim()]
//            SV-2 The space map says "used" for exactly these pages: those that a structure
//                 reaches, the superblocks, the maps themselves, and pages on the drop list that
//                 could not be freed yet. [checked: check_space(), check_unreached()]
#include <algorithm>
#include <string>

#include <lockstep/store.h>
#include "sm/catalog/catalog.h"
#include "sm/core/crew.h"
#include "sm/engine/engine.h"
#include "sm/secondary/secondary.h"
#include "sm/services/ghost_cleaner.h"

namespace lockstep {
namespace {

struct Verifier {
    sm::Engine& engine;
    sm::Crew& crew;
    std::vector<std::string> faults;
    std::vector<uint32_t> owner;  // per page: 0 no object, else object id + 1
    std::vector<sm::DropEntry> dropped;
    bool bad_pages = false;  // some cannot be read

    Result<void> walk() {
        owner.resize(engine.space->pages_total());
        TRY(read_all_pages());
        TRY(add("catalog", sm::kCatalogObject, engine.catalog->own_tree().verify(&crew)));
        for (const auto& entry : engine.catalog->list()) {
            if (entry.kind == sm::ObjectKind::index)
                TRY(add(entry.name, entry.id,
                        TRY(engine.catalog->index(entry.name))->verify(&crew)));
            else
                TRY(add(entry.name, entry.id,
                        TRY(engine.catalog->heap(entry.name))->verify(&crew)));
        }
        if (faults.empty()) TRY(check_secondaries());
        if (bad_pages) return {};  // what they would lead to seems to be unreachable
        dropped = TRY(engine.catalog->drop_list().entries());
        return check_space();
    }
    // The structures are sound: their records can be looked up.
    Result<void> check_secondaries() {
        for (const auto& entry : engine.catalog->list())
            if (const sm::Secondary* s = engine.catalog->secondaries().find(entry.id))
                TRY(sm::verify_secondary(engine, *s, faults));
        return {};
    }
    // Every page in use can be read, also those that no walk comes by.
    Result<void> read_all_pages() {
        constexpr size_t kRange = 1024;
        const size_t ranges = (owner.size() + kRange - 1) / kRange;
        std::vector<std::vector<std::string>> found(ranges);
        TRY(crew.for_each(ranges, [&](size_t i) {
            return read_pages(i * kRange, std::min(owner.size(), (i + 1) * kRange), found[i]);
        }));
        for (const auto& some : found) {
            faults.insert(faults.end(), some.begin(), some.end());
            bad_pages |= !some.empty();
        }
        return {};
    }
    Result<void> read_pages(size_t begin, size_t end, std::vector<std::string>& found) {
        DCHECK(begin < end && end <= owner.size() && found.empty());
        for (size_t at = std::max<size_t>(begin, sm::kFirstMapPage.value); at < end; ++at) {
            const auto p = static_cast<uint32_t>(at);
            const bool map = p == sm::kFirstMapPage.value || p % sm::kPagesPerMap == 0;
            if (!map && !TRY(is_used(PageId{p}))) continue;
            if (crew.members() > 1) read_ahead(p, end);
            const auto page = engine.pool->fix_shared(PageId{p});
            if (page) continue;
            if (!sm::is_bad_page(page.error().code)) return std::unexpected(page.error());
            found.push_back(page.error().text());
        }
        return {};
    }
    void read_ahead(uint32_t page, size_t end) {
        constexpr size_t kAhead = 32;
        if (page % kAhead != 0 || engine.pool->resident(PageId{page}) != nullptr) return;
        PageId ids[kAhead];
        const size_t n = std::min(kAhead, end - page);
        DCHECK(page < end && n > 0);
        for (uint32_t i = 0; i < n; ++i) ids[i] = PageId{page + i};
        engine.pool->read_ahead({ids, n});
    }
    // What a map says that cannot be read is unknown; the map itself is named.
    Result<bool> is_used(PageId page) {
        const auto used = engine.space->is_used(page);
        return used.has_value() || sm::is_bad_page(used.error().code) ? used.value_or(false) : used;
    }
    // An object that cannot be walked because of a bad page does not keep the others from being
    // checked.
    Result<void> add(std::string_view name, ObjectId id, const Result<sm::BTree::Report>& report) {
        if (report) add(name, id, *report);
        else if (sm::is_bad_page(report.error().code) && bad_pages)
            faults.push_back(std::string(name) + ": " + report.error().text());
        else return std::unexpected(report.error());
        return {};
    }
    void add(std::string_view name, ObjectId id, const sm::BTree::Report& report) {
        for (const auto& fault : report.faults) faults.push_back(std::string(name) + ": " + fault);
        for (const PageId page : report.pages) claim(page, id, name);
    }
    void claim(PageId page, ObjectId id, std::string_view name) {
        if (page.value >= owner.size()) {
            faults.push_back(std::string(name) + ": page " + std::to_string(page.value) +
                             " lies beyond the volume");
            return;
        }
        uint32_t& o = owner[page.value];
        if (o != 0)
            faults.push_back(std::string(name) + ": page " + std::to_string(page.value) +
                             " also belongs to object " + std::to_string(o - 1));
        o = id.value + 1;
    }
    // Will the next open free it?
    Result<void> check_unreached(PageId page) {
        const sm::SharedPage held = TRY(engine.pool->fix_shared(page));
        const bool listed = std::ranges::any_of(dropped, [&](const sm::DropEntry& entry) {
            return entry.object.value == held->header.object &&
                   (entry.kind != sm::DropKind::chain || held->kind() == sm::PageKind::overflow);
        });
        if (!listed)
            faults.push_back("page " + std::to_string(page.value) + " (kind " +
                             std::to_string(static_cast<int>(held->kind())) + ", object " +
                             std::to_string(held->header.object) +
                             ") is marked used, but nothing refers to it");
        return {};
    }
    Result<void> check_space() {
        for (uint32_t p = 0; p < owner.size(); ++p) {
            const bool fixed = p < sm::kFirstMapPage.value || p % sm::kPagesPerMap == 0 ||
                               p == sm::kFirstMapPage.value;
            const bool used = TRY(is_used(PageId{p}));
            if (fixed) continue;
            if (used && owner[p] == 0) TRY(check_unreached(PageId{p}));
            if (!used && owner[p] != 0)
                faults.push_back("page " + std::to_string(p) + " is in use, but marked free");
        }
        return {};
    }
};

}  // namespace

Result<std::vector<std::string>> Store::verify(uint32_t threads) {
    const sm::Call call(engine_.get());
    if (!call) return sm::Call::closed();
    if (engine_->forked()) return engine_->refuse_child();
    if (threads == 0) return fail(ErrorCode::bad_argument, "threads", threads);
    sm::Crew crew(*engine_->runtime, threads);
    Verifier v{.engine = *engine_, .crew = crew, .faults = {}, .owner = {}, .dropped = {}};
    TRY(engine_->run_and_wait([&]() -> Result<void> {
        // A merge under our feet would look like damage, and a chain that waits to be freed like a
        // leak.
        TRY(engine_->ghosts->pause());
        auto done = v.walk();
        engine_->ghosts->resume();
        return done;
    }));
    std::string pool_fault = engine_->pool->verify();
    if (!pool_fault.empty()) v.faults.push_back("buffer pool: " + pool_fault);
    return std::move(v.faults);
}

}  // namespace lockstep
