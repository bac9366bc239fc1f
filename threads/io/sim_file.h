// sim_file.h - one simulated file: its current and its durable state, and all states a crash may
// leave.
//
// Concepts   A completed change (write, truncation, growth) is visible at once and joins the
//            ordered list of unsynced changes. A sync that began after it makes it durable. A crash
//            starts from the durable bytes. For each sector it picks one of the versions that
//            unsynced changes and writes in flight have made. It picks the length in the same way.
// Invariants SF-1 No two writes in flight overlap. [checked: begin_write()]
//            SF-2 A sync covers what completed before it began, and no more. [checked: synced(),
//            tests]
//            SF-3 After a failed sync the durability of what it covered is unknown. No later sync
//            makes it certain.
#pragma once

#include <list>
#include <set>
#include <string>
#include <vector>

#include "threads/base/rng.h"
#include "threads/io/sim_content.h"
#include "threads/io/sim_disk.h"

namespace lockstep::threads {

struct SimChange {
    uint64_t number = 0;  // order of completion; 0 while in flight
    uint64_t offset = 0;
    uint64_t bytes = 0;                       // 0: only the length changes
    std::shared_ptr<const std::byte[]> data;  // null: zeros
    uint64_t length_after = 0;
    bool in_doubt = false;  // a sync that covered it failed (SF-3)
};

class SimFile {
public:
    using WriteHandle = std::list<SimChange>::iterator;

    explicit SimFile(std::string path) : path(std::move(path)) {}
    uint64_t length() const { return length_; }
    // Short at the end of the file.
    size_t read(uint64_t offset, std::byte* data, size_t bytes) const;
    // Does a write in flight change some of these bytes?
    bool is_written(uint64_t offset, uint64_t bytes) const;
    // Of bytes that were read, each sector that a write in flight changes becomes the new one or
    // stays: what a device gives to a read that overtakes half of the write.
    void tear(uint64_t offset, std::byte* data, size_t bytes, Rng& rng) const;
    bool has_bad_sector(uint64_t offset, uint64_t bytes) const;
    void spoil_sector(uint64_t offset) { bad_sectors_.insert(offset / 512); }
    void mend_sectors() { bad_sectors_.clear(); }

    // `data` stays as it is. end_write() makes the first `bytes` bytes take effect, possibly
    // at another offset.
    WriteHandle begin_write(uint64_t offset, std::shared_ptr<const std::byte[]> data,
                            uint64_t bytes);
    void end_write(WriteHandle write, uint64_t bytes, uint64_t offset);
    void drop_write(WriteHandle write) { in_flight_.erase(write); }  // its requester is gone
    // Ends the write silently without effect. Its bytes are remembered until another write covers
    // them. A crash may take that write away before it is durable; then they are lost again.
    void lose_write(WriteHandle write);
    struct Lost {
        uint64_t offset, bytes;
        std::shared_ptr<const std::byte[]> data;
        uint64_t covered_by = 0;  // number of the change
    };
    const std::vector<Lost>& lost() const { return lost_; }
    void set_length(uint64_t bytes);

    uint64_t sync_point() const { return changes_made_; }
    void synced(uint64_t point, Rng& rng);
    void sync_failed(uint64_t point);
    // After a durable write: the newest change alone becomes durable, or its durability is unknown.
    void newest_synced();
    void newest_in_doubt() {
        DCHECK(!unsynced_.empty());
        unsynced_.back().in_doubt = true;
    }

    // The file that one crash leaves.
    std::shared_ptr<SimFile> after_crash(Rng& rng, SimCrash mode) const;
    uint64_t digest(uint64_t hash) const {
        return current_.digest(sim_hash(hash, &length_, sizeof(length_)));
    }
    uint64_t pages() const { return current_.pages(); }

    // Current or last name, for events and fault filters.
    std::string path;
    int32_t locked_by = -1;  // FileId of the lock's holder

private:
    using Changes = std::vector<const SimChange*>;
    // Unsynced changes are in the order of their completion.
    void assert_state() const {
        DCHECK(unsynced_.empty() || unsynced_.front().number > 0);
        DCHECK(unsynced_.empty() || unsynced_.front().number <= unsynced_.back().number);
        DCHECK(unsynced_.empty() || unsynced_.back().number <= changes_made_);
    }
    void record(SimChange change);
    void cover_lost(const SimChange& change, uint64_t number);
    void forget_beneath(uint64_t from, uint64_t to);
    void keep_sectors(SimFile& image, const Changes& changes, Rng& rng) const;
    void keep_torn(SimFile& image, const Changes& changes, Rng& rng) const;
    void keep_prefix(SimFile& image, const Changes& changes, Rng& rng) const;

    SimContent current_, durable_;
    uint64_t length_ = 0, durable_length_ = 0;
    uint64_t changes_made_ = 0;
    // current_ shows bytes that may not be durable (SF-3).
    bool diverged_ = false;
    std::vector<SimChange> unsynced_;
    std::list<SimChange> in_flight_;
    std::set<uint64_t> bad_sectors_;
    // In pieces no longer than a sector. covered_: by changes that are not durable yet.
    std::vector<Lost> lost_, covered_;
};

}  // namespace lockstep::threads
