// options.h - of the C interface: options of a store, of STEPS and of transactions. Field for field
// those of <lockstep/options.h>, <lockstep/steps_options.h> and <lockstep/txn_options.h>, which say
// what they mean.
#ifndef LOCKSTEP_C_OPTIONS_H
#define LOCKSTEP_C_OPTIONS_H

#include <lockstep/c/base.h>

// NOLINTBEGIN
#ifdef __cplusplus
extern "C" {
#endif
// Which parts of STEPS are on.
enum lockstep_steps_mode {
    LOCKSTEP_STEPS_OFF = 0,
    LOCKSTEP_STEPS_ON = 1,
    LOCKSTEP_STEPS_GROUPING = 2,
    LOCKSTEP_STEPS_PREFETCH = 3,
    LOCKSTEP_STEPS_CTX_ONLY = 4,
    LOCKSTEP_STEPS_FASTCTX = 5,
    LOCKSTEP_STEPS_CTX = 6
};

// Which waiting list of threads makes the next team.
enum lockstep_team_policy {
    LOCKSTEP_TEAM_LAST_LEAVER = 0,
    LOCKSTEP_TEAM_LARGEST = 1,
    LOCKSTEP_TEAM_OLDEST = 2
};
// How many threads of a list make a team.
enum lockstep_team_gate {
    LOCKSTEP_TEAM_T_GATED = 0,
    LOCKSTEP_TEAM_D_GATED = 1,
    LOCKSTEP_TEAM_C_GATED = 2
};

// How threads are grouped into teams.
typedef struct lockstep_steps_options {
    size_t size;
    int mode;  // enum lockstep_steps_mode
    uint32_t team_max;
    int policy;  // enum lockstep_team_policy
    int gate;    // enum lockstep_team_gate
    uint32_t rounds_max;
    uint32_t points;
    uint32_t window_records;
    bool float_state;
    bool ignore_latches;
} lockstep_steps_options;

// Takes a line of the store's log; level 0 error, 1 warning, 2 information. Called on any of the
// store's kernel threads, also after lockstep_open() has returned and until lockstep_close()
// returns. It must not call the store. `text` is not NUL-terminated.
typedef void (*lockstep_logger)(void* arg, int level, const char* text, size_t bytes);

// Takes the files of the log archive: `bytes` belong into `file` at `offset`, in the order that
// <lockstep/archive.h> states. A result that is not 0 is tried again after a second. It runs on a
// user thread of the store and must not block; lockstep_offload() does what blocks. It may be
// called until lockstep_close() returns.
typedef int (*lockstep_archive_sink)(void* arg, const char* file, uint64_t offset,
                                     lockstep_slice bytes);

// The order of packets that wait for a thread.
enum lockstep_packet_policy { LOCKSTEP_PACKETS_FIFO = 0, LOCKSTEP_PACKETS_PRIORITY = 1 };
// The order of requests that wait for a lock.
enum lockstep_lock_policy {
    LOCKSTEP_LOCKS_FIFO = 0,
    LOCKSTEP_LOCKS_SHORT_FIRST = 1,
    LOCKSTEP_LOCKS_PRIORITY = 2,
    LOCKSTEP_LOCKS_LOCAL_FIRST = 3
};
// How files are read and written.
enum lockstep_io { LOCKSTEP_IO_AUTOMATIC = 0, LOCKSTEP_IO_URING = 1, LOCKSTEP_IO_POOL = 2 };
// What follows when the log archive has failed for long.
enum lockstep_archive_failure { LOCKSTEP_ARCHIVE_STOPS_WRITERS = 0, LOCKSTEP_ARCHIVE_GOES_ON = 1 };

// How a store runs. Times are in nanoseconds. What <lockstep/options.h> leaves out as nullopt is
// here LOCKSTEP_NEVER for a time, LOCKSTEP_DERIVED for a number of bytes, and NULL for the archive.
typedef struct lockstep_options {
    size_t size;
    bool create;
    bool read_only;
    bool pin_workers;
    bool sync;
    bool control;
    uint32_t workers;
    uint64_t pool_bytes;
    uint32_t stack_bytes;
    uint32_t transactions_max;
    uint32_t user_threads_max;
    uint32_t executors;
    uint64_t packets_max;
    int packet_policy;  // enum lockstep_packet_policy
    int lock_policy;    // enum lockstep_lock_policy
    uint32_t lock_bypass_max;
    int io;                        // enum lockstep_io
    uint64_t transaction_age_max;  // LOCKSTEP_NEVER
    uint64_t log_bytes;
    uint64_t log_segment_bytes;  // LOCKSTEP_DERIVED
    uint64_t log_ring_bytes;     // LOCKSTEP_DERIVED
    uint64_t lazy_flush_interval;
    uint64_t checkpoint_log_bytes;  // LOCKSTEP_DERIVED
    uint64_t lock_timeout;
    uint32_t lock_table_bytes_log2;
    uint32_t escalate_at;    // LOCKSTEP_NO_ESCALATION
    uint64_t version_bytes;  // LOCKSTEP_DERIVED
    uint32_t retries_max;
    uint32_t offload_threads;
    uint64_t slice_warning;  // LOCKSTEP_NEVER
    // NULL: levels 0 and 1 go to stderr. A function that does nothing silences them.
    lockstep_logger logger;
    void* logger_arg;
    const lockstep_steps_options* steps;  // NULL: off; need live only until the call returns
    // Directory of the log archive; NULL: no archive. lockstep_open() copies it;
    // lockstep_get_options() gives a text that lives until lockstep_close().
    const char* archive;
    lockstep_archive_sink archive_sink;  // instead of the directory; NULL: none
    void* archive_sink_arg;
    uint64_t archive_interval;       // LOCKSTEP_NEVER
    uint64_t archive_backlog_bytes;  // LOCKSTEP_DERIVED
    int archive_failure;             // enum lockstep_archive_failure
    uint32_t file_mode;              // permissions of the files of a new store: 0600
    // Of reports: bytes of blocks that are kept, the share of a worker that a pass takes while
    // others have work, and workers of their own.
    uint64_t scan_bytes;
    double scan_share;
    uint32_t scan_workers;
    uint64_t changes_log_bytes;  // log that is kept for change feeds
} lockstep_options;

// What a transaction may see; lockstep_txn_options::isolation.
enum lockstep_isolation {
    LOCKSTEP_SERIALIZABLE = 0,
    LOCKSTEP_REPEATABLE_READ = 1,
    LOCKSTEP_READ_COMMITTED = 2,
    LOCKSTEP_SNAPSHOT = 3
};
// When a commit returns: the log is on disk, or will be soon.
enum lockstep_durability { LOCKSTEP_DURABLE = 0, LOCKSTEP_LAZY = 1 };

// What a deadlock victim leaves to its repetition: lockstep_txn_retry() makes it, and
// lockstep_txn_options::retry takes it (struct Retry of <lockstep/txn_options.h>). All zero: a
// first attempt.
typedef struct lockstep_retry {
    uint64_t first;
    uint32_t deadlocks;
    uint32_t object;
    uint64_t lock;
} lockstep_retry;
// How a transaction runs.
typedef struct lockstep_txn_options {
    size_t size;
    int isolation;   // enum lockstep_isolation
    int durability;  // enum lockstep_durability
    bool read_only;
    uint32_t operations;
    // Larger comes first: among waiting requests for a lock, with LOCKSTEP_LOCKS_PRIORITY; and, up
    // to 3, among whole transactions that wait for a thread (lockstep_submit()).
    uint32_t priority;
    uint64_t lock_timeout;  // nanoseconds; LOCKSTEP_NEVER: that of the store
    lockstep_retry retry;
} lockstep_txn_options;

// Fill the struct with the defaults and set its size; `size` is sizeof(*options). NULL does
// nothing. Where a call takes a pointer to such a struct, NULL means the defaults. Never wait.
void lockstep_options_init(lockstep_options* options, size_t size);
void lockstep_steps_options_init(lockstep_steps_options* options, size_t size);
void lockstep_txn_options_init(lockstep_txn_options* options, size_t size);

// CTX points for lockstep_steps_options::points from their names. Error: LOCKSTEP_BAD_OPTION. Never
// waits.
int lockstep_ctx_points(const char* text, uint32_t* points, lockstep_error* error);

#ifdef __cplusplus
}
#endif
// NOLINTEND
#endif
