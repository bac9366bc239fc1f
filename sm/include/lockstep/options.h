// options.h - what a store can be told when it is opened. Store::open checks every option.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include <lockstep/archive.h>
#include <lockstep/clock.h>
#include <lockstep/function.h>
#include <lockstep/lock_policy.h>
#include <lockstep/packet_policy.h>
#include <lockstep/result.h>
#include <lockstep/steps_options.h>
#include <lockstep/types.h>

namespace lockstep {

// For the project's own tests: disk, clock, scheduling.
struct TestHooks;

// Level: 0 error, 1 warning, 2 information. Called from any of the store's kernel threads; must not
// call back into the store.
using Logger = Function<void(int level, std::string_view text)>;

namespace detail {
void log_to_stderr(int level, std::string_view text);
}  // namespace detail

// How I/O is done: `automatic` takes io_uring and falls back to a pool of kernel threads. Under
// valgrind it takes the pool.
enum class IoMethod : uint8_t { automatic, io_uring, pool };

// How a store runs. Every field has a default; Store::open() checks all of them and names the one
// that is out of range (bad_option). What a field can leave out is std::nullopt, which its comment
// explains. Zero is a number as any other, and mostly out of range.
struct Options {
    // Make the store if the directory holds none. Other files in the directory stay as they are.
    bool create = true;
    // Opens a store that was closed, and changes no file of it: the media may be read-only. Every
    // write is the error read_only. Several processes may read at once; a writer keeps them out,
    // and they keep a writer out, where the file system has locks (flock). A damaged page is an
    // error: only a writer rebuilds it from the log. A store that was not closed is refused
    // (not_closed), since recovery would write. `create` and the log's options are ignored.
    bool read_only = false;
    // Permissions of the files of a store that is made, with 0600 and within 0666. Whatever the
    // umask is, all files that are made later, the archive, backups and restores get them, too; a
    // directory may be entered by those who may read. An existing store keeps those of its file
    // `data`, which chmod changes. For a process with the rights of root, files get the owner of
    // that file besides.
    uint32_t file_mode = 0600;
    uint32_t workers = 1;      // kernel threads that run transactions, 1..64
    bool pin_workers = false;  // bind worker i to the i-th allowed CPU
    // Buffer pool, 4 MB to less than 1 TB. It takes memory from the system as pages need it, and up
    // to 64 MB ahead of them. No size in this range is refused. If pool_bytes + version_bytes
    // exceed the memory of the machine or the limit of the cgroup, `logger` gets a warning.
    uint64_t pool_bytes = 256ull << 20;
    // Stack of a user thread, 48 KB .. 8 MB; a split takes 32 KB. So all frames of the application
    // together may take stack_bytes - 32 KB. A thread that needs more meets a guard of 256 KB. A
    // larger frame may step over it and change other stacks, unless its function was compiled with
    // -fstack-clash-protection. The installed CMake package and pkg-config file give that option to
    // applications. At the guard the process names the thread, its stack size and this option
    // on stderr, and passes SIGSEGV on to the handler that the application installed before it
    // opened its first store. Without one, the default action dumps core. All other SIGSEGV go
    // there directly. A handler that is installed later takes precedence; it should pass on what it
    // does not handle. On a worker the application's handler has a stack of 64 KB. The last close()
    // restores it.
    uint32_t stack_bytes = 64 * 1024;
    // Transactions live at once, 16 .. 65536; further transactions wait in begin. If none ends for
    // a second, `logger` gets a warning. From 65,471 on, more makes no difference.
    uint32_t transactions_max = 16384;
    // Functions of start() and spawn(), and packets, that have begun and not ended, 1 .. 2^20.
    // While so many have begun, no other begins, and start() refuses more with too_many. Each takes
    // up to stack_bytes of memory and two memory mappings. Linux allows 65530 mappings by default
    // (vm.max_map_count), hence the default here.
    uint32_t user_threads_max = 32000;
    // Of them, those of one worker that run or wait for locks, 1 .. 2^20. Others wait for
    // admission, without a stack (packet.h). One that waits for anything else does not count, so
    // waits for the log or for each other hold up none. More of them share the caches worse and
    // meet on more locks.
    uint32_t executors = 16;
    // Packets that wait for admission on one worker, 16 .. 2^32; submit() and start() refuse more
    // with too_many.
    uint64_t packets_max = 1 << 20;
    // Which packet begins next.
    PacketPolicy packet_policy = PacketPolicy::priority;
    // Longest life of a transaction, from 1 ms; nullopt: no limit. An older one is ended: its next
    // call returns transaction_too_old. Looked at eight times in that time, and at least once a
    // second.
    std::optional<Nanos> transaction_age_max = {};
    // Bound on the live log, 4 MB .. 1 TB. A transaction reserves log space for its rollback, so it
    // needs two to five times the bytes that it changes (TransactionInfo: log_bytes + undo_bytes);
    // page splits come on top, up to a fifth of that.
    // - Alone, it may need log_bytes - log_bytes / 16 (at most 16 MB) - 256 KB for each worker.
    //   Beyond that, log_full names both numbers.
    // - Beside others, it meets no log_full if it needs at most log_bytes / 8, and at most
    //   log_bytes / 3N while N transactions write. Store::run() repeats a transaction below
    //   log_bytes / 8 that met log_full because more of them write.
    // - A single call does not wait half-way, so one that logs more (bulk_load) may meet log_full.
    // - The oldest writer is ended with log_full if others wait for its space, and its user thread
    //   waits outside the store: for 200 ms if it pins half of the log, else for 1 s. A busy one
    //   is ended after 5 s, plus log_bytes / 8 at 16 MB/s.
    // - A transaction in doubt (prepared.h) is not ended. If it is the oldest writer, others wait
    //   for it 5 s, counted for all together. Then begin returns log_full, which names its gid,
    //   until it has ended. A checkpoint that fails is treated alike, and log_full names its error.
    // From half of log_bytes on, begin slows down. From three quarters of what one transaction may
    // need, begin and the next operation of a writer wait for a checkpoint or the oldest writer.
    uint64_t log_bytes = 2ull << 30;
    // 1 MB .. 1 GB, multiple of 4096; log_bytes / this >= 4. nullopt: 64 MB, or a quarter of
    // log_bytes if that is less. Fixed when the store is made: a later open takes the store's own,
    // so log_bytes must be at least four times that. Store::options() has the size in use.
    std::optional<uint64_t> log_segment_bytes = {};
    // Log buffer in memory, power of two, 1 MB .. 1 GB, and at most a quarter of log_bytes.
    // nullopt: 32 MB, or the largest that log_bytes allows if that is less. Store::options() has
    // the size in use.
    std::optional<uint64_t> log_ring_bytes = {};
    Nanos lazy_flush_interval = 10 * kMillisecond;  // longest time a lazy commit stays undurable
    // false: never sync (survives a crash of the process, not of the machine).
    bool sync = true;
    // Log written between checkpoints, 1 MB .. half of log_bytes; nullopt: a quarter of log_bytes.
    std::optional<uint64_t> checkpoint_log_bytes = {};
    // Log that is kept for change feeds (changes.h), also over a close: the last so many bytes, at
    // most a quarter of log_bytes. A feed that falls further behind gets changes_lost. Writers come
    // first: once the log is scarce, or its device full, nothing is kept. Unless it is 0, the log
    // also has the times of the commits.
    uint64_t changes_log_bytes = 0;
    // Longest wait for one lock; kNever = no limit. Then the error lock_timeout, which run()
    // returns.
    Nanos lock_timeout = 10 * kSecond;
    // Most memory of the lock table's buckets, 2^16 .. 2^32 bytes. The table follows the number of
    // locks: 400 locks at a time touch at most 2^18 bytes.
    uint32_t lock_table_bytes_log2 = 22;
    // Order of blocked lock requests; see lock_policy.h.
    LockStageOptions lock_stage = {};
    // Before-images that are kept while snapshot transactions are open, 1 MB .. 1 TB; nullopt: a
    // quarter of pool_bytes, at least 64 MB. Beyond it the oldest snapshot gets snapshot_too_old;
    // writers neither fail nor wait. It must hold what the active transactions have changed, or no
    // snapshot can begin. The table that finds the images takes up to an eighth of this besides,
    // and at most 64 MB. Memory is taken as images need it; that of images goes back to the system
    // half a second after the last snapshot.
    std::optional<uint64_t> version_bytes = {};
    // Memory of blocks that reports still need and have not taken, 1 MB .. 1 TB (report.h), and of
    // those that were read from disk, for scans of the same state that come later. Beyond it blocks
    // are made again for a report that is late.
    uint64_t scan_bytes = 64ull << 20;
    // The share of a worker's time that a pass of reports takes while other threads of the worker
    // are ready, 0.01 .. 1, kept over windows of 10 ms. A worker without other work is not left
    // idle.
    double scan_share = 0.25;
    // Kernel threads besides `workers`, 0 .. 64 - workers, that only serve the passes of reports
    // and the functions of Scan::each(). They begin no packet and no function of start(), and
    // passes take no time of the workers then: scan_share does not count.
    uint32_t scan_workers = 0;
    // Record locks on one index or heap before its object lock is tried, from 1; nullopt: never.
    std::optional<uint32_t> escalate_at = 5000;
    // Times run() repeats a deadlock victim, or a log_full that others caused.
    uint32_t retries_max = 100;
    IoMethod io = IoMethod::automatic;
    // A user thread that keeps its worker's CPU for longer is reported to `logger` at level 1, with
    // its stack: it computes without yield(), or it blocks the kernel thread. 1 ms .. 1 hour;
    // nullopt: off, as without a logger. Time without a CPU does not count. While it is on, the
    // process has a handler for SIGURG, which fetches the stack of a thread that computes. One that
    // sleeps in a system call gets no signal: its stack is read from outside, by /proc. Only a call
    // that begins in the moment of the signal may still return early (EINTR). Signals that the
    // store did not send go to the handler before. The last close() restores that one.
    std::optional<Nanos> slice_warning = 100 * kMillisecond;
    // Kernel threads for lockstep::offload(), 1 .. 1024; begun at first use.
    uint32_t offload_threads = 4;
    // Lets the command line see and steer the open store: `lockstep top`, `stat`, `transactions`,
    // `locks`, `end`, `prepared`, `commit`, `rollback`, `checkpoint`, `backup` and `metrics`. They
    // use the Unix socket `control` in the store's directory, mode 0600, which close() removes. A
    // kernel thread of its own serves it; workers notice it only while they carry out a command. If
    // the socket cannot be made, open() fails (bad_path, io_error). The requests are described in
    // sm/observe/control.h.
    bool control = false;
    // Directory that receives all log before it is recycled (archive.h). It is made if missing, but
    // its parents are not. If it cannot be made or written, the store opens all the same: `logger`
    // gets a warning with the path and the errno, and archive_failure says what follows. With the
    // archive, restore_backup() gives the state of any point. A page that the log cannot rebuild
    // any more is rebuilt from the newest backup that the archive knows: Store::backup() notes
    // there each directory that it has filled. An open without this option breaks the chain, as
    // soon as it recycles log. nullopt: no archive. An empty path is refused.
    std::optional<std::string> archive = {};
    // Takes the archive's files instead. Pages are then not rebuilt from backups.
    ArchiveSink archive_sink = {};
    // Log is archived when its segment is full, and at the latest this long after it was written,
    // 100 ms or more; nullopt: only when its segment is full.
    std::optional<Nanos> archive_interval = 60 * kSecond;
    // Bound on the log that is kept because the archive fails, from log_segment_bytes to half of
    // log_bytes; nullopt: a quarter of log_bytes. What follows then.
    std::optional<uint64_t> archive_backlog_bytes = {};
    ArchiveFailure archive_failure = ArchiveFailure::stop_writers;
    // Teams of threads that run the same operation; see steps_options.h.
    StepsOptions steps = {};
    // The default writes levels 0 and 1 to stderr. Null: silent, and slices are not watched.
    Logger logger = detail::log_to_stderr;
    TestHooks* test_hooks = nullptr;  // null in applications
};

// bad_option naming the first option that is out of range (`what` = its name, a = value given).
Result<void> check_options(const Options& options);
Result<void> check_steps_options(const StepsOptions& options);

}  // namespace lockstep
