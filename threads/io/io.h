// io.h - files and I/O queues: one interface, three backends (io_uring, kernel-thread pool,
// simulated disk).
//
// Concepts   A Disk names files and does rare operations synchronously (open, resize, rename ...).
//            An IoQueue belongs to one worker and takes batches of page and log requests. User
//            threads wait for requests by the calls of io_wait.h.
// Invariants IO-1 A request's buffer does not change and stays mapped from submit to completion.
//            IO-2 Every submitted request completes exactly once, in any order.
//            IO-3 The queue continues a short or interrupted transfer. The result is the whole size
//            or an error. A read past the end of the file returns the bytes before it.
// Blocking   submit() never blocks. wait() blocks the kernel thread until a completion, wake() or
//            the deadline.
#pragma once

#include <sys/uio.h>

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include <lockstep/clock.h>
#include <lockstep/io_stats.h>
#include <lockstep/result.h>
#include <lockstep/types.h>
#include "threads/base/check.h"

namespace lockstep::threads {

class IoStage;
struct FdPoll;
struct Thread;

using FileId = Id<struct FileIdTag, int32_t>;            // valid on the disk that opened it
using DirectoryId = Id<struct DirectoryIdTag, int32_t>;  // the same
inline constexpr DirectoryId kNoDirectory{-1};

// A name in an open directory, or a path of the process. An absolute name is a path.
struct Place {
    Place(DirectoryId in, std::string_view name) : in(in), name(name) { DCHECK(!name.empty()); }
    Place(std::string_view path) : name(path) {}    // NOLINT(google-explicit-constructor)
    Place(const std::string& path) : name(path) {}  // NOLINT(google-explicit-constructor)
    Place(const char* path) : name(path) {}         // NOLINT(google-explicit-constructor)
    DirectoryId in = kNoDirectory;
    std::string name;
};

inline constexpr uint32_t kIoPiecesMax = 64;  // pieces of memory of one request

enum class IoKind : uint8_t { read, write, sync };
// By priority: the first is served first.
enum class IoClass : uint8_t { log, demand_read, read_ahead, write_back };

// One request. The caller keeps it alive until completion. `done` runs in the submitting worker's
// scheduler and must not block.
static_assert(static_cast<size_t>(IoClass::write_back) + 1 == kIoClasses);
struct IoRequest {
    IoKind kind = IoKind::read;
    IoClass io_class = IoClass::demand_read;
    // For a write: it completes when its bytes are durable. Says nothing about other writes. See
    // Disk::syncs_after_write().
    bool durable = false;
    FileId file{-1};
    uint64_t offset = 0;  // bytes
    iovec iov[2] = {};    // 1 or 2 pieces of memory
    // Or more pieces, up to kIoPiecesMax, in the owner's memory; iov is then unused.
    const iovec* many = nullptr;
    uint32_t iov_count = 0;
    int64_t result = 0;  // bytes transferred, or -errno
    void (*done)(IoRequest*) = nullptr;
    Thread* waiter = nullptr;  // for the default `done`, which wakes it
    void* user = nullptr;
    bool complete = false;
    IoRequest* next = nullptr;  // queues
    uint64_t tag = 0;           // for the backend
    // --- for the stage (io_stage.h), until `done`
    // Never joined with neighbours again, because its carrier failed.
    bool alone = false;
    uint32_t bypassed = 0;
    IoRequest* prev = nullptr;
    Nanos entered = 0;
    IoRequest* same = nullptr;  // equal requests that this one serves as well
    IoStage* stage = nullptr;
    void (*then)(IoRequest*) = nullptr;  // the requester's `done`

    // What a requester has filled in.
    void assert_state() const {
        DCHECK(kind <= IoKind::sync && io_class <= IoClass::write_back);
        DCHECK(file.value >= 0);
        DCHECK((kind == IoKind::sync) == (iov_count == 0));
        DCHECK(iov_count <= (many != nullptr ? kIoPiecesMax : 2));
        DCHECK(!durable || kind == IoKind::write);
    }
};

// One worker's queue of requests. All calls come from that worker, except wake().
class IoQueue {
public:
    virtual ~IoQueue() = default;
    virtual const char* name() const = 0;  // "io_uring", "pool", "simulated"
    // Takes `count` requests joined by `next`, in order. They reach the device by the next poll()
    // or wait() at the latest, all with one system call where the backend can.
    virtual void submit(IoRequest* first, size_t count) = 0;
    // Runs `done` of the completed requests; returns their number.
    virtual size_t poll() = 0;
    // Sleeps until something completes, wake() is called, or the deadline (runtime clock); then as
    // poll().
    virtual size_t wait(Nanos deadline) = 0;
    // Any kernel thread; cheap if the worker is awake.
    virtual void wake() = 0;
    virtual size_t in_flight() const = 0;
    // System calls of this queue that submitted requests to the kernel. 0 where other threads make
    // them. Any kernel thread.
    virtual uint64_t submissions() const { return 0; }
    // Waits for a descriptor of the application; see fd_poll.h. `done` runs in poll() or wait().
    // False: this queue cannot, or has no place now.
    virtual bool start_fd_poll(FdPoll&) { return false; }
    // Ends a wait that start_fd_poll() took and whose `done` has not run. `done` then runs, with
    // -ECANCELED or with events that came first. False: no place now, try again.
    virtual bool cancel_fd_poll(FdPoll&) { return false; }
    // Waits whose `done` has not run.
    size_t fd_polls() const { return fd_polls_; }
    // How many completions a wait() should return with, if they come soon. Each return costs a
    // system call and a turn.
    void gather(size_t completions) { gather_ = completions; }

protected:
    size_t gather_ = 1;
    size_t fd_polls_ = 0;
};

// Files by name. Synchronous, for rare and short operations. Safe from any kernel thread. A path
// may lead elsewhere later, so a store names its files in directories that it has opened
// (directory.h).
class Disk {
public:
    virtual ~Disk() = default;
    // kDirect: bypass the page cache if possible. kReadOnly: the system refuses changes of the
    // file; a simulated disk does not.
    enum OpenFlags : uint32_t { kCreate = 1, kExclusive = 2, kDirect = 4, kReadOnly = 8 };
    virtual Result<FileId> open(const Place& place, uint32_t flags) = 0;
    // Permissions of the files that open() makes from now on, and of directories, which may be
    // entered by those who may read. A disk without permissions does nothing.
    virtual void set_file_mode(uint32_t mode) { DCHECK((mode & ~0666u) == 0); }
    // The same, but as this file has them. For a process with the rights of root, its owner, too.
    virtual Result<void> make_files_like([[maybe_unused]] FileId file) { return {}; }
    // A new file without a name, on this directory's file system. It is gone when it is closed,
    // and after a crash. Error: unsupported on a simulated disk.
    virtual Result<FileId> open_unnamed([[maybe_unused]] const Place& directory) {
        return fail(ErrorCode::unsupported, "file without a name");
    }
    // Whether a file can be there when the process has ended.
    virtual bool outlives_process() const { return true; }
    virtual void close(FileId file) = 0;
    virtual Result<uint64_t> size(FileId file) = 0;
    // Allocates real blocks up to `bytes`, which read as zero; never shrinks. Error no_space leaves
    // the file as it was.
    virtual Result<void> allocate(FileId file, uint64_t bytes) = 0;
    virtual Result<void> truncate(FileId file, uint64_t bytes) = 0;
    virtual Result<void> rename(const Place& from, const Place& to) = 0;
    virtual Result<void> unlink(const Place& place) = 0;
    virtual Result<void> make_directory(const Place& place) = 0;  // durable; fine if it exists
    // Names, sorted.
    virtual Result<std::vector<std::string>> list(const Place& directory) = 0;
    virtual bool exists(const Place& place) = 0;
    virtual Result<void> sync_directory(const Place& directory) = 0;
    // The directory that has this name now. It stays the same one when it is moved or replaced, or
    // when the process changes its directory. Error: bad_path.
    virtual Result<DirectoryId> open_directory(const Place& directory) = 0;
    virtual void close_directory(DirectoryId directory) = 0;
    // The path that it was opened with while that still leads there, else its present path.
    virtual std::string path_of(DirectoryId directory) = 0;
    // Advisory lock for the life of the FileId; store_locked if another process or store holds it.
    // The error's detail is the holder, if the system tells (lock_holder.h).
    virtual Result<void> lock_exclusive(FileId file) = 0;
    // The same, but several holders may share it. Error: store_locked if it is held exclusively. A
    // disk without shared locks takes an exclusive one.
    virtual Result<void> lock_shared(FileId file) { return lock_exclusive(file); }
    // Blocking transfers on the calling kernel thread, for open, the start of recovery and tools.
    // Reads are short at the end of the file.
    virtual Result<size_t> read_now(FileId file, uint64_t offset, void* data, size_t bytes) = 0;
    virtual Result<void> write_now(FileId file, uint64_t offset, const void* data,
                                   size_t bytes) = 0;
    virtual Result<void> sync_now(FileId file) = 0;
    // How the queues make a durable write (IoRequest::durable) durable. True: by a sync of the file
    // behind the write, because a file system of this disk may ignore the request for a durable
    // write. False: by the write alone. Any kernel thread; constant once all files are open.
    virtual bool syncs_after_write() const { return false; }
    virtual Result<std::unique_ptr<IoQueue>> make_queue(uint32_t worker, const Clock& clock) = 0;
};

enum class IoBackend : uint8_t { automatic, io_uring, pool };
// The machine's file system. `automatic` uses io_uring, or the pool where the kernel refuses it.
std::unique_ptr<Disk> make_disk(IoBackend backend = IoBackend::automatic);
// The same with one directory more, kMemoryPath, whose files lie in memory (memory_disk.h).
inline constexpr std::string_view kMemoryPath = ":memory:";
std::unique_ptr<Disk> make_memory_disk(IoBackend backend = IoBackend::automatic);

}  // namespace lockstep::threads
