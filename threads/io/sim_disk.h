// sim_disk.h - a deterministic disk for tests, with latency, faults, and crash images of a running
// disk.
//
// Concepts   SimDisk has the same interfaces as the real disk. Latency and order of completion are
//            drawn from the seed. They follow the queue's clock (a ManualClock that advance()
//            moves) or a counter of polls. image() gives what a crash would leave at this moment: a
//            new disk that shares pages with this one. This disk goes on untouched. Files, lengths
//            and directory entries are durable only after sync of the file and of the directory.
//            Directories themselves are path prefixes and always durable.
// States     of a request: submitted -> started -> [continued] -> completed.
// Invariants SD-1 Memory of a write does not change from submit to completion (IO-1). [checked:
//            SimQueue::attempt()]
//            SD-2 No two started writes overlap. [checked: SimFile::begin_write()]
//            SD-3 Equal seeds and equal calls give equal events: event_digest().
// Blocking   No call sleeps, except IoQueue::wait() under a clock that does not advance.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <set>
#include <string>
#include <vector>

#include <lockstep/clock.h>
#include "threads/base/rng.h"
#include "threads/io/io.h"
#include "threads/io/sim_faults.h"

namespace lockstep::threads {

class SimFile;
class SimQueue;

// What a crash does with unsynced changes.
enum class SimCrash : uint8_t {
    drop_unsynced,  // loses all
    // Keeps all, also writes in flight: the state that a killed process leaves.
    keep_all,
    random_sectors,  // picks any version of each sector
    torn_requests,   // keeps, loses or cuts each request
    ordered_prefix,  // keeps everything up to some sector of some request
};
inline constexpr SimCrash kSimCrashes[] = {SimCrash::drop_unsynced, SimCrash::keep_all,
                                           SimCrash::random_sectors, SimCrash::torn_requests,
                                           SimCrash::ordered_prefix};

struct SimOptions {
    uint64_t seed = 1;
    Nanos latency_min = 20 * kMicrosecond;
    Nanos latency_max = 200 * kMicrosecond;
    // Not 0: latency is 1..polls_max polls of any queue, and clocks do not matter.
    uint32_t polls_max = 0;
    uint64_t capacity_bytes = UINT64_MAX;  // sum of all files' lengths
    // The file system ignores the request for a durable write: the queue syncs behind it.
    bool syncs_after_write = false;
};

struct SimEvent {
    // renamed: a name or a length changed, or a directory was synced.
    enum Kind : uint8_t { submitted, completed, renamed };
    uint64_t number = 0;  // 1, 2, 3 ...
    Kind kind = submitted;
    IoKind io = IoKind::read;
    std::string_view path;
    uint64_t offset = 0;
    uint64_t bytes = 0;
    int64_t result = 0;  // if completed
};

class SimDisk final : public Disk {
public:
    explicit SimDisk(SimOptions options = {});
    ~SimDisk() override;

    Result<FileId> open(const Place& place, uint32_t flags) override;
    void close(FileId file) override;
    Result<uint64_t> size(FileId file) override;
    Result<void> allocate(FileId file, uint64_t bytes) override;
    Result<void> truncate(FileId file, uint64_t bytes) override;
    Result<void> rename(const Place& from, const Place& to) override;
    Result<void> unlink(const Place& place) override;
    Result<void> make_directory(const Place& place) override;
    Result<std::vector<std::string>> list(const Place& directory) override;
    bool exists(const Place& place) override;
    Result<void> sync_directory(const Place& directory) override;
    Result<DirectoryId> open_directory(const Place& directory) override;
    void close_directory(DirectoryId directory) override;
    std::string path_of(DirectoryId directory) override;
    Result<void> lock_exclusive(FileId file) override;
    Result<size_t> read_now(FileId file, uint64_t offset, void* data, size_t bytes) override;
    Result<void> write_now(FileId file, uint64_t offset, const void* data, size_t bytes) override;
    Result<void> sync_now(FileId file) override;
    Result<std::unique_ptr<IoQueue>> make_queue(uint32_t worker, const Clock& clock) override;
    bool syncs_after_write() const override { return options_.syncs_after_write; }

    // --- for tests
    // The disk that a crash at this moment leaves, without locks, faults or observer. Equal state,
    // seed and mode give equal bytes.
    std::unique_ptr<SimDisk> image(uint64_t seed, SimCrash mode) const;
    // Sets a function that is called at every event, after it took effect and before `done` runs.
    // It may take images. Null: no function.
    void observe(std::function<void(const SimEvent&)> observer) { observer_ = std::move(observer); }
    uint64_t events() const { return events_; }
    uint64_t event_digest() const { return event_digest_; }
    SimFaults& faults() { return faults_; }
    void set_capacity(uint64_t bytes) { options_.capacity_bytes = bytes; }
    uint64_t bytes_used() const;  // sum of all files' lengths
    // Requests refused for lack of capacity.
    uint64_t refusals() const { return refusals_; }
    // When the next request completes, kNever if none is in flight (0 under polls_max).
    Nanos next_event_time() const;
    // Moves the clock to next_event_time(). False if nothing is in flight.
    bool advance(ManualClock& clock) const;
    // Moves a directory with all that is in it, as another process may do at any time. Open files
    // and directories stay what they are. Durable at once. CHECKs that nothing has the new name.
    void move_directory(std::string_view from, std::string_view to);
    // From now on, relative paths begin in that directory.
    void change_directory(std::string_view path);
    // Forgets open files, directories and locks, as the system does when a process ends.
    void close_all();
    // Bytes that lost writes should have written and no later write has overwritten, by offset.
    // Reads do not show them.
    struct LostBytes {
        uint64_t offset, bytes;
        std::shared_ptr<const std::byte[]> data;
    };
    std::vector<LostBytes> lost_bytes(std::string_view path) const;
    // Makes the sector at that offset unreadable until it is written again.
    void spoil_sector(std::string_view path, uint64_t offset);
    // Makes all sectors readable again, with their old bytes.
    void mend_sectors();
    // Digest of all current names, lengths and bytes.
    uint64_t digest() const;
    uint64_t pages_in_memory() const;

private:
    friend class SimQueue;
    using FilePtr = std::shared_ptr<SimFile>;
    struct OpenFile {
        FilePtr file;  // null: closed
        bool direct = false;
    };
    // One step of a directory, atomic in a crash.
    struct NameChange {
        std::string gone;  // removed name; empty: none
        // New name of `file`; empty: none.
        std::string name;
        FilePtr file;
    };
    using Names = std::map<std::string, FilePtr, std::less<>>;

    OpenFile& of(FileId file);
    std::string full(const Place& place) const;  // under mutex_
    bool is_directory(const std::string& path) const;
    void change_names(const std::string& directory, NameChange change);
    static void apply(Names& names, const NameChange& change);
    bool room_for(const SimFile& file, uint64_t length) const;
    Result<void> resize(FileId file, uint64_t bytes);
    int write_fault(SimFile& file, uint64_t end);  // errno or 0
    // Counts an event and tells the observer; never under mutex_.
    void happened(SimEvent event);

    mutable std::mutex mutex_;  // protects all fields below except the observer
    SimOptions options_;
    SimFaults faults_;
    Rng schedule_, crash_;  // independent streams
    Names names_, durable_names_;
    std::map<std::string, std::vector<NameChange>> unsynced_names_;  // by directory
    std::set<std::string> directories_;
    std::vector<std::string> open_directories_;  // where they are now; empty: closed
    std::string begin_;                          // of relative paths
    std::vector<OpenFile> open_;
    std::vector<SimQueue*> queues_;
    uint64_t polls_ = 0;
    uint64_t operations_ = 0;  // order among equal due times
    std::function<void(const SimEvent&)> observer_;
    uint64_t events_ = 0;
    uint64_t event_digest_ = 0;
    mutable uint64_t refusals_ = 0;
};

}  // namespace lockstep::threads
