// store.h - an open store: open, close, transactions, indexes and heaps, statistics.
//
// Concepts   A store is a directory. Inside run() and spawn() everything that waits (lock, page,
//            log) suspends the user thread, never its kernel thread. From main() run() blocks the
//            calling kernel thread until the transaction has ended.
// fork()     The child has a copy of the store without its kernel threads. There every call returns
//            the error forked, list() and the statistics are empty, and destructors do nothing; the
//            files stay the parent's. The child may open other stores, but not this one while the
//            parent has it open. A function that forks on a user thread must not return in the
//            child: end the child there with exec() or _exit(). The files are close-on-exec.
// Exit       The process lives as long as a store is open, because its kernel threads do: after a
//            main() that leaves by pthread_exit() it ends with the last close(). A main() that
//            returns ends it at once, and the next open recovers the store.
// Blocking   Said at each call. Callbacks must not block their kernel thread (no sleep, no kernel
//            mutex, no blocking read): all user threads of the worker would stop. Use sleep_for(),
//            sync.h, timer.h and fd.h, which suspend; offload.h for what blocks; and yield() in
//            long computations. Options::slice_warning finds callbacks that break this rule.
// Exceptions An exception that leaves the function of run(), spawn() or start() rolls its
//            transaction back and comes out of run() or Handle::join(). Out of any other function
//            that the store calls it ends the process (std::terminate): a key function, a callback
//            of then() or modify(), a logger, Packet::run(). Do not suspend inside a catch block.
//            The C++ runtime keeps the exceptions in handlers by kernel thread, and user threads
//            share one.
#pragma once

#include <optional>
#include <type_traits>
#include <vector>

#include <lockstep/backup.h>
#include <lockstep/c/version.h>  // keep: for the application
#include <lockstep/function_ref.h>
#include <lockstep/handle.h>
#include <lockstep/heap.h>
#include <lockstep/index.h>
#include <lockstep/key.h>
#include <lockstep/options.h>
#include <lockstep/owned.h>
#include <lockstep/packet.h>
#include <lockstep/prepared.h>
#include <lockstep/secondary.h>
#include <lockstep/stats.h>
#include <lockstep/store_failure.h>
#include <lockstep/thrown.h>
#include <lockstep/transaction_info.h>

namespace lockstep {

class ChangeFeed;      // changes.h
struct ChangePoint;    // changes.h
class Columns;         // columns.h
class Report;          // report.h
struct ReportOptions;  // report.h
struct ReportStats;    // report.h
namespace sm {
struct StoreAccess;
}

namespace detail {
template <class R>
struct ValueOf {
    static_assert(is_result<R>,
                  "the function must return lockstep::Result<T>; give a lambda its return type: "
                  "[&](lockstep::Txn& txn) -> lockstep::Result<void> { ... }");
    using type = void;
};
template <class T>
struct ValueOf<Result<T>> {
    using type = T;
};
template <class F, class... A>
using value_of = typename ValueOf<std::remove_cv_t<std::invoke_result_t<F, A...>>>::type;
}  // namespace detail

// A store that is open in this process. Movable. Several stores may be open at once. Calls are safe
// from any kernel thread unless they say otherwise, also while another thread closes the store. A
// Store is moved, assigned to or destroyed while no other thread uses it, as any object.
class Store {
public:
    // Opens the store in directory `path`; makes it unless options.create is false; recovers it if
    // it was not closed. A complete backup (backup.h) becomes a store. Blocks the calling kernel
    // thread. Errors: bad_path, bad_option, bad_version, bad_backup (one that is incomplete or
    // incremental), corrupt_superblock, corrupt_log, store_locked, io_error, no_space,
    // out_of_memory; not_closed with Options::read_only.
    //
    // The path ":memory:" makes a new store in memory, which is gone when it is closed. All calls
    // work on it, backups and archives too, but Options::control. Commits wait for nothing. It
    // takes memory for its data file and up to Options::log_bytes of log, which rollbacks need,
    // beside the pool. A full memory is no_space. Each open makes another store.
    static Result<Store> open(std::string_view path, const Options& options = {});
    Store(Store&&) noexcept;
    Store& operator=(Store&&) noexcept;
    // close(); its error is lost. On a user thread of the store, or in its offload(), it would wait
    // for itself: there it ends the process with a text, and so does an assignment.
    ~Store();
    // Waits for running transactions and user threads, and for packets, which all run: also those
    // that wait for a time, at once. Writes everything, marks the store clean. While functions of
    // the application keep it waiting, Options::logger gets a warning after a second, and again
    // after ever longer pauses. Calls that other threads are inside are waited for as well; later
    // ones return store_closed. Blocks. A second call does nothing but wait for the first, and
    // returns what that returned. What stops the store while it closes is an error, too. Errors:
    // wrong_thread on a user thread of the store and in its offload(), store_failed, io_error,
    // no_space.
    Result<void> close();

    // Runs fn(Txn&) -> Result<T> as a transaction: commits if it returns a value, rolls back if it
    // returns an error, which run() then returns. A deadlock victim is run again, and so is a
    // transaction below Options::log_bytes / 8 that got log_full because of others; at most
    // Options::retries_max times. So fn may run several times. A repetition waits, suspended, until
    // the transaction that defeated it has ended, and keeps the age of its first attempt: it wins
    // against first attempts and younger ones. So a few attempts are enough. No other error is
    // repeated: a lock_timeout has already waited as long as the caller allowed. On a user thread
    // of the store fn runs there; else run() blocks the calling kernel thread. If fn ends txn
    // itself, run() only returns what fn returns. If fn throws, run() rolls back and throws the
    // same. An fn that refuses for a reason of its own returns Error::user(code, text), which comes
    // out unchanged: the store never makes such an error. Errors:
    // fn's, begin()'s, commit's, store_closed,
    // bad_argument (txn moved). run() inside fn is a transaction of its own. It sees nothing that
    // the outer one has not committed, and its commit stays if the outer one rolls back. If it
    // needs a lock of the outer one, the wait would never end: it gets self_deadlock at once. Pass
    // the outer Txn on instead.
    template <class F>
    auto run(F&& fn, const TxnOptions& options = {}) -> Result<detail::value_of<F&, Txn&>> {
        if (!engine_) return fail(ErrorCode::store_closed, "store");
        return run_on(*engine_, fn, options);
    }
    // The same on a user thread of the store, as a packet (packet.h). Never blocks. `worker`:
    // number of the kernel thread, 0..Options::workers - 1, or kAnyWorker. `fn` is moved into the
    // packet. Errors come through the handle (handle.h): run()'s and start()'s.
    template <class F>
    auto spawn(F fn, const TxnOptions& options = {}, int worker = kAnyWorker)
        -> Handle<detail::value_of<F&, Txn&>> {
        return start([engine = engine_.get(), fn = std::move(fn),
                      options]() mutable { return run_on(*engine, fn, options); },
                     worker);
    }
    // Runs fn() -> Result<T> on a user thread without a transaction; run() and begin() inside it
    // use that thread. The function waits as a packet (packet.h), without a stack, until its worker
    // admits it: Options::executors. `worker` as for spawn(). Never blocks. Errors, which
    // Handle::started() tells at once: bad_argument (no such worker), store_closed, forked;
    // too_many if Options::user_threads_max functions have begun and not ended, or
    // Options::packets_max wait on the worker; out_of_memory if there was no stack for an earlier
    // one and still is none, with the limit to raise.
    template <class F>
    auto start(F fn, int worker = kAnyWorker) -> Handle<detail::value_of<F&>>;
    // Workers take turns.
    static constexpr int kAnyWorker = -1;
    // Enqueues a packet of the caller (packet.h), which must live until its run() begins or
    // withdraw() returns true. Any kernel thread, also from the packet's own run() as its last act:
    // it may then run again before submit() returns. Never blocks, allocates nothing. Errors:
    // bad_argument (priority, worker below -1), and start()'s; the packet then does not wait.
    Result<void> submit(Packet& packet, const PacketOptions& options = {});
    // Takes a packet back that waits. True: it will not run, and the caller may destroy it or
    // submit it again. False: it has begun, or does not wait. Any kernel thread; never blocks. Only
    // for a packet that lives, and that this store was given before.
    bool withdraw(Packet& packet);

    // Begins a transaction that the caller ends and repeats itself (TxnOptions::retry). Suspends
    // the user thread while Options::transactions_max are active or the log is scarce
    // (Options::log_bytes). A snapshot after half a second without one also reads what live writers
    // have changed. Errors: wrong_thread outside the store's user threads, store_closed,
    // store_failed, out_of_memory; of a snapshot also snapshot_too_old (Options::version_bytes),
    // and those of reading.
    Result<Txn> begin(const TxnOptions& options = {});

    // Makes an empty index within `txn`; others see it when `txn` commits. A name has 1..128 bytes
    // and no zero byte. Suspends; waits for another transaction that creates or drops this name.
    // Errors: already_exists, bad_argument, and those of index.h.
    Result<Index> create_index(Txn& txn, std::string_view name);
    // Makes a secondary index (secondary.h) and fills it from the records that exist. Locks the
    // primary against changes by others until `txn` ends, and so waits for transactions that have
    // changed it. Many records are read by this user thread; the kernel threads of oneTBB compute
    // and sort the entries. Errors: already_exists, bad_argument (a field of `options`, which the
    // error names), duplicate_key and key_too_long (they name the record), no_space or io_error
    // (files for sorting), and those of index.h.
    Result<Index> create_index(Txn& txn, std::string_view name, const SecondaryOptions& options);
    // The same for a heap. Indexes and heaps share one space of names.
    Result<Heap> create_heap(Txn& txn, std::string_view name);
    // Opens the index of this name as `txn` sees it, or makes an empty one if the name is free. Of
    // several transactions that do so at once, one makes it; the others wait until that one ends.
    // If it commits they open its index, if it rolls back the next of them makes one. A rollback of
    // `txn`, also to an earlier savepoint, takes away what it made; when `txn` has ended, calls
    // through such a handle return no_such_object. Errors: wrong_kind (the name is a heap's),
    // bad_argument, read_only, and those of index.h.
    Result<Index> open_or_create_index(Txn& txn, std::string_view name);
    // Opens the secondary index of this name and attaches options.key, or makes it as
    // create_index() does. Errors: wrong_kind (the name is a heap's, or that of an index that is
    // not secondary), bad_argument (it is of another primary, or unique differs), and those of
    // create_index().
    Result<Index> open_or_create_index(Txn& txn, std::string_view name,
                                       const SecondaryOptions& options);
    // The same for a heap.
    Result<Heap> open_or_create_heap(Txn& txn, std::string_view name);
    // Gives the committed secondary index `name` its key function, after an open. The function must
    // be the one that the index was made with; verify() finds out. A later one replaces it. Never
    // blocks. Errors: no_such_object, wrong_kind (the index is not secondary), bad_argument (empty
    // function).
    Result<void> attach_key(std::string_view name, KeyFunction key);
    // Removes an index or heap when `txn` commits; its space is free again some time after. With an
    // index its secondary indexes go. Takes its X lock, so it suspends. Open snapshots then get
    // no_such_object. Errors: no_such_object, and those of index.h.
    Result<void> drop(Txn& txn, std::string_view name);
    // Finds a committed index by name; index(txn, name) also sees what `txn` has made itself. The
    // first call for an object reads its root page: that suspends a user thread and blocks any
    // other. Errors: no_such_object, wrong_kind, io_error, corrupt_page.
    Result<Index> index(std::string_view name);
    // The same for a heap.
    Result<Heap> heap(std::string_view name);
    // Finds an index as `txn` sees the name: with what it has made, without what it has dropped.
    // Locks the name for reading, as get() locks a key. So it waits for another transaction that
    // has made or dropped the name, until that one ends. Except at read_committed the answer then
    // holds until `txn` ends. Suspends. Errors: no_such_object, wrong_kind, bad_argument (such a
    // name is impossible), and those of index.h.
    Result<Index> index(Txn& txn, std::string_view name);
    // The same for a heap.
    Result<Heap> heap(Txn& txn, std::string_view name);
    // Says what the bytes of the records of an index or heap mean (columns.h), within `txn`. The
    // text replaces an earlier one; an empty one removes it. It is kept in the index
    // "lockstep.columns" under the object's name, and goes when the object is dropped. Records are
    // not read. Suspends. Errors: no_such_object, wrong_kind (a secondary index), bad_argument (the
    // text, with its line and column; an id of an index, or a key of a heap), and those of index.h.
    Result<void> describe(Txn& txn, std::string_view name, std::string_view columns);
    // The same in a transaction of its own. Suspends a user thread, blocks any other.
    Result<void> describe(std::string_view name, std::string_view columns);
    // What describe() said, as `txn` sees it. Errors: no_such_object, no_such_record (the object is
    // not described), and those of describe().
    Result<Columns> columns(Txn& txn, std::string_view name);
    // The same in a transaction of its own. Suspends a user thread, blocks any other.
    Result<Columns> columns(std::string_view name);
    // Begins a report: reads of whole indexes as columns, at one committed state (report.h).
    // Suspends a user thread, blocks any other, until a user thread of the store has a snapshot.
    // Errors: those of begin() for a snapshot, too_many (user threads), store_closed, forked.
    Result<Report> report(const ReportOptions& options);
    Result<Report> report();  // of a state that is not older than the call
    // What reports have done since the store was opened. Zeros if the store is closed. Never
    // blocks.
    ReportStats report_stats() const;
    // Begins to read the committed changes of the store (changes.h). `from`: a position that a feed
    // had, kChangesFromOldest, or empty: from now on. After a restart it reads the log from there
    // on once. Suspends a user thread, blocks any other. Errors: bad_argument (the text is no
    // position of this store), changes_lost, corrupt_log, io_error, store_closed, forked.
    Result<ChangeFeed> changes(std::string_view from = {});
    // Where a feed goes on behind what `snapshot` sees, a transaction of Isolation::snapshot. Never
    // blocks. Errors: bad_argument (it is of another isolation), and those of index.h.
    Result<ChangePoint> changes_point(const Txn& snapshot);
    // A row of list().
    struct Entry {
        std::string name;  // 1..128 bytes
        bool is_index;     // false: a heap
        ObjectId id;       // its number
        ObjectId of = {};  // a secondary index: the number of its primary; else 0
    };
    // All committed indexes and heaps by name. Never blocks.
    std::vector<Entry> list();

    // Fills an empty index from pairs in strictly ascending key order, faster than inserts. `next`
    // sets key and value and returns true, or returns false at the end; it owns the bytes until its
    // next call. It must not end or roll back `txn`: bad_argument there. Pages are filled to
    // `fill_percent` (50..100). Takes the index's X lock; suspends.
    // Errors: bad_argument if the index is not empty, a key does not ascend or the percentage is
    // out of range; and those of index.h. An erased record counts until it is cleaned away.
    Result<void> bulk_load(Txn& txn, Index index, FunctionRef<bool(Slice& key, Slice& value)> next,
                           uint32_t fill_percent = 90);

    // Waits until everything up to `point` (from Txn::commit) is on disk. Suspends a user thread,
    // blocks any other. Errors: store_failed, store_closed.
    Result<void> wait_durable(Lsn point);
    // Writes all dirty pages and recycles the log before them. Suspends a user thread, blocks any
    // other. Errors: io_error, no_space, store_failed, store_closed, read_only.
    Result<void> checkpoint();
    // Copies the running store to `directory`, which is made, or empty. Transactions and
    // checkpoints go on. The result is the state at BackupInfo::lsn; backup.h says how it is used.
    // Each page and log record is checked on its way: a damaged page is repaired from the log, or
    // the error names it. The store keeps log only until the backup has copied it. An error leaves
    // the directory empty. What is left after a crash is no complete backup, and open() says so.
    // Suspends a user thread, blocks any other; close() ends it. Errors: bad_path (also if the
    // directory is not empty), bad_backup (BackupOptions::since does not fit), corrupt_page,
    // lost_write, corrupt_log, io_error, no_space, store_failed, store_closed, read_only, too_many.
    Result<BackupInfo> backup(std::string_view directory, const BackupOptions& options = {});
    // The same to a function, which may send the bytes elsewhere (BackupSink). Errors: those of the
    // function as well.
    Result<BackupInfo> backup(BackupSink sink, const BackupOptions& options = {});
    // Cuts the free pages off the end of the data file, while transactions run; the bytes that the
    // file system got back. Free pages before a page in use stay for new records. 0 also if the
    // store has grown meanwhile. Takes two checkpoints; suspends a user thread, blocks any other.
    // One call at a time. Errors: those of checkpoint(), corrupt_page.
    Result<uint64_t> give_back_space();
    // Checks every page and every structure; no transaction may be active. One may be in doubt; a
    // secondary index of records that it has changed is then the error lock_timeout, after at most
    // a second. Each fault as a line of text; empty if the store is sound. Suspends or blocks;
    // reads the whole volume. Each secondary index must have exactly the entries of its primary's
    // records. Without a key function only the entries are checked: each must have a record.
    // Options::logger is told so, at level 2. `threads` user threads share the work, at most one on
    // each worker. Errors: bad_argument (no thread), and those of index.h.
    Result<std::vector<std::string>> verify(uint32_t threads = 1);

    // What stopped the store: which operation failed on which file with which errno. Empty while
    // the store works. Each store_failed error repeats the operation and the errno, and
    // Options::logger gets the text once, at level 0. Still says it after close(). Any kernel
    // thread; never blocks.
    std::optional<StoreFailure> failure() const;

    // All transactions that have begun and not ended, by id. Each worker reports its own, so it
    // waits for a turn of every worker; a callback that blocks its kernel thread delays it.
    // Suspends a user thread, blocks any other. Empty if the store is closed.
    std::vector<TransactionInfo> transactions();
    // Ends a transaction of whatever thread. It is marked: its next call returns ended_by_operator,
    // after which it can only be rolled back. A wait for a lock ends with the same error. If its
    // thread waits outside the store's calls, or has ended, the transaction is rolled back at once,
    // and its locks and log space are free. Such waits are sleep_for(), yield(), join(), and those
    // of sync.h, timer.h, fd.h and offload.h. Otherwise that happens when its thread calls or waits
    // next: code that computes without a call cannot be interrupted. What a function waits for that
    // a call of the store has called is a wait inside that call. The exception is the function of
    // modify() and modify_many(), which then return the reason. Suspends a user thread, blocks
    // any other, until the mark is set. Errors: txn_ended if there is no such transaction or it
    // commits already, bad_argument for one of the store's own and for one in doubt
    // (rollback_prepared()), store_closed, forked, out_of_memory.
    Result<void> end_transaction(TxnId id);

    // All transactions in doubt, the oldest first (prepared.h). Also those that were prepared
    // before a restart: open() gives them their locks back. Empty if the store is closed. Never
    // blocks.
    std::vector<PreparedInfo> prepared();
    // The second phase of two-phase commit: commits the transaction that is prepared as `gid`, of
    // whatever thread. False: none is in doubt under that name. It was ended by an earlier call, or
    // never prepared here; the caller knows which, because it commits only what has voted. So a
    // coordinator may repeat the call until it returns. Durable when it returns. Suspends a user
    // thread, blocks any other. Errors: store_closed (it stays in doubt), store_failed (the next
    // open finds out), out_of_memory, forked.
    Result<bool> commit_prepared(Slice gid);
    // The same with a rollback. False also means that a prepare of this name did not become durable
    // before a crash: presumed abort. A rollback need not be durable; after a crash the transaction
    // may be in doubt once more. Errors: those of commit_prepared() and of Txn::abort().
    Result<bool> rollback_prepared(Slice gid);

    // A snapshot of all counters since the store was opened. Never blocks.
    StoreStats stats() const;
    // Counters of the teams, summed over workers; empty if STEPS was never on. Exact only while
    // nothing runs. Never blocks.
    StepsStats steps_stats() const;
    // Both of them as text in the format of Prometheus (version 0.0.4), UTF-8. An HTTP server gives
    // it to a scraper with the type "text/plain; version=0.0.4; charset=utf-8". Names begin with
    // lockstep_, times are in seconds and sizes in bytes; the HELP lines say how to read each
    // metric. Empty if the store is closed, and in the child of a fork(). Allocates about 40 KB.
    // Never blocks.
    std::string metrics() const;
    // Switches teams and CTX points while transactions run, and clears steps_stats(). Blocks until
    // all workers have switched. Errors: bad_option; wrong_thread on a user thread of the store;
    // those of start().
    Result<void> set_steps(const StepsOptions& options);
    // The options as given to open(), with what an existing store fixes. They never change:
    // set_steps() leaves Options::steps as it was. Valid while the store is open. Never blocks.
    const Options& options() const;
    // What set_steps() chose last, at first Options::steps. The default if the store is closed, and
    // in the child of a fork(). Any kernel thread; never blocks.
    StepsOptions steps_options() const;

private:
    friend struct sm::StoreAccess;
    explicit Store(detail::Owned<sm::Engine> engine);
    Result<void> forget_columns(Txn& txn, std::string_view name);
    static void serve_reports(sm::Engine& engine);
    using Body = FunctionRef<Result<void>(Txn&)>;
    static Result<void> run_body(sm::Engine& engine, Body body, const TxnOptions& options);
    template <class F>
    static auto run_on(sm::Engine& engine, F& fn, const TxnOptions& options)
        -> Result<detail::value_of<F&, Txn&>> {
        using T = detail::value_of<F&, Txn&>;
        detail::Thrown thrown;
        const auto run = [&](auto&& call) {
            const auto guarded = [&](Txn& txn) { return thrown.call([&] { return call(txn); }); };
            const Result<void> done = run_body(engine, guarded, options);
            if (!done && detail::Thrown::is_exception(done.error())) thrown.rethrow();
            return done;
        };
        if constexpr (std::is_void_v<T>) {
            return run([&](Txn& txn) -> Result<void> { return fn(txn); });
        } else {
            std::optional<T> value;
            LOCKSTEP_TRY(run([&](Txn& txn) -> Result<void> {
                value.emplace(LOCKSTEP_TRY(fn(txn)));
                return {};
            }));
            return std::move(*value);
        }
    }
    Result<void> start_thread(detail::Owned<detail::Job> job, int worker);
    void let_go();

    detail::Owned<sm::Engine> engine_;
};

// Lets other ready user threads of the worker run first; on a foreign kernel thread, sched_yield().
void yield();
// Suspends the user thread for `time` nanoseconds at least; blocks a foreign kernel thread. kNever:
// for ever.
void sleep_for(Nanos time);
// Nanoseconds of the store's clock on a user thread, of CLOCK_MONOTONIC on a foreign kernel thread.
// The two are the same, unless a test gave the store a clock. Never blocks.
Nanos now();

}  // namespace lockstep

#include <lockstep/store_inl.h>
