// backup_api.cc - Store::backup(): a user thread of the store makes it.
#include <filesystem>

#include <lockstep/store.h>
#include "sm/backup/archiver.h"
#include "sm/backup/backup.h"
#include "sm/engine/engine.h"
#include "sm/host/backup_service.h"
#include "sm/host/test_hooks.h"
#include "sm/secondary/key_call.h"
#include "threads/base/error_detail.h"

namespace lockstep {

namespace sm {

static Result<void> unless_closing(const Engine& engine) {
    if (engine.closing()) return fail(ErrorCode::store_closed, "store closes during a backup");
    return {};
}

static Result<BackupInfo> counted(Engine& engine, Result<BackupInfo> info) {
    if (!info) {
        engine.backup_failures.fetch_add(1, std::memory_order_relaxed);
        return info;
    }
    engine.backups.fetch_add(1, std::memory_order_relaxed);
    engine.backup_bytes.fetch_add(info->bytes, std::memory_order_relaxed);
    return info;
}

Result<BackupInfo> backup_to_directory(Engine& engine, std::string_view directory,
                                       const BackupOptions& options,
                                       const std::function<bool()>& abandoned) {
    DCHECK(engine.on_own_thread());
    const TestHooks* hooks = engine.options.test_hooks;
    if ((!hooks || !hooks->disk) && lies_within(directory, engine.directory.path()))
        return fail_with(
            ErrorCode::bad_path, "backup: the target lies in the store's directory",
            std::string(directory) + "; name one outside of " + engine.directory.path());
    // A disk of its own: what it learns of the target's file system does not concern the store.
    const std::unique_ptr<threads::Disk> own =
        hooks && hooks->disk ? nullptr : threads::make_disk(threads::IoBackend::pool);
    if (own) TRY(own->make_files_like(engine.data_file));
    DirectoryTarget target(own ? *own : *engine.disk, std::string(directory));
    const auto goes_on = [&]() -> Result<void> {
        if (abandoned && abandoned())
            return fail(ErrorCode::cancelled, "backup: its client has closed the connection");
        return unless_closing(engine);
    };
    const auto info = counted(engine, make_backup(engine, target, options, goes_on));
    if (!info || !engine.options.archive) return info;
    // The archive knows a backup by its point. The earlier one has it already.
    if (info->since == info->lsn) return info;
    std::error_code error;
    const std::string path = std::filesystem::absolute(target.path(), error).string();
    const auto noted =
        note_backup(*engine.archive, engine.superblock, info->lsn, path, engine.options.sync);
    if (!noted)
        engine.report(1, "the archive does not know the backup in " + path +
                             ", and pages are not rebuilt from it: " + noted.error().text());
    return info;
}

}  // namespace sm

namespace {

template <class Make>
Result<BackupInfo> on_own_thread(sm::Engine* engine, Make make) {
    const sm::Call call(engine);
    if (!call) return sm::Call::closed();
    if (engine->forked()) return sm::Engine::refuse_child();
    TRY(sm::require_outside_key_function());  // KC-1
    if (engine->options.read_only)
        return fail(ErrorCode::read_only, "a store opened read-only: copy its files instead");
    DCHECK(engine->log != nullptr);
    if (engine->on_own_thread()) return make();
    Result<BackupInfo> result = fail(ErrorCode::cancelled, "backup");
    threads::Completion done;
    TRY(engine->start_thread(Store::kAnyWorker, "backup", [&] {
        result = make();
        done.set();
    }));
    engine->wait_for(done);
    return result;
}

}  // namespace

Result<BackupInfo> Store::backup(std::string_view directory, const BackupOptions& options) {
    return on_own_thread(engine_.get(),
                         [&] { return sm::backup_to_directory(*engine_, directory, options); });
}

Result<BackupInfo> Store::backup(BackupSink sink, const BackupOptions& options) {
    return on_own_thread(engine_.get(), [&] {
        sm::SinkTarget target(sink);
        return sm::counted(*engine_, sm::make_backup(*engine_, target, options,
                                                     [&] { return sm::unless_closing(*engine_); }));
    });
}

}  // namespace lockstep
