// log_rows.h - what one undoable log record says about records of indexes and heaps.
//
// Concepts   A row is one record that was inserted, changed or erased. The log has the new bytes,
//            and of a change also the old ones. It lacks the value of an erased record of an index,
//            the records of a bulk load, and values in overflow chains. Those stand in the records
//            of their pages, which the same transaction has written just before.
// Invariants RW-1 Each kind of record that is undoable is read here or says nothing about records.
//                 [checked: read_rows() refuses others]
// Blocking   Nothing here parks.
#pragma once

#include <string>
#include <vector>

#include "txn/log/log_record.h"

#include <lockstep/result.h>

namespace lockstep::sm {

struct LogRow {
    // fill: the whole object, by a bulk load.
    enum class What : uint8_t { insert, update, patch, erase, fill };
    What what{};
    bool large = false;  // the value is the chain that its transaction has written last
    bool has_old = false;
    uint32_t offset = 0;  // of a patch
    RecordId id{};        // of a heap
    std::string key;      // of an index
    Slice value, old;     // in the log record

    void assert_state() const {
        DCHECK(what == What::patch || offset == 0);
        DCHECK(!large || what == What::insert || what == What::update);
        DCHECK(key.empty() || id.page == kPageNone);
    }
};

// Puts the record's rows in the place of `rows`. Errors: corrupt_log; unsupported if it was logged
// without what a row needs.
Result<void> read_rows(const txn::LogRecordView& record, std::vector<LogRow>& rows);

}  // namespace lockstep::sm
