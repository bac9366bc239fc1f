// rebuild.h - fills a new store from the pages of a closed one.
#pragma once

#include <string>

#include <lockstep/store.h>
#include "tools/cli/pages/page_survey.h"

namespace lockstep::cli {

struct Rebuilt {
    uint64_t records = 0;
    uint64_t entries = 0;  // of secondary indexes
    std::string error;     // empty: all is in
};

// Makes the survey's indexes and heaps in `store`, which has none of these names, and fills them:
// one on each worker at a time, indexes by a bulk load. Losses go to the survey. Heap records get
// new ids. Blocks.
// `secondaries`: secondary indexes get their old entries. So no key function is needed, but the old
// entries must be right, and the records complete. Otherwise secondary indexes are left out.
Rebuilt rebuild(Store& store, Survey& survey, uint32_t workers, uint32_t fill_percent,
                bool secondaries);

}  // namespace lockstep::cli
