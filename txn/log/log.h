// log.h - the write-ahead log: one byte sequence, reserved by one atomic add, filled in parallel,
// flushed in groups.
//
// Concepts   An LSN is a byte offset. Segment files of segment_bytes hold the sequence: the record
//            at lsn lies in file lsn / segment_bytes at lsn % segment_bytes. Segments are
//            preallocated, the first one in steps, and reused by renaming. Records are built in a
//            ring in memory that is mapped twice in a row, so a record is always contiguous. Each
//            worker publishes the lowest LSN it may still be filling. Bytes below the lowest of
//            these can be written. One flusher thread writes and syncs for all workers.
// Invariants LOG-1 durable() never exceeds what a completed sync covers. [checked: flusher]
//            LOG-2 Between reserve() and publish() the thread does not switch and nothing fails.
//            LOG-3 used + undo reservations of all live transactions <= capacity, so a rollback
//                 always finds space.
//            LOG-4 The durable end is recorded apart from the records, and by later records.
//                 Damage below it is corrupt_log, never a silent cut.
//            LOG-6 No record that a hold keeps is recycled, whatever truncate_before() was told.
//                 What was held back is recycled when the hold advances or goes. [checked:
//                 move_start()]
//            LOG-7 With keep_times() the flusher ends each flush with a time record, or below one
//                 that it has reserved before. So what is durable at a moment lies below a time
//                 record that is not later, and what lies below a time record was reserved before
//                 its time. Proof and limits: Impl::note_time(). [checked: advance()]
//            LOG-8 If no file can be made, the last bytes that files have (kLogReserve) are
//                 promised to changes that free space only. [checked: FullDisk.*]
//            LOG-5 After a failed write or sync the log is failed for ever: nothing becomes
//                 durable, waiters get store_failed. The first cause is kept (log_failure.cc).
// Blocking   reserve() parks only while the ring is full. wait_durable() parks until the flusher
//            has passed the LSN. reserve_undo() may park for the keeper, read() for I/O.
// Source     ARIES; R. Johnson et al., "Aether", 2010 (early release, group commit); Silo's and
//            LeanStore's per-worker progress.
#pragma once

#include <atomic>
#include <functional>
#include <memory>
#include <string>
#include <utility>

#include <lockstep/store_failure.h>
#include "threads/base/mapping_cache.h"
#include "threads/io/directory.h"
#include "threads/runtime/runtime.h"
#include "threads/sync/event.h"
#include "txn/log/heed.h"
#include "txn/log/log_record.h"

namespace lockstep::txn {

struct LogOptions {
    // Segment files "log.NNNNNNNN" and "log.mark" live here.
    threads::Directory directory;
    uint64_t segment_bytes = 64ull << 20;  // multiple of 4096
    // Length of the first segment's file in a new log, a multiple of 4096. It grows in steps up to
    // segment_bytes (log_grow.cc).
    uint64_t first_bytes = 640ull << 10;
    // Bound on live log (start() .. tail), at least 4 segments.
    uint64_t capacity_bytes = 2ull << 30;
    // Log before the durable end that is kept for readers, if neither the log is scarce nor its
    // device full.
    uint64_t kept_bytes = 0;
    uint64_t ring_bytes = 32ull << 20;              // power of two, at most capacity / 4
    Nanos lazy_flush_interval = 10 * kMillisecond;  // without durable waiters
    // False only in benchmarks of other parts: durable() then means "written".
    bool sync = true;
    // False: nothing outlives the process, so commits wait for nothing.
    bool outlives_process = true;
    threads::MappingCache* mappings = nullptr;  // of the ring; must outlive the log
};

// An open reservation. `at` points to the place of the header. Fill the header (except bytes and
// checksum) and the payload, then publish.
struct LogSpace {
    std::byte* at = nullptr;
    Lsn lsn{};
    uint32_t bytes = 0;
    LogRecordHeader* header() const { return reinterpret_cast<LogRecordHeader*>(at); }
    std::byte* payload() const { return at + sizeof(LogRecordHeader); }
};

// What a change does to the space that the store takes.
enum class LogNeed : uint8_t { grows, frees };
// What the files keep for changes that free space, so that a full device can be emptied (LOG-8). At
// most a quarter of a segment.
inline constexpr uint64_t kLogReserve = 256 << 10;

// Undo space that a transaction has reserved and not used yet; embedded in Transaction.
struct UndoCredit {
    uint64_t bytes = 0;
    // Where reserve_undo() notes that the log is scarce; null: nowhere. Constant.
    Heed* heed = nullptr;
};

class Log;

// Keeps a part of the log from being recycled (Log::hold()). Movable; must go before the log.
class LogHold {
public:
    LogHold() = default;
    LogHold(LogHold&& other) noexcept
        : log_(std::exchange(other.log_, nullptr)), number_(other.number_) {}
    LogHold& operator=(LogHold&&) = delete;
    ~LogHold();
    // The records below `lsn` are no longer needed. Only goes up. Any kernel thread.
    void advance(Lsn lsn);
    // The records from here on are kept.
    Lsn from() const;
    // The log goes first: nothing is recycled any more.
    void forget() { log_ = nullptr; }

private:
    friend class Log;
    LogHold(Log* log, size_t number) : log_(log), number_(number) {}
    Log* log_ = nullptr;
    size_t number_ = 0;
};

class Log {
public:
    // New log in an empty directory; first record at LSN 4096. Starts no thread.
    static Result<std::unique_ptr<Log>> create(threads::Runtime& runtime,
                                               const LogOptions& options);
    // Existing log: finds its end; appends go behind it. `from` is a record boundary. The caller
    // reads the records from there to the end and asks LogReader::require_end(): open() reads only
    // what lies behind the recorded durable end. `durable`: the log was durable at least up to
    // there, as another file tells; kLsnNone: none does. Errors: corrupt_log (a = LSN) if the log
    // ends before that (b = durable), before a stamped durable end, or a segment is missing;
    // io_error. A log that ends early is left as it is. Blocking reads on the calling kernel
    // thread.
    static Result<std::unique_ptr<Log>> open(threads::Runtime& runtime, const LogOptions& options,
                                             Lsn from, Lsn durable = kLsnNone);
    // The same for readers: changes no file, and the flusher must not be started. Reads everything
    // from `from` on. All space counts as promised, so filling() is true and reserve_undo()
    // refuses. Errors: those of open().
    static Result<std::unique_ptr<Log>> open_to_read(threads::Runtime& runtime,
                                                     const LogOptions& options, Lsn from,
                                                     Lsn durable = kLsnNone);
    ~Log();
    Log(const Log&) = delete;
    Log& operator=(const Log&) = delete;

    // Starts the flusher and keeper user threads on worker 0. stop_flusher() flushes everything and
    // ends them; call it from a user thread or a foreign thread.
    Result<void> start_flusher();
    void stop_flusher();

    // --- append; on a worker only
    // Space for a record of `bytes` (<= kLogRecordMax, rounded up to 8). Parks while the ring is
    // full, so call it before the first byte of a page changes. On a failed store it still succeeds
    // (into memory that is never written), so that unwinding stays simple.
    [[nodiscard]] LogSpace reserve(uint32_t bytes) {
        bytes = log_align(bytes);
        const Place place = take_place(bytes);
        return {.at = place.at, .lsn = place.lsn, .bytes = bytes};
    }
    // Completes header (bytes, checksum); the record may now be written at any time.
    void publish(const LogSpace& space) { publish(space.at, space.lsn, space.bytes); }
    // Turns an open reservation into a pad record.
    void discard(const LogSpace& space) { discard(space.at, space.lsn, space.bytes); }

    // Promises `undo` more bytes for the rollback of the credit's transaction, and checks that
    // `forward` bytes for the record itself fit. Errors: log_full if there is no space (b = the sum
    // of both, or 0 if no file can be made), no_space, archive_failed; nothing is taken then. May
    // park for the keeper. Cheap: the shared counter moves in chunks.
    Result<void> reserve_undo(UndoCredit& credit, uint64_t forward, uint64_t undo,
                              LogNeed need = LogNeed::grows) {
        if (take_spare(credit, forward, undo)) [[likely]]
            return {};
        return reserve_undo_slow(credit, forward, undo, need);
    }
    // Promises again what was promised before a restart (LOG-3). Takes the space even if records
    // without a promise have used slack since. Never parks.
    void promise_again(UndoCredit& credit, uint64_t undo);
    // A compensation record of that size follows.
    void use_undo(UndoCredit& credit, uint64_t bytes);
    void release_undo(UndoCredit& credit);  // at the end of the transaction

    // --- progress
    Lsn tail() const;  // end of the last reservation
    Lsn durable() const;
    // The durable-LSN stamp for the last record of a transaction, which will stand at `lsn`
    // (log_stamp.cc). Any worker.
    uint32_t durable_stamp(Lsn lsn) const;
    Lsn start() const;  // of the oldest segment that is kept; it may lie inside a record
    // Waits until every reservation made before the call is published. What its thread noted
    // between reserve and publish is then visible. Spins for the length of a copy. For checkpoints.
    void wait_until_published() const;
    bool failed() const { return failed_->load(std::memory_order_acquire); }
    // While nothing runs and no transfer is in flight: checks that every reservation is published
    // and that nobody waits whom the flusher should have woken. `credits`: bytes that transactions
    // have promised for their rollbacks. Text of a fault, or empty.
    std::string verify(uint64_t credits) const;
    // Parks until durable() >= lsn. Errors: store_failed, timeout.
    Result<void> wait_durable(Lsn lsn, Nanos deadline = kNever);
    // The same for what a commit promises: it waits only if something outlives the process.
    Result<void> wait_promised(Lsn lsn);
    bool is_promised(Lsn lsn) const;  // without a wait
    void request_flush();             // wakes the flusher without waiting
    // Marks the store failed from outside (a data file's sync failed). Waiters get store_failed.
    // Of several failures the first stays. Any kernel thread.
    [[gnu::cold]] void fail_store(StoreFailure why);
    // The same for a store that could not be opened: on_failure() is not called.
    [[gnu::cold]] void give_up();
    // The failure that stopped the store, or null. Constant from then on. Any kernel thread.
    const StoreFailure* failure() const;
    // store_failed with the cause, for a caller that has seen failed().
    [[gnu::cold]] std::unexpected<Error> refused() const;
    // Sets a function that is called once, by the thread that stops the store, before any waiter
    // is woken. It must not block. Call before start_flusher().
    void on_failure(std::function<void(const StoreFailure&)> told);
    // Path of the segment that holds, or held, the byte at `lsn`.
    std::string segment_path(Lsn lsn) const;

    // No restart and no rollback needs records below `lsn`: whole segments are recycled, unless a
    // hold (LOG-6) or LogOptions::kept_bytes keeps them.
    void truncate_before(Lsn lsn);
    // Sets a function that the flusher calls when a whole segment has become durable. It must not
    // block. Call before start_flusher().
    void on_whole_segment(std::function<void()> told);
    // While set, reserve_undo() refuses with archive_failed; rollbacks and commits go on. Any
    // kernel thread.
    void stop_writers(bool stop);
    bool writers_stopped() const;
    // Time records are written (LOG-7). Call before start_flusher().
    void keep_times();
    bool keeps_times() const;
    // Keeps the log from start() on until the hold advances or goes. What it keeps counts as used,
    // so a hold that stays fills the log. Error: too_many. Any kernel thread; never blocks.
    Result<LogHold> hold();
    uint64_t used_bytes() const;  // tail - start
    uint64_t undo_reserved_bytes() const;
    // The log begins to get scarce: more than half is used or promised. New transactions slow down.
    bool filling() const;
    // Three quarters of what promises may take are taken, or the files end soon and none can be
    // made: new transactions wait, and active ones before their next operation.
    bool scarce() const;
    // No file can be made for more of the log, and an old one could be used if the log began at
    // `to` and not at `from`.
    bool wants_start(Lsn from, Lsn to) const;
    // Used or promised bytes, spare bytes of the workers included.
    uint64_t taken_bytes() const;
    // What promises may take in all: log and undo bytes of one transaction that is alone.
    uint64_t promises_max() const;
    // Log and undo bytes up to which a transaction meets no log_full (sm/engine/log_room.h): an
    // eighth of the capacity.
    uint64_t safe_bytes() const { return capacity_bytes() / 8; }
    uint64_t capacity_bytes() const;

    // Copies the record at `lsn` into `buffer` (resized), from the ring or from file; parks for I/O
    // on a worker, blocks elsewhere. Errors: corrupt_log, io_error.
    Result<LogRecordView> read(Lsn lsn, std::string& buffer);

    struct Stats {
        uint64_t records = 0, bytes = 0, flushes = 0, syncs = 0, flush_bytes = 0,
                 ring_full_waits = 0, durable_waits = 0, flush_nanos = 0;
    };
    Stats stats() const;
    threads::Runtime& runtime() const;
    // The ring size that a log really takes: at least 1 MB per worker, since each worker may have a
    // largest record between check and add.
    static uint64_t ring_bytes_for(const LogOptions& options, uint32_t workers);

private:
    friend class LogHold;
    struct Impl;
    // What registers hold: a LogSpace would be returned and passed through memory.
    struct Place {
        std::byte* at;
        Lsn lsn;
    };
    explicit Log(std::unique_ptr<Impl> impl);
    Place take_place(uint32_t bytes);
    void publish(std::byte* at, Lsn lsn, uint32_t bytes);
    void discard(std::byte* at, Lsn lsn, uint32_t bytes);
    // reserve_undo() from the worker's spare bytes. False: nothing was taken.
    bool take_spare(UndoCredit& credit, uint64_t forward, uint64_t undo);
    Result<void> reserve_undo_slow(UndoCredit& credit, uint64_t forward, uint64_t undo,
                                   LogNeed need);
    std::unique_ptr<Impl> impl_;
    const std::atomic<bool>* failed_;  // in impl_
};

// Sequential reader over segment files in big chunks, for restart, tools and checks. Blocking reads
// on the calling kernel thread.
class LogReader {
public:
    LogReader(threads::Disk& disk, const LogOptions& options);
    ~LogReader();
    // Next read starts at `lsn`.
    void seek(Lsn lsn);
    // False at the first place without a valid record; position() then says where. Errors:
    // io_error, out_of_memory.
    Result<bool> next(LogRecordView& record);
    Lsn position() const;
    // Error: corrupt_log (a = position, b = `end`) if the records read do not end exactly there.
    Result<void> require_end(Lsn end) const;

private:
    struct Impl;
    std::unique_ptr<Impl> impl_;
};

// The durable end that a commit or end record at `lsn` stamps (log_stamp.cc), or kLsnNone.
Lsn stamped_durable_end(const LogRecordHeader& header, Lsn lsn);

// The durable end that log.mark recorded last: at least this much must be readable. kLsnNone if
// there is no record.
Result<Lsn> recorded_durable_end(threads::Disk& disk, const threads::Directory& directory);

}  // namespace lockstep::txn
