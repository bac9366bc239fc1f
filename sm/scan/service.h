// service.h - the reports of an open store: groups, passes, and the threads that serve them.
//
// Concepts   A *group* is a snapshot and the reports that share it (group.h). A *pass* serves all
//            scans of one index or heap. It cuts it into chunks, ranges of keys of about 32 leaves,
//            when its first scan comes, and ends with its last one. Its *server*, a user thread,
//            takes turns: it chooses a chunk, makes its blocks for the groups of the scans that
//            need them, and puts a reference into the queue of each of these scans.
//            Which chunk, and for which scan, is the pass's policy to say (policy.h). Scans that
//            come later join where the pass is, and get the rest when it comes round.
//            A scan whose queue is full is *sated*: nothing is made for it. What was made and a
//            sated scan still needs is kept, up to Options::scan_bytes.
//            Wrong or outdated cuts are harmless, because a chunk is defined by its keys.
// Invariants RB-1 Each scan gets each chunk that it needs once. Needed bits are only cleared.
//                 [checked: deliver()]
//            RB-2 Neither a pass nor another scan waits for a consumer. [test: Reports.ASatedScan]
//            RB-3 The rows of a block are those of each snapshot in its list of groups. Each of
//                 them was open before the first leaf was read, and each leaf was quiet for it or
//                 looked up for it. [checked: Maker::read()]
//            RB-4 Blocks that are kept take at most scan_bytes. [checked: keep()]
//            RB-5 A ready scan is passed over in at most 16 turns, and one more for each other scan
//                 of the pass. [checked: choose()]
//            RB-6 No latch and no lock of the service is held while a function of the application
//                 runs: each() calls it between two calls of next().
//                 [test: ReportsFailures.AFunctionMayCallEverything, ChunkReader.LeavesOfAnIndex]
//            RB-7 A server rests after each leaf. All that serves reports on a worker keeps to
//                 scan_share, functions of scans included.
//                 [test: ChunkReader.LeavesOfAnIndex, Pacer.KeepsItsShareBesideOthers]
// Blocking   Said at each function. mutex_ is held briefly; only `hooks` run without it.
#pragma once

#include <algorithm>
#include <deque>
#include <functional>
#include <list>
#include <map>
#include <memory>
#include <mutex>
#include <vector>

#include <lockstep/report.h>
#include "sm/scan/chunk_reader.h"
#include "sm/scan/filter.h"
#include "sm/scan/group.h"
#include "sm/scan/pacer.h"
#include "sm/scan/policy.h"
#include "threads/thread/fork_watch.h"

namespace lockstep::sm::report {
class Operators;
}  // namespace lockstep::sm::report

namespace lockstep::sm::scan {

class Service;

// An index or heap with its columns.
struct Described {
    Object object;
    Columns columns;
};

// What the store gives: its threads, snapshots, objects and options.
struct Hooks {
    // Starts a user thread; worker below 0: any. close() waits for it.
    std::function<Result<void>(int worker, const char* name, threads::ThreadFn fn)> start;
    HoldSnapshot hold;
    std::function<Result<Described>(std::string_view name)> find;
    std::function<bool()> on_own_thread;
    uint32_t first_worker = 0, workers = 1;  // those that serve passes
    double share = 0.25;                     // of one, for all that serves reports
    uint64_t bytes = 64 << 20;
    uint64_t pool_bytes = 64 << 20;
};

struct Pass;
struct ScanState;

struct ReportState {
    std::shared_ptr<Service> service;
    std::shared_ptr<GroupUse> use;
    Lsn sees;
    uint64_t number;
    // Under Service::mutex_: the scans that it has begun and that may go on.
    std::vector<std::weak_ptr<ScanState>> scans = {};
    uint32_t begun = 0;
};

struct ScanState {
    std::shared_ptr<Service> service;
    std::shared_ptr<Pass> pass;
    std::shared_ptr<Group> group;
    std::shared_ptr<const Selected> selected;
    std::vector<uint16_t> given;   // ascending places that its blocks have
    std::vector<uint16_t> wanted;  // and those that its conditions read
    Filter filter;
    std::vector<KeyRange> ranges;
    bool ordered = false;
    ScanPolicy policy = ScanPolicy::automatic;
    // The rest under Service::mutex_.
    std::shared_ptr<GroupUse> use;  // until it has ended
    ChunkSet needed;                // of no chunks until the pass has cut the index
    size_t left = 0, total = 0;     // chunks
    uint32_t batch = kNoBatch;      // that it belongs to, once the pass has taken it in
    size_t begin = 0;               // chunk at which its own order begins
    uint64_t served = 0;            // turn that was taken for it last
    std::deque<Block> queue;
    uint32_t passed_over = 0;  // turns in which it was ready and got nothing
    bool ended = false;        // nothing more is made for it
    Error error{};             // why, if not by its last chunk
    Condition ready;
    std::function<void()> on_ready;  // called where `ready` is notified

    void announce() {
        ready.notify_all();
        if (on_ready) on_ready();
    }
    static constexpr size_t kQueueMax = 2;
    bool sated() const { return queue.size() >= kQueueMax; }
    void assert_state() const {
        DCHECK(service != nullptr && selected != nullptr && group != nullptr);
        DCHECK(!given.empty() && selected->places.size() >= given.size());
        DCHECK(std::ranges::is_sorted(wanted) && std::ranges::includes(wanted, given));
        DCHECK(left <= total && total <= needed.chunks());
        DCHECK(ended == (use == nullptr));
        DCHECK(error.code == ErrorCode::none || ended);
    }
};

class Service : public std::enable_shared_from_this<Service> {
public:
    explicit Service(Hooks hooks) : hooks_(std::move(hooks)), budgets_(hooks_.workers) {
        DCHECK(hooks_.workers > 0 && hooks_.share > 0);
    }
    // As Store::report(), Report::scan(), and the calls of Scan.
    Result<std::shared_ptr<ReportState>> open(Nanos max_age);
    Result<std::shared_ptr<ScanState>> scan(ReportState& report, std::string_view name,
                                            const ScanOptions& options);
    Result<bool> next(ScanState& scan, Block& out);
    Result<void> each(const std::shared_ptr<ScanState>& scan,
                      FunctionRef<Result<bool>(const Block&)> fn);
    double progress(const ScanState& scan);
    uint64_t behind(const ScanState& scan);
    void cancel(ScanState& scan);
    // For operators that read scans. poll(): as next(), and pending in place of a wait. watch():
    // `ready` is called, with mutex_ held, when there is more; null: not any more. start(): a
    // thread on a worker that serves passes. Errors: store_closed, forked, too_many.
    enum class Polled : uint8_t { block, pending, ended };
    Result<Polled> poll(ScanState& scan, Block& out);
    void watch(ScanState& scan, std::function<void()> ready);
    Result<void> start(const char* name, threads::ThreadFn fn);
    // Of the calling thread, which serves scans and was started for it.
    Pacer pacer();
    uint32_t workers() const { return hooks_.workers; }
    bool forked() const { return fork_mark_.forked(); }
    // Those of the store (sm/report). Set once, before the first report.
    std::shared_ptr<report::Operators> operators;
    // Ends all scans and groups with store_closed, and all threads soon. `wait`: until no call of
    // another kernel thread is inside; blocks it.
    void stop(bool wait);

    // As Store::report_stats().
    ReportStats stats();

private:
    struct Turn;
    class Inside;
    class Maker;
    // As the counters of ReportStats.
    struct Counters {
        std::atomic<uint64_t> reports{0}, states{0}, scans{0}, made{0}, made_again{0}, shared{0},
            rows{0}, bytes{0}, busy_nanos{0};
    };

    static void count(std::atomic<uint64_t>& counter, uint64_t by = 1) {
        counter.fetch_add(by, std::memory_order_relaxed);
    }
    ReportProgress progress_of(const ReportState& report, Nanos now) const;
    Budget& budget();
    uint32_t next_worker() {  // under mutex_
        DCHECK(hooks_.workers > 0);
        return hooks_.first_worker + next_worker_++ % hooks_.workers;
    }
    Result<bool> take(ScanState& scan, Block& out);
    Result<void> consume(ScanState& scan, FunctionRef<Result<bool>(const Block&)> fn);
    Result<void> add(const std::shared_ptr<ScanState>& scan, Described object);
    void serve(const std::shared_ptr<Pass>& pass);
    bool take_in(Pass& pass, std::unique_lock<Mutex>& lock);
    void admit(Pass& pass);
    bool choose(Pass& pass, Turn& turn);
    void make(Pass& pass, Turn& turn, Pacer& pacer);
    void deliver(Pass& pass, Turn& turn);
    void keep(Pass& pass, Turn& turn);
    void end(ScanState& scan, const Error& error);
    void end_all(Pass& pass, const Error& error);
    void forget(const std::shared_ptr<Pass>& pass);

    const Hooks hooks_;
    const threads::ForkMark fork_mark_;
    Counters counters_;
    std::vector<Budget> budgets_;  // of workers that serve passes; each used by its threads only
    Mutex mutex_;
    Condition idle_;
    // All under mutex_. A pass serves scans of one object that have the same columns.
    std::map<std::pair<uint32_t, std::string>, std::shared_ptr<Pass>> passes_;
    std::vector<std::weak_ptr<GroupUse>> groups_;
    std::vector<std::weak_ptr<ReportState>> reports_;  // in the order of their numbers
    bool stopping_ = false;
    uint32_t inside_ = 0;  // calls that use hooks_
    uint32_t next_worker_ = 0;
    uint64_t kept_bytes_ = 0;
};

}  // namespace lockstep::sm::scan
