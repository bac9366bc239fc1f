// engine.cc - opening and closing: files, log, pool, recovery, background services, in an order that can be read top to bottom.
#include "sm/engine.h"

#include <algorithm>
#include <string>

#include "sm/catalog.h"
#include "sm/ghost_cleaner.h"
#include "sm/recovery.h"

namespace lockstep::sm {

Engine::Engine() = default;
Engine::~Engine() { (void)close(); }

void Engine::report(int level, std::string_view text) const {
    if (options.logger) options.logger(level, text);
}

bool Engine::on_own_thread() const {
    threads::Thread* t = threads::current();
    return t && runtime && runtime->owns(*t);
}

Result<void> Engine::start_thread(int worker, const char* name, threads::ThreadFn fn) {
    if (closing.load(std::memory_order_acquire)) return fail(ErrorCode::store_closed, "store");
    user_threads.fetch_add(1, std::memory_order_acq_rel);
    const uint32_t where = worker >= 0 ? static_cast<uint32_t>(worker) : next_worker.fetch_add(1, std::memory_order_relaxed);
    auto started = runtime->spawn(where % runtime->workers(), name, [this, fn = std::move(fn)]() mutable {
        fn();
        fn = nullptr;                    // its captures go before close() may proceed
        if (user_threads.fetch_sub(1, std::memory_order_acq_rel) == 1) user_threads.notify_all();
    });
    if (!started) {
        if (user_threads.fetch_sub(1, std::memory_order_acq_rel) == 1) user_threads.notify_all();
        return std::unexpected(started.error());
    }
    return {};
}

Result<void> Engine::run_and_wait(std::move_only_function<Result<void>()> fn) {
    if (on_own_thread()) return fn();
    Result<void> result;
    threads::Completion done;
    TRY(runtime->spawn(0, "service", [&] {
        result = fn();
        done.set();
    }));
    wait_for(done);
    return result;
}

bool Engine::stepped() const { return options.seams && options.seams->caller_driven; }

// Who drives a simulation calls in here again and again; if nothing can ever happen any more, the wait can only be broken off.
void Engine::wait_for(threads::Completion& done) {
    if (!stepped() || threads::current()) return done.wait();
    while (!done.is_set()) CHECK(runtime->step() || (options.seams->idle && options.seams->idle()));
}

namespace {

threads::IoBackend backend_of(IoMethod method) {
    switch (method) {
        case IoMethod::io_uring: return threads::IoBackend::io_uring;
        case IoMethod::pool: return threads::IoBackend::pool;
        case IoMethod::automatic: break;
    }
    return threads::IoBackend::automatic;
}

txn::LogOptions log_options_of(std::string_view path, const Options& o) {
    return {.directory = std::string(path),
            .segment_bytes = o.log_segment_bytes,
            .capacity_bytes = o.log_bytes,
            .ring_bytes = o.log_ring_bytes,
            .lazy_flush_interval = o.lazy_flush_interval,
            .sync = o.sync};
}

}  // namespace

// Opens what there is, or begins a new store: true. A creation is bracketed by the file "creating": what a crash left of an unfinished one
// is removed and made again, whereas a store that merely lost its superblock is never touched.
Result<bool> Engine::open_files(const std::string& directory) {
    const bool exists = disk->exists(directory + "/data") && !disk->exists(directory + "/creating");
    if (!exists && !options.create) return fail(ErrorCode::bad_path, "no store in this directory");
    TRY(disk->make_directory(directory));
    lock_file = TRY(disk->open(directory + "/lock", threads::Disk::kCreate));
    TRY(disk->lock_exclusive(lock_file));
    if (!exists) TRY(begin_creation(directory));
    data_file = TRY(disk->open(directory + "/data", (exists ? 0u : uint32_t{threads::Disk::kCreate}) | threads::Disk::kDirect));
    lsns_file = TRY(disk->open(directory + "/data.lsn", threads::Disk::kCreate | threads::Disk::kDirect));
    return !exists;
}

Result<void> Engine::begin_creation(const std::string& directory) {
    const bool unfinished = disk->exists(directory + "/creating");
    for (const std::string& name : TRY(disk->list(directory))) {
        if (!name.starts_with("log.") && name != "data" && name != "data.lsn") continue;
        if (!unfinished) return fail(ErrorCode::bad_path, "directory holds files of a store but no complete store");
        TRY(disk->unlink(directory + "/" + name));
    }
    disk->close(TRY(disk->open(directory + "/creating", threads::Disk::kCreate)));
    return disk->sync_directory(directory);
}

Result<void> Engine::end_creation(const std::string& directory) {
    TRY(disk->sync_directory(directory));
    TRY(disk->unlink(directory + "/creating"));
    return disk->sync_directory(directory);
}

Result<std::unique_ptr<Engine>> Engine::open(std::string_view path, const Options& options) {
    TRY(check_options(options));
    if (path.empty()) return fail(ErrorCode::bad_path, "empty path");
    std::unique_ptr<Engine> engine(new (std::nothrow) Engine);
    if (!engine) return fail(ErrorCode::out_of_memory, "store");
    TRY(engine->memory_reserve.hold());
    engine->options = options;
    const Seams* seams = options.seams;
    if (seams && seams->disk) {
        engine->disk = seams->disk;
    } else {
        engine->own_disk = threads::make_disk(backend_of(options.io));
        engine->disk = engine->own_disk.get();
    }
    const std::string directory(path);
    const bool fresh = TRY(engine->open_files(directory));
    if (!fresh) {
        engine->superblock = TRY(read_superblock(*engine->disk, engine->data_file));
        engine->options.log_segment_bytes = engine->superblock.log_segment_bytes;      // fixed when the store was made
    }
    TRY(engine->build(path, fresh));
    if (!fresh) engine->load_written_lsns();
    TRY(engine->run_and_wait([&]() -> Result<void> {
        TRY(engine->log->start_flusher());
        TRY(engine->pool->start_cleaner());
        if (fresh)
            TRY(engine->make_fresh());
        else
            TRY(engine->recover());
        return engine->start_services();
    }));
    if (fresh) TRY(engine->end_creation(directory));
    engine->opened = true;
    return engine;
}

// Objects, from the bottom up. Nothing runs yet.
Result<void> Engine::build(std::string_view path, bool fresh) {
    const Seams* seams = options.seams;
    if (seams && seams->clock == nullptr) return fail(ErrorCode::bad_option, "seams without a clock");
    threads::RuntimeOptions ro{.workers = options.workers,
                               .stack_bytes = options.stack_bytes,
                               .pin_workers = options.pin_workers,
                               .caller_driven = seams && seams->caller_driven,
                               .whole_turns = seams && seams->whole_turns,
                               .seed = seams ? seams->seed : 1,
                               .interrupt_one_in = seams ? seams->interrupt_one_in : 0,
                               .clock = seams ? seams->clock : nullptr,
                               .disk = disk,
                               .steps = options.steps,
                               .policy = {}};
    if (seams && seams->random_schedule)
        ro.policy = [seed = seams->seed](uint32_t worker) { return threads::make_random_policy(seed * 64 + worker); };
    runtime = TRY(threads::Runtime::start(std::move(ro)));
    counters = std::make_unique<ApiCounters[]>(options.workers);

    log_options = log_options_of(path, options);
    log = fresh ? TRY(txn::Log::create(*runtime, log_options))
                : TRY(txn::Log::open(*runtime, log_options, Lsn{superblock.checkpoint_lsn}));
    locks = std::make_unique<txn::LockManager>(txn::LockOptions{.buckets_log2 = options.lock_table_bytes_log2 - 6,
                                                                .owners_max = options.transactions_max + 64,
                                                                .timeout = options.lock_timeout,
                                                                .escalate_at = options.escalate_at,
                                                                .stage = options.lock_stage});
    txns = std::make_unique<txn::TransactionTable>(*log, *locks, options.transactions_max);
    pool = TRY(BufferPool::create(*runtime, *log, data_file,
                                  {.bytes = options.pool_bytes,
                                  .huge_pages = !stepped(),            // a simulation opens many small stores
                                  .sync = options.sync,
                                  .data_path = std::string(path) + "/data"}));
    pool->set_repair([this](PageId id, Page& page) { return repair_page(*this, id, page); });
    space = std::make_unique<SpaceMap>(*this);
    checkpointer = std::make_unique<Checkpointer>(*this);
    ghosts = std::make_unique<GhostCleaner>(*this);
    return {};
}

Result<void> Engine::make_fresh() {
    TRY(space->format_new_volume());
    const PageId root = TRY(Catalog::create(*this));
    catalog = std::make_unique<Catalog>(*this, root);
    TRY(catalog->load());
    superblock = Superblock{.magic = {'L', 'O', 'C', 'K', 'S', 'T', 'E', 'P'},
                            .version = kFormatVersion,
                            .page_bytes = kPageBytes,
                            .uuid = {Rng(runtime->clock().now()).next(), runtime->clock().now()},
                            .checkpoint_lsn = 0,
                            .log_start = log->start().value,
                            .log_segment_bytes = options.log_segment_bytes,
                            .catalog_root = root.value,
                            .clean = 0,
                            .next_txn = 1,
                            .sequence = 0};
    return checkpointer->run(true);
}

void Engine::load_written_lsns() {
    const WrittenLsns::Loaded loaded = pool->written_lsns().load(*disk, lsns_file, store_number());
    if (loaded.missing)
        report(1, "data.lsn is missing: lost writes of pages that have not been read or written since go unnoticed");
    else if (loaded.unknown > 0)
        report(1, std::to_string(loaded.unknown) + " of " + std::to_string(loaded.blocks) + " blocks of data.lsn are damaged: lost writes of " +
                      std::to_string(loaded.unknown * WrittenLsns::kPagesPerBlock) + " pages go unnoticed until they have been read or written");
}

Result<void> Engine::recover() {
    TRY(space->open());
    catalog = std::make_unique<Catalog>(*this, PageId{superblock.catalog_root});
    const RecoveryReport r = TRY(restart(*this, Lsn{superblock.checkpoint_lsn}));
    if (!r.clean)
        report(2, "recovered: " + std::to_string(r.records) + " log records, " + std::to_string(r.parts_redone) +
                      " page changes redone, " + std::to_string(r.losers) + " transactions rolled back, " +
                      std::to_string((r.analysis_nanos + r.redo_nanos + r.undo_nanos) / kMillisecond) + " ms");
    TRY(catalog->load());                // again: rollback may have taken objects away or brought them back
    return catalog->free_dropped();
}

Result<void> Engine::start_services() {
    TRY(checkpointer->start());
    return ghosts->start();
}

void Engine::stop_services() {
    (void)run_and_wait([this]() -> Result<void> {
        if (ghosts) ghosts->stop();
        if (checkpointer) checkpointer->stop();
        return {};
    });
}

// Transactions whose user thread ended without ending them: nobody else can any more.
void Engine::roll_back_orphans() {
    for (txn::Transaction* txn : txns->unfinished()) {
        report(1, "transaction " + std::to_string(txn->id.value) + " was left open by its thread and is rolled back");
        txn->thread = txn->locks.thread = threads::current();
        txn->thread_id = txn->thread->id;
        const auto undone = roll_back(*this, *txn, kLsnNone);
        if (!undone) report(0, "rollback failed: " + undone.error().text());
        txns->finish_abort(*txn, undone.has_value());
    }
}

Result<void> Engine::close() {
    if (closing.exchange(true, std::memory_order_acq_rel)) return {};
    Result<void> result;
    if (runtime) {
        // The application's own user threads first: they may still begin transactions.
        for (uint64_t n; (n = user_threads.load(std::memory_order_acquire)) != 0;) {
            if (!stepped())
                user_threads.wait(n, std::memory_order_acquire);
            else
                CHECK(runtime->step() || (options.seams->idle && options.seams->idle()));
        }
        stop_services();
        if (opened) {
            result = run_and_wait([this]() -> Result<void> {
                roll_back_orphans();
                txns->close();
                if (failed()) return fail(ErrorCode::store_failed, "store");
                TRY(checkpointer->run(true));
                return checkpointer->mark_clean();
            });
        }
        // A restart that failed half-way left losers behind. The next one begins where it began.
        if (!opened && log) log->fail_store();
        if (!opened && txns) txns->abandon();
        (void)run_and_wait([this]() -> Result<void> {
            if (pool) pool->stop_cleaner();
            if (log) log->stop_flusher();
            return {};
        });
        if (!stepped()) runtime->stop();
    }
    release();
    return result;
}

void Engine::abandon() {
    CHECK(stepped());
    if (closing.exchange(true, std::memory_order_acq_rel)) return;
    if (runtime) runtime->abandon();
    if (txns) txns->abandon();
    release();
}

void Engine::release() {
    if (disk && data_file.value >= 0) disk->close(data_file);
    if (disk && lsns_file.value >= 0) disk->close(lsns_file);
    if (disk && lock_file.value >= 0) disk->close(lock_file);
    ghosts.reset();
    checkpointer.reset();
    catalog.reset();
    space.reset();
    pool.reset();
    txns.reset();
    locks.reset();
    log.reset();
    runtime.reset();
}

}  // namespace lockstep::sm
