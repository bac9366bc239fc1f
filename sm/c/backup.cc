// backup.cc - the C interface of backups.
#include <lockstep/c/backup.h>

#include <span>
#include <string>
#include <vector>

#include "sm/c/objects.h"

namespace lockstep::c {

namespace {

lockstep_backup_info c_info(const BackupInfo& info) {
    return {.size = sizeof(lockstep_backup_info),
            .lsn = info.lsn.value,
            .redo_from = info.redo_from.value,
            .since = info.since.value,
            .store = {info.store[0], info.store[1]},
            .pages = info.pages,
            .pages_copied = info.pages_copied,
            .pages_zeroed = info.pages_zeroed,
            .bytes = info.bytes,
            .log_bytes = info.log_bytes,
            .nanos = info.time,
            .ended_at = info.ended_at,
            .history = info.history};
}
BackupInfo info_of(const lockstep_backup_info& info) {
    return {.lsn = Lsn{info.lsn},
            .redo_from = Lsn{info.redo_from},
            .since = Lsn{info.since},
            .store = {info.store[0], info.store[1]},
            .pages = info.pages,
            .pages_copied = info.pages_copied,
            .pages_zeroed = info.pages_zeroed,
            .bytes = info.bytes,
            .log_bytes = info.log_bytes,
            .time = info.nanos,
            .ended_at = info.ended_at,
            .history = info.history};
}
Result<void> tell(lockstep_backup_info* out, const BackupInfo& info) {
    if (out == nullptr) return {};
    return fill(out, c_info(info), "size of lockstep_backup_info");
}
Result<void> tell_faults(const std::vector<std::string>& found, lockstep_line each, void* arg,
                         size_t* faults) {
    for (const std::string& fault : found)
        if (each != nullptr) each(arg, fault.c_str());
    set(faults, found.size());
    return {};
}

constexpr lockstep_backup_options kDefaults = {.size = sizeof(lockstep_backup_options),
                                               .bytes_per_second = LOCKSTEP_UNLIMITED,
                                               .since = nullptr,
                                               .progress = nullptr,
                                               .progress_arg = nullptr};

constexpr lockstep_restore_options kRestoreDefaults = {
    .size = sizeof(lockstep_restore_options),
    .archive = nullptr,
    .until = nullptr,
    .until_time = nullptr,
    .history = nullptr,
    .memory_bytes = RestoreOptions{}.memory_bytes};

// Options of the C++ interface, with the earlier backup that they point to.
struct Wanted {
    BackupInfo earlier;
    BackupOptions options;
};
Result<void> understand(const lockstep_backup_options* given, Wanted& wanted) {
    const auto o = TRY(sized(given, kDefaults, "size of lockstep_backup_options"));
    if (o.bytes_per_second != LOCKSTEP_UNLIMITED)
        wanted.options.bytes_per_second = o.bytes_per_second;
    if (o.since != nullptr) {
        wanted.earlier =
            info_of(TRY(sized(o.since, lockstep_backup_info{}, "size of lockstep_backup_info")));
        wanted.options.since = &wanted.earlier;
    }
    if (o.progress != nullptr)
        wanted.options.progress = [take = o.progress,
                                   arg = o.progress_arg](const BackupProgress& p) {
            take(arg, p.pages, p.pages_total, p.bytes);
        };
    return {};
}

Result<RestoreOptions> understand(const lockstep_restore_options* options) {
    const auto o = TRY(sized(options, kRestoreDefaults, "size of lockstep_restore_options"));
    RestoreOptions point = {.memory_bytes = o.memory_bytes};
    if (o.archive != nullptr) point.archive = o.archive;
    if (o.until != nullptr) point.until = Lsn{*o.until};
    if (o.until_time != nullptr) point.until_time = *o.until_time;
    if (o.history != nullptr) point.history = *o.history;
    return point;
}
Result<std::vector<std::string>> directories(const char* const* backups, size_t count) {
    LOCKSTEP_NOT_NULL(backups);
    std::vector<std::string> names;
    for (const char* const name : std::span(backups, count)) {
        LOCKSTEP_NOT_NULL(name);
        names.emplace_back(name);
    }
    return names;
}

}  // namespace
}  // namespace lockstep::c

namespace c = lockstep::c;
using lockstep::Result;

void lockstep_backup_options_init(lockstep_backup_options* options, size_t size) {
    c::initialise(options, size, c::kDefaults);
}

void lockstep_restore_options_init(lockstep_restore_options* options, size_t size) {
    c::initialise(options, size, c::kRestoreDefaults);
}

int lockstep_backup(lockstep_store* store, const char* directory,
                    const lockstep_backup_options* options, lockstep_backup_info* info,
                    lockstep_error* error) {
    return c::on_store(store, error, [&](c::StoreObject& s) -> Result<void> {
        LOCKSTEP_NOT_NULL(directory);
        c::Wanted wanted;
        TRY(c::understand(options, wanted));
        return c::tell(info, TRY(s.store.backup(directory, wanted.options)));
    });
}

int lockstep_backup_to(lockstep_store* store, lockstep_backup_sink sink, void* arg,
                       const lockstep_backup_options* options, lockstep_backup_info* info,
                       lockstep_error* error) {
    int code = 0;
    const int result = c::on_store(store, error, [&](c::StoreObject& s) -> Result<void> {
        LOCKSTEP_NOT_NULL(sink);
        c::Wanted wanted;
        TRY(c::understand(options, wanted));
        const auto take = [&](std::string_view file, uint64_t offset,
                              lockstep::Slice bytes) -> Result<void> {
            code = sink(arg, std::string(file).c_str(), offset, c::to_c(bytes));
            if (code == 0) return {};
            return lockstep::fail(lockstep::ErrorCode::cancelled, "result of the backup's sink");
        };
        return c::tell(info, TRY(s.store.backup(take, wanted.options)));
    });
    if (result == LOCKSTEP_OK || code == 0) return result;
    if (error != nullptr) error->code = code;
    return code;
}

int lockstep_read_backup(const char* directory, lockstep_backup_info* info, lockstep_error* error) {
    const auto call = [&]() -> Result<void> {
        LOCKSTEP_NOT_NULL(directory);
        LOCKSTEP_NOT_NULL(info);
        return c::tell(info, TRY(lockstep::read_backup(directory)));
    };
    return c::report(call(), error);
}

int lockstep_verify_backup(const char* directory, lockstep_line each, void* arg, size_t* faults,
                           lockstep_error* error) {
    const auto call = [&]() -> Result<void> {
        LOCKSTEP_NOT_NULL(directory);
        return c::tell_faults(TRY(lockstep::verify_backup(directory)), each, arg, faults);
    };
    return c::report(call(), error);
}

int lockstep_verify_restore(const char* const* backups, size_t count,
                            const lockstep_restore_options* options, lockstep_line each, void* arg,
                            size_t* faults, lockstep_error* error) {
    const auto call = [&]() -> Result<void> {
        const std::vector<std::string> names = TRY(c::directories(backups, count));
        const auto point = TRY(c::understand(options));
        return c::tell_faults(TRY(lockstep::verify_restore(names, point)), each, arg, faults);
    };
    return c::report(call(), error);
}

int lockstep_restore_backup(const char* const* backups, size_t count, const char* to,
                            const lockstep_restore_options* options, lockstep_backup_info* info,
                            lockstep_error* error) {
    const auto call = [&]() -> Result<void> {
        LOCKSTEP_NOT_NULL(to);
        const std::vector<std::string> names = TRY(c::directories(backups, count));
        const auto point = TRY(c::understand(options));
        return c::tell(info, TRY(lockstep::restore_backup(names, to, point)));
    };
    return c::report(call(), error);
}

int lockstep_update_backup(const char* full, const char* next, lockstep_backup_info* info,
                           lockstep_error* error) {
    const auto call = [&]() -> Result<void> {
        LOCKSTEP_NOT_NULL(full);
        LOCKSTEP_NOT_NULL(next);
        return c::tell(info, TRY(lockstep::update_backup(full, next)));
    };
    return c::report(call(), error);
}
