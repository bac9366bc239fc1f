// engine_changes.cc - a look at the change feed, for the control socket.
#include "sm/catalog/catalog.h"
#include "sm/changes/change_reader.h"
#include "sm/engine/engine.h"
#include "threads/base/try.h"

namespace lockstep::sm {

Result<std::string> Engine::read_changes(
    std::string_view from,
    FunctionRef<bool(const Change& change, const std::string& position)> each) {
    DCHECK(log != nullptr && catalog != nullptr);
    ChangeReader reader(*this, *catalog, archive.get());
    TRY(reader.start(from));
    // Gives also what was committed without waiting.
    if (!options.read_only)
        TRY(run_and_wait([&]() -> Result<void> { return log->wait_durable(log->tail()); }));
    Change change;
    while (TRY(reader.next(change)))
        if (!each(change, reader.position().text())) break;
    return reader.position().text();
}

}  // namespace lockstep::sm
