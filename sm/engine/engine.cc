// engine.cc - opening: files, log, pool, recovery, background services, in an order that can be
// read top to bottom.
#include "sm/engine/engine.h"
#include "sm/host/test_hooks.h"

#include <algorithm>
#include <string>

#include "sm/backup/archiver.h"
#include "sm/backup/backup_manifest.h"
#include "sm/backup/page_rebuild.h"
#include "sm/catalog/catalog.h"
#include "sm/core/lock_error.h"
#include "sm/core/lock_wait.h"
#include "sm/engine/derived_options.h"
#include "sm/engine/log_room.h"
#include "sm/engine/lost_mark.h"
#include "sm/engine/memory_limit.h"
#include "sm/needs/needs_team.h"
#include "sm/observe/control.h"
#include "sm/observe/txn_watch.h"
#include "sm/recovery/recovery.h"
#include "sm/secondary/key_call.h"
#include "sm/services/ghost_cleaner.h"
#include "sm/services/prepared_txns.h"
#include "sm/services/snapshots.h"
#include "threads/base/error_detail.h"
#include "threads/base/rng.h"
#include "threads/worker/offload.h"

namespace lockstep::sm {

Engine::Engine() : Host(*this) {}
Engine::~Engine() {
    CHECK(!forked());  // the child of a fork() leaves everything as it is
    (void)close();
}

bool Engine::on_own_thread() const {
    threads::Thread* t = threads::current();
    return t && runtime && runtime->owns(*t);
}

bool Engine::offloads_here() const {
    return threads::offloaded_by(own_workers_.load(std::memory_order_relaxed));
}

Result<void> Engine::start_thread(int worker, const char* name, threads::ThreadFn fn) {
    DCHECK(name != nullptr && static_cast<bool>(fn));
    TRY(require_outside_key_function());  // KC-1: the caller may wait for the thread
    if (forked()) return refuse_child();
    if (closing_.load(std::memory_order_acquire)) return fail(ErrorCode::store_closed, "store");
    const auto ended = [this] {
        if (user_threads_.fetch_sub(1, std::memory_order_acq_rel) == 1) user_threads_.notify_all();
    };
    user_threads_.fetch_add(1, std::memory_order_acq_rel);
    const uint32_t where =
        worker >= 0 ? static_cast<uint32_t>(worker)
                    : next_worker_.fetch_add(1, std::memory_order_relaxed) % options.workers;
    auto started = runtime->spawn(where, name, [ended, fn = std::move(fn)]() mutable {
        fn();
        fn = nullptr;  // its captures go before close() may proceed
        ended();
    });
    if (!started) {
        ended();
        return std::unexpected(started.error());
    }
    return {};
}

Result<void> Engine::run_and_wait(std::move_only_function<Result<void>()> fn) {
    DCHECK(runtime != nullptr && static_cast<bool>(fn));
    TRY(require_outside_key_function());  // KC-1
    if (on_own_thread()) return fn();
    if (forked()) return refuse_child();
    Result<void> result;
    threads::Completion done;
    TRY(runtime->spawn(0, "service", [&] {
        result = fn();
        done.set();
    }));
    wait_for(done);
    return result;
}

bool Engine::stepped() const { return options.test_hooks && options.test_hooks->caller_driven; }

// The driver of a simulation calls this repeatedly. If nothing can ever happen any more, the wait
// can only be aborted.
void Engine::wait_for(threads::Completion& done) {
    if (!stepped() || threads::current()) return done.wait();
    while (!done.is_set())
        CHECK(runtime->step() || (options.test_hooks->idle && options.test_hooks->idle()));
}

namespace {

// Of Options::pool_bytes, unless a test wants less.
uint64_t pool_bytes(const Options& options) {
    const TestHooks* const hooks = options.test_hooks;
    DCHECK(hooks == nullptr || hooks->pool_bytes <= options.pool_bytes);
    return hooks != nullptr && hooks->pool_bytes != 0 ? hooks->pool_bytes : options.pool_bytes;
}

threads::IoBackend backend_of(IoMethod method) {
    switch (method) {
        case IoMethod::io_uring: return threads::IoBackend::io_uring;
        case IoMethod::pool: return threads::IoBackend::pool;
        case IoMethod::automatic: break;
    }
    return threads::IoBackend::automatic;
}

// Keeps a part for as long as the engine lives and gives what the structures see of it.
template <class T>
T* own(std::unique_ptr<T>& owner, std::unique_ptr<T> part) {
    owner = std::move(part);
    return owner.get();
}

txn::LogOptions log_options_of(const threads::Disk& disk, const threads::Directory& directory,
                               const Options& o) {
    return {.directory = directory,
            .segment_bytes = o.log_segment_bytes.value_or(0),
            .capacity_bytes = o.log_bytes,
            .kept_bytes = o.changes_log_bytes,
            .ring_bytes = o.log_ring_bytes.value_or(0),
            .lazy_flush_interval = o.lazy_flush_interval,
            .sync = o.sync,
            .outlives_process = disk.outlives_process(),
            .mappings = o.test_hooks ? o.test_hooks->mappings : nullptr};
}

threads::RuntimeOptions runtime_options(const Options& options, threads::Disk* disk) {
    const TestHooks* hooks = options.test_hooks;
    DCHECK(disk != nullptr && (!hooks || hooks->clock != nullptr));
    threads::RuntimeOptions ro{.workers = options.workers + options.scan_workers,
                               .without_packets = options.scan_workers,
                               .stack_bytes = options.stack_bytes,
                               .pin_workers = options.pin_workers,
                               .caller_driven = hooks && hooks->caller_driven,
                               .whole_turns = hooks && hooks->whole_turns,
                               .seed = hooks ? hooks->seed : 1,
                               .interrupt_one_in = hooks ? hooks->interrupt_one_in : 0,
                               .clock = hooks ? hooks->clock : nullptr,
                               .disk = disk,
                               .steps = options.steps,
                               .offload_threads = options.offload_threads,
                               .executors = options.executors,
                               .begun_max = options.user_threads_max,
                               .packets_max = options.packets_max,
                               .packet_policy = options.packet_policy,
                               .policy = {},
                               .mappings = hooks ? hooks->mappings : nullptr};
    if (hooks && hooks->random_schedule)
        ro.policy = [seed = hooks->seed](uint32_t worker) {
            return threads::make_random_policy(seed * 64 + worker);
        };
    return ro;
}

}  // namespace

// Opens the existing files, or begins a new store (true). The file "creating" exists during a
// creation. What a crash left of an unfinished creation is removed and made again. A store that
// merely lost its superblock is never touched.
Result<bool> Engine::open_files() {
    TRY(check_backup(*disk, directory));
    const bool exists = holds_store();
    if (!exists && !options.create)
        return fail_with(
            ErrorCode::bad_path, "no store",
            directory.path() + " holds no store; check the path (option create is off)");
    if (!directory.is_open()) {
        TRY(disk->make_directory(directory.here()));
        directory = TRY(threads::Directory::open(*disk, directory.here()));
    }
    lock_file_ = TRY(disk->open(directory / "lock", threads::Disk::kCreate));
    TRY(lock_files(disk->lock_exclusive(lock_file_)));
    if (!exists) TRY(begin_creation());
    data_file =
        TRY(disk->open(directory / "data",
                       (exists ? 0u : uint32_t{threads::Disk::kCreate}) | threads::Disk::kDirect));
    if (exists) TRY(disk->make_files_like(data_file));
    lsns_file =
        TRY(disk->open(directory / "data.lsn", threads::Disk::kCreate | threads::Disk::kDirect));
    return !exists;
}

bool Engine::holds_store() const {
    return disk->exists(directory / "data") && !disk->exists(directory / "creating");
}

Result<void> Engine::lock_files(Result<void> locked) const {
    DCHECK(directory.is_open());
    if (locked || locked.error().code != ErrorCode::store_locked) return locked;
    std::string holder = error_detail(locked.error());
    if (holder.empty()) holder = "another process, or a second time in this one";
    return fail_with(ErrorCode::store_locked, "lock file",
                     directory.path() + " is open in " + holder + "; close it there");
}

Result<void> Engine::begin_creation() {
    DCHECK(directory.is_open() && lock_file_.value >= 0);
    const bool unfinished = disk->exists(directory / "creating");
    for (const std::string& name : TRY(disk->list(directory.here()))) {
        if (!name.starts_with("log.") && name != "data" && name != "data.lsn") continue;
        if (!unfinished)
            return fail_with(ErrorCode::bad_path, "no complete store",
                             directory.path(name) +
                                 " exists, but no complete store; restore it from a "
                                 "backup, or name another directory");
        TRY(disk->unlink(directory / name));
    }
    disk->close(TRY(disk->open(directory / "creating", threads::Disk::kCreate)));
    return disk->sync_directory(directory.here());
}

Result<void> Engine::end_creation() {
    DCHECK(directory.is_open());
    TRY(disk->sync_directory(directory.here()));
    TRY(disk->unlink(directory / "creating"));
    return disk->sync_directory(directory.here());
}

Result<std::unique_ptr<Engine>> Engine::open(std::string_view path, const Options& options) {
    TRY(check_options(options));
    if (path.empty()) return fail(ErrorCode::bad_path, "empty path");
    if (path.contains('\0'))
        return fail_with(ErrorCode::bad_path, "zero byte in the path", printable(path));
    threads::watch_forks();
    std::unique_ptr<Engine> engine(new (std::nothrow) Engine);
    if (!engine) return fail(ErrorCode::out_of_memory, "store");
    TRY(engine->memory_reserve_.hold());
    engine->options = options;
    derive_log_options(engine->options);
    engine->logger = options.logger;
    const TestHooks* hooks = options.test_hooks;
    if (hooks && hooks->disk) {
        engine->disk = hooks->disk;
    } else {
        const bool in_memory = path == threads::kMemoryPath;
        engine->own_disk_ = in_memory ? threads::make_memory_disk(backend_of(options.io))
                                      : threads::make_disk(backend_of(options.io));
        engine->disk = engine->own_disk_.get();
    }
    if (!engine->disk->outlives_process()) TRY(engine->adapt_to_memory());
    engine->disk->set_file_mode(options.file_mode);
    engine->directory = threads::Directory::opened(*engine->disk, path);
    if (options.read_only) TRY(engine->open_files_to_read());
    const bool fresh = !options.read_only && TRY(engine->open_files());
    if (!fresh) {
        engine->superblock = TRY(read_superblock(*engine->disk, engine->data_file));
        TRY(engine->take_fixed_options());
        // An earlier run may have been without syncs, or was killed before its last one.
        if (options.sync && !options.read_only) TRY(engine->disk->sync_now(engine->data_file));
    }
    if (options.read_only) TRY(engine->require_closed());
    else if (!fresh) TRY(engine->adopt());
    TRY(engine->build(fresh));
    engine->say_durability();
    engine->say_memory();
    if (!fresh) engine->load_written_lsns();
    if (engine->superblock.version < kFormatVersion && !fresh && !options.read_only)
        TRY(engine->raise_version());
    TRY(engine->run_and_wait([&]() -> Result<void> {
        engine->own_workers_.store(&threads::current()->worker->shared());
        if (options.read_only) return engine->start_reading();
        TRY(engine->log->start_flusher());
        TRY(engine->pool->start_cleaner());
        if (!fresh) {
            TRY(engine->recover());
        } else {
            TRY(engine->make_fresh());
            // The services tell the archive the store's number, so that number must last.
            TRY(engine->end_creation());
        }
        return engine->start_services();
    }));
    engine->opened_ = true;
    engine->watch_slices();
    TRY(engine->start_control());
    return engine;
}

Result<void> Engine::adapt_to_memory() {
    DCHECK(runtime == nullptr);
    options.sync = false;
    if (!options.control) return {};
    return fail_with(
        ErrorCode::bad_option, "control",
        "a store in memory has no directory for the socket; open it without `control`");
}

// What was fixed when the store was made.
Result<void> Engine::take_fixed_options() {
    DCHECK(log == nullptr && !opened_);
    const uint64_t segment = superblock.log_segment_bytes;
    DCHECK(segment > 0);
    options.log_segment_bytes = segment;
    if (options.read_only || options.log_bytes / 4 >= segment) return {};
    return fail_with(ErrorCode::bad_option, "log_bytes",
                     "it is " + std::to_string(options.log_bytes) + ", and this store needs " +
                         std::to_string(4 * segment) + " or more: its log segments have " +
                         std::to_string(segment) +
                         " bytes each since it was made (log_segment_bytes)");
}

Result<void> Engine::start_control() {
    if (!options.control) return {};
    DCHECK(opened_ && control == nullptr && !closing_.load());
    control = std::make_unique<Control>(*this, *watch, *prepared);
    return control->start();
}

// Nobody listens without a logger. The store works without the watch, too.
void Engine::watch_slices() {
    if (!options.slice_warning || !logger) return;
    const auto watched = runtime->watch_slices(
        *options.slice_warning, [this](int level, std::string_view text) { report(level, text); });
    if (!watched) report(1, "slices are not watched: " + watched.error().text());
}

Result<std::unique_ptr<txn::Log>> Engine::open_known_log(const LostMark& lost) const {
    const Lsn checkpoint{superblock.checkpoint_lsn};
    auto opened = options.read_only
                      ? txn::Log::open_to_read(*runtime, log_options, checkpoint, lost.durable)
                      : txn::Log::open(*runtime, log_options, checkpoint, lost.durable);
    const bool ends_early = !opened && opened.error().code == ErrorCode::corrupt_log &&
                            lost.durable != kLsnNone && opened.error().b == lost.durable.value;
    if (ends_early) return refuse_lost_end(opened.error(), lost);
    return opened;
}

Result<void> Engine::open_log(bool fresh) {
    DCHECK(log == nullptr && runtime != nullptr);
    LostMark lost;
    if (!fresh) lost = TRY(look_for_lost_mark(*disk, directory, lsns_file, superblock));
    log = own(own_log_,
              fresh ? TRY(txn::Log::create(*runtime, log_options)) : TRY(open_known_log(lost)));
    run_begin = log->tail();
    if (!lost.warning.empty()) report(1, lost.warning + std::to_string(run_begin.value));
    if (!fresh) first_record.store(superblock.log_start);
    return {};
}

// Objects, from the bottom up. Nothing runs yet.
Result<void> Engine::build(bool fresh) {
    DCHECK(disk != nullptr && runtime == nullptr && data_file.value >= 0);
    const TestHooks* hooks = options.test_hooks;
    if (hooks && hooks->clock == nullptr)
        return fail(ErrorCode::bad_option, "hooks without a clock");
    runtime = own(own_runtime_, TRY(threads::Runtime::start(runtime_options(options, disk))));
    steps_mode.store(options.steps.mode, std::memory_order_relaxed);
    steps_now = options.steps;
    up_since_ = runtime->clock().now();
    counters = std::make_unique<ApiCounters[]>(runtime->workers());
    own_needs_ = std::make_unique<WorkerNeeds[]>(runtime->workers());
    needs = own_needs_.get();
    needs_team = std::make_unique<NeedsTeam>(*this);
    runtime->set_team_hook(needs_team.get());

    log_options = log_options_of(*disk, directory, options);
    TRY(open_log(fresh));
    TRY(build_archive());
    if (options.changes_log_bytes != 0 && !options.read_only) log->keep_times();
    log->on_failure(
        [this](const StoreFailure& why) { report(0, "the store stops: " + why.text()); });
    const uint32_t callers =
        std::min(options.transactions_max, txn::kOwnersMax - txn::TransactionTable::kSystemSlots);
    locks =
        own(own_locks_,
            std::make_unique<txn::LockManager>(txn::LockOptions{
                .buckets_log2 = options.lock_table_bytes_log2 - 6,
                .owners_max = callers + txn::TransactionTable::kSystemSlots,
                .timeout = options.lock_timeout,
                .escalate_at = options.escalate_at.value_or(0),
                .stage = options.lock_stage,
                .object_text = [this](ObjectId id) { return object_text(objects, id); },
                .place_text = lock_place_text,
                .in_doubt_text =
                    [this](TxnId id) {
                        const std::string gid = prepared->gid_of(id);
                        return gid.empty() ? gid : "prepared as " + printable(gid, kGidBytesMax);
                    },
                .owners_have_threads = true,
                .store_state = [this]() -> Result<void> {
                    if (!log->failed()) return {};
                    return log->refused();
                },
                .mappings = hooks ? hooks->mappings : nullptr}));
    txns = own(own_txns_, std::make_unique<txn::TransactionTable>(*log, *locks, callers));
    pool = own(own_pool_,
               TRY(BufferPool::create(*runtime, *log, data_file,
                                      {.bytes = pool_bytes(options),
                                       // A simulation opens many small stores.
                                       .huge_pages = !stepped(),
                                       .mappings = hooks ? hooks->mappings : nullptr,
                                       .sync = options.sync,
                                       .directory = directory,
                                       .rolls_back = [this] { return txns->rolls_back_here(); }})));
    if (!options.read_only)
        pool->set_repair([this](PageId id, Page& page) { return repair(id, page); });
    space = own(own_space_, std::make_unique<SpaceMap>(*this));
    checkpointer = own(own_checkpointer_, std::make_unique<Checkpointer>(*this));
    make_services();
    assert_state();
    if (hooks && hooks->redone) redone = [this, hooks] { hooks->redone(*this); };
    return {};
}

void Engine::make_services() {
    DCHECK(checkpointer != nullptr && versions == nullptr);
    ghosts = std::make_unique<GhostCleaner>(*this);
    ghost_notes = ghosts.get();
    snapshots = std::make_unique<Snapshots>(*this);
    prepared = std::make_unique<PreparedTxns>(*this);
    watch = std::make_unique<TxnWatch>(*this, *prepared);
    versions = &snapshots->table();
    tick = [this] { watch->warn(), watch->warn_of_limit(); };
    log_keeper = [this] {
        const auto keeper = keeper_of_log(*this);
        return keeper ? keeper->text : std::string();
    };
}

void Engine::adopt_catalog(PageId root) {
    DCHECK(!catalog && objects == nullptr && root != kPageNone);
    catalog = std::make_unique<Catalog>(*this, *ghosts, *prepared, root);
    objects = catalog.get();
    drops = &catalog->drop_list();
}

Result<void> Engine::make_fresh() {
    DCHECK(!opened_ && superblock.sequence == 0);
    TRY(space->format_new_volume());
    pool->set_repaired([this](ExclusivePage& page) { return log_repaired_page(*this, page); });
    const PageId root = TRY(Catalog::create(*this));
    adopt_catalog(root);
    TRY(catalog->load());
    superblock = Superblock{.magic = {'L', 'O', 'C', 'K', 'S', 'T', 'E', 'P'},
                            .version = kFormatVersion,
                            .page_bytes = kPageBytes,
                            .uuid = {Rng(runtime->clock().now()).next(), runtime->clock().now()},
                            .checkpoint_lsn = 0,
                            .log_start = log->start().value,
                            .log_segment_bytes = options.log_segment_bytes.value_or(0),
                            .catalog_root = root.value,
                            .clean = 0,
                            .next_txn = 1,
                            .sequence = 0,
                            .history = 0,
                            .history_parent = 0,
                            .history_begin = 0};
    return checkpointer->run(true);
}

const char* Engine::log_durability() const {
    DCHECK(disk != nullptr && log != nullptr);
    if (!options.sync) return "none";
    return disk->syncs_after_write() ? "fdatasync" : "write";
}

void Engine::say_durability() const {
    if (!options.sync || options.read_only || !disk->syncs_after_write()) return;
    report(
        2,
        "durable writes (RWF_DSYNC) are refused, or the file system is not known to honour them: "
        "each write of the log is followed by fdatasync. A store on ext4, xfs, btrfs or f2fs "
        "commits faster");
}

void Engine::say_memory() const {
    DCHECK(snapshots != nullptr && !opened_);
    if (stepped()) return;
    const uint64_t wanted = options.pool_bytes + snapshots->table().limit(), limit = memory_limit();
    if (wanted <= limit) return;
    report(1, "the pool and the versions may take " + std::to_string(wanted) +
                  " bytes (pool_bytes + version_bytes), but there is memory for " +
                  std::to_string(limit) +
                  ": the system may swap, or end the process, when they have filled");
}

void Engine::load_written_lsns() {
    if (options.read_only && lsns_file.value < 0) return;  // a copy without it
    const WrittenLsns::Loaded loaded =
        pool->written_lsns().load(*disk, lsns_file, superblock.store_number());
    if (loaded.missing)
        report(1,
               "data.lsn is missing: lost writes of pages that have not been read or written since "
               "go unnoticed");
    else if (loaded.unknown > 0)
        report(1, std::to_string(loaded.unknown) + " of " + std::to_string(loaded.blocks) +
                      " blocks of data.lsn are damaged: lost writes of " +
                      std::to_string(loaded.unknown * WrittenLsns::kPagesPerBlock) +
                      " pages go unnoticed until they have been read or written");
}

// Before the first log record that an older program cannot read (PI-3).
Result<void> Engine::raise_version() {
    DCHECK(!opened_ && superblock.version >= kFormatVersionOldest);
    report(2, "format version " + std::to_string(superblock.version) + " becomes " +
                  std::to_string(kFormatVersion) + ": older programs will refuse the store");
    superblock.version = kFormatVersion;
    return write_superblock(*disk, data_file, superblock);
}

Result<void> Engine::recover() {
    DCHECK(!opened_);
    if (archiver) log_read = [this] { return archiver->check(); };
    TRY(space->open());
    adopt_catalog(PageId{superblock.catalog_root});
    const RecoveryReport r = TRY(restart(*this, Lsn{superblock.checkpoint_lsn}));
    if (!r.clean)
        report(2,
               "recovered: " + std::to_string(r.records) + " log records, " +
                   std::to_string(r.parts_redone) + " page changes redone, " +
                   std::to_string(r.losers) + " transactions rolled back, " +
                   std::to_string((r.analysis_nanos + r.redo_nanos + r.undo_nanos) / kMillisecond) +
                   " ms");
    prepared->adopt(r.in_doubt);
    if (!r.in_doubt.empty())
        report(1, (r.in_doubt.size() == 1
                       ? "1 transaction is in doubt and keeps its locks until it is"
                       : std::to_string(r.in_doubt.size()) +
                             " transactions are in doubt and keep their locks until they are") +
                      std::string(" committed or rolled back (Store::prepared())"));
    // again: rollback may have taken objects away or brought them back.
    TRY(catalog->load());
    return catalog->free_dropped();
}

Result<void> Engine::start_services() {
    assert_state();
    DCHECK(!closing_.load() && superblock.checkpoint_lsn != 0);
    if (archiver) TRY(archiver->start());
    TRY(checkpointer->start());
    TRY(watch->start());
    return ghosts->start();
}

}  // namespace lockstep::sm
