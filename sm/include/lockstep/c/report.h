// report.h - of the C interface: columns of indexes, and reports that give them as Arrow streams.
//
// Concepts   A report sees one committed state of the store (<lockstep/report.h>). A scan of it is
//            an ArrowArrayStream: pyarrow, Polars, pandas, DuckDB and others read it without a copy
//            of ours. The three structs are those of the Arrow C data and stream interfaces, and
//            need no library.
// Memory     A stream and each array are released by who has them, in any order and on any thread.
//            They may outlive the report and the store. Then get_next() gives an error, and arrays
//            that were given stay valid.
#ifndef LOCKSTEP_C_REPORT_H
#define LOCKSTEP_C_REPORT_H

#include <lockstep/c/base.h>

// NOLINTBEGIN
#ifdef __cplusplus
extern "C" {
#endif
#ifndef ARROW_C_DATA_INTERFACE
#define ARROW_C_DATA_INTERFACE

#define ARROW_FLAG_DICTIONARY_ORDERED 1
#define ARROW_FLAG_NULLABLE 2
#define ARROW_FLAG_MAP_KEYS_SORTED 4

// The type of an array (https://arrow.apache.org/docs/format/CDataInterface.html).
struct ArrowSchema {
    const char* format;
    const char* name;
    const char* metadata;
    int64_t flags;
    int64_t n_children;
    struct ArrowSchema** children;
    struct ArrowSchema* dictionary;
    // Frees it and its children. NULL: it has been released.
    void (*release)(struct ArrowSchema*);
    void* private_data;  // of release()
};

// The memory of an array.
struct ArrowArray {
    int64_t length;
    int64_t null_count;
    int64_t offset;
    int64_t n_buffers;
    int64_t n_children;
    const void** buffers;
    struct ArrowArray** children;
    struct ArrowArray* dictionary;
    // Frees it and its children. NULL: it has been released.
    void (*release)(struct ArrowArray*);
    void* private_data;  // of release()
};

#endif
#ifndef ARROW_C_STREAM_INTERFACE
#define ARROW_C_STREAM_INTERFACE

// Arrays of one type, one after the other. Calls return 0 or an errno. At the end get_next() gives
// an array whose `release` is NULL.
struct ArrowArrayStream {
    // The type of the arrays.
    int (*get_schema)(struct ArrowArrayStream*, struct ArrowSchema* out);
    // The next array, which the caller releases.
    int (*get_next)(struct ArrowArrayStream*, struct ArrowArray* out);
    // Text of the last error, until the next call; or NULL.
    const char* (*get_last_error)(struct ArrowArrayStream*);
    // Frees it. NULL: it has been released.
    void (*release)(struct ArrowArrayStream*);
    void* private_data;  // of the calls
};

#endif

// Says what the bytes of the records of an index or heap mean (<lockstep/columns.h> has the form of
// the text), in a transaction of its own, or within `txn`. An empty text removes it. Errors:
// LOCKSTEP_NO_SUCH_OBJECT, LOCKSTEP_WRONG_KIND, LOCKSTEP_BAD_ARGUMENT: error->a and error->b are
// line and column of the text.
int lockstep_describe(lockstep_store* store, const char* name, lockstep_slice columns,
                      lockstep_error* error);
int lockstep_describe_in(lockstep_txn* txn, const char* name, lockstep_slice columns,
                         lockstep_error* error);
// The text in its canonical form, as far as it fits into `room` bytes at `buffer`. *bytes is its
// full length. Errors: LOCKSTEP_NO_SUCH_OBJECT, LOCKSTEP_NO_SUCH_RECORD if it is not described.
int lockstep_columns(lockstep_store* store, const char* name, char* buffer, size_t room,
                     size_t* bytes, lockstep_error* error);
int lockstep_columns_in(lockstep_txn* txn, const char* name, char* buffer, size_t room,
                        size_t* bytes, lockstep_error* error);

// One committed state. The handle lives until lockstep_report_close(), or until its store is
// closed: calls return LOCKSTEP_TXN_ENDED then.
typedef struct lockstep_report lockstep_report;

// How a report begins.
typedef struct lockstep_report_options {
    size_t size;
    uint64_t max_age;  // how old the state may be, in nanoseconds; 0: not older than the call
} lockstep_report_options;
// Fills the struct with the defaults and sets its size. NULL does nothing. Never waits.
void lockstep_report_options_init(lockstep_report_options* options, size_t size);

// Begins a report. Reports within `max_age` share a state, and what is read for them. The store
// keeps versions for it until the report is closed and its streams are released. Errors:
// LOCKSTEP_SNAPSHOT_TOO_OLD, LOCKSTEP_TOO_MANY (user threads).
int lockstep_report_begin(lockstep_store* store, const lockstep_report_options* options,
                          lockstep_report** report, lockstep_error* error);
// The end of the log that it sees: transactions whose commit gave a smaller LSN are in it. 0: it is
// no report, or it has ended. Never waits.
uint64_t lockstep_report_sees(lockstep_report* report);
// Ends the scans that the report has begun: get_next() of their streams returns ECANCELED, also
// where a thread waits in it. Any thread; never waits.
int lockstep_report_cancel(lockstep_report* report, lockstep_error* error);
// Ends the report. Its streams go on until they are released. Never waits.
int lockstep_report_close(lockstep_report* report, lockstep_error* error);

// How a condition compares: with one constant, with any of several (in), or the begin of a text.
enum lockstep_compare {
    LOCKSTEP_EQUAL = 0,
    LOCKSTEP_LESS = 1,
    LOCKSTEP_AT_MOST = 2,
    LOCKSTEP_GREATER = 3,
    LOCKSTEP_AT_LEAST = 4,
    LOCKSTEP_IN = 5,
    LOCKSTEP_PREFIX = 6
};
// What a constant is: which field counts.
enum lockstep_constant_kind {
    LOCKSTEP_INTEGER = 0,
    LOCKSTEP_UNSIGNED = 1,
    LOCKSTEP_REAL = 2,
    LOCKSTEP_BYTES = 3
};
// For a decimal or a time, the integer that is stored.
typedef struct lockstep_constant {
    int kind;  // enum lockstep_constant_kind
    int64_t integer;
    uint64_t number;
    double real;
    lockstep_slice bytes;
} lockstep_constant;
// A condition on a column. A row without a value meets none.
typedef struct lockstep_where {
    const char* column;
    int compare;  // enum lockstep_compare
    const lockstep_constant* values;
    size_t count;  // 1, except for LOCKSTEP_IN
} lockstep_where;
// What columns of the type decimal become. WIDE: Arrow's decimal128, which everyone reads, at the
// price of a copy. NARROW: decimal32 and decimal64 without a copy, for those who read them (DuckDB,
// pyarrow). INTEGER: the integer that is stored; "lockstep.scale" in the metadata of the field is
// its decimal places. WIDE and NARROW have 18 digits: more are an error of the scan.
enum lockstep_decimals {
    LOCKSTEP_DECIMALS_WIDE = 0,
    LOCKSTEP_DECIMALS_NARROW = 1,
    LOCKSTEP_DECIMALS_INTEGER = 2
};

// How a pass over an index chooses what it reads next (enum ScanPolicy of <lockstep/report.h>).
enum lockstep_scan_policy {
    LOCKSTEP_SCAN_AUTOMATIC = 0,
    LOCKSTEP_SCAN_NORMAL = 1,
    LOCKSTEP_SCAN_ATTACH = 2,
    LOCKSTEP_SCAN_ELEVATOR = 3,
    LOCKSTEP_SCAN_RELEVANCE = 4,
    LOCKSTEP_SCAN_FULL = 5
};

// What a scan gives. What it points to need live only until the call returns.
typedef struct lockstep_scan_options {
    size_t size;
    const char* const* columns;   // names, in the order of the result
    size_t columns_count;         // 0: all columns
    const lockstep_where* where;  // rows must meet all of them
    size_t where_count;
    bool ordered;  // all rows in the order of their keys
    int decimals;  // enum lockstep_decimals
    int policy;    // enum lockstep_scan_policy, of a pass that this scan begins
} lockstep_scan_options;
// Fills the struct with the defaults and sets its size. NULL does nothing. Never waits.
void lockstep_scan_options_init(lockstep_scan_options* options, size_t size);

// Begins a scan of the index of this name, and sets *stream. Each array is a struct of the columns
// with at most 8192 rows. get_next() waits until a block is made; one thread at a time calls it,
// and any may. lockstep_watch_waits() holds there too: giving up ends the scan. Errors of this
// call: LOCKSTEP_NO_SUCH_OBJECT, LOCKSTEP_WRONG_KIND, LOCKSTEP_NO_SUCH_RECORD (not described),
// LOCKSTEP_BAD_ARGUMENT (a column or condition, which the error names), LOCKSTEP_SNAPSHOT_TOO_OLD.
// Errors of get_next() are those of lockstep::Scan::next(): EINVAL for bad_argument, ECANCELED for
// cancelled, ENOMEM for out_of_memory, the system's errno if it was one, else EIO. The text of
// get_last_error() begins with the name of the error.
int lockstep_report_scan(lockstep_report* report, const char* index,
                         const lockstep_scan_options* options, struct ArrowArrayStream* stream,
                         lockstep_error* error);

// The counters of lockstep_report_stats in their order: X(name) for each. For bindings.
// clang-format off
#define LOCKSTEP_REPORT_COUNTERS(X) \
    X(reports) X(states) X(scans) X(made) X(made_again) X(shared) X(rows) X(bytes) X(busy_nanos) \
    X(reports_open) X(scans_open) X(passes_open) X(state_oldest_nanos) X(kept_bytes) X(behind_max)
// clang-format on
// What the reports of a store have done and do: the plain numbers of lockstep::ReportStats, most of
// them since the store was opened, each a uint64_t.
typedef struct lockstep_report_stats {
    size_t size;
#define LOCKSTEP_COUNTER(name) uint64_t name;
    LOCKSTEP_REPORT_COUNTERS(LOCKSTEP_COUNTER)
#undef LOCKSTEP_COUNTER
} lockstep_report_stats;
// Copies them. Set stats->size before. Never waits.
int lockstep_get_report_stats(lockstep_store* store, lockstep_report_stats* stats,
                              lockstep_error* error);
// A report that is open: lockstep::ReportProgress.
typedef struct lockstep_report_progress {
    size_t size;
    uint64_t number, sees, age_nanos;
    uint32_t scans, ran;  // that it has begun; of these, those that have ended
    double progress;      // share of the key ranges of these scans that were read, 0..1
    uint64_t behind;      // key ranges that others have got and its slowest scan has not
} lockstep_report_progress;
// Calls each(arg, report) for the reports that are open, in the order in which they began, until it
// returns false.
int lockstep_reports(lockstep_store* store,
                     bool (*each)(void* arg, const lockstep_report_progress* report), void* arg,
                     lockstep_error* error);

#ifdef __cplusplus
}
#endif
// NOLINTEND
#endif
