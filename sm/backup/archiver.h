// archiver.h - gives the log to the archive before it is recycled.
//
// Concepts   A user thread on worker 0. It holds the log from the first byte that the archive does
//            not have, and moves the hold up with each piece. A piece is due when its segment is
//            durable, or archive_interval after the piece before.
//            It has the log write time records (LOG-7), which restore_backup() goes by.
// States     working -> failing (an attempt failed, or has lasted for kAttemptMax) -> working.
//            While failing, a backlog above the bound stops the writers, or is given up.
// Invariants AR-1 No log that the archive lacks is recycled, unless archive_failure is go_on and
//                 the backlog has reached its bound. Then gaps() counts it. [hold_]
//            AR-2 Writers are stopped only while the archive fails. [checked: look_at_backlog()]
//            AR-3 A piece has only durable bytes that were held all the time while they were read.
//                 [checked: copy_piece()]
//            AR-4 What was durable before a time lies below a time record that is not later, and
//                 what lies below a time record is older than its time: LOG-7 (txn/log/log.h).
//            AR-5 A piece ends at stable_ or below it. That is the end of a record, and all log up
//                 to it is durable. What is durable behind it may be the begin of a record that a
//                 restart does not find, and writes over.
//            AR-6 The archive ends where the log ended at open, or below. Otherwise the store is
//                 refused before it appends anything, so that its log never grows beyond that end
//                 with other records. [checked: find_end()]
// Blocking   check() and start() block for directory operations. The thread parks.
#pragma once

#include <atomic>
#include <memory>
#include <optional>
#include <string>

#include "sm/backup/archive_target.h"
#include "sm/backup/record_check.h"
#include "sm/recovery/restart_env.h"
#include "threads/base/spin_lock.h"
#include "threads/io/aligned_buffer.h"
#include "threads/io/offload_pool.h"
#include "threads/sync/completion.h"
#include "threads/sync/event.h"

namespace lockstep::sm {

class Archiver {
public:
    static constexpr Nanos kPause = 100 * kMillisecond;
    static constexpr Nanos kAttemptMax = 10 * kSecond;
    static constexpr Nanos kLateMin = 50 * kMillisecond;

    // Holds the log from its start. `target` as Options say. Before the log's flusher starts.
    // `disk` has the archive, and must outlive this object.
    static Result<std::unique_ptr<Archiver>> create(RestartEnv& env, ArchivePlace* place);
    ~Archiver();
    // AR-6. When a restart has read the log, and before it appends anything: damage that the log
    // itself tells comes first. On a user thread. Errors: those of start().
    Result<void> check();
    // When the store is recovered. Errors: bad_archive; an archive that cannot be reached is no
    // error, and is tried again.
    Result<void> start();
    // Archives all log, and ends the thread. On a user thread. Parks. Errors: those of the log.
    Result<void> stop();

    struct Stats {
        uint64_t pieces = 0, bytes = 0, failures = 0, gaps = 0, backlog_bytes = 0;
    };
    Stats stats() const;

private:
    Archiver(RestartEnv& env, txn::LogHold hold, std::unique_ptr<ArchiveTarget> target);
    void assert_state() const {
        DCHECK(next_.load() <= env_.log->durable().value || !located_);
        DCHECK(gap_end_.load() == 0 || env_.options.archive_failure == ArchiveFailure::go_on);
    }
    void run();
    Result<Lsn> find_end();
    Result<void> locate();
    uint64_t find_stable();
    Result<bool> archive_one(bool all);
    Result<void> copy_piece(const PieceName& piece);
    Result<void> read_log(uint64_t at, uint64_t bytes, uint64_t useful);
    void note_failure(const Error& error);
    bool is_late();
    void look_at_backlog();
    void skip_gap();
    uint64_t backlog() const;

    RestartEnv& env_;
    txn::LogHold hold_;
    const std::unique_ptr<ArchiveTarget> target_;
    // Of a restored store: the least LSN that its log has ever had. Else 0.
    const Lsn own_begin_;
    const uint64_t backlog_max_;
    // --- the archiver's thread
    txn::LogFiles files_;
    threads::AlignedBuffer buffer_;
    threads::OffloadPool reader_{1};  // not the store's pool, which an application's functions fill
    std::optional<RecordCheck> check_;
    std::optional<Lsn> archive_end_;  // at open
    bool located_ = false;
    uint64_t stable_ = 0;  // AR-5
    uint64_t tail_ = 0;    // the log's end at some moment since
    Nanos piece_at_ = 0;   // when the last piece ended
    bool told_ = false;    // of the present failure
    // --- any thread of worker 0
    std::atomic<uint64_t> next_{0};     // first byte that the archive lacks
    std::atomic<uint64_t> gap_end_{0};  // log below it was given up; 0: none
    std::atomic<bool> failing_{false};
    std::atomic<Nanos> attempt_began_{0};  // 0: none now
    Nanos late_since_ = 0;                 // when it was first seen to be late; 0: it is not
    std::atomic<bool> stopping_{false};
    threads::Semaphore wanted_{0};
    std::unique_ptr<threads::Completion> ended_;
    // --- statistics, relaxed
    std::atomic<uint64_t> pieces_{0}, bytes_{0}, failures_{0}, gaps_{0};
};

// Notes in the archive that `directory` has the backup; page_rebuild.h finds it there.
// Parks. Errors: those of the archive.
Result<void> note_backup(ArchivePlace& archive, const Superblock& block, Lsn point,
                         const std::string& directory, bool sync);

}  // namespace lockstep::sm
