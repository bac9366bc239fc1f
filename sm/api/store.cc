// store.cc - the public store: run with retries, create and find objects, maintenance calls.
#include <lockstep/store.h>

#include <errno.h>
#include <sched.h>
#include <time.h>

#include <cstdio>
#include <cstdlib>
#include <utility>

#include "sm/api/operation.h"
#include "sm/catalog/catalog.h"
#include "sm/engine/engine.h"
#include "sm/engine/log_room.h"
#include "sm/needs/needs.h"
#include "sm/observe/txn_watch.h"
#include "sm/recovery/recovery.h"
#include "sm/secondary/key_call.h"
#include "sm/secondary/secondary.h"
#include "sm/services/prepared_txns.h"
#include "sm/services/snapshots.h"
#include "threads/base/error_detail.h"
#include "threads/thread/between_calls.h"

namespace lockstep {

Store::Store(detail::Owned<sm::Engine> engine) : engine_(std::move(engine)) {}
Store::Store(Store&&) noexcept = default;
Store& Store::operator=(Store&& other) noexcept {
    if (this != &other) {
        let_go();
        engine_ = std::move(other.engine_);
    }
    return *this;
}
Store::~Store() { let_go(); }

[[noreturn, gnu::cold]] static void stop_destroyer() {
    (void)std::fputs(
        "lockstep: a Store is destroyed, or assigned to, on one of its own user threads or in its "
        "offload(), and would wait for itself; do so on another kernel thread of the application "
        "(lockstep/store.h)\n",
        stderr);
    std::abort();
}

// The engine of a forked child is left in memory: its threads are gone, its locks may be held.
// On a user thread of the store, or in its offload(), close() would wait for its own caller: the
// program is wrong.
void Store::let_go() {
    if (!engine_) return;
    if (engine_->forked()) return (void)engine_.release();
    if (engine_->counted_by_thread() || engine_->offloads_here()) stop_destroyer();
    (void)close();
}

Result<Store> Store::open(std::string_view path, const Options& options) {
    return Store(detail::Owned(TRY(sm::Engine::open(path, options)).release()));
}

Result<void> Store::close() {
    if (!engine_) return {};
    if (engine_->forked()) return engine_->refuse_child();
    if (engine_->counted_by_thread())
        return fail(ErrorCode::wrong_thread, "close() on a user thread of the store");
    if (engine_->offloads_here())
        return fail(ErrorCode::wrong_thread, "close() in offload(), for which a user thread waits");
    TRY(sm::require_outside_key_function());
    return engine_->close();
}

std::optional<StoreFailure> Store::failure() const {
    if (!engine_) return std::nullopt;
    const sm::Call call(engine_.get());
    if (!call) return engine_->failure_before_close();
    const StoreFailure* const why = engine_->log->failure();
    return why != nullptr ? std::optional(*why) : std::nullopt;
}

namespace {

// nanosleep() refuses no time that fits into its seconds, and goes on after a signal.
[[gnu::cold]] void sleep_kernel_thread(Nanos time) {
    timespec left{.tv_sec = static_cast<time_t>(time / kSecond),
                  .tv_nsec = static_cast<long>(time % kSecond)};
    while (nanosleep(&left, &left) != 0 && errno == EINTR) {}
}

[[gnu::cold, gnu::noinline]] Result<txn::Transaction*> begin_reader(sm::Engine& engine,
                                                                    TxnOptions options) {
    options.read_only = true;
    return engine.txns->begin(options);
}

[[gnu::cold, gnu::noinline]] Result<txn::Transaction*> begin_repetition(sm::Engine& engine,
                                                                        const TxnOptions& options) {
    txn::Transaction* const t = TRY(engine.txns->begin(options));
    engine.locks->repeat(t->locks, options.retry);
    return t;
}

[[gnu::cold, gnu::noinline]] Result<txn::Transaction*> begin_snapshot(sm::Engine& engine,
                                                                      const TxnOptions& options) {
    txn::Transaction* const t = TRY(engine.txns->begin(options));
    const Result<void> opened = engine.snapshots->open(*t);
    if (opened) return t;
    engine.txns->finish_abort(*t, true);
    return std::unexpected(opened.error());
}

[[gnu::cold, gnu::noinline]] std::unexpected<Error> refuse_options(const TxnOptions& options) {
    if (!txn::is_level(options.isolation))
        return fail(ErrorCode::bad_option, "isolation", static_cast<uint64_t>(options.isolation));
    DCHECK(options.durability > Durability::lazy);
    return fail(ErrorCode::bad_option, "durability", static_cast<uint64_t>(options.durability));
}

[[gnu::always_inline]] inline Result<txn::Transaction*> begin_admitted(sm::Engine& engine,
                                                                       const TxnOptions& options) {
    TRY(MemoryReserve::require());
    if (!txn::is_level(options.isolation) || options.durability > Durability::lazy) [[unlikely]]
        return refuse_options(options);
    if (engine.log->filling() && !options.read_only &&
        !txn::rules_of(options.isolation).by_snapshot) [[unlikely]] {
        if (engine.options.read_only) return begin_reader(engine, options);
        TRY(sm::wait_to_begin(engine));
    }
    if (txn::rules_of(options.isolation).by_snapshot) [[unlikely]]
        return begin_snapshot(engine, options);
    if (options.retry.first != kTxnNone) [[unlikely]]
        return begin_repetition(engine, options);
    return engine.txns->begin(options);
}

// The first transaction of a packet whose needs were walked: its team has formed already.
[[gnu::noinline]] Result<txn::Transaction*> begin_announced(sm::Engine& engine,
                                                            threads::Thread& self,
                                                            const TxnOptions& options) {
    txn::Transaction* const t = TRY(begin_admitted(engine, options));
    sm::attach_places(*t, *static_cast<sm::Places*>(std::exchange(self.ahead, nullptr)));
    self.to_completion = threads::worker_local.begin_steps != nullptr;
    return t;
}

[[gnu::always_inline]] inline Result<txn::Transaction*> begin_transaction(
    sm::Engine& engine, const TxnOptions& options) {
    threads::Thread& self = *threads::current();
    DCHECK(self.latch_depth == 0);
    if (self.callbacks >= threads::kMustNotCallStore) [[unlikely]]
        return sm::refuse_in_key_function();  // KC-1
    if (self.ahead != nullptr) [[unlikely]]
        return begin_announced(engine, self, options);
    sm::begin_boundary();
    return begin_admitted(engine, options);
}

// The calling thread is none of the engine's, which may be null or closed.
[[gnu::cold, gnu::noinline]] std::unexpected<Error> refuse_begin(sm::Engine* engine) {
    const sm::Call call(engine);
    if (!call) return sm::Call::closed();
    if (engine->forked()) return sm::Engine::refuse_child();
    DCHECK(!engine->counted_by_thread());
    return fail(ErrorCode::wrong_thread,
                "begin() outside the store's user threads: call it in run() or start()");
}

// One attempt. `victim`: a deadlock, or log that others took, ended it, so another attempt may
// succeed. A body that dropped that error meets txn_aborting later, and then the first error
// decides. A lock timeout is the caller's bound on its wait; repeating it would wait many times as
// long. `gone`: the body has ended the transaction, or moved it elsewhere.
Result<void> attempt(FunctionRef<Result<void>(Txn&)> body, Txn txn, const txn::Transaction& t,
                     Retry& retry, bool& victim, bool& gone) {
    DCHECK(txn.live() && !victim && !gone && t.state == txn::TxnState::active);
    auto done = body(txn);
    gone = !txn.live();
    if (done && !gone) {
        auto point = txn.commit();
        if (point) return {};
        done = std::unexpected(point.error());
    }
    if (done) return done;
    victim = done.error().code == ErrorCode::deadlock || sm::caused_by_others(done.error()) ||
             (done.error().code == ErrorCode::txn_aborting && txn.live() &&
              t.abort_cause == ErrorCode::deadlock);
    if (txn.live()) {
        retry = txn.retry();
        (void)txn.abort();
    }
    return done;
}

// Whether this thread still has the transaction that a handle of that generation was made for.
bool is_held(const txn::Transaction& t, uint64_t generation) {
    DCHECK(generation <= t.generation);
    return t.generation == generation && t.thread == threads::current();
}

[[gnu::cold]] std::unexpected<Error> refuse_moved() {
    return fail_with(ErrorCode::bad_argument, "transaction of run()",
                     "the function has moved its Txn elsewhere and has not ended it: it is rolled "
                     "back. Use begin() for a transaction that outlives a function");
}

// After an attempt that left `retry`, which has taken the place of the caller's own: a repetition
// waits for its turn once.
[[gnu::cold, gnu::noinline]] Result<txn::Transaction*> begin_again(sm::Engine& engine,
                                                                   TxnOptions options,
                                                                   const Retry& retry) {
    options.retry = {};
    txn::Transaction* const t = TRY(begin_transaction(engine, options));
    engine.locks->repeat(t->locks, retry);
    return t;
}

// A name is looked up by any usable transaction of this store.
Result<txn::Transaction*> lookup_txn(sm::Engine* engine, Txn& txn) {
    if (!engine || engine->gate.is_shut()) return sm::Call::closed();
    txn::Transaction* t = sm::TxnAccess::usable(txn);
    if (!t) t = sm::TxnAccess::after_wait(txn, true);
    if (!t || &sm::TxnAccess::engine(txn) != engine) return sm::refused(txn, engine, engine);
    sm::operation_boundary(sm::OpKind::fetch, sm::kCatalogObject);
    return t;
}

}  // namespace

Result<txn::Transaction*> sm::schema_txn(Engine* engine, Txn& txn) {
    if (!engine || engine->gate.is_shut()) return sm::Call::closed();
    txn::Transaction* t = TxnAccess::usable(txn);
    if (!t) t = TxnAccess::after_wait(txn, true);
    if (!t || &TxnAccess::engine(txn) != engine || t->read_only)
        return refused(txn, engine, engine);
    operation_boundary(OpKind::insert, kCatalogObject);
    return t;
}

Result<void> Store::run_body(sm::Engine& engine, Body body, const TxnOptions& options) {
    if (!engine.counted_by_thread()) {
        const sm::Call call(&engine);
        if (!call) return sm::Call::closed();
        Result<void> result;
        threads::Completion done;
        TRY(engine.start_thread(kAnyWorker, "run", [&] {
            result = run_body(engine, body, options);
            done.set();
        }));
        engine.wait_for(done);
        return result;
    }
    Retry retry;
    for (uint32_t tries = 0;; ++tries) {
        txn::Transaction* t = TRY(tries == 0 ? begin_transaction(engine, options)
                                             : begin_again(engine, options, retry));
        DCHECK(t->thread == threads::current() && t->first_lsn.load() == 0);
        const uint64_t generation = t->generation;
        bool victim = false, gone = false;
        auto done = attempt(body, Txn(&engine, t, generation), *t, retry, victim, gone);
        if (gone && is_held(*t, generation)) [[unlikely]] {
            (void)Txn(&engine, t, generation).abort();
            if (done) return refuse_moved();
        }
        if (done || !victim || tries >= engine.options.retries_max) return done;
        auto& counters = engine.counters[threads::worker_index()];
        sm::ApiCounters::add(counters.retries);
        threads::yield();  // those that the victim held up go first
    }
}

Result<Txn> Store::begin(const TxnOptions& options) {
    // close() waits for a thread of its own, so that needs no Call.
    if (!engine_ || !engine_->counted_by_thread() || engine_->forked()) [[unlikely]]
        return refuse_begin(engine_.get());
    DCHECK(engine_->on_own_thread());
    DCHECK(threads::current()->latch_depth == 0);
    txn::Transaction* t = TRY(begin_transaction(*engine_, options));
    // A repetition has its lines (LNE-1).
    DCHECK(t->thread == threads::current() &&
           (t->locks.locks_held == 0 || t->locks.is_repetition()));
    return Txn(engine_.get(), t, t->generation);
}

Result<Index> Store::create_index(Txn& txn, std::string_view name) {
    txn::Transaction* t = TRY(sm::schema_txn(engine_.get(), txn));
    return Index(engine_.get(),
                 TRY(sm::finish(*t, [&] { return engine_->catalog->create_index(*t, name); })));
}

Result<Heap> Store::create_heap(Txn& txn, std::string_view name) {
    txn::Transaction* t = TRY(sm::schema_txn(engine_.get(), txn));
    return Heap(engine_.get(),
                TRY(sm::finish(*t, [&] { return engine_->catalog->create_heap(*t, name); })));
}

Result<Index> Store::open_or_create_index(Txn& txn, std::string_view name) {
    txn::Transaction* t = TRY(sm::schema_txn(engine_.get(), txn));
    return Index(
        engine_.get(),
        TRY(sm::finish(*t, [&] { return engine_->catalog->open_or_create_index(*t, name); })));
}

Result<Heap> Store::open_or_create_heap(Txn& txn, std::string_view name) {
    txn::Transaction* t = TRY(sm::schema_txn(engine_.get(), txn));
    return Heap(
        engine_.get(),
        TRY(sm::finish(*t, [&] { return engine_->catalog->open_or_create_heap(*t, name); })));
}

Result<void> Store::drop(Txn& txn, std::string_view name) {
    txn::Transaction* t = TRY(sm::schema_txn(engine_.get(), txn));
    TRY(sm::finish(*t, [&] { return engine_->catalog->drop(*t, name); }));
    return forget_columns(txn, name);
}

Result<Index> Store::index(std::string_view name) {
    const sm::Call call(engine_.get());
    if (!call) return sm::Call::closed();
    if (engine_->forked()) return engine_->refuse_child();
    return Index(engine_.get(), TRY(engine_->catalog->index(name)));
}

Result<Heap> Store::heap(std::string_view name) {
    const sm::Call call(engine_.get());
    if (!call) return sm::Call::closed();
    if (engine_->forked()) return engine_->refuse_child();
    return Heap(engine_.get(), TRY(engine_->catalog->heap(name)));
}

Result<Index> Store::index(Txn& txn, std::string_view name) {
    txn::Transaction* t = TRY(lookup_txn(engine_.get(), txn));
    return Index(engine_.get(),
                 TRY(sm::finish(*t, [&] { return engine_->catalog->index(*t, name); })));
}

Result<Heap> Store::heap(Txn& txn, std::string_view name) {
    txn::Transaction* t = TRY(lookup_txn(engine_.get(), txn));
    return Heap(engine_.get(),
                TRY(sm::finish(*t, [&] { return engine_->catalog->heap(*t, name); })));
}

std::vector<Store::Entry> Store::list() {
    std::vector<Entry> entries;
    const sm::Call call(engine_.get());
    if (!call || engine_->forked()) return entries;
    for (auto& e : engine_->catalog->list())
        entries.push_back(
            {.name = e.name, .is_index = e.kind == sm::ObjectKind::index, .id = e.id, .of = e.of});
    return entries;
}

Result<void> Store::bulk_load(Txn& txn, Index index,
                              FunctionRef<bool(Slice& key, Slice& value)> next,
                              uint32_t fill_percent) {
    txn::Transaction* t = TRY(sm::schema_txn(engine_.get(), txn));
    if (!index.tree_) return fail(ErrorCode::no_such_object, "empty index handle");
    if (index.engine_ != engine_.get())
        return fail(ErrorCode::bad_argument, "index of another store", index.id().value);
    if (fill_percent < 50 || fill_percent > 100)
        return fail(ErrorCode::bad_argument, "fill_percent", fill_percent);
    TRY(sm::finish(*t, [&] {
        return engine_->locks->lock_object(t->locks, index.tree_->lock(), txn::LockMode::X);
    }));
    return sm::finish(*t, [&] {
        const sm::CallsBack inside(*t);
        return sm::load_index(*engine_, *t, *index.tree_, next, fill_percent);
    });
}

Result<void> Store::wait_durable(Lsn point) {
    const sm::Call call(engine_.get());
    if (!call) return sm::Call::closed();
    if (point == kLsnNone && !engine_->forked()) return {};
    return engine_->run_and_wait([&] { return engine_->log->wait_durable(point); });
}

Result<void> Store::checkpoint() {
    const sm::Call call(engine_.get());
    if (!call) return sm::Call::closed();
    if (engine_->options.read_only) return fail(ErrorCode::read_only, "store opened read-only");
    return engine_->run_and_wait([&] { return engine_->checkpointer->run(true); });
}

std::vector<TransactionInfo> Store::transactions() {
    const sm::Call call(engine_.get());
    if (!call || engine_->forked()) return {};
    return engine_->watch->list();
}

Result<void> Store::end_transaction(TxnId id) {
    const sm::Call call(engine_.get());
    if (!call) return sm::Call::closed();
    if (engine_->forked()) return engine_->refuse_child();
    return engine_->watch->end(id);
}

std::vector<PreparedInfo> Store::prepared() {
    const sm::Call call(engine_.get());
    if (!call || engine_->forked()) return {};
    return engine_->prepared->list();
}

Result<bool> Store::commit_prepared(Slice gid) {
    const sm::Call call(engine_.get());
    if (!call) return sm::Call::closed();
    if (engine_->forked()) return engine_->refuse_child();
    return engine_->prepared->end(gid, sm::PreparedTxns::Decision::commit);
}

Result<bool> Store::rollback_prepared(Slice gid) {
    const sm::Call call(engine_.get());
    if (!call) return sm::Call::closed();
    if (engine_->forked()) return engine_->refuse_child();
    return engine_->prepared->end(gid, sm::PreparedTxns::Decision::roll_back);
}

const Options& Store::options() const { return engine_->options; }

void yield() {
    if (threads::current() == nullptr) [[unlikely]] {
        sched_yield();
        return;
    }
    const threads::BetweenCalls waits;
    threads::yield();
}

void sleep_for(Nanos time) {
    if (threads::current() == nullptr) [[unlikely]]
        return sleep_kernel_thread(time);
    const threads::BetweenCalls waits;
    const Nanos start = threads::now();
    threads::sleep_until(time < kNever - start ? start + time : kNever - 1);
}

Nanos now() {
    if (threads::current() == nullptr) [[unlikely]]
        return MonotonicClock().now();
    return threads::now();
}

}  // namespace lockstep
