// backup_api.cc - Store::backup(): a user thread of the store makes it.
#include <lockstep/store.h>
#include "sm/backup/backup_target.h"
#include "sm/engine/engine.h"
#include "sm/secondary/key_call.h"

namespace lockstep {

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
    return on_own_thread(engine_.get(), [&] { return engine_->backup(directory, options, {}); });
}

Result<BackupInfo> Store::backup(BackupSink sink, const BackupOptions& options) {
    return on_own_thread(engine_.get(), [&] {
        sm::SinkTarget target(sink);
        return engine_->backup(target, options, {});
    });
}

}  // namespace lockstep
