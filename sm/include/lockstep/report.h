// report.h - reads of whole indexes and heaps as columns: one committed state, one pass for all.
//
// Concepts   A report sees one committed state of the store, the same in all its scans: the prefix
//            of the log at one point, as Isolation::snapshot. Reports that begin within
//            ReportOptions::max_age of each other share that state.
//            A scan gives the rows of one index or heap as blocks of columns (block.h), after
//            Store::describe() has said what its bytes mean. All scans of it share one pass over
//            it: what one needs is read and decoded once and given to all that need it. A pass
//            waits for no scan. A scan that is not read falls behind, and its part is read again
//            for it later.
//            Blocks come in any order of key ranges, rows ascend within a range. With
//            ScanOptions::ordered all rows ascend.
// Threads    Calls are safe from any kernel thread and any user thread. One Scan is used by one
//            thread at a time. Reports and scans may outlive the store: their calls then return
//            store_closed.
// Cost       The state is a snapshot: the store keeps versions for it (Options::version_bytes)
//            until the report and its scans have gone. A report that is too slow for that gets
//            snapshot_too_old.
//            Passes run on the store's workers. While others have work, they take the share
//            Options::scan_share of a worker's time.
#pragma once

#include <concepts>
#include <memory>
#include <span>
#include <string>
#include <type_traits>
#include <vector>

#include <lockstep/block.h>
#include <lockstep/function_ref.h>
#include <lockstep/thrown.h>

namespace lockstep {

namespace sm::scan {
struct ReportState;
struct ScanState;
}  // namespace sm::scan

// What a column is compared with: an integer, a floating-point number or bytes.
class Constant {
public:
    // An integer; for a decimal or a time, the integer that is stored.
    template <std::integral T>
        requires(!std::same_as<T, bool>)
    Constant(T value)
        : kind_(std::signed_integral<T> && value < 0 ? Kind::negative : Kind::natural),
          bits_(static_cast<uint64_t>(value)) {}
    // For columns of the types f32 and f64.
    Constant(double value) : kind_(Kind::real), real_(value) {}
    // For texts and bytes.
    Constant(std::string value) : kind_(Kind::text), text_(std::move(value)) {}
    Constant(const char* value) : kind_(Kind::text), text_(value) {}

    // What it is: natural and negative numbers have their two's complement in bits().
    enum class Kind : uint8_t { natural, negative, real, text };
    // The parts of it; the others are zero or empty. text() is valid as long as the constant.
    Kind kind() const { return kind_; }
    uint64_t bits() const { return bits_; }
    double real() const { return real_; }
    Slice text() const { return text_; }

private:
    Kind kind_;
    uint64_t bits_ = 0;
    double real_ = 0;
    std::string text_;
};

// How a condition compares. in: with any of several constants; prefix: of a text or bytes.
enum class Compare : uint8_t { equal, less, at_most, greater, at_least, in, prefix };

// A condition on a column. A row without a value meets none.
struct Where {
    std::string column;
    Compare compare = Compare::equal;
    std::vector<Constant> values;  // one, except for `in`
};

// How a pass chooses what it reads next, for whom, and which blocks it keeps. Each name is that of
// the papers; sm/scan/README.md of the sources has a line for each.
enum class ScanPolicy : uint8_t {
    automatic,  // full if the index is smaller than the pool, else relevance
    normal,     // each scan in the order of its keys, by turns
    attach,     // as normal, but a scan begins where another is
    elevator,   // one cursor for all scans; what one of them still needs is kept if there is room
    relevance,  // short scans first, and what most scans wait for
    full        // one cursor for all scans; the blocks that were used least lately go first
};

// What a scan gives.
struct ScanOptions {
    // Names, in the order of the blocks' columns; empty: all.
    std::vector<std::string> columns = {};
    // Rows must meet all of them. Those on the first parts of the key limit what is read.
    std::vector<Where> where = {};
    // All rows in the order of their keys; those of a heap in that of Heap::scan().
    bool ordered = false;
    // How the pass over the index chooses, if this scan begins one. A pass that runs keeps its own.
    ScanPolicy policy = ScanPolicy::automatic;
};

// How a report begins.
struct ReportOptions {
    // How old the state may be, in nanoseconds; 0: not older than the call. Reports within it share
    // a state, and then what is read for them.
    Nanos max_age = 0;
};

// A report that is open, as Store::report_stats() saw it.
struct ReportProgress {
    uint64_t number = 0;          // counted from 1 since the store was opened
    Lsn sees{};                   // as Report::sees()
    Nanos age = 0;                // since its state was taken, in nanoseconds
    uint32_t scans = 0, ran = 0;  // that it has begun; of these, those that have ended
    double progress = 0;          // share of the key ranges of these scans that were read, 0..1
    uint64_t behind = 0;          // the largest Scan::behind() of them
};

// What the operators of plans have done and do (plan.h). Plain numbers since the store was opened.
struct AnswerStats {
    uint64_t answers = 0;  // that have ended
    // Operators that were begun, and the uses of one that another report had begun. Threads now.
    uint64_t operators = 0, shared = 0, threads = 0;
    // Operators that were begun although the same one had run since their report began.
    uint64_t sharing_misses = 0;
    // Cycles that ran, reports that ran as one with others, and those that wait for a cycle now.
    uint64_t cycles = 0, together = 0, waiting = 0;
    // Deadlocks between operators that were resolved, and the operators whose rows were kept in
    // memory for it.
    uint64_t deadlocks = 0, kept = 0;
};

// What the reports of a store have done and do. Plain numbers, most of them since the store was
// opened.
struct ReportStats {
    uint64_t reports = 0, states = 0;  // begun, and the committed states that they share
    uint64_t scans = 0;                // begun
    // Key ranges that were read and decoded; of these, a second time for one state; and how often
    // one scan more got what was made for others.
    uint64_t made = 0, made_again = 0, shared = 0;
    // Of what was made: rows, and bytes of blocks. Time that passes took for it, in nanoseconds;
    // its rate is their share of a worker.
    uint64_t rows = 0, bytes = 0, busy_nanos = 0;
    // Now: reports, scans that have not ended, passes. Age of the oldest state, in nanoseconds, 0
    // if there is none. Bytes of blocks that are kept for later scans
    // (Options::scan_bytes), and the largest Scan::behind().
    uint64_t reports_open = 0, scans_open = 0, passes_open = 0, state_oldest_nanos = 0,
             kept_bytes = 0, behind_max = 0;
    AnswerStats answers = {};
    // The reports that are open, in the order in which they began.
    std::vector<ReportProgress> open = {};
};

class Plan;
class Rows;
struct AnswerOptions;

// The rows of an index or heap in one report. Movable. The destructor is cancel().
class Scan {
public:
    // A scan at its end.
    Scan();
    ~Scan();
    Scan(Scan&&) noexcept;
    Scan& operator=(Scan&&) noexcept;

    // The columns of its blocks. Valid as long as the scan.
    std::span<const Column> columns() const;
    // Sets `out` to the next block. False: there are no more rows. Suspends a user thread, blocks
    // any other, until a pass has made one. Errors: no_such_object (it was dropped),
    // snapshot_too_old, bad_argument (a record does not fit its columns), cancelled, store_closed,
    // forked, out_of_memory, and those of reading pages.
    Result<bool> next(Block& out);
    // Calls fn(const Block&) -> Result<bool> with each block, until it returns false or an error,
    // which is then the result. On a user thread of the store fn runs there, else on a user thread
    // of the worker that makes the blocks, where they are still in its caches; the calling kernel
    // thread is blocked meanwhile. So fn must not block. If it throws, each() throws the same.
    // Errors: those of next() and fn, too_many (user threads).
    template <class F>
    Result<void> each(F&& fn) {
        static_assert(std::is_same_v<std::invoke_result_t<F&, const Block&>, Result<bool>>,
                      "the function must return lockstep::Result<bool>");
        detail::Thrown thrown;
        const Result<void> done =
            each_block([&](const Block& block) { return thrown.call([&] { return fn(block); }); });
        if (!done && detail::Thrown::is_exception(done.error())) thrown.rethrow();
        return done;
    }
    // The share of its key ranges that a pass has read for it, 0..1. Never blocks.
    double progress() const;
    // Key ranges that were read since for others of its report's state, and that it has not taken.
    // They are kept for it or read again. Grows if the scan is read too slowly. Never blocks.
    uint64_t behind() const;
    // Ends the scan: later calls of next() return cancelled. Any thread, also while another waits
    // in next(). Never blocks.
    void cancel();

private:
    friend class Report;
    explicit Scan(std::shared_ptr<sm::scan::ScanState> state);
    Result<void> each_block(FunctionRef<Result<bool>(const Block&)> fn);

    std::shared_ptr<sm::scan::ScanState> state_;
};

// One committed state of the store, for several scans. Movable. The destructor gives the state up,
// once the scans have ended too.
class Report {
public:
    // Of no store: every call returns store_closed.
    Report();
    ~Report();
    Report(Report&&) noexcept;
    Report& operator=(Report&&) noexcept;

    // Begins a scan of the index or heap of this name. Suspends a user thread, blocks any other, to
    // read its columns. Errors: no_such_object, wrong_kind, no_such_record (it is not described),
    // bad_argument (unknown column or impossible condition, which the error names),
    // snapshot_too_old, store_closed, forked, and those of Store::run().
    Result<Scan> scan(std::string_view name, const ScanOptions& options = {});
    // Computes plans (plan.h, which has their types): their answers, in the order of the plans.
    // Suspends a user thread, blocks any other. Without options: those of AnswerOptions{}. Errors:
    // those of scan() and Scan::next(); bad_argument also for a column that a plan does not have,
    // for kinds that do not fit, and for a result that does not fit 64 bits.
    Result<std::vector<Rows>> answer(std::span<const Plan> plans, const AnswerOptions& options);
    Result<Rows> answer(const Plan& plan, const AnswerOptions& options);
    Result<Rows> answer(const Plan& plan);
    // The end of the log that it sees: transactions whose commit returned a smaller one are in it.
    Lsn sees() const;

private:
    friend class Store;
    explicit Report(std::shared_ptr<sm::scan::ReportState> state);

    std::shared_ptr<sm::scan::ReportState> state_;
};

}  // namespace lockstep
