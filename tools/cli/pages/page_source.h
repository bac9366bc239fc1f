// page_source.h - the records of an index or a heap, read from the pages of a closed store.
//
// Concepts   A source goes over the sound leaves of an index in key order, or over the sound data
//            pages of a heap. What it cannot give it adds to the survey's losses: the keys between
//            the fences of two neighbours, the value of a broken chain, the record whose moved copy
//            is gone.
// Invariants PO-1 A source gives no record of an unsound page, no erased record, and no key twice.
//                 [tested: salvage_test.py]
#pragma once

#include <memory>

#include "tools/cli/pages/page_survey.h"
#include "tools/cli/rows/sorted_run.h"

namespace lockstep::cli {

// Pairs of key and value in key order. Survey and object must outlive the source.
std::unique_ptr<PairSource> read_leaves(Survey& survey, const FoundObject& object);
// Pairs of record id, as "page.slot", and record.
std::unique_ptr<PairSource> read_heap(Survey& survey, const FoundObject& object);

}  // namespace lockstep::cli
