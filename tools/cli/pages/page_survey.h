// page_survey.h - which pages of a closed store are sound, in use, and whose they are.
//
// Concepts   The survey reads every page once, on all cores. Then it asks the space maps which
//            pages are in use, because a freed page keeps its old bytes in the file. Where a map
//            cannot be read, a page counts as in use only if a sound parent or heap map names it:
//            a record that was erased must not come back.
// Invariants PS-1 A leaf or heap page is taken only if it is sound and known to be in use.
//                 [tested: salvage_test.py]
// Memory     About 100 bytes a page.
#pragma once

#include <map>
#include <mutex>
#include <string>
#include <vector>

#include "tools/cli/pages/page_file.h"
#include "tools/cli/rows/left_out.h"
#include "tools/cli/rows/losses.h"

namespace lockstep::cli {

enum class Used : uint8_t { no, yes, unknown };

struct PageNote {
    PageState state = PageState::good;
    sm::PageKind kind{};
    uint8_t level = 0;
    Used used = Used::unknown;
    uint32_t object = 0;
    bool named = false;  // a loss or an object accounts for it
};

struct FoundObject {
    uint32_t id = 0;
    std::string name = {};  // empty: the catalog does not name it
    bool is_index = true;
    uint32_t root = 0;      // as the catalog says; 0: unknown
    bool extended = false;  // its catalog entry has attributes that this program does not know
    uint32_t of = 0;        // a secondary index: the number of its primary; else 0
    bool unique = false;    // a secondary index: one record for each key
    struct Leaf {
        std::string low;
        uint32_t page;
    };
    std::vector<Leaf> leaves = {};              // index: sorted by low fence
    std::vector<uint32_t> pages = {};           // heap: sorted data pages
    std::map<std::string, uint32_t> gone = {};  // index: low fence -> leaf that cannot be read
    // For messages: index cities.
    std::string text() const;
};

class Survey {
public:
    explicit Survey(const PageFile& file) : file_(file) {}
    // Reads everything. `losses` gets what concerns no single object's records.
    void run();

    std::vector<PageNote> notes;  // by page
    std::map<uint32_t, FoundObject> objects;
    std::vector<Loss> losses;
    bool clean = false;           // closed properly
    uint64_t in_doubt = 0;        // transactions, if nothing else was going on
    bool names_complete = false;  // no part of the catalog is lost
    const PageFile& file() const { return file_; }
    // A page's note also beyond the end of the file.
    PageState state_of(uint32_t page) const {
        return page < notes.size() ? notes[page].state : PageState::missing;
    }
    // Sound, and in use or unknown: a chain or stub that leads there proves the rest.
    bool readable_page(uint32_t page) const {
        return page < notes.size() && notes[page].state == PageState::good &&
               notes[page].used != Used::no;
    }
    // Any thread.
    void lose(Loss loss) {
        std::lock_guard guard(mutex_);
        losses.push_back(std::move(loss));
    }
    void name(uint32_t page) {
        if (page < notes.size()) notes[page].named = true;
    }
    // The secondary indexes by name, as a copy without them lists them. Their pages count as
    // accounted for: what they hold follows from the records.
    std::vector<LeftOut> leave_out_secondaries();
    // The name in a copy: the object's own, or object-N.
    std::string name_of(uint32_t object) const;
    // Pages in use that cannot be read and that no loss names: losses of an unknown owner.
    void add_unnamed();

private:
    void ask_log(const sm::Superblock& block);
    void classify();
    void ask_maps();
    void accept(uint32_t page, uint32_t object);
    void follow_parents(bool catalog);
    void follow_children(const sm::Page& page);
    void follow_heaps();
    void follow_map(const sm::Page& page, const FoundObject& object);
    void collect(bool catalog);
    void read_names();

    const PageFile& file_;
    std::mutex mutex_;  // of losses, while sources are read
};

}  // namespace lockstep::cli
