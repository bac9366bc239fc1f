// load_target.h - the indexes and heaps that a load fills, and what the store remembers of it.
//
// Concepts   The store's index "lockstep.load" exists while a load is unfinished. A transaction
//            that changes a target also notes there what it has done. So after a crash the notes
//            and the records agree. An index that is empty when the load begins is filled in one
//            transaction, by a bulk load. Other indexes and all heaps get batches of inserts in the
//            order of the input.
// Layout     Keys of "lockstep.load": "input": u64 fingerprint. "mode/NAME": "bulk" or "insert".
//            "seen/NAME": u64, how many of the input's records of NAME are in. "done/NAME": empty,
//            the bulk load has committed.
// Invariants LO-1 A record of the input is in the store at most once, however often the load is
//                 killed and resumed. [tested: load_test.py]
#pragma once

#include <span>
#include <string>
#include <vector>

#include <lockstep/store.h>
#include "tools/cli/rows/sorted_run.h"

namespace lockstep::cli {

struct Target {
    std::string name;
    bool is_index = true;
    bool bulk = false;               // filled by a bulk load at the end
    bool done = false;               // that bulk load has committed
    uint64_t seen = 0;               // records of the input so far, those in `pairs` included
    uint64_t inserted = 0;           // of these, how many the store has (inserts)
    std::vector<Pair> pairs = {};    // collected since the last cut
    std::vector<RunFile> runs = {};  // bulk: sorted, on disk
    // For messages: index cities.
    std::string text() const;
};

class LoadNotes {
public:
    static constexpr std::string_view kIndexName = "lockstep.load";
    explicit LoadNotes(Store& store) : store_(store) {}

    // Whether an unfinished load has left notes; `fingerprint` is then that of its input.
    Result<bool> present(uint64_t& fingerprint);
    Result<void> begin(uint64_t fingerprint);
    // Why this index cannot be a target; empty if it can. It is a secondary index, or it has one,
    // whose key function only the application has.
    std::string refusal(const std::string& name);
    // Finds or makes the target, and finds out or recalls how it is filled.
    Result<Target> declare(const std::string& name, bool is_index);
    // Inserts the collected pairs that the store does not have yet, in batches, each one durable
    // transaction. `replace`: a record of the same key is replaced, else it is an error.
    Result<void> insert(Target& target, bool replace);
    // Fills the index from the source in one transaction. On a user thread of the store or not.
    Result<void> build(Target& target, PairSource& source, uint32_t fill_percent);
    // Forgets the load. What it has committed stays.
    Result<void> end();

private:
    Result<void> insert_batch(Txn& txn, const Target& target, std::span<const Pair> batch,
                              bool replace);
    Store& store_;
};

}  // namespace lockstep::cli
