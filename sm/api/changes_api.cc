// changes_api.cc - Store::changes() and the feed.
#include <lockstep/changes.h>
#include <lockstep/store.h>

#include "sm/api/operation.h"
#include "sm/catalog/catalog.h"
#include "sm/changes/change_reader.h"
#include "sm/engine/engine.h"
#include "threads/base/try.h"

namespace lockstep {

namespace {

constexpr Nanos kLook = 2 * kMillisecond;  // pause between two looks for a change

}  // namespace

const char* change_kind_name(ChangeKind kind) {
    switch (kind) {
        case ChangeKind::insert: return "insert";
        case ChangeKind::update: return "update";
        case ChangeKind::patch: return "patch";
        case ChangeKind::erase: return "erase";
        case ChangeKind::create: return "create";
        case ChangeKind::drop: return "drop";
        case ChangeKind::reset: return "reset";
        case ChangeKind::commit: return "commit";
    }
    return "?";
}

Result<ChangeFeed> Store::changes(std::string_view from) {
    const sm::Call call(engine_.get());
    if (!call) return sm::Call::closed();
    if (engine_->forked()) return sm::Engine::refuse_child();
    auto reader =
        std::make_unique<sm::ChangeReader>(*engine_, *engine_->catalog, engine_->archive.get());
    TRY(reader->start(from));
    return ChangeFeed(*engine_, std::move(reader));
}

Result<ChangePoint> Store::changes_point(const Txn& snapshot) {
    const sm::Call call(engine_.get());
    if (!call) return sm::Call::closed();
    const txn::Transaction* const txn = sm::TxnAccess::usable(snapshot);
    if (txn == nullptr || !engine_->is(&sm::TxnAccess::engine(snapshot)))
        return sm::refused(snapshot, engine_.get(), this);
    const sm::ChangePosition behind = TRY(sm::position_behind(*engine_, *txn));
    return ChangePoint{behind.text(), behind.at};
}

ChangeFeed::ChangeFeed(sm::Engine& engine, std::unique_ptr<sm::ChangeReader> reader)
    : engine_(&engine), reader_(std::move(reader)) {}
ChangeFeed::ChangeFeed(ChangeFeed&&) noexcept = default;
ChangeFeed& ChangeFeed::operator=(ChangeFeed&&) noexcept = default;
ChangeFeed::~ChangeFeed() = default;

Result<bool> ChangeFeed::next(Change& change, Nanos wait) {
    if (reader_ == nullptr) return fail(ErrorCode::bad_argument, "change feed that was moved");
    const Nanos begun = now();
    for (;;) {
        {
            const sm::Call call(engine_);
            if (!call) return sm::Call::closed();
            if (engine_->forked()) return sm::Engine::refuse_child();
            if (TRY(reader_->next(change))) return true;
            if (engine_->failed()) return engine_->log->refused();
            // close() waits for the functions that still run.
            if (wait != 0 && engine_->closing()) return sm::Call::closed();
        }
        const Nanos waited = now() - begun;
        if (waited >= wait) return false;
        sleep_for(std::min(kLook, wait - waited));
    }
}

std::string ChangeFeed::position() const {
    return reader_ != nullptr ? reader_->position().text() : std::string();
}

}  // namespace lockstep
