// service.cc - begins reports and scans, hands their blocks over, ends them.
#include "sm/scan/service.h"

#include <algorithm>

#include <lockstep/store.h>

#include "sm/scan/pass.h"
#include "threads/base/error_detail.h"
#include "threads/base/try.h"
#include "threads/sync/completion.h"
#include "threads/sync/foreign_wait.h"

namespace lockstep::sm::scan {

namespace {

[[gnu::cold]] Unexpected closed() { return fail(ErrorCode::store_closed, "report"); }
[[gnu::cold]] Unexpected in_child() { return fail(ErrorCode::forked, "report"); }

// Ascending, each once.
std::vector<uint16_t> set_of(std::vector<uint16_t> places) {
    std::ranges::sort(places);
    const auto same = std::ranges::unique(places);
    places.erase(same.begin(), same.end());
    return places;
}

Result<Selected> select_columns(const Columns& columns, const std::vector<std::string>& names) {
    Selected out;
    const auto take = [&](size_t place) {
        out.columns.push_back(columns.all()[place]);
        out.places.push_back(static_cast<uint16_t>(place));
    };
    for (size_t i = 0; names.empty() && i < columns.all().size(); ++i) take(i);
    for (const std::string& name : names) {
        const std::optional<size_t> place = columns.find(name);
        if (!place)
            return fail_with(ErrorCode::bad_argument, "columns of a scan",
                             "there is no column \"" + name.substr(0, 48) + "\"");
        take(*place);
    }
    return out;
}

// Both under the service's mutex.
double read_share_of(const ScanState& scan) {
    scan.assert_state();
    if (scan.total != 0)
        return 1 - static_cast<double>(scan.left) / static_cast<double>(scan.total);
    return scan.ended ? 1 : 0;
}
uint64_t behind_of(const ScanState& scan) {
    if (scan.ended || scan.left == 0) return 0;
    const auto at = scan.pass->made_for.find(scan.group);
    if (at == scan.pass->made_for.end()) return 0;
    const std::vector<bool>& made = at->second;
    DCHECK(made.size() == scan.needed.chunks());
    uint64_t behind = 0;
    for (size_t i = 0; i < made.size(); ++i) behind += made[i] && scan.needed.has(i);
    DCHECK(behind <= scan.left);
    return behind;
}

}  // namespace

// A call that uses the hooks, from its begin to its end. False: the store is closing.
class Service::Inside {
public:
    explicit Inside(Service& service) : service_(service) {
        const std::lock_guard lock(service.mutex_);
        inside_ = !service.stopping_;
        service.inside_ += inside_;
    }
    ~Inside() {
        if (!inside_) return;
        const std::lock_guard lock(service_.mutex_);
        DCHECK(service_.inside_ > 0);
        if (--service_.inside_ == 0) service_.idle_.notify_all();
    }
    Inside(const Inside&) = delete;
    Inside& operator=(const Inside&) = delete;
    explicit operator bool() const { return inside_; }

private:
    Service& service_;
    bool inside_ = false;
};

Result<std::shared_ptr<ReportState>> Service::open(Nanos max_age) {
    if (fork_mark_.forked()) return in_child();
    const Inside inside(*this);
    if (!inside) return closed();
    std::shared_ptr<GroupUse> use;
    uint32_t worker = 0;
    bool fresh = false;
    {
        const std::lock_guard lock(mutex_);
        if (stopping_) return closed();
        std::erase_if(groups_, [](const auto& group) { return group.expired(); });
        const Nanos now = lockstep::now();
        for (size_t i = groups_.size(); i-- > 0 && !use;)
            if (auto one = groups_[i].lock(); one && one->group()->joinable(now, max_age))
                use = std::move(one);
        fresh = !use;
        if (fresh) {
            use = std::make_shared<GroupUse>(std::make_shared<Group>());
            groups_.push_back(use);
            worker = next_worker();
            count(counters_.states);
        }
    }
    const std::shared_ptr<Group> group = use->group();
    if (fresh) {
        const auto started =
            hooks_.start(static_cast<int>(worker), "report",
                         [self = shared_from_this(), group] { group->keep(self->hooks_.hold); });
        if (!started) group->fail_with(started.error());
    }
    const Lsn sees = TRY(group->wait_open());
    DCHECK(sees > kLsnNone);
    auto report = std::make_shared<ReportState>(ReportState{
        .service = shared_from_this(), .use = std::move(use), .sees = sees, .number = 0});
    const std::lock_guard lock(mutex_);
    count(counters_.reports);
    report->number = counters_.reports.load(std::memory_order_relaxed);
    std::erase_if(reports_, [](const auto& one) { return one.expired(); });
    reports_.push_back(report);
    return report;
}

Result<std::shared_ptr<ScanState>> Service::scan(ReportState& report, std::string_view name,
                                                 const ScanOptions& options) {
    if (fork_mark_.forked()) return in_child();
    const Inside inside(*this);
    if (!inside) return closed();
    if (options.policy > ScanPolicy::full) return fail(ErrorCode::bad_argument, "policy of a scan");
    Described object = TRY(hooks_.find(name));
    auto out = std::make_shared<ScanState>();
    out->service = shared_from_this();
    out->use = report.use;
    out->group = report.use->group();
    out->ordered = options.ordered;
    out->policy = options.policy;
    out->filter = TRY(Filter::make(object.columns, options.where));
    out->ranges = out->filter.ranges(object.columns);
    Selected selected = TRY(select_columns(object.columns, options.columns));
    DCHECK(selected.columns.size() == selected.places.size());
    out->given = set_of(selected.places);
    std::vector<uint16_t> wanted = out->filter.columns();
    wanted.insert(wanted.end(), out->given.begin(), out->given.end());
    out->wanted = set_of(std::move(wanted));
    out->selected = std::make_shared<const Selected>(std::move(selected));
    out->assert_state();
    TRY(add(out, std::move(object)));
    count(counters_.scans);
    const std::lock_guard lock(mutex_);
    std::erase_if(report.scans, [](const auto& one) { return one.expired(); });
    report.scans.push_back(out);
    ++report.begun;
    return out;
}

// Gives the scan to the pass of its object, with a server if it has none.
Result<void> Service::add(const std::shared_ptr<ScanState>& scan, Described object) {
    std::shared_ptr<Pass> pass;
    bool fresh = false;
    {
        const std::lock_guard lock(mutex_);
        if (stopping_) return closed();
        const std::pair key(id_of(object.object).value, object.columns.text());
        std::shared_ptr<Pass>& there = passes_[key];
        fresh = there == nullptr;
        if (fresh) {
            there = std::make_shared<Pass>();
            there->object = object.object;
            there->key = key;
            there->columns = std::make_shared<const Columns>(std::move(object.columns));
            there->worker = next_worker();
        }
        DCHECK(there->object == object.object);
        DCHECK(there->worker >= hooks_.first_worker && scan->pass == nullptr);
        scan->pass = pass = there;
        pass->fresh.push_back(scan);
        pass->poke();
    }
    if (!fresh) return {};
    const auto started = hooks_.start(static_cast<int>(pass->worker), "scan",
                                      [self = shared_from_this(), pass] { self->serve(pass); });
    if (started) return {};
    const std::lock_guard lock(mutex_);
    end_all(*pass, started.error());
    forget(pass);
    return started;
}

Result<bool> Service::next(ScanState& scan, Block& out) {
    if (fork_mark_.forked()) return in_child();
    std::unique_lock lock(mutex_);
    scan.assert_state();
    const Nanos pause = threads::waits_are_watched() ? threads::kWatchPause : kNever;
    const auto ready = [&] { return scan.ended || !scan.queue.empty(); };
    while (!scan.ready.wait_for(mutex_, pause, ready)) {
        lock.unlock();
        threads::look_between_waits();  // which may cancel the scan
        lock.lock();
    }
    return take(scan, out);
}

// Under mutex_; the scan has a block or has ended.
Result<bool> Service::take(ScanState& scan, Block& out) {
    if (!scan.queue.empty()) {
        DCHECK(scan.queue.front().rows() > 0);
        const bool was_sated = scan.sated();
        out = std::move(scan.queue.front());
        scan.queue.pop_front();
        if (was_sated) scan.pass->poke();
        return true;
    }
    DCHECK(scan.ended && scan.use == nullptr);
    if (scan.error.code != ErrorCode::none) return std::unexpected(scan.error);
    return false;
}

Result<Service::Polled> Service::poll(ScanState& scan, Block& out) {
    if (fork_mark_.forked()) return in_child();
    const std::lock_guard lock(mutex_);
    scan.assert_state();
    if (!scan.ended && scan.queue.empty()) return Polled::pending;
    return TRY(take(scan, out)) ? Polled::block : Polled::ended;
}

void Service::watch(ScanState& scan, std::function<void()> ready) {
    if (fork_mark_.forked()) return;
    const std::lock_guard lock(mutex_);
    scan.on_ready = std::move(ready);
}

Budget& Service::budget() {
    const uint32_t place = threads::worker_index() - hooks_.first_worker;
    CHECK(place < budgets_.size());
    return budgets_[place];
}

Pacer Service::pacer() { return {hooks_.share, budget()}; }

Result<void> Service::start(const char* name, threads::ThreadFn fn) {
    if (fork_mark_.forked()) return in_child();
    const Inside inside(*this);
    if (!inside) return closed();
    uint32_t worker = 0;
    {
        const std::lock_guard lock(mutex_);
        worker = next_worker();
    }
    return hooks_.start(static_cast<int>(worker), name, std::move(fn));
}

Result<void> Service::consume(ScanState& scan, FunctionRef<Result<bool>(const Block&)> fn) {
    Block block;
    while (TRY(next(scan, block))) {
        const Nanos began = threads::now();
        const Result<bool> more = fn(block);
        if (threads::worker_index() == scan.pass->worker) {
            const Nanos used = threads::now() - began;
            budget().use(used);
            count(counters_.busy_nanos, used);
        }
        if (more.has_value() && *more) continue;
        cancel(scan);
        if (!more.has_value()) return std::unexpected(more.error());
        return {};
    }
    return {};
}

Result<void> Service::each(const std::shared_ptr<ScanState>& scan,
                           FunctionRef<Result<bool>(const Block&)> fn) {
    if (fork_mark_.forked()) return in_child();
    const Inside inside(*this);
    if (!inside) return closed();
    if (hooks_.on_own_thread()) return consume(*scan, fn);
    Result<void> result;
    threads::Completion done;
    TRY(hooks_.start(static_cast<int>(scan->pass->worker), "scan function", [&] {
        result = consume(*scan, fn);
        done.set();
    }));
    done.wait();
    return result;
}

double Service::progress(const ScanState& scan) {
    if (fork_mark_.forked()) return 0;
    const std::lock_guard lock(mutex_);
    return read_share_of(scan);
}

uint64_t Service::behind(const ScanState& scan) {
    if (fork_mark_.forked()) return 0;
    const std::lock_guard lock(mutex_);
    return behind_of(scan);
}

void Service::cancel(ScanState& scan) {
    if (fork_mark_.forked()) return;
    const std::lock_guard lock(mutex_);
    const Error error = fail(ErrorCode::cancelled, "scan").error();
    if (!scan.ended) end(scan, error);
    else if (!scan.queue.empty()) scan.error = error;  // its last rows will be missing
    scan.queue.clear();
    if (scan.pass) scan.pass->poke();
}

// With an empty error: by its last chunk.
void Service::end(ScanState& scan, const Error& error) {
    DCHECK(!scan.ended && (error.code != ErrorCode::none || scan.left == 0));
    scan.assert_state();
    scan.ended = true;
    scan.error = error;
    scan.use.reset();
    scan.assert_state();
    scan.announce();
}

void Service::end_all(Pass& pass, const Error& error) {
    for (auto* const list : {&pass.fresh, &pass.scans}) {
        for (const auto& scan : *list)
            if (!scan->ended) end(*scan, error);
        list->clear();
    }
    pass.poke();
}

// A later scan of the object gets a pass of its own.
void Service::forget(const std::shared_ptr<Pass>& pass) {
    DCHECK(pass->scans.empty() && pass->fresh.empty());
    for (const Made& made : pass->kept) {
        DCHECK(kept_bytes_ >= made.blocks->bytes());
        kept_bytes_ -= made.blocks->bytes();
    }
    pass->kept.clear();
    const auto at = passes_.find(pass->key);
    if (at != passes_.end() && at->second == pass) passes_.erase(at);
}

ReportProgress Service::progress_of(const ReportState& report, Nanos now) const {
    const Nanos began = report.use->group()->began();
    ReportProgress out{.number = report.number,
                       .sees = report.sees,
                       .age = began != 0 && began < now ? now - began : 0,
                       .scans = report.begun,
                       .ran = report.begun};
    double read = report.begun;
    for (const auto& one : report.scans)
        if (const auto scan = one.lock(); scan && !scan->ended) {
            read -= 1 - read_share_of(*scan);
            --out.ran;
            out.behind = std::max(out.behind, behind_of(*scan));
        }
    DCHECK(read >= -1e-9 && out.ran <= out.scans);
    if (report.begun != 0) out.progress = std::max(read, 0.0) / report.begun;
    return out;
}

ReportStats Service::stats() {
    ReportStats out;
    if (fork_mark_.forked()) return out;
    const auto value = [](const std::atomic<uint64_t>& counter) {
        return counter.load(std::memory_order_relaxed);
    };
    out.reports = value(counters_.reports);
    out.states = value(counters_.states);
    out.scans = value(counters_.scans);
    out.made = value(counters_.made);
    out.made_again = value(counters_.made_again);
    out.shared = value(counters_.shared);
    out.rows = value(counters_.rows);
    out.bytes = value(counters_.bytes);
    out.busy_nanos = value(counters_.busy_nanos);
    const std::lock_guard lock(mutex_);
    const Nanos now = lockstep::now();
    out.passes_open = passes_.size();
    out.kept_bytes = kept_bytes_;
    for (const auto& [key, pass] : passes_)
        for (const auto* const list : {&pass->fresh, &pass->scans})
            for (const auto& scan : *list) {
                out.scans_open += !scan->ended;
                out.behind_max = std::max(out.behind_max, behind_of(*scan));
            }
    for (const auto& one : groups_)
        if (const auto use = one.lock())
            if (const Nanos began = use->group()->began(); began != 0 && began < now)
                out.state_oldest_nanos = std::max(out.state_oldest_nanos, now - began);
    for (const auto& one : reports_)
        if (const auto report = one.lock()) out.open.push_back(progress_of(*report, now));
    out.reports_open = out.open.size();
    return out;
}

void Service::stop(bool wait) {
    const std::lock_guard lock(mutex_);
    stopping_ = true;
    const Error error = closed().error();
    for (const auto& [key, pass] : passes_) {
        for (auto* const list : {&pass->fresh, &pass->scans})
            for (const auto& scan : *list)
                if (!scan->ended) scan->queue.clear();  // others have all their rows
        end_all(*pass, error);
    }
    for (const auto& group : groups_)
        if (const auto use = group.lock()) use->group()->release();
    DCHECK(stopping_);
    if (wait) idle_.wait(mutex_, [this] { return inside_ == 0; });
}

}  // namespace lockstep::sm::scan
