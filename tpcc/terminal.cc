// terminal.cc - one emulated user.
#include "tpcc/terminal.h"
#include "threads/base/try.h"
#include "tpcc/needs.h"

#include <cmath>

namespace lockstep::tpcc {

namespace {
// Clause 5.2.5.7: minimum keying times and mean think times in seconds, in the order of TxnType.
constexpr double kKeyingSeconds[kTxnTypes] = {18, 3, 2, 2, 2};
constexpr double kThinkSeconds[kTxnTypes] = {12, 12, 10, 5, 5};

// Clause 5.2.5.4: negative exponential, cut off at ten times the mean.
double think_seconds(Rng& rng, TxnType type) {
    const double mean = kThinkSeconds[static_cast<size_t>(type)];
    const double r = (static_cast<double>(rng.next() >> 11) + 1) * 0x1.0p-53;
    return std::min(-std::log(r) * mean, 10 * mean);
}
Deck deck_of(const RunSettings& settings, Rng rng) {
    return settings.weights ? Deck(*settings.weights, rng) : Deck(settings.mix, rng);
}
}  // namespace

void RunControl::note_end(Nanos at) {
    Nanos latest = ended.load(std::memory_order_relaxed);
    while (latest < at && !ended.compare_exchange_weak(latest, at, std::memory_order_relaxed)) {}
}

bool RunControl::stop_run() {
    if (stop.load()) return false;
    note_end(now());  // before the stop: who sees it may need the end
    return !stop.exchange(true);
}

void RunControl::fail_run(const Error& e) {
    SpinGuard guard(error_lock);
    if (error.code == ErrorCode::none) error = e;
    stop_run();
}

Ticket::~Ticket() {
    if (!began_) control_.fail_run(fail(ErrorCode::too_many, "user threads of terminals").error());
    live_.fetch_sub(1, std::memory_order_release);
}

void count_finished(WorkerStats& stats, const Finished& txn) {
    const Nanos took = txn.end - txn.start;
    stats.completed.store(stats.completed.load(std::memory_order_relaxed) + 1,
                          std::memory_order_relaxed);
    const bool measured = stats.measures(txn.end);
    if (stats.keeps_window)
        stats.window.record(txn.type, took, {txn.waits.lock, txn.waits.page, txn.waits.log},
                            measured);
    if (!measured) return;
    TypeStats& t = stats.types[static_cast<size_t>(txn.type)];
    t.record(took, txn.waits);
    t.rolled_back += txn.outcome == Outcome::rolled_back;
}

void count_input(InputCounts& counts, const Input& input) {
    if (const auto* order = std::get_if<NewOrderInput>(&input)) {
        counts.order_lines += order->ol_cnt;
        if (order->all_local) return;
        for (uint32_t n = 0; n < order->ol_cnt; ++n)
            counts.order_lines_remote += order->lines[n].supply_w != order->w;
    } else if (const auto* payment = std::get_if<PaymentInput>(&input)) {
        counts.payments_remote += payment->customer.w != payment->w;
        counts.payments_by_name += payment->customer.by_name;
    } else if (const auto* status = std::get_if<OrderStatusInput>(&input)) {
        counts.order_status_by_name += status->customer.by_name;
    }
}

static_assert(sizeof(Terminal) <= 320);  // 100,000 of them may wait

Terminal::Terminal(RunControl& control, const Executors& executors, const TerminalPlace& place)
    : control_(control),
      executors_(executors),
      place_(place),
      rng_(row_rng(control.settings.seed, 200, place.number)),
      deck_(deck_of(control.settings, row_rng(control.settings.seed, 201, place.number))) {}

bool Terminal::finished(Nanos time) const {
    if (control_.stop.load(std::memory_order_relaxed)) return true;
    return control_.settings.transactions ? done_ == place_.quota : time >= control_.measure_end;
}

void Terminal::start() {
    type_ = deck_.deal();
    submit(now(), kKeyingSeconds[static_cast<size_t>(type_)]);
}

Nanos Terminal::next_due(Nanos now, double pause_seconds) {
    if (!control_.arrivals.empty()) return control_.arrivals[place_.w - 1]->claim();
    const double pause = control_.settings.think * pause_seconds;
    return now + static_cast<Nanos>(pause * static_cast<double>(kSecond));
}

// The last act of a run: the packet may begin again before this returns.
void Terminal::submit(Nanos now, double pause_seconds) {
    due_ = next_due(now, pause_seconds);
    const auto submitted = control_.db.store->submit(
        *this, {.worker = place_.worker, .not_before = due_ > now ? due_ : 0});
    if (submitted) return;
    control_.fail_run(submitted.error());
    end();
}

void Terminal::end() { control_.terminals_live.fetch_sub(1, std::memory_order_release); }

// A Delivery is only queued.
void Terminal::announce(Announcement& to) {
    if (type_ == TxnType::delivery || next_ != nullptr) return;
    next_ = &control_.inputs[static_cast<size_t>(current_worker())]->take();
    next_->input = make_input(type_);
    needs_of(control_.db, next_->input, next_->customer, to);
}

void Terminal::run() {
    const auto worker = static_cast<size_t>(current_worker());
    AnnouncedInput* const announced = std::exchange(next_, nullptr);
    // A packet that was due before the end may begin behind it, unless it counts as offered.
    const bool over = finished(control_.arrivals.empty() ? due_ : now());
    Result<Nanos> executed = due_;
    if (!over)
        executed = execute(announced != nullptr ? announced->input : make_input(type_),
                           *executors_[worker], due_, announced != nullptr);
    if (announced != nullptr) control_.inputs[worker]->give(*announced);
    if (over) return end();
    ++done_;
    if (!executed) control_.fail_run(executed.error());
    else if (finished(*executed)) control_.note_end(*executed);
    if (!executed || finished(*executed)) return end();
    const TxnType last = std::exchange(type_, deck_.deal());
    double pause = 0;
    if (control_.settings.think > 0)
        pause = think_seconds(rng_, last) + kKeyingSeconds[static_cast<size_t>(type_)];
    submit(*executed, pause);
}

void Terminal::run_as_thread() {
    Executor& executor = *executors_[static_cast<size_t>(place_.worker)];
    double thought = 0;  // seconds of thinking after the last transaction
    Nanos time = now();  // when the last transaction ended, or the pause behind it
    Nanos last_end = 0;
    while (!finished(time)) {
        const TxnType type = deck_.deal();
        const Input input = make_input(type);
        const Nanos due = next_due(time, thought + kKeyingSeconds[static_cast<size_t>(type)]);
        if (due > time) {
            pause_until(due);
            time = now();
            if (finished(time)) break;
        }
        const auto executed = execute(input, executor, control_.arrivals.empty() ? time : due);
        if (!executed) {
            control_.fail_run(executed.error());
            break;
        }
        ++done_;
        time = last_end = *executed;
        thought = control_.settings.think > 0 ? think_seconds(rng_, type) : 0;
    }
    control_.note_end(last_end);
}

Input Terminal::make_input(TxnType type) {
    switch (type) {
        case TxnType::new_order: return make_new_order(rng_, control_.rules, place_.w);
        case TxnType::payment: return make_payment(rng_, control_.rules, place_.w);
        case TxnType::order_status: return make_order_status(rng_, control_.rules, place_.w);
        case TxnType::delivery: return make_delivery(rng_, place_.w);
        case TxnType::stock_level: break;
    }
    return make_stock_level(rng_, place_.w, place_.d);
}

Result<Nanos> Terminal::execute(const Input& input, Executor& executor, Nanos start,
                                bool announced) {
    WorkerStats& stats = executor.stats();
    ++stats.started;
    const bool offered = !control_.arrivals.empty();
    if (offered) {
        stats.started_of_warmup += start < stats.measure_begin;
        const Nanos began = now();
        if (stats.measures(began)) stats.lateness.record(began > start ? began - start : 0);
    }
    if (const auto* request = std::get_if<DeliveryInput>(&input))
        return queue_delivery(*request, executor, start);
    const ThreadWaits waited = thread_waits();
    const Outcome outcome = TRY(executor.execute(input, nullptr, announced));
    const Nanos ended = now();
    count_finished(stats, {type_of(input), outcome, start, ended, thread_waits() - waited});
    if (stats.measures(ended)) count_input(stats.inputs, input);
    return ended;
}

Result<Nanos> Terminal::queue_delivery(const DeliveryInput& input, Executor& executor,
                                       Nanos start) {
    constexpr Nanos kQueueFullPause = kMillisecond;
    const bool offered = !control_.arrivals.empty();
    DeliveryQueue& queue = *control_.queues[place_.w - 1];
    bool needs_server = false;
    Nanos queued = now();
    while (!queue.put({input, offered ? start : queued}, needs_server)) {
        if (control_.stop.load(std::memory_order_relaxed)) return queued;
        sleep_for(kQueueFullPause);
        queued = now();
    }
    WorkerStats& stats = executor.stats();
    if (stats.measures(queued))
        stats.delivery_interactive.record(queued > start ? queued - start : 0);
    if (needs_server) TRY(start_server(executor, queue));
    return queued;
}

Result<void> Terminal::start_server(Executor& executor, DeliveryQueue& queue) {
    control_.servers_live.fetch_add(1, std::memory_order_relaxed);
    auto ticket = std::make_unique<Ticket>(control_, control_.servers_live);
    control_.db.store->start(
        [&control = control_, &executor, &queue, ticket = std::move(ticket)]() -> Result<void> {
            ticket->begin();
            serve_deliveries(control, executor, queue);
            return {};
        },
        current_worker());
    return {};
}

void Terminal::serve_deliveries(RunControl& control, Executor& executor, DeliveryQueue& queue) {
    for (;;) {
        const auto request = queue.next();
        if (!request.has_value()) return;
        serve_delivery(control, executor, queue, *request);
    }
}

// An error ends the run. The queue must become empty all the same, or no server would be started
// again.
void Terminal::serve_delivery(RunControl& control, Executor& executor, DeliveryQueue& queue,
                              const DeliveryRequest& request) {
    DeliveryResult result{request, 0, {}};
    const ThreadWaits waited = thread_waits();
    const Result<Outcome> outcome = executor.execute(Input(request.input), &result.output);
    if (!outcome) return control.fail_run(outcome.error());
    result.finished = now();
    control.note_end(result.finished);
    WorkerStats& stats = executor.stats();
    count_finished(stats, {TxnType::delivery, *outcome, request.queued, result.finished,
                           thread_waits() - waited});
    if (stats.measures(result.finished)) {
        stats.districts_skipped += result.output.skipped;
        stats.deliveries_with_skips += result.output.skipped > 0;
    }
    if (control.settings.on_deliveries) queue.keep(result);
}

void Terminal::pause_until(Nanos time) {
    // In pieces, so that a run ends on time although think times last minutes.
    for (Nanos t = now(); t < time && !finished(t); t = now())
        sleep_for(std::min(time - t, kSecond / 4));
}

}  // namespace lockstep::tpcc
