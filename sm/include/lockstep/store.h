// store.h - an open store: open and close, run transactions on user threads, create and find
// indexes and heaps, statistics.
//
// Concepts   A store is a directory. Inside run() and spawn() everything that waits (lock, page,
//            log) suspends the user thread, never its kernel thread. From main() run() blocks the
//            calling kernel thread until the transaction has ended.
// Blocking   Said at each call. Callbacks must not block their kernel thread (no sleep, no mutex
//            held for long): use lockstep::sleep_for.
#pragma once

#include <functional>
#include <memory>
#include <type_traits>
#include <vector>

#include <lockstep/heap.h>
#include <lockstep/index.h>
#include <lockstep/key.h>
#include <lockstep/options.h>
#include <lockstep/stats.h>

namespace lockstep {

namespace threads {
class Completion;
}
namespace sm {
struct StoreAccess;
}

namespace detail {
// End of a started user thread, shared with its handle. wait() suspends a user thread and blocks
// any other.
class Task {
public:
    Task();
    ~Task();
    void finish();
    void wait();

private:
    std::unique_ptr<threads::Completion> done_;
};
template <class F, class... A>
using value_of = typename std::invoke_result_t<F, A...>::value_type;
}  // namespace detail

// Result of something started on a user thread. join() waits (a user thread is suspended, a kernel
// thread blocked) and gives the value, once.
template <class T>
class Handle {
public:
    Result<T> join();

private:
    friend class Store;
    struct State;
    std::shared_ptr<State> state_;
};

class Store {
public:
    // Opens the store in directory `path`, making it unless options.create is false, and recovers
    // it if it was not closed. Blocks. Errors: bad_path, bad_option, bad_version,
    // corrupt_superblock, corrupt_log, store_locked, io_error, no_space, out_of_memory.
    static Result<Store> open(std::string_view path, const Options& options = {});
    Store(Store&&) noexcept;
    Store& operator=(Store&&) noexcept;
    ~Store();  // close()
    // Waits for running transactions and user threads, writes everything, marks the store clean.
    // Call from a kernel thread that is none of the store's.
    Result<void> close();

    // Runs fn(Txn&) -> Result<T> as a transaction: commits if it returns a value, rolls back if it
    // returns an error. A deadlock victim is run again, at most options.retries_max times. fn may
    // therefore run several times.
    template <class F>
    auto run(F&& fn, const TxnOptions& options = {}) -> Result<detail::value_of<F&, Txn&>> {
        if (!engine_) return fail(ErrorCode::store_closed, "store");
        return run_on(*engine_, fn, options);
    }
    // The same on a user thread of its own; returns at once. worker: 0-based, or any.
    template <class F>
    auto spawn(F fn, const TxnOptions& options = {}, int worker = kAnyWorker)
        -> Handle<detail::value_of<F&, Txn&>> {
        return start([engine = engine_.get(), fn = std::move(fn),
                      options]() mutable { return run_on(*engine, fn, options); },
                     worker);
    }
    // Starts fn() -> Result<T> on a user thread that is no transaction; within, run() and begin()
    // run on that thread.
    template <class F>
    auto start(F fn, int worker = kAnyWorker) -> Handle<detail::value_of<F&>>;
    static constexpr int kAnyWorker = -1;

    // For code that runs on one of the store's user threads and wants to handle retries itself
    // (wrong_thread elsewhere). Parks for a place among the transactions under way and for room in
    // the log. Errors: also store_closed, store_failed, out_of_memory (the reserve is used up).
    Result<Txn> begin(const TxnOptions& options = {});

    // Within a transaction; the new object is visible to others when it commits. already_exists,
    // bad_argument (name 1..128 bytes).
    Result<Index> create_index(Txn& txn, std::string_view name);
    Result<Heap> create_heap(Txn& txn, std::string_view name);
    // Index or heap; space is free again some time after commit.
    Result<void> drop(Txn& txn, std::string_view name);
    // no_such_object; wrong_kind.
    Result<Index> index(std::string_view name);
    Result<Heap> heap(std::string_view name);
    struct Entry {
        std::string name;
        bool is_index;
        ObjectId id;
    };
    std::vector<Entry> list();

    // Fills an empty index (erased records count until they are cleaned away) from pairs in
    // strictly ascending key order, much faster than inserts: `next` sets key and value and returns
    // true, or returns false at the end. Takes the index's X lock. bad_argument if the index is not
    // empty or a key does not ascend.
    Result<void> bulk_load(Txn& txn, Index index,
                           std::move_only_function<bool(Slice& key, Slice& value)> next,
                           uint32_t fill_percent = 90);

    // Suspends (or blocks) until everything up to `point` (from Txn::commit) is on disk.
    Result<void> wait_durable(Lsn point);
    // Writes what is dirty and recycles log. Suspends or blocks.
    Result<void> checkpoint();
    // Checks every page and structure; the store must be quiet. Faults as text, empty = sound.
    Result<std::vector<std::string>> verify();

    StoreStats stats() const;
    // Figures of the teams, summed over workers; empty if STEPS was never on. Exact only while
    // nothing runs.
    StepsStats steps_stats() const;
    // Switches teams and CTX points on and off while transactions run; returns when all workers
    // have. Errors: bad_option, wrong_thread (on a user thread of the store).
    Result<void> set_steps(const StepsOptions& options);
    const Options& options() const;

private:
    friend struct sm::StoreAccess;
    explicit Store(std::unique_ptr<sm::Engine> engine);
    using Body = std::move_only_function<Result<void>(Txn&)>;
    static Result<void> run_body(sm::Engine& engine, Body body, const TxnOptions& options);
    template <class F>
    static auto run_on(sm::Engine& engine, F& fn, const TxnOptions& options)
        -> Result<detail::value_of<F&, Txn&>> {
        using T = detail::value_of<F&, Txn&>;
        if constexpr (std::is_void_v<T>) {
            return run_body(
                engine, [&](Txn& txn) -> Result<void> { return fn(txn); }, options);
        } else {
            std::optional<T> value;
            TRY(run_body(
                engine,
                [&](Txn& txn) -> Result<void> {
                    value.emplace(TRY(fn(txn)));
                    return {};
                },
                options));
            return std::move(*value);
        }
    }
    Result<void> start_thread(std::move_only_function<void()> body, int worker);

    std::unique_ptr<sm::Engine> engine_;
};

// On a user thread of a store.
void yield();
void sleep_for(Nanos time);
Nanos now();  // the store's clock

}  // namespace lockstep

#include <lockstep/store_inl.h>
