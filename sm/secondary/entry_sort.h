// entry_sort.h - sorts the entries of a secondary index that is being built, in memory and beyond.
//
// Concepts   Threads put entries into blocks. The sorter collects blocks. When they take more than
//            its memory, it sorts them into a run: a file without a name in the store's directory,
//            so nothing of it is left after a crash. At the end the runs and the last blocks are
//            merged. Blocks are first divided into ranges, and a range is sorted when it is wanted.
//            So the receiver can work on the first entries while the later ones are being sorted.
// Invariants ES-1 All entries of one source ascend. [checked: Merge::next()]
// Blocking   Runs are written and read by system calls that block the kernel thread. So a sorter
//            with bounded memory belongs on a thread of the offload pool.
// Source     Knuth, "The Art of Computer Programming", volume 3, section 5.4 (external sorting).
#pragma once

#include <memory>
#include <string>
#include <vector>

#include <lockstep/result.h>
#include <lockstep/types.h>
#include "threads/base/check.h"
#include "threads/io/directory.h"

namespace lockstep::sm {

// An entry in memory: u16 key bytes, u16 value bytes, key, value.
struct EntryRef {
    uint64_t head;   // first eight bytes of the key as a number, zeros behind its end
    const char* at;  // in its block
    Slice key() const;
    Slice value() const;
};

// Entries of one thread, in no order.
class EntryBlock {
public:
    void add(Slice key, Slice value);
    // No entry comes any more: refs() count from now on.
    void finish();
    const std::vector<EntryRef>& refs() const { return refs_; }
    size_t memory() const { return bytes_.capacity() + refs_.capacity() * sizeof(EntryRef); }

private:
    void assert_state() const {
        DCHECK(bytes_.size() >= refs_.size() * 2 * sizeof(uint16_t));
        DCHECK(!finished_ || refs_.empty() || refs_.front().at == bytes_.data());
    }
    std::vector<char> bytes_;
    std::vector<EntryRef> refs_;
    bool finished_ = false;
};

// Sorted entries, one after the other.
class EntrySource {
public:
    virtual ~EntrySource() = default;
    // The bytes belong to the source, until the next call. False: there are no more.
    virtual Result<bool> next(Slice& key, Slice& value) = 0;
};

// Not safe for several threads at once.
class EntrySorter {
public:
    // With `parallel` it sorts on all threads of oneTBB. `memory`: bytes of blocks and of what
    // sorting them takes; SIZE_MAX: no runs.
    // `directory`: of the runs. `disk` outlives the sorter.
    EntrySorter(threads::Disk& disk, threads::Directory directory, size_t memory, bool parallel);
    ~EntrySorter();

    // Errors: those of a run's file.
    Result<void> add(std::unique_ptr<EntryBlock> block);
    // Everything that was added, sorted. Belongs to the sorter. Once.
    Result<EntrySource*> sort();
    size_t runs() const { return runs_.size(); }

private:
    class Run;
    class Memory;
    class File;
    class Merge;
    void assert_state() const {
        DCHECK(!blocks_.empty() || memory_ == 0);
        DCHECK(runs_.empty() || memory_max_ != SIZE_MAX);
        DCHECK(!directory_.path().empty() || memory_max_ == SIZE_MAX);
        DCHECK(sources_.empty() || sources_.size() == (runs_.empty() ? 1 : runs_.size() + 2));
    }
    std::unique_ptr<EntrySource> sort_blocks() const;
    Result<void> write_run();

    threads::Disk& disk_;
    const threads::Directory directory_;
    const size_t memory_max_;
    const bool parallel_;
    std::vector<std::unique_ptr<EntryBlock>> blocks_;
    size_t memory_ = 0;  // of blocks_, and of a copy of their references
    std::vector<std::unique_ptr<Run>> runs_;
    std::vector<std::unique_ptr<EntrySource>> sources_;  // of the merge, and the merge
};

}  // namespace lockstep::sm
